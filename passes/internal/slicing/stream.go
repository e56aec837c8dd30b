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
			s := r.Slice(i, k)
			if s == nil {
				return nil
			}
			r.p.free(s)
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

// over is how the rows of an output may be written over those of an input.
type over uint8

const (
	notOver    over = iota
	overAtOnce      // slice by slice: each reads only the rows that it makes
	overLate        // each slice takes its rows before the rows of the slice before it are written
)

// streamed is an output that is written over an input.
type streamed struct {
	places [2]int // of both, in the lists of outputs and inputs
	late   bool
}

// streams pairs outputs with inputs over which they are written, slice by slice, and reports of the
// inputs whose rows slices take early. The region has that signature.
func (r *Region) streams(of signature, may []stream, k int) (pairs map[graph.TensorID]graph.TensorID, late map[graph.TensorID]bool) {
	pairs, late = map[graph.TensorID]graph.TensorID{}, map[graph.TensorID]bool{}
	for _, p := range r.streamsAt(of, may, k) {
		output, input := r.Outputs[p.places[0]], r.Inputs[p.places[1]]
		if p.late && !r.laterRows(output, input, k, r.allSlices(k)) {
			continue
		}
		pairs[output], late[input] = input, p.late
	}
	return pairs, late
}

// streamsAt is streams by the places in the lists of outputs and inputs. What may be written
// so may be that of another region with the same signature.
func (r *Region) streamsAt(of signature, may []stream, k int) (pairs []streamed) {
	var probes []probe
	how := func(places [2]int) over {
		key := streamKey{measureKey{of, k}, places}
		is, known := r.p.same[key]
		if !known {
			if probes == nil {
				probes = r.probes(k)
			}
			switch output, input := r.Outputs[places[0]], r.Inputs[places[1]]; {
			case r.sameRows(output, input, probes):
				is = overAtOnce
			case r.laterRows(output, input, k, probes):
				is = overLate
			}
			r.p.same[key] = is
		}
		return is
	}
	defer func() {
		for _, s := range probes {
			r.p.free(s.Slice)
		}
	}()
	for _, want := range []over{overAtOnce, overLate} {
		for _, s := range may {
			taken := slices.ContainsFunc(pairs, func(p streamed) bool { return p.places[0] == s.places[0] || p.places[1] == s.places[1] })
			if !taken && how(s.places) == want {
				pairs = append(pairs, streamed{s.places, want == overLate})
			}
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

// laterRows reports whether none of some slices reads rows of the input that the slices up to the
// last but one before it write of the output; false if one of them is not possible. Then the rows
// of a slice are there until the slice before it writes its own, as below kernels that read
// neighbouring rows.
func (r *Region) laterRows(output, input graph.TensorID, k int, list []probe) bool {
	axis, _ := r.axisOf(output)
	length := int64(r.p.g.Tensors[input].Type.Shape[axis])
	for _, s := range list {
		if s.Slice == nil {
			return false
		}
		written := int64(0) // rows
		if s.i > 1 {
			written, _, _ = r.share(output, s.i-1, k)
		}
		for x, v := range r.Nodes {
			for j, u := range r.p.g.Nodes[v].Inputs {
				if in := s.Node[x].In[j]; u == input && (in.Lo < written || in.Lo == 0 && in.Hi == length) {
					return false
				}
			}
		}
	}
	return true
}

// allSlices returns each of k slices as what stands for itself.
func (r *Region) allSlices(k int) (list []probe) {
	for i := range k {
		list = append(list, probe{r.Slice(i, k), i, 1})
	}
	return list
}

// mostRows returns the bytes of the most rows that one of k slices makes of an output.
func (r *Region) mostRows(output graph.TensorID, k int) (bytes int64) {
	axis, _ := r.axisOf(output)
	for i := range k {
		if lo, hi, ok := r.share(output, i, k); ok {
			bytes = max(bytes, r.p.rowBytes(output, axis, hi-lo))
		}
	}
	return bytes
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
