package vm

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// newSequenceMap prepares a SequenceMap node, which runs its body once for each item of
// its sequences. Inputs that are tensors are the same in every run.
func newSequenceMap(st *step, body *frame) (kernel.Run, error) {
	if len(st.in) == 0 || len(body.g.Inputs) != len(st.in) || len(body.g.Outputs) != len(st.out) {
		return nil, fmt.Errorf("its body has %d inputs and %d outputs, and does not fit", len(body.g.Inputs), len(body.g.Outputs))
	}
	if err := body.makesAll(); err != nil {
		return nil, err
	}
	return func(*work.Pool) error { return st.mapItems(body) }, nil
}

func (st *step) mapItems(body *frame) (err error) {
	s := st.f.s
	first, err := st.sequence(0)
	if err != nil {
		return err
	}
	n := len(first.items)
	for i, t := range st.in {
		if t.box != nil && (t.box.kind != graph.KindSequence || len(t.box.items) != n) {
			return fmt.Errorf("input %d %q is %v of %d items, expected %d as in the first sequence", i, graph.Short(t.name), t.box.kind, len(t.box.items), n)
		}
	}
	made := make([][]*box, len(st.out))
	defer func() {
		for _, items := range made {
			s.unboxEach(items)
		}
	}()
	for k := range n {
		s.pool.Poll()
		for i, t := range st.in {
			from := t
			if t.box != nil {
				from = &tensor{Tensor: t.box.items[k].tensor, name: t.name}
			}
			if err := s.assign(body.input(i), from); err != nil {
				return err
			}
		}
		if err := body.runAll(); err != nil {
			return err
		}
		for j := range st.out {
			b, err := s.itemOf(body.output(j))
			if err != nil {
				return err
			}
			if made[j] = append(made[j], b); b.kind != graph.KindTensor || b.tensor.Type != made[j][0].tensor.Type {
				return fmt.Errorf("output %d of its body is %v for item %d, expected a tensor as for the items before", j, b.typed(), k)
			}
		}
		body.release()
	}
	for j, out := range st.out {
		items := made[j]
		made[j] = nil
		elem := body.g.Tensors[body.g.Outputs[j]].Type.Elem
		if len(items) > 0 {
			elem = items[0].tensor.Type
		}
		b, err := s.box(graph.KindSequence, elem, items)
		if err != nil {
			return err
		}
		if out == nil {
			s.unbox(b)
		} else if err := s.put(out, b); err != nil {
			return err
		}
	}
	return nil
}
