package lower

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// runBoxer checks the inputs of a node (ops.Check) and runs it.
func (st *Step) runBoxer(do func(*values.Node) error) kernel.Run {
	x := st.Valued()
	return func(*work.Pool) error {
		c := &ops.Call{Node: st.Node(), Version: st.version(), Graph: st.Frame.Graph, In: make([]ops.Arg, len(st.In)), Out: make([]ops.Arg, len(st.Out))}
		st.live = true
		defer func() { st.live = false }()
		for i, t := range st.In {
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
		for i, t := range st.Out {
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
		if len(st.Out) == 0 || st.Out[0] == nil {
			return nil
		}
		return do(x)
	}
}

// boxer returns the function of a node whose values are not all tensors; nil if they are.
func (st *Step) boxer() func(*values.Node) error {
	n := st.Node()
	if f := values.Boxers[[2]string{n.Domain, n.Op}]; f != nil {
		return f
	}
	if ops.Copies(n) && len(st.In) == 1 && st.In[0] != nil && len(st.Out) == 1 {
		if k := st.Frame.Graph.Tensors[n.Inputs[0]].Type.Kind; k != graph.KindTensor && k != graph.KindSparse {
			return (*values.Node).Same
		}
	}
	return nil
}

// Valued is the step's node as the operators on sequences, optionals and maps see it.
func (st *Step) Valued() *values.Node {
	return &values.Node{Space: &st.Frame.Site.Space, Call: st.Call(), In: st.In, Out: st.Out}
}
