package slicing

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// probe is a slice that stands for that many of k slices.
type probe struct {
	*Slice
	i      int
	weight float64
}

// probes returns slices that stand for all k: the first, the last, and of those between
// them one for each number of rows; nil if the region cannot be cut into k.
func (r *Region) probes(k int) (list []probe) {
	list = []probe{{i: 0, weight: 1}}
	if k > 1 {
		list = append(list, probe{i: k - 1, weight: 1})
	}
	of := map[int64]int{} // by the number of rows
	for i := 1; i < k-1; i++ {
		lo, hi, ok := r.leading(i, k)
		if !ok {
			return nil
		}
		at, known := of[hi-lo]
		if !known {
			at = len(list)
			of[hi-lo] = at
			list = append(list, probe{})
		}
		if list[at].weight++; i <= k/2 {
			list[at].i = i
		}
		if list[at].i == 0 {
			list[at].i = i
		}
	}
	for x := range list {
		if list[x].Slice = r.Slice(list[x].i, k); list[x].Slice == nil {
			return nil
		}
	}
	if r.leavesOut() {
		for i := range k {
			if r.Slice(i, k) == nil {
				return nil
			}
		}
	}
	return list
}

// leavesOut reports whether there may be slices in which nothing reads what a node of the
// region makes, since a Concat takes no rows of it. Such a region cannot be cut so, and no
// slice stands for all others: the operand in the middle may be the only one of its kind.
func (r *Region) leavesOut() bool {
	for _, v := range r.Nodes {
		for j, in := range r.rowsOf(v) {
			if t := r.p.g.Nodes[v].Inputs[j]; in.Empty && t >= 0 {
				if r.Makes(t) {
					return true
				}
			}
		}
	}
	return false
}

// leading returns the rows that slice i of k makes of the first output, or that it sums
// over.
func (r *Region) leading(i, k int) (lo, hi int64, ok bool) {
	for _, t := range r.Outputs {
		if _, rows := r.axisOf(t); rows {
			return r.share(t, i, k)
		}
	}
	for _, v := range r.Nodes {
		if sum := r.sum[v]; sum != nil {
			return share(sum.Length, r.over[v], i, k)
		}
	}
	return 0, 0, false
}

// stream is an output whose rows may be written over an input.
type stream struct {
	places [2]int // of both, in the lists of outputs and inputs
}

// streamKey identifies a pair of an output and an input of all regions with a signature.
type streamKey struct {
	measureKey
	places [2]int
}

// mayStream lists outputs with inputs over which their rows can be written, whatever
// the number of slices, if each slice reads of the input exactly the rows that it makes
// of the output.
func (r *Region) mayStream() (list []stream) {
	for i, o := range r.Outputs {
		axis, rows := r.axisOf(o)
		if !rows || r.p.resident(o) || r.p.Of[o] < 0 {
			continue
		}
		for j, x := range r.Inputs {
			if r.streamable(x, o, axis) {
				list = append(list, stream{[2]int{i, j}})
			}
		}
	}
	return list
}

// streams pairs outputs with inputs over which they are written, slice by slice. The
// region has that signature.
func (r *Region) streams(of signature, may []stream, k int) map[graph.TensorID]graph.TensorID {
	pairs := map[graph.TensorID]graph.TensorID{}
	for _, p := range r.streamsAt(of, may, k) {
		pairs[r.Outputs[p[0]]] = r.Inputs[p[1]]
	}
	return pairs
}

// streamsAt is streams by the places in the lists of outputs and inputs. What may be written
// so may be that of another region with the same signature.
func (r *Region) streamsAt(of signature, may []stream, k int) (pairs [][2]int) {
	var probes []probe
	same := func(places [2]int) bool {
		key := streamKey{measureKey{of, k}, places}
		is, known := r.p.same[key]
		if !known {
			if probes == nil {
				probes = r.probes(k)
			}
			is = r.sameRows(r.Outputs[places[0]], r.Inputs[places[1]], probes)
			r.p.same[key] = is
		}
		return is
	}
	for _, s := range may {
		if !slices.ContainsFunc(pairs, func(p [2]int) bool { return p[0] == s.places[0] || p[1] == s.places[1] }) && same(s.places) {
			pairs = append(pairs, s.places)
		}
	}
	return pairs
}

// sameRows reports whether each slice reads of the input only the rows that it
// writes of the output.
func (r *Region) sameRows(output, input graph.TensorID, probes []probe) bool {
	for _, s := range probes {
		want := s.Share[output]
		for x, v := range r.Nodes {
			for j, u := range r.p.g.Nodes[v].Inputs {
				if u == input && s.Node[x].In[j] != want {
					return false
				}
			}
		}
	}
	return true
}

// streamable reports whether rows of output o may be written over input x: it has the
// same type, every reader in the region cuts it along that axis, and nobody reads it
// later.
func (r *Region) streamable(x, o graph.TensorID, axis int) bool {
	a, b := r.p.g.Tensors[x], r.p.g.Tensors[o]
	if a.Type.Elem != b.Type.Elem || !slices.Equal(r.p.shape(x), r.p.shape(o)) || !r.endsHere(x, func(k int) bool { return k == axis }) {
		return false
	}
	return !r.p.Storages[r.p.Of[x]].Input // a graph input is never written over
}

// endsHere reports whether nobody reads input x later, and every reader in the region
// cuts it along an axis that is allowed.
func (r *Region) endsHere(x graph.TensorID, allowed func(axis int) bool) bool {
	p := r.p
	if p.g.Tensors[x].Data != nil || p.Of[x] < 0 {
		return false
	}
	st := &p.Storages[p.Of[x]]
	if st.Resident || st.Output {
		return false
	}
	for _, t := range st.Tensors {
		for _, q := range p.g.Tensors[t].Readers {
			switch v := int(q); {
			case t == x && r.has(v):
				in := r.rowsOf(v)
				for j, u := range p.g.Nodes[v].Inputs {
					if u == x && !allowed(in[j].Axis) {
						return false
					}
				}
			case v < r.Start || v <= r.End && r.at(v) == before:
			default:
				return false
			}
		}
	}
	return true
}

// rowsOf returns what a node of the region reads of its inputs.
func (r *Region) rowsOf(v int) []ops.Rows {
	if sum := r.sum[v]; sum != nil {
		return sum.In
	}
	return r.cut(v).In
}
