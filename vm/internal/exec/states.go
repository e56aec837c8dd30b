package exec

import (
	"fmt"
	"io"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/values"
)

// states says which values stay in a session from one run to the next, and which outputs the
// last run had.
type states struct {
	first   int             // the first step that writes over a parameter or state
	ready   map[string]bool // parameters and states that have values
	caches  map[string]bool // of a session with points: the states that are caches
	fresh   map[string]bool // of such a session: caches that hold zeros, of any shape
	outputs map[string]values.Value
	updates map[graph.TensorID]bool // outputs that are new values of parameters, states and caches
}

// Data returns a parameter or state as an initializer that reads its elements from
// the session's memory when it is written.
func (s *Session) Data(name string) (*graph.Data, error) {
	if !s.states.ready[name] {
		return nil, fmt.Errorf("%q has no value yet", graph.Short(name))
	}
	for _, id := range s.main.Graph.Inputs {
		if s.main.Graph.Tensors[id].Name != name {
			continue
		}
		t := s.main.Tensors[id]
		if err := s.fetch(t); err != nil {
			return nil, err
		}
		b := unsafe.Slice((*byte)(t.At), t.Bytes())
		d := &graph.Data{Name: name, Type: t.Type, Dims: make([]int64, len(t.Shape)), Bytes: int64(len(b))}
		for i, n := range t.Shape {
			d.Dims[i] = int64(n)
		}
		d.Generate = func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		}
		return d, nil
	}
	return nil, fmt.Errorf("%q is no input of the model", graph.Short(name))
}
