package ops

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// Whole stands for an axis: a tensor that is read or made whole.
const Whole = -1

// Cut is the dimension map of a node along one axis of its first output: what a copy
// of the node needs that makes rows [lo, hi) of this axis alone. Each element is
// computed by the same formula from the same operands as in the whole node.
type Cut struct {
	In  []Rows // of each input
	Out []int  // of each output: the axis of which rows [lo, hi) are made; Whole: the copy does not make the output
	// Modulo: the elements of an output may differ from those of the whole node by
	// multiples of this number; nil, 0: they do not. So the indices of maxima, which count
	// through all images, are right in their image alone.
	Modulo []int64
	// Change returns how the copy differs from the node; nil: it does not.
	Change func(lo, hi int64) Change
}

// Rows says which rows of an input a copy reads that makes rows [lo, hi) of its
// outputs: [lo/Divide*Scale - Before, hi/Divide*Scale + After), without what lies
// outside of [0, Length).
type Rows struct {
	Axis   int   // of the input; Whole: it is read whole
	Length int64 // of that axis
	Scale  int64
	Divide int64 // lo and hi must be multiples of it
	Before int64
	After  int64
	// Empty: if no row is left, the copy leaves the input out. Otherwise such a copy
	// is not possible.
	Empty bool
}

// All returns the Rows of an input that is read whole.
func All() Rows { return Rows{Axis: Whole} }

// Same returns the Rows of an input of which row i is needed for row i.
func Same(axis int, length int64) Rows { return Rows{Axis: axis, Length: length, Scale: 1, Divide: 1} }

// Of returns the rows [from, to) that rows [lo, hi) of the outputs need; ok is false
// if a copy cannot make these rows alone. r.Axis must not be Whole.
func (r Rows) Of(lo, hi int64) (from, to int64, ok bool) {
	if lo%r.Divide != 0 || hi%r.Divide != 0 {
		return 0, 0, false
	}
	from = max(lo/r.Divide*r.Scale-r.Before, 0)
	to = min(hi/r.Divide*r.Scale+r.After, r.Length)
	if from >= to {
		return 0, 0, r.Empty
	}
	return from, to, true
}

// Change is the difference between a node and its copy.
type Change struct {
	Op     string          // the operator of the copy; "": the same
	Attrs  []*graph.Attr   // to add, or in place of those of the same name
	Drop   []string        // attributes that the copy does not have
	Inputs map[int][]int64 // inputs that are int64 vectors with these elements instead; may be behind the last input
}

// Sum is the dimension map of a node that sums over an axis of its inputs: a copy of
// the node reads rows [lo, hi) of them, and the results of all copies are combined.
type Sum struct {
	By     string // the operator that combines two results: Add, Max or Min
	In     []Rows // of each input
	Length int64  // of the axis
	// Mean: the copies add up; the sum is then divided by Count.
	Mean   bool
	Third  bool                      // a copy adds a third input, if it is given one
	Count  int64                     // of the elements that a mean is taken of
	Change func(lo, hi int64) Change // nil: the copies are like the node
}

// Cut returns the dimension map of node n of the main graph along an axis of its
// first output. It is nil if there is none: the operator is unknown, mixes the rows of
// this axis, or has a type that is not exact.
func (inf *Inference) Cut(m *graph.Model, n *graph.Node, axis int) *Cut {
	op := known(n)
	if op == nil || op.Cut == nil {
		return nil
	}
	c := inf.call(m, n)
	if c == nil || !c.Out[0].Present || axis < 0 || axis >= len(c.Out[0].Shape) || c.Out[0].Shape[axis] < 2 {
		return nil
	}
	return op.Cut(c, axis)
}

// Sum returns the dimension map of node n of the main graph if it sums over rows of
// its inputs. axes are the axes along which its inputs are cut; Whole: any.
func (inf *Inference) Sum(m *graph.Model, n *graph.Node, axes []int) *Sum {
	op := known(n)
	if op == nil || op.Sum == nil {
		return nil
	}
	c := inf.call(m, n)
	if c == nil {
		return nil
	}
	s := op.Sum(c, axes)
	if s == nil {
		return nil
	}
	for i, a := range axes {
		if a != Whole && s.In[i].Axis != a {
			return nil
		}
	}
	return s
}

