package exec

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// runBoxer checks the inputs of a node (ops.Check) and runs it.
func (st *step) runBoxer(do func(*values.Node) error) kernel.Run {
	x := st.valued()
	return func(*work.Pool) error {
		c := &ops.Call{Node: st.n(), Version: st.version(), Graph: st.f.g, In: make([]ops.Arg, len(st.in)), Out: make([]ops.Arg, len(st.out))}
		st.live = true
		defer func() { st.live = false }()
		for i, t := range st.in {
			switch {
			case t == nil:
			case t.Box != nil:
				c.In[i] = t.Box.Arg()
			case t.Type == graph.Undefined || t.Shape == nil:
				return fmt.Errorf("input %d %q has no value", i, graph.Short(t.Name))
			default:
				c.In[i] = st.argOf(i, t)
			}
		}
		for i, t := range st.out {
			if t == nil {
				continue
			}
			c.Out[i].Present = true
			if t.Exact {
				c.Out[i].Type = values.TypeOf(t)
			}
		}
		if _, err := ops.Check(c); err != nil {
			return err
		}
		if len(st.out) == 0 || st.out[0] == nil {
			return nil
		}
		return do(x)
	}
}

// boxer returns the function of a node whose values are not all tensors; nil if they are.
func (st *step) boxer() func(*values.Node) error {
	n := st.n()
	if f := values.Boxers[[2]string{n.Domain, n.Op}]; f != nil {
		return f
	}
	if ops.Copies(n) && len(st.in) == 1 && st.in[0] != nil && len(st.out) == 1 {
		if k := st.f.g.Tensors[n.Inputs[0]].Type.Kind; k != graph.KindTensor && k != graph.KindSparse {
			return (*values.Node).Same
		}
	}
	return nil
}

// valued is the step's node as the operators on sequences, optionals and maps see it.
func (st *step) valued() *values.Node {
	return &values.Node{Space: &st.f.s.Space, Call: st.call(), In: st.in, Out: st.out}
}
