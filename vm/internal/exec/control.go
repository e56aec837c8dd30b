package exec

import (
	"fmt"

	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// controls makes the kernels of nodes that run bodies in a session.
type controls struct{ s *Session }

// Called runs a local function and copies its outputs.
func (c controls) Called(body *lower.Frame, st *lower.Step) kernel.Run {
	return func(*work.Pool) error {
		if err := c.s.runAll(body); err != nil {
			return err
		}
		return handOut(body, st, 0)
	}
}

// handOut copies the outputs of a body, beginning with output first, to the outputs
// of its node.
func handOut(f *lower.Frame, st *lower.Step, first int) error {
	for i, out := range st.Out {
		if out == nil {
			continue
		}
		from := f.Output(first + i)
		if from == nil {
			return fmt.Errorf("output %d of its body is left out", first+i)
		}
		if err := f.Site.Assign(out, from); err != nil {
			return err
		}
	}
	f.Release()
	return nil
}

// Branch runs the body that the condition of an If selects.
func (c controls) Branch(st *lower.Step, then, otherwise *lower.Frame) kernel.Run {
	return func(*work.Pool) error {
		taken := otherwise
		st.Frame.Site.ToHost(st.In[0])
		yes, err := st.In[0].Truth()
		if err != nil {
			return err
		}
		if yes {
			taken = then
		}
		if why := taken.Graph.NeverRuns; why != "" {
			return fmt.Errorf("takes %s, which is planned as never taken: %s", map[bool]string{true: "then_branch", false: "else_branch"}[yes], why)
		}
		if err := c.s.runAll(taken); err != nil {
			return err
		}
		return handOut(taken, st, 0)
	}
}

func (c controls) Loop(st *lower.Step, body *lower.Frame) (kernel.Run, error) {
	return newLoop(c.s, st, body)
}

func (c controls) Scan(st *lower.Step, body *lower.Frame) (kernel.Run, error) {
	return newScan(c.s, st, body)
}

func (c controls) SequenceMap(st *lower.Step, body *lower.Frame) (kernel.Run, error) {
	return newSequenceMap(c.s, st, body)
}
