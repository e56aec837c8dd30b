package exec

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/lower"
	"github.com/onnxmem/onnxmem/vm/internal/values"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// newSequenceMap prepares a SequenceMap node, which runs its body once for each item of
// its sequences. Inputs that are tensors are the same in every run.
func newSequenceMap(in *Session, st *lower.Step, body *lower.Frame) (kernel.Run, error) {
	if len(st.In) == 0 || len(body.Graph.Inputs) != len(st.In) || len(body.Graph.Outputs) != len(st.Out) {
		return nil, fmt.Errorf("its body has %d inputs and %d outputs, and does not fit", len(body.Graph.Inputs), len(body.Graph.Outputs))
	}
	if err := body.MakesAll(); err != nil {
		return nil, err
	}
	x := st.Valued()
	return func(*work.Pool) error { return mapItems(in, st, x, body) }, nil
}

func mapItems(in *Session, st *lower.Step, x *values.Node, body *lower.Frame) (err error) {
	s := st.Frame.Site
	first, err := x.Sequence(0)
	if err != nil {
		return err
	}
	n := len(first.Items)
	for i, t := range st.In {
		if t.Box != nil && (t.Box.Kind != graph.KindSequence || len(t.Box.Items) != n) {
			return fmt.Errorf("input %d %q is %v of %d items, expected %d as in the first sequence", i, graph.Short(t.Name), t.Box.Kind, len(t.Box.Items), n)
		}
	}
	made := make([][]*values.Box, len(st.Out))
	defer func() {
		for _, items := range made {
			s.UnboxEach(items)
		}
	}()
	for k := range n {
		s.Pool.Poll()
		for i, t := range st.In {
			from := t
			if t.Box != nil {
				from = &values.Tensor{Tensor: t.Box.Items[k].Tensor, Name: t.Name}
			}
			if err := s.Assign(body.Input(i), from); err != nil {
				return err
			}
		}
		if err := in.runAll(body); err != nil {
			return err
		}
		for j := range st.Out {
			b, err := s.ItemOf(body.Output(j))
			if err != nil {
				return err
			}
			if made[j] = append(made[j], b); b.Kind != graph.KindTensor || b.Tensor.Type != made[j][0].Tensor.Type {
				return fmt.Errorf("output %d of its body is %v for item %d, expected a tensor as for the items before", j, b.Typed(), k)
			}
		}
		body.Release()
	}
	for j, out := range st.Out {
		items := made[j]
		made[j] = nil
		elem := body.Graph.Tensors[body.Graph.Outputs[j]].Type.Elem
		if len(items) > 0 {
			elem = items[0].Tensor.Type
		}
		b, err := s.Box(graph.KindSequence, elem, items)
		if err != nil {
			return err
		}
		if out == nil {
			s.Unbox(b)
		} else if err := s.Put(out, b); err != nil {
			return err
		}
	}
	return nil
}
