package values

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
	"github.com/onnxmem/onnxmem/vm/internal/store"
)

// Tensor is a tensor of a frame: the kernels' view of it, and its storage.
type Tensor struct {
	kernel.Tensor
	Name      string
	Room      int64          // bytes of its planned place; 0: it goes to the side pool
	Block     []byte         // of the side pool
	Box       *Box           // its value, if that is no tensor; else nil
	Quantized *Quantized     // how it holds bytes instead of reals; nil: it does not
	Guarded   *store.Guarded // its pages in a guarded session; nil in the side pool

	Exact  bool   // its shape is known before the run
	Inside bool   // of a session on a device: it exists only within a kernel
	Where  Memory // of a session on a device: where its elements are
}

// TypeOf is the type of a tensor whose shape is known.
func TypeOf(t *Tensor) graph.Type {
	dims := make([]graph.Dim, len(t.Shape))
	for i, n := range t.Shape {
		dims[i] = graph.Dim(n)
	}
	return graph.TensorOf(t.Type, dims...)
}

// SizeOf returns the bytes of a tensor in a session. It fails if they overflow or if the
// dtype has no fixed size.
func SizeOf(d graph.DType, shape []int) (int64, error) {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v: expected lengths >= 0", shape)
		}
		dims[i] = graph.Dim(n)
	}
	bytes, _, ok, err := graph.TensorOf(d, dims...).Size()
	if err == nil && !ok && d == graph.String {
		n, err := elementsIn(shape)
		return 8 * n, err
	}
	if err == nil && !ok {
		err = fmt.Errorf("%v has no fixed size", d)
	}
	return bytes, err
}

// elementsIn is the number of elements of a shape. It fails if the lengths are negative
// or too large.
func elementsIn(shape []int) (int64, error) {
	dims := make([]graph.Dim, len(shape))
	for i, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v: expected lengths >= 0", shape)
		}
		dims[i] = graph.Dim(n)
	}
	n, ok := graph.TensorOf(graph.Uint8, dims...).Elements()
	if !ok || n > math.MaxInt64/16 {
		return 0, fmt.Errorf("shape %v: %w", shape, graph.ErrTooLarge)
	}
	return n, nil
}

// Overlap reports whether two tensors have a byte in common.
func Overlap(a, b *Tensor) bool {
	if a.Shape == nil || b.Shape == nil {
		return false
	}
	x, y := uintptr(a.At), uintptr(b.At)
	return x < y+uintptr(b.Bytes()) && y < x+uintptr(a.Bytes())
}

// Row is element k of a batch.
func (t *Tensor) Row(k, batch int) *Tensor {
	bytes := t.Bytes() / batch
	x := &Tensor{Name: t.Name, Exact: true, Room: max(int64(bytes), 1)}
	x.Type, x.Shape, x.At = t.Type, slices.Clone(t.Shape[1:]), unsafe.Add(t.At, k*bytes)
	return x
}

// PackedBits is the size of an element of a tensor if several share a byte, else 0.
func PackedBits(t *Tensor) int {
	if bits := form.ElementBits(t.Type); bits < 8 {
		return bits
	}
	return 0
}

// CopyPacked copies n elements of 2 or 4 bits, which may begin within a byte.
func CopyPacked(to []byte, at int, from []byte, first, n, bits int) {
	mask := byte(1<<bits - 1)
	for i := range n {
		v := from[(first+i)*bits/8] >> ((first + i) * bits % 8) & mask
		b, off := &to[(at+i)*bits/8], (at+i)*bits%8
		*b = *b&^(mask<<off) | v<<off
	}
}

// Kernels is what kernels see of a tensor; nil for one that is left out.
func (t *Tensor) Kernels() *kernel.Tensor {
	if t == nil {
		return nil
	}
	return &t.Tensor
}

// AsSeen returns the image that a tensor holds as its operators see it.
func (t *Tensor) AsSeen(v *reference.Tensor, err error) (*reference.Tensor, error) {
	if err != nil {
		return v, err
	}
	switch t.Layout {
	case form.NHWC:
		v = v.ChannelsFirst(t.Shape)
	case form.NCHW16c:
		v = reference.Layout{Block: kernel.BlockLen}.Planes(v)
	}
	return v, nil
}

// Placed reports whether a tensor has a place that nodes write to, of a size that is known.
func (t *Tensor) Placed() bool { return t != nil && !t.Const && t.Room > 0 && t.Exact && t.Bytes() > 0 }
