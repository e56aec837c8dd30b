package regions

import (
	"cmp"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/rowmap"
)

// What a copy reads does not always say which rows it makes. Concat(x, x) makes the first
// half and the second of the same rows, and below a Resize several rows come from one. But
// what is done with a tensor says it: the rows are put in a place of the output, or their
// sum goes on from those of the slices before. So the places are sought from the outputs
// back to the inputs, before the copies are compared. They are hints: they say which rows are
// tried first, and a copy whose inputs make no such rows is a fault all the same.

// rowPlace is the first row, of an axis, of what a tensor of a slice holds.
type rowPlace struct {
	axis int
	lo   int64
	near bool // a node of the same slice says so
}

// places returns where the rows lie that tensors of slices hold, as far as it can be told.
func (c *sliced) places() map[graph.TensorID]rowPlace {
	s := &placing{c: c, at: map[graph.TensorID]rowPlace{}, sums: map[sumOfSlice]int64{}, axes: make([]map[string]int, len(c.v.Plan.Slices.Regions))}
	for i, r := range c.v.Plan.Slices.Regions {
		s.axes[i] = map[string]int{}
		for _, x := range r.Outputs {
			if x.Axis != nil {
				s.axes[i][x.Tensor] = *x.Axis
			}
		}
		if r.Within == nil {
			continue
		}
		for _, x := range r.Within.Tensors {
			if t := c.planned(x.Tensor); t != none {
				s.set(t, rowPlace{axis: x.Axis, lo: x.From, near: true})
			}
		}
	}
	s.add()
	for i := len(c.g.Nodes) - 1; i >= 0; i-- {
		if p := c.tags[i]; p != nil {
			s.node(p, c.g.Nodes[i])
		}
	}
	return s.at
}

// planned returns the tensor of the planned graph with a name, none if there is none.
func (c *sliced) planned(name string) graph.TensorID {
	if c.named == nil {
		c.named = make(map[string]graph.TensorID, len(c.g.Tensors))
		for id, t := range c.g.Tensors {
			c.named[t.Name] = graph.TensorID(id)
		}
	}
	if t, known := c.named[name]; known {
		return t
	}
	return none
}

// placing finds the places of rows.
type placing struct {
	c    *sliced
	at   map[graph.TensorID]rowPlace
	sums map[sumOfSlice]int64 // the first row that a slice puts into an output or adds to a sum
	axes []map[string]int     // of each region: the axes along which its outputs are put together
}

// sumOfSlice is what a slice puts into an output, or adds to a sum or an attention in pieces.
type sumOfSlice struct {
	region, slice int
	of            graph.TensorID
}

func (s *placing) set(t graph.TensorID, at rowPlace) {
	if have, known := s.at[t]; !known || at.near && !have.near {
		s.at[t] = at
	}
}

// within sets the place of an input of a node of a slice, if its own region makes it: of
// another's rows, the readers there say it.
func (s *placing) within(p *sliceNode, t graph.TensorID, at rowPlace) {
	if t < 0 || s.c.g.Tensors[t].Maker < 0 {
		return
	}
	if q := s.c.tags[s.c.g.Tensors[t].Maker]; q != nil && q.region == p.region {
		at.near = q.slice == p.slice
		s.set(t, at)
	}
}

// add adds up how many rows the slices before each slice have put or summed. That says more
// than the place at which a node puts its rows: if that is wrong, this node is at fault.
func (s *placing) add() {
	c := s.c
	for i, n := range c.g.Nodes {
		p := c.tags[i]
		if p == nil || p.role != "node" && p.role != "put" && p.role != roleMost {
			continue
		}
		of := c.lookup(p.tensor)
		if of == none || len(n.Inputs) == 0 || n.Inputs[0] < 0 || c.b.g.Tensors[of].Maker < 0 {
			continue
		}
		key, maker := sumOfSlice{p.region, p.slice, of}, c.b.g.Tensors[of].Maker
		if p.role == "put" {
			axis, rows := s.axes[p.region][p.tensor]
			if len(n.Inputs) > 1 && n.Inputs[1] >= 0 && rows && axis >= 0 {
				if shape := exactShape(c.g.Tensors[n.Inputs[1]].Type); axis < len(shape) {
					s.sums[key] = shape[axis]
				}
			}
		} else if p.role == roleMost {
			if shape := exactShape(c.g.Tensors[n.Inputs[0]].Type); len(shape) > 0 {
				s.sums[key] = shape[len(shape)-1]
			}
		} else if x, length := s.summed(n, maker); x != nil {
			s.sums[key] = length
		}
	}
	keys := slices.SortedFunc(maps.Keys(s.sums), func(a, b sumOfSlice) int {
		return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.of, b.of), cmp.Compare(a.slice, b.slice))
	})
	next := int64(0)
	for i, key := range keys {
		if i > 0 && (keys[i-1].region != key.region || keys[i-1].of != key.of) {
			next = 0
		}
		next, s.sums[key] = next+s.sums[key], next
	}
}