// call returns a node with the types and values that inference found; nil if a type
// is not exact, or the node has bodies.
func (inf *Inference) call(m *graph.Model, n *graph.Node) *Call {
	if len(n.Bodies()) > 0 {
		return nil
	}
	g := m.Graph
	c := &Call{Node: n, Version: m.Opset(n.Domain), Graph: g, In: make([]Arg, len(n.Inputs)), Out: make([]Arg, len(n.Outputs))}
	set := func(list []Arg, ids []graph.TensorID) bool {
		for i, t := range ids {
			if t == graph.None {
				continue
			}
			list[i] = Arg{Present: true, Type: g.Tensors[t].Type}
			if int(t) < len(inf.Values) {
				list[i].Value = inf.Values[t]
			}
			if list[i].Kind != graph.KindTensor || !list[i].Exact() {
				return false
			}
		}
		return true
	}
	if !set(c.In, n.Inputs) || !set(c.Out, n.Outputs) {
		return nil
	}
	return c
}

// same returns the map of a node whose outputs' rows need the same rows of input 0 and
// all of the other inputs.
func (c *Call) same(axis int) *Cut {
	cut := c.cut(axis)
	cut.In[0] = Same(axis, c.length(0, axis))
	return cut
}

// cut returns a map in which all inputs are read whole and all outputs are cut along
// the axis.
func (c *Call) cut(axis int) *Cut {
	cut := &Cut{In: make([]Rows, len(c.In)), Out: make([]int, len(c.Out))}
	for i := range cut.In {
		cut.In[i] = All()
	}
	for k := range cut.Out {
		cut.Out[k] = axis
	}
	return cut
}

// length is the length of an axis of input i.
func (c *Call) length(i, axis int) int64 { return int64(c.In[i].Shape[axis]) }

// cutUnary is the column Cut of operators that compute each element from the element
// of input 0 at its place, and from all of the other inputs.
func cutUnary(c *Call, axis int) *Cut { return c.same(axis) }

// cutBroadcast is the column Cut of elementwise operators with numpy's broadcasting:
// an input that has the axis is cut, one that lacks it or has it with length 1 is read
// whole.
func cutBroadcast(c *Call, axis int) *Cut {
	if c.before(7) {
		return nil
	}
	cut, rank := c.cut(axis), len(c.Out[0].Shape)
	for i := range c.In {
		cut.In[i] = c.broadcastRows(i, axis, rank)
	}
	return cut
}

// broadcastRows returns the Rows of input i, which is broadcast to an output of that
// rank, of which an axis is cut.
func (c *Call) broadcastRows(i, axis, rank int) Rows {
	if !c.Has(i) {
		return All()
	}
	k := axis - (rank - len(c.In[i].Shape))
	if k < 0 || c.In[i].Shape[k] == 1 {
		return All()
	}
	return Same(k, c.length(i, k))
}

// lengths is a copy of the shape of output 0 in which an axis has other rows.
func (c *Call) lengths(axis int, rows int64) []int64 {
	list := exactLengths(c.Out[0].Shape)
	list[axis] = rows
	return list
}

// restate returns the change of a list of integers that is an attribute if the node has
// it, else an input.
func (c *Call) restate(name string, input int, list []int64) Change {
	if c.HasAttr(name) {
		return Change{Attrs: []*graph.Attr{intsAttr(name, list)}}
	}
	return Change{Inputs: map[int][]int64{input: list}}
}

// intsAttr returns an attribute that is a list of integers.
func intsAttr(name string, list []int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: list}
}

// intAttr returns an attribute that is an integer.
func intAttr(name string, n int64) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrInt, Int: n}
}

// rowsOfOne returns the Rows of inputs that are read whole but for input i.
func (c *Call) rowsOfOne(i int, rows Rows) []Rows {
	in := make([]Rows, len(c.In))
	for k := range in {
		in[k] = All()
	}
	in[i] = rows
	return in
}

// axisAttr is the axis of a tensor of the given rank that attribute axis names; -1 if it
// names none.
func (c *Call) axisAttr(otherwise int64, rank int) int {
	axis, err := attr.Axis("axis", c.Int("axis", otherwise), rank)
	if err != nil {
		return -1
	}
	return axis
}

// cutBut returns the column Cut of operators whose output is like input 0, and that mix
// rows only along attribute axis.
func cutBut(otherwise int64) func(c *Call, axis int) *Cut {
	return func(c *Call, axis int) *Cut {
		if along := c.axisAttr(otherwise, len(c.In[0].Shape)); along < 0 || along == axis {
			return nil
		}
		return c.same(axis)
	}
}
