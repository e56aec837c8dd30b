package slicing

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// probes returns slices that stand for all k: the first, one in the middle and the
// last, with the number of slices for which each stands; nil if the region cannot be
// cut into k.
func (r *Region) probes(k int) (list []*Slice, weight []float64) {
	for _, x := range []struct {
		i int
		w float64
	}{{0, 1}, {k / 2, float64(k - 2)}, {k - 1, 1}} {
		if x.w <= 0 {
			continue
		}
		s := r.Slice(x.i, k)
		if s == nil {
			return nil, nil
		}
		list, weight = append(list, s), append(weight, x.w)
	}
	return list, weight
}

// streams pairs outputs with inputs over which their rows can be written, slice by
// slice: the input has the type of the output, every reader in the region reads of it
// exactly the rows that the slice makes of the output, and nobody reads it later.
func (r *Region) streams(probes []*Slice) map[graph.TensorID]graph.TensorID {
	var pairs map[graph.TensorID]graph.TensorID
	p := r.p
	for _, o := range r.Outputs {
		axis, rows := r.axis[o]
		if !rows || p.resident(o) || p.Of[o] < 0 {
			continue
		}
		for _, x := range r.Inputs {
			taken := false
			for _, y := range pairs {
				taken = taken || y == x
			}
			if !taken && r.streamable(x, o, axis, probes) {
				if pairs == nil {
					pairs = map[graph.TensorID]graph.TensorID{}
				}
				pairs[o] = x
				break
			}
		}
	}
	return pairs
}

// streamable reports whether rows of output o may be written over input x.
func (r *Region) streamable(x, o graph.TensorID, axis int, probes []*Slice) bool {
	p := r.p
	a, b := p.g.Tensors[x], p.g.Tensors[o]
	if a.Data != nil || a.Type.Elem != b.Type.Elem || !slices.Equal(p.shape(x), p.shape(o)) || p.Of[x] < 0 {
		return false
	}
	st := &p.Storages[p.Of[x]]
	if st.Resident || st.Input || st.Output {
		return false
	}
	for _, t := range st.Tensors {
		for _, q := range p.g.Tensors[t].Readers {
			switch v := int(q); {
			case t == x && r.has(v):
				in := r.rowsOf(v)
				for j, u := range p.g.Nodes[v].Inputs {
					if u == x && in[j].Axis != axis {
						return false
					}
				}
			case v < r.Start || v <= r.End && r.at(v) == before:
			default:
				return false
			}
		}
	}
	for _, s := range probes {
		want := s.Made[o]
		for _, v := range r.Nodes {
			for j, u := range p.g.Nodes[v].Inputs {
				if u == x && s.Node[v].In[j] != want {
					return false
				}
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
	return r.cut[v].In
}
