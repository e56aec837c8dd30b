package vm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/vm/internal/constants"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Initializers are the initializers of a model by name: for example, the initial
// values that optimize --train writes beside a training graph (.params.onnx), or the
// output of Session.Save. They lie in the mapped files: Values is valid until Close,
// and while the model's file is open.
type Initializers struct {
	Values map[string]Value
	consts *constants.Set
}

// OpenInitializers maps the initializers of a model.
func OpenInitializers(m *graph.Model) (_ *Initializers, err error) {
	defer mapped.Recover(&err, mapped.Watch())
	i := &Initializers{Values: map[string]Value{}, consts: constants.New(m, &store.Account{Explain: limitError})}
	for _, t := range m.Graph.Tensors {
		if t.Data == nil {
			continue
		}
		k, err := i.consts.Tensor(t.Data, store.Bound{})
		if err != nil {
			i.Close()
			return nil, err
		}
		i.Values[t.Name] = Value{Type: k.Type, Shape: k.Shape, Data: unsafe.Slice((*byte)(k.At), k.Bytes())}
	}
	return i, nil
}

// Check fails, with an error of type *graph.Error, if the files have changed since they
// were mapped: values that were read from them may be wrong.
func (i *Initializers) Check() error { return i.consts.Unchanged() }

// Close unmaps the files.
func (i *Initializers) Close() error { return i.consts.Close() }

// Load sets the parameters and states for which m has initializers of the same names.
// It copies them from the mapped file.
func (s *Session) Load(m *graph.Model) error {
	i, err := OpenInitializers(m)
	if err != nil {
		return err
	}
	defer i.Close()
	for _, t := range s.p.States() {
		if v, ok := i.Values[t.Name]; ok {
			if err := s.Set(t.Name, v); err != nil {
				return err
			}
		}
	}
	return i.Check()
}
