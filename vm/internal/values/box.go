package values

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// Box is a value that is no tensor, or an item of one. Boxes never change once they are
// made, so sequences share their items; the last reference frees an item's memory, which
// lies in the side pool.
type Box struct {
	Kind   graph.Kind  // KindTensor, KindSequence, KindOptional or KindMap
	elem   graph.DType // of a sequence: the type of its items; Undefined: not known
	Tensor kernel.Tensor
	block  []byte // of the tensor
	Items  []*Box // of a sequence or optional; of a map: its keys and its values
	refs   int
}

// bytesOfBox is the memory of a box without its block and its items.
const bytesOfBox = 160

func (b *Box) bytes() int64 { return bytesOfBox + 8*int64(len(b.Items)) }

// Shared returns one more reference to a box.
func (b *Box) Shared() *Box {
	b.refs++
	return b
}

// Data returns the bytes of the elements of a box that holds a tensor.
func (b *Box) Data() []byte { return unsafe.Slice((*byte)(b.Tensor.At), b.Tensor.Bytes()) }

// Typed returns the type of a box for ops.Check.
func (b *Box) Typed() graph.Type {
	switch b.Kind {
	case graph.KindTensor:
		return TypeOf(&Tensor{Tensor: b.Tensor})
	case graph.KindMap:
		return graph.Type{Kind: graph.KindMap}
	}
	t := graph.Type{Kind: b.Kind}
	switch {
	case len(b.Items) > 0 && b.Kind == graph.KindOptional:
		of := b.Items[0].Typed()
		t.Of = &of
	case b.elem != graph.Undefined:
		t.Of = &graph.Type{Kind: graph.KindTensor, Elem: b.elem}
	}
	return t
}