// summed returns how a copy sums rows, and how many; nil if it reads all rows of all inputs.
func (s *placing) summed(n *graph.Node, maker graph.NodeID) (x *rowmap.Sum, length int64) {
	old, node := s.c.b.g.Nodes[maker], s.c.b.node(maker)
	if node == nil || len(n.Inputs) < len(old.Inputs) {
		return nil, 0
	}
	for j, t := range n.Inputs[:len(old.Inputs)] {
		if t < 0 || old.Inputs[j] < 0 {
			continue
		}
		have, whole := exactShape(s.c.g.Tensors[t].Type), node.In[j].Shape
		for a := range min(len(have), len(whole)) {
			if have[a] != whole[a] {
				if x := node.Sum(j, a); x != nil {
					return x, have[a]
				}
			}
		}
	}
	return nil, 0
}

// node says of the inputs of a node where their rows lie, by where its results do.
func (s *placing) node(p *sliceNode, n *graph.Node) {
	c := s.c
	switch p.role {
	case "put":
		if lo, known := s.sums[sumOfSlice{p.region, p.slice, c.lookup(p.tensor)}]; known {
			s.within(p, n.Inputs[1], rowPlace{axis: s.axes[p.region][p.tensor], lo: lo})
		}
	case "rows":
		from, _, axis, wrong := c.rowsTaken(n)
		if wrong != "" {
			return
		}
		if at, known := s.at[n.Outputs[0]]; known && at.axis == int(axis) {
			s.within(p, n.Inputs[0], rowPlace{axis: at.axis, lo: at.lo - from})
		}
	case roleMost:
		if of := c.lookup(p.tensor); of != none && len(n.Inputs) > 0 {
			s.within(p, n.Inputs[0], rowPlace{axis: len(c.b.shape(of)) - 1, lo: s.sums[sumOfSlice{p.region, p.slice, of}]})
		}
	case "node":
		s.copied(p, n)
	}
}

// copied: what a copy reads lies where its account says.
func (s *placing) copied(p *sliceNode, n *graph.Node) {
	c := s.c
	of := c.lookup(p.tensor)
	if of == none || c.b.g.Tensors[of].Maker < 0 {
		return
	}
	maker := c.b.g.Tensors[of].Maker
	old, node := c.b.g.Nodes[maker], c.b.node(maker)
	if node == nil {
		return
	}
	if w := c.weighting(of); w != nil && of == w.product && len(n.Inputs) == 2 && len(old.Inputs) == 2 {
		if lo, known := s.sums[sumOfSlice{p.region, p.slice, w.soft}]; known {
			s.within(p, n.Inputs[1], rowPlace{axis: len(c.b.shape(old.Inputs[1])) - 2, lo: lo})
			return
		}
	}
	if lo, known := s.sums[sumOfSlice{p.region, p.slice, of}]; known {
		if x, length := s.summed(n, maker); x != nil {
			s.inputs(p, n, old, x.In, lo, lo+length)
			return
		}
	}
	for k, t := range n.Outputs {
		at, known := s.at[t]
		if !known || t < 0 || k >= len(node.Out) {
			continue
		}
		length := exactShape(c.g.Tensors[t].Type)
		for axis := range node.Out[0].Shape {
			if m := node.Along(axis); m != nil && m.Out[k] == at.axis && at.axis < len(length) {
				s.inputs(p, n, old, m.In, at.lo, at.lo+length[at.axis])
				return
			}
		}
	}
}

// inputs says where the rows of the inputs of a copy lie that makes rows [lo, hi).
func (s *placing) inputs(p *sliceNode, n, old *graph.Node, in []rowmap.Rows, lo, hi int64) {
	at := 0
	for j, t := range old.Inputs {
		if t >= 0 && j < len(in) && in[j].Axis != rowmap.Whole {
			from, to, ok := in[j].Of(lo, hi)
			if !ok {
				return
			}
			if from == to && in[j].MayBeNone {
				continue
			}
			if at < len(n.Inputs) {
				s.within(p, n.Inputs[at], rowPlace{axis: in[j].Axis, lo: from})
			}
		}
		at++
	}
}
