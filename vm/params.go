package vm

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
)

// Initializers gives the initializers of a model by name, such as the first
// values that optimize --train writes beside a training graph (.params.onnx).
// They are copies.
func Initializers(m *graph.Model) (map[string]Value, error) {
	c := newConstants(m)
	defer c.close()
	values := map[string]Value{}
	for _, t := range m.Graph.Tensors {
		if t.Data == nil {
			continue
		}
		k, err := c.tensor(t.Data)
		if err != nil {
			return nil, err
		}
		values[t.Name] = Value{k.Type, k.Shape, unsafe.Slice((*byte)(k.At), k.Bytes())}.Clone()
	}
	return values, nil
}
