package exec

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// Set sets the value of a parameter or state, which stays until a step updates it.
func (s *Session) Set(name string, v values.Value) (err error) {
	defer mapped.Recover(&err, mapped.Watch()) // v may lie in a file
	if _, is := s.Program.Next[name]; !is {
		return fmt.Errorf("%q is no parameter or state of the model", graph.Short(name))
	}
	if err := s.setInput(name, v, copyWhole); err != nil {
		return err
	}
	s.states.ready[name] = true
	delete(s.states.fresh, name)
	return nil
}

// setInput copies the value of a graph input to its place.
func (s *Session) setInput(name string, v values.Value, copy func(to, from []byte)) error {
	for _, id := range s.main.Graph.Inputs {
		g := s.main.Graph.Tensors[id]
		if g.Name != name {
			continue
		}
		t := s.main.Tensors[id]
		if s.takesShape(name, v) {
			s.shapeState(name, v.Shape)
		} else if !v.Is(g.Type) {
			return s.badInput(id, "is %v, expected %v", v, g.Type)
		}
		s.WroteOnHost(t)
		if g.Type.Kind != graph.KindTensor {
			b, err := s.BoxOf(v)
			if err == nil {
				s.Release(t)
				err = s.Put(t, b)
			}
			if err != nil {
				return s.badInput(id, "%w", err)
			}
			return nil
		}
		if err := v.Check(); err != nil {
			return s.badInput(id, "%w", err)
		}
		if !t.Exact {
			t.Type = v.Type
			if err := s.Resize(t, v.Shape); err != nil {
				return s.badInput(id, "%w", err)
			}
		}
		if v.Type == graph.String {
			if err := s.StoreTexts(values.BytesOf(t), v.Strings); err != nil {
				return s.badInput(id, "%w", err)
			}
			return nil
		}
		copyIn(values.BytesOf(t), v.Data)
		return nil
	}
	return fmt.Errorf("%q is no input of the model", graph.Short(name))
}

// copyWhole copies bytes without polling for a stop: half a state is useless.
func copyWhole(to, from []byte) { copy(to, from) }

// copyIn copies the elements of an input. If they lie in a mapped file, such as that of the
// initial parameters, its pages are given back piece by piece.
func copyIn(to, from []byte) {
	for len(from) > constants.Piece {
		copyIn(to[:constants.Piece], from[:constants.Piece])
		to, from = to[constants.Piece:], from[constants.Piece:]
	}
	copy(to, from)
	mapped.Release(unsafe.Pointer(unsafe.SliceData(from)), len(from))
}

// badInput makes an error about a graph input.
func (s *Session) badInput(id graph.TensorID, format string, args ...any) error {
	e := graph.Errorf(format, args...)
	e.Tensor = s.main.Graph.Tensors[id].Name
	return s.named(e)
}
