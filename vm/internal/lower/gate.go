package lower

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// checks is what ops.Check is given, one node after the other: a graph has many.
type checks struct {
	call ops.Call
	args []ops.Arg
}

// of returns a call of a step's node without arguments. The last one may not be used any more.
func (c *checks) of(st *Step) *ops.Call {
	ins, outs := len(st.In), len(st.Out)
	clear(c.args)
	c.args = slices.Grow(c.args[:0], ins+outs)[:ins+outs]
	c.call = ops.Call{Node: st.Node(), Version: st.version(), Graph: st.Frame.Graph, In: c.args[:ins:ins], Out: c.args[ins:]}
	return &c.call
}

// check is the gate before a node's kernel (ops.Check). When the session is built, it
// sees the static shapes and constant elements, and reports whether something remains
// open: the node is then checked again each time it runs. At run time it also sets the
// shapes of the outputs, except those that only the kernel can find
// (kernel.Kernel.Finds).
func (st *Step) check() (open bool, err error) {
	c := st.Frame.Site.checks.of(st)
	for i, t := range st.In {
		if t == nil {
			continue
		}
		if st.live && (t.Type == graph.Undefined || t.Shape == nil) {
			return false, fmt.Errorf("input %d %q is no tensor: no kernel for such inputs", i, graph.Short(t.Name))
		}
		c.In[i] = st.argOf(i, t)
	}
	for i, t := range st.Out {
		if t == nil {
			continue
		}
		c.Out[i].Present = true
		if t.Exact {
			c.Out[i].Type = values.TypeOf(t)
		}
	}
	if open, err = ops.Check(c); err != nil || !st.live {
		return open, err
	}
	for i, t := range st.Out {
		if t == nil || t.Exact {
			continue
		}
		typ := c.Out[i].Type
		if t.Type == graph.Undefined {
			t.Type = typ.Elem
		}
		if t.Type != typ.Elem {
			return open, fmt.Errorf("output %d %q is of %v, expected %v", i, graph.Short(t.Name), typ.Elem, t.Type)
		}
		if !typ.Exact() {
			if !st.Kernel.Finds {
				return open, fmt.Errorf("the shape of output %d %q does not follow from the inputs, expected lengths for %v", i, graph.Short(t.Name), typ)
			}
			t.Shape = nil
			continue
		}
		shape := make([]int, len(typ.Shape))
		for k, d := range typ.Shape {
			shape[k] = int(d)
		}
		if err := st.Frame.Site.Resize(t, shape); err != nil {
			return open, err
		}
	}
	return open, nil
}

// argOf describes input i for ops.Check, with its elements if they are few and known.
func (st *Step) argOf(i int, t *values.Tensor) ops.Arg {
	if !t.Exact && !st.live {
		return ops.Arg{Present: true, Type: graph.Type{Kind: graph.KindTensor, Elem: t.Type}}
	}
	a := ops.Arg{Present: true, Type: values.TypeOf(t)}
	if t.Len() > ops.FoldLimit {
		return a
	}
	if st.Frame.values != nil && !st.live {
		a.Value = st.Frame.values[st.Node().Inputs[i]]
	}
	if a.Value != nil || !t.Const && !st.live || t.At == nil { // At is nil for constants that were freed after packing
		return a
	}
	if !st.live && t.Const {
		if v, is := st.Frame.Site.Program.ElementsOf(st.Frame.Graph, st.Node().Inputs[i], func() *ops.Value { return st.elementsOf(t) }); is {
			a.Value = v
			return a
		}
	}
	a.Value = st.elementsOf(t)
	return a
}

// elementsOf returns the elements of a tensor; nil if they are of a kind that no check reads.
func (st *Step) elementsOf(t *values.Tensor) *ops.Value {
	ints, whole := t.Integers()
	if !whole && len(t.Shape) > 1 {
		return nil // lengths follow from lists of reals, such as the scales of Resize, and not from tables
	}
	shape := make([]int64, len(t.Shape))
	for i, n := range t.Shape {
		shape[i] = int64(n)
	}
	v := &ops.Value{Shape: shape, Elems: make([]ops.Scalar, t.Len())}
	if whole {
		for i, x := range ints {
			v.Elems[i].I = int64(x)
		}
		return v
	}
	reals, ok := t.Reals()
	if !ok {
		return nil
	}
	for i, x := range reals {
		v.Elems[i].F = x
	}
	return v
}
