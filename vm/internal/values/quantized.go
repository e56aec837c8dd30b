package values

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Quantized says that a tensor holds bytes in the place of the reals that they represent.
type Quantized struct {
	Bytes       kernel.Tensor // type and shape; the address is the tensor's
	Scale, Zero float64
}

// Reals decodes the reals that the bytes at an address represent.
func (q *Quantized) Reals(at unsafe.Pointer) (*reference.Tensor, error) {
	b, err := q.Decode(at)
	if err != nil {
		return nil, err
	}
	list := make([]float64, len(b.I))
	for i, v := range b.I {
		list[i] = float64(float32(float64(v)-q.Zero) * float32(q.Scale))
	}
	t := reference.Reals(b.Shape, list...)
	t.Type = graph.Float32
	return t, nil
}

// Decode decodes the bytes at an address.
func (q *Quantized) Decode(at unsafe.Pointer) (*reference.Tensor, error) {
	return reference.Decode(q.Bytes.Type, q.Bytes.Shape, unsafe.Slice((*byte)(at), q.Bytes.Len()))
}
