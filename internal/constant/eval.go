package constant

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// rules are the operators that are computed. DequantizeLinear is not: runtimes fuse it
// with the product that reads it, and its result is four times as large.
var rules = map[string]func(c *call) error{
	"Identity":        same,
	"Reshape":         reshape,
	"Flatten":         same,
	"Squeeze":         squeeze,
	"Unsqueeze":       unsqueeze,
	"Transpose":       transpose,
	"Slice":           slice,
	"Gather":          gather,
	"Concat":          concat,
	"Split":           split,
	"Expand":          expand,
	"Tile":            tile,
	"Pad":             pad,
	"Where":           where,
	"Shape":           shapeOf,
	"Size":            sizeOf,
	"ConstantOfShape": constantOfShape,

	"Cast":           cast,
	"CastLike":       cast,
	"Range":          integerRange,
	"Add":            binary2,
	"Sub":            binary2,
	"Mul":            binary2,
	"Div":            binary2,
	"Equal":          binary2,
	"Less":           binary2,
	"LessOrEqual":    binary2,
	"Greater":        binary2,
	"GreaterOrEqual": binary2,
	"And":            binary2,
	"Or":             binary2,
	"Xor":            binary2,
	"Neg":            negate,
	"Abs":            absolute,
	"Not":            not,
	"Sqrt":           root,
}

// Known reports whether Eval may compute a node.
func Known(n *graph.Node) bool {
	_, ok := rules[n.Op]
	return ok && n.Domain == "" && n.Overload == ""
}

// ReadsShape reports whether Eval reads only the shape of input 0 of a node, and no
// element.
func ReadsShape(n *graph.Node) bool { return Known(n) && ops.OfShape(n) }

// call is a node with its inputs and its outputs, which have their types already.
type call struct {
	*graph.Node
	version int64
	in      []*Tensor // nil: left out
	out     []*Tensor // nil: left out
}

// Eval computes the outputs of a node. Their types are given; those that are left
// out are nil. It fails if the operator is unknown, or if runtimes may disagree on
// an element.
func Eval(n *graph.Node, version int64, in, out []*Tensor) (err error) {
	if !Known(n) {
		return fmt.Errorf("%s: not computed", n.OpName())
	}
	for _, t := range out {
		if t == nil {
			continue
		}
		if !Holds(t.Type) {
			return fmt.Errorf("%v: not computed", t.Type)
		}
		if _, err := t.Type.SizeBytes(count(t.Shape)); err != nil {
			return err
		}
	}
	c := &call{Node: n, version: version, in: in, out: out}
	if err := rules[n.Op](c); err != nil {
		return err
	}
	for _, t := range out {
		if t != nil && len(t.Raw) != t.len()*t.width() {
			return fmt.Errorf("has %d bytes, expected %d", len(t.Raw), t.len()*t.width())
		}
	}
	return nil
}

// x is input i; nil if it is left out.
func (c *call) x(i int) *Tensor {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

// need fails unless the first n inputs and output 0 are there.
func (c *call) need(n int) error {
	for i := range n {
		if c.x(i) == nil {
			return fmt.Errorf("input %d is missing", i)
		}
	}
	if len(c.out) == 0 || c.out[0] == nil {
		return fmt.Errorf("output 0 is missing")
	}
	return nil
}

// alloc gives output i its memory.
func (c *call) alloc(i int) *Tensor {
	t := c.out[i]
	t.Raw = make([]byte, t.len()*t.width())
	return t
}

func (c *call) int(name string, otherwise int64) int64 {
	if a := c.Attr(name); a != nil {
		return a.Int
	}
	return otherwise
}

func (c *call) listAttr(name string) []int64 {
	if a := c.Attr(name); a != nil {
		return a.Ints
	}
	return nil
}

// list returns input i as integers; nil if it is left out.
func (c *call) list(i int) ([]int64, error) {
	t := c.x(i)
	if t == nil {
		return nil, nil
	}
	if t.Type != graph.Int64 && t.Type != graph.Int32 {
		return nil, fmt.Errorf("input %d: expected int32 or int64, found %v", i, t.Type)
	}
	v := make([]int64, t.len())
	for k := range v {
		v[k] = t.integer(k)
	}
	return v, nil
}

// axisOf makes an axis non-negative.
func axisOf(axis int64, rank int) (int, error) {
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= int64(rank) {
		return 0, fmt.Errorf("axis %d of rank %d", axis, rank)
	}
	return int(axis), nil
}
