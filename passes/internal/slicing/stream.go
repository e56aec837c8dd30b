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

// stream is an output whose rows may be written over an input.
type stream struct{ output, input graph.TensorID }

// mayStream lists outputs with inputs over which their rows can be written, whatever
// the number of slices, if each slice reads of the input exactly the rows that it makes
// of the output.
func (r *Region) mayStream() (list []stream) {
	for _, o := range r.Outputs {
		axis, rows := r.axis[o]
		if !rows || r.p.resident(o) || r.p.Of[o] < 0 {
			continue
		}
		for _, x := range r.Inputs {
			if r.streamable(x, o, axis) {
				list = append(list, stream{o, x})
			}
		}
	}
	return list
}

// streams pairs outputs with inputs over which they are written, slice by slice.
func (r *Region) streams(may []stream, k int) map[graph.TensorID]graph.TensorID {
	if len(may) == 0 {
		return nil
	}
	probes, _ := r.probes(k)
	pairs, taken := map[graph.TensorID]graph.TensorID{}, map[graph.TensorID]bool{}
	for _, s := range may {
		if _, paired := pairs[s.output]; !paired && !taken[s.input] && r.sameRows(s, probes) {
			pairs[s.output], taken[s.input] = s.input, true
		}
	}
	return pairs
}

// sameRows reports whether each slice reads of the input only the rows that it makes of
// the output.
func (r *Region) sameRows(pair stream, probes []*Slice) bool {
	for _, s := range probes {
		want := s.Made[pair.output]
		for _, v := range r.Nodes {
			for j, u := range r.p.g.Nodes[v].Inputs {
				if u == pair.input && s.Node[v].In[j] != want {
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
	return true
}

// rowsOf returns what a node of the region reads of its inputs.
func (r *Region) rowsOf(v int) []ops.Rows {
	if sum := r.sum[v]; sum != nil {
		return sum.In
	}
	return r.cut[v].In
}
