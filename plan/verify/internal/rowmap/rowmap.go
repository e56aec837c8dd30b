// Package rowmap says which rows of its inputs a copy of a node reads that makes only
// some rows of its outputs.
//
// It is the verifier's own account of the operators, and shares no code with the
// dimension maps of package ops, by which regions are sliced. An operator is described
// by letters, as in Einsum: each axis of each input and output has a letter, and axes
// with one letter belong together. Rows of an axis are made from the same rows of the
// axes with its letter, and all of the other axes. An axis without a letter is made and
// read as a whole:
//
//	MatMul       [b m k] [b k n] -> [b m n], and it adds over k
//	Softmax      [a b .] -> [a b .]
//	Transpose    [a b c] -> [c a b]
//
// Where rows are not the same rows, as below a convolution, a letter's axis has a [Rows]
// of its own. A copy that must state its shape or its padding has a [Change].
package rowmap

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Whole stands for an axis: a tensor that is read as a whole, or that copies do not make.
const Whole = -1

// Arg is an input or output of a node.
type Arg struct {
	Present bool
	Elem    graph.DType
	Shape   []int64
	Ints    []int64 // the elements of a tensor of integers or truth values
	Known   bool    // whether Ints are known
	Fixed   bool    // it is an initializer that no caller replaces

	Reals      []float64 // the elements of a floating-point tensor
	KnownReals bool      // whether Reals are known
}

// Elements are the elements of tensors, where they are known.
type Elements interface {
	Integers(graph.TensorID) ([]int64, bool)
	Reals(graph.TensorID) ([]float64, bool)
}

// Node is a node of a graph whose types are known.
type Node struct {
	*graph.Node
	Version int64 // of its operator set
	In, Out []Arg

	sheet *sheet
	read  bool
}

// Of returns node n of the main graph of an inferred model; nil if it has bodies or a
// type that is not exact.
func Of(m *graph.Model, n *graph.Node, known Elements) *Node {
	if len(n.Bodies()) > 0 || len(n.Captures) > 0 {
		return nil
	}
	x := &Node{Node: n, Version: m.Opset(n.Domain), In: make([]Arg, len(n.Inputs)), Out: make([]Arg, len(n.Outputs))}
	args := func(list []Arg, ids []graph.TensorID) bool {
		for i, id := range ids {
			if id < 0 {
				continue
			}
			t := m.Graph.Tensors[id]
			if t.Type.Kind != graph.KindTensor || !t.Type.Exact() {
				return false
			}
			a := Arg{Present: true, Elem: t.Type.Elem, Shape: make([]int64, len(t.Type.Shape)), Fixed: t.Data != nil && !t.Overridable}
			for k, d := range t.Type.Shape {
				a.Shape[k] = int64(d)
			}
			if a.Elem.Integer() || a.Elem == graph.Bool {
				a.Ints, a.Known = known.Integers(id)
			} else {
				a.Reals, a.KnownReals = known.Reals(id)
			}
			if slices.Contains(a.Shape, 0) {
				a.Ints, a.Known = nil, true
			}
			list[i] = a
		}
		return true
	}
	if !args(x.In, n.Inputs) || !args(x.Out, n.Outputs) {
		return nil
	}
	return x
}

// Map describes the copies of a node along one axis of its first output.
type Map struct {
	In  []Rows // of each input
	Out []int  // the axis of each output of which a copy makes the rows; Whole: it does not make that output
	// Modulo: the elements of an output may differ from the node's by multiples of it; 0:
	// they do not.
	Modulo []int64
	// Change returns how the copy that makes rows [lo, hi) differs from the node; nil:
	// no copy does.
	Change func(lo, hi int64) Change
}

// Rows says which rows of an axis of an input are read for rows [lo, hi) of an output:
// [lo/Div*Mul - Before, hi/Div*Mul + After), as far as they exist.
type Rows struct {
	Axis          int // Whole: all rows of all axes
	Length        int64
	Mul, Div      int64
	Before, After int64
	MayBeNone     bool // a copy that needs no row leaves the input out
}

// Of returns the rows [from, to) that are read for rows [lo, hi) of an output. They are
// empty if the copy leaves the input out. ok is false if there is no such copy.
func (r Rows) Of(lo, hi int64) (from, to int64, ok bool) {
	if lo%r.Div != 0 || hi%r.Div != 0 {
		return 0, 0, false
	}
	from, to = lo/r.Div*r.Mul-r.Before, hi/r.Div*r.Mul+r.After
	if from < 0 {
		from = 0
	}
	if to > r.Length {
		to = r.Length
	}
	if from < to {
		return from, to, true
	}
	return 0, 0, r.MayBeNone
}

// Change is what a copy states otherwise than the node.
type Change struct {
	Op     string          // "": the node's operator
	Attrs  []*graph.Attr   // in place of those of the same names, or in addition
	Drop   []string        // attributes that the copy lacks
	Inputs map[int][]int64 // inputs that are vectors of int64 with these elements
}

