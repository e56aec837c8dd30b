package vm

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// resolve gives the outputs of a node the shapes that follow from its inputs as
// they are now. Those that depend on more than shapes and small integers are
// left to the kernel (Resize).
func (st *step) resolve() error {
	open := false
	for _, t := range st.out {
		open = open || t != nil && !t.exact
	}
	if !open {
		return nil
	}
	n := st.call.Node
	op := ops.Lookup(n.Domain, n.Op)
	if op == nil {
		return fmt.Errorf("the shapes of its outputs are not known")
	}
	c := &ops.Call{Node: n, Version: st.call.Version, In: make([]ops.Arg, len(st.in)), Out: make([]ops.Arg, len(st.out))}
	for i, t := range st.in {
		if t != nil {
			c.In[i] = argOf(t)
		}
	}
	for i, t := range st.out {
		c.Out[i].Present = t != nil
	}
	if err := op.Infer(c); err != nil {
		return err
	}
	for i, t := range st.out {
		if t == nil {
			continue
		}
		typ := c.Out[i].Type
		if t.Type == graph.Undefined {
			t.Type = typ.Elem
		}
		if !typ.Exact() {
			t.Shape = nil
			continue
		}
		shape := make([]int, len(typ.Shape))
		for k, d := range typ.Shape {
			shape[k] = int(d)
		}
		if err := st.f.s.resize(t, shape); err != nil {
			return err
		}
	}
	return nil
}

// argOf is a tensor with its elements, where they are few, as inference sees it.
func argOf(t *tensor) ops.Arg {
	dims := make([]graph.Dim, len(t.Shape))
	shape := make([]int64, len(t.Shape))
	for i, n := range t.Shape {
		dims[i], shape[i] = graph.Dim(n), int64(n)
	}
	a := ops.Arg{Present: true, Type: graph.TensorOf(t.Type, dims...)}
	if t.Len() > ops.FoldLimit {
		return a
	}
	v := &ops.Value{Shape: shape, Elems: make([]ops.Scalar, t.Len())}
	if ints, ok := t.Integers(); ok {
		for i, x := range ints {
			v.Elems[i].I = int64(x)
		}
		a.Value = v
	} else if reals, ok := t.Reals(); ok {
		for i, x := range reals {
			v.Elems[i].F = x
		}
		a.Value = v
	}
	return a
}
