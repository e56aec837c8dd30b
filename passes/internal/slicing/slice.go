package slicing

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Range is a range of rows of a tensor along an axis; all of it if the axis is
// ops.Whole.
type Range struct {
	Axis   int
	Lo, Hi int64
}

// Slice says what one slice of a region makes and reads.
type Slice struct {
	Made map[graph.TensorID]Range // rows of the tensors that the region makes
	Node map[int]NodeSlice
}

// NodeSlice is a node's copy in a slice.
type NodeSlice struct {
	Lo, Hi int64   // rows that it makes; of a sum: rows that it sums over
	In     []Range // of each input
}

// Slice returns slice i of k; nil if the region cannot be cut into that many. Each
// output gets the rows from i*L/k to (i+1)*L/k of its L. A tensor inside is made from
// the first to the last row that any of its readers wants.
func (r *Region) Slice(i, k int) *Slice {
	p := r.p
	s := &Slice{Made: make(map[graph.TensorID]Range, len(r.made)), Node: make(map[int]NodeSlice, len(r.Nodes))}
	wants := func(t graph.TensorID, w Range) {
		if have, ok := s.Made[t]; ok {
			w.Lo, w.Hi = min(w.Lo, have.Lo), max(w.Hi, have.Hi)
		}
		s.Made[t] = w
	}
	for _, t := range r.Outputs {
		axis, rows := r.axis[t]
		if !rows {
			continue
		}
		lo, hi, ok := share(int64(p.g.Tensors[t].Type.Shape[axis]), i, k)
		if !ok {
			return nil
		}
		wants(t, Range{axis, lo, hi})
	}
	for x := len(r.Nodes) - 1; x >= 0; x-- {
		v := r.Nodes[x]
		n := p.g.Nodes[v]
		var in []ops.Rows
		var ns NodeSlice
		if sum := r.sum[v]; sum != nil {
			var ok bool
			if ns.Lo, ns.Hi, ok = share(sum.Length, i, k); !ok {
				return nil
			}
			in = sum.In
		} else {
			any := false
			for _, t := range n.Outputs {
				if t < 0 {
					continue
				}
				if w, ok := s.Made[t]; ok {
					if !any {
						ns.Lo, ns.Hi, any = w.Lo, w.Hi, true
					}
					ns.Lo, ns.Hi = min(ns.Lo, w.Lo), max(ns.Hi, w.Hi)
				}
			}
			if !any {
				return nil
			}
			for j, t := range n.Outputs {
				if t >= 0 && r.cut[v].Out[j] != ops.Whole {
					s.Made[t] = Range{r.cut[v].Out[j], ns.Lo, ns.Hi}
				}
			}
			in = r.cut[v].In
		}
		ns.In = make([]Range, len(n.Inputs))
		for j, t := range n.Inputs {
			ns.In[j].Axis = ops.Whole
			if t < 0 || in[j].Axis == ops.Whole {
				continue
			}
			lo, hi, ok := in[j].Of(ns.Lo, ns.Hi)
			if !ok {
				return nil
			}
			ns.In[j] = Range{in[j].Axis, lo, hi}
			if _, made := r.made[t]; made && lo < hi {
				wants(t, ns.In[j])
			}
		}
		s.Node[v] = ns
	}
	return s
}

// share returns part i of k of a length; false if there are more parts than rows.
func share(length int64, i, k int) (lo, hi int64, ok bool) {
	if length < int64(k) {
		return 0, 0, false
	}
	return length * int64(i) / int64(k), length * int64(i+1) / int64(k), true
}