// Sum describes the copies of a node that combines the rows of an axis of its inputs:
// each reads some of the rows, and the results of all are combined.
type Sum struct {
	By     string // Add, Max or Min
	In     []Rows // of each input
	Length int64  // of the axis
	// Mean: the copies add, and Count divides the sum.
	Mean   bool
	Third  bool // a copy adds a third input, if it is given one
	Count  int64
	Change Change
}

// Known reports whether the package has an account of an operator.
func Known(domain, op string) bool { return table[key(domain, op)] != nil }

// key is the name of an operator in the table.
func key(domain, op string) string {
	if domain == "" {
		return op
	}
	return domain + "." + op
}

// Along returns the copies along an axis of the first output; nil if there are none.
func (n *Node) Along(axis int) *Map {
	s := n.letters()
	if s == nil || axis < 0 || axis >= len(s.out[0]) || s.out[0][axis] == 0 {
		return nil
	}
	l := s.out[0][axis]
	m := &Map{In: n.rowsOf(s, l), Out: make([]int, len(n.Out)), Modulo: make([]int64, len(n.Out))}
	for k := range m.Out {
		if m.Out[k] = position(s.out[k], l); m.Out[k] != Whole {
			m.Modulo[k] = s.modulo[k]
		}
	}
	if m.In == nil {
		return nil
	}
	if change := s.changes[l]; change != nil {
		m.Change = func(lo, hi int64) Change { return change(axis, lo, hi) }
	}
	return m
}

// Sum returns the copies that each read some rows of an axis of an input; nil if there
// are none.
func (n *Node) Sum(input, axis int) *Sum {
	s := n.letters()
	if s == nil || s.sum == nil || input >= len(s.in) || axis < 0 || axis >= len(s.in[input]) {
		return nil
	}
	l := s.in[input][axis]
	if l == 0 || !s.sum.over[l] {
		return nil
	}
	x := s.sum.Sum
	if x.In, x.Length = n.rowsOf(s, l), n.In[input].Shape[axis]; x.In == nil {
		return nil
	}
	return &x
}

// rowsOf returns the rows of each input that belong to a letter; nil if an input has the
// letter twice.
func (n *Node) rowsOf(s *sheet, l letter) []Rows {
	list := make([]Rows, len(n.In))
	for j, letters := range s.in {
		axis := position(letters, l)
		if axis == Whole {
			list[j] = Rows{Axis: Whole}
			continue
		}
		if position(letters[axis+1:], l) != Whole {
			return nil
		}
		r, other := s.rows[place{j, axis}]
		if !other {
			r = Rows{Mul: 1, Div: 1}
		}
		r.Axis, r.Length = axis, n.In[j].Shape[axis]
		if r.Mul < 1 || r.Div < 1 {
			return nil
		}
		list[j] = r
	}
	return list
}

// letters returns the letters of the node; nil if it has no copies.
func (n *Node) letters() *sheet {
	if n.read {
		return n.sheet
	}
	n.read = true
	describe := table[key(n.Domain, n.Op)]
	if describe == nil || len(n.In) == 0 && n.Op != "ConstantOfShape" || len(n.Out) == 0 || !n.Out[0].Present {
		return nil
	}
	s := &sheet{in: make([][]letter, len(n.In)), out: make([][]letter, len(n.Out)), rows: map[place]Rows{}, changes: map[letter]func(int, int64, int64) Change{}}
	for i, a := range n.In {
		s.in[i] = make([]letter, len(a.Shape))
	}
	for k, a := range n.Out {
		s.out[k] = make([]letter, len(a.Shape))
	}
	if describe(n, s) {
		n.sheet = s
	}
	return n.sheet
}

// position is the first axis with a letter, Whole if there is none.
func position(list []letter, l letter) int {
	for k, x := range list {
		if x == l {
			return k
		}
	}
	return Whole
}

// letter names axes that belong together; 0: the axis has none.
type letter int

// place is an axis of an input.
type place struct{ input, axis int }

// sheet has the letters of a node.
type sheet struct {
	in, out [][]letter
	rows    map[place]Rows                                 // where the rows are not the same rows
	changes map[letter]func(axis int, lo, hi int64) Change // along that axis of output 0
	sum     *adder
	modulo  map[int]int64 // of outputs whose elements may differ by multiples
}

// adder says over which letters a node combines.
type adder struct {
	Sum
	over map[letter]bool
}

// table describes the operators: each sets the letters of a node, and returns false if
// the node has no copies. Inputs and outputs begin without letters.
var table = map[string]func(n *Node, s *sheet) bool{}

func register(describe func(n *Node, s *sheet) bool, names ...string) {
	for _, name := range names {
		table[name] = describe
	}
}
