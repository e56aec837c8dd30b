package form

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
)

// Tensor is a value as kernels see it.
type Tensor struct {
	Shape []int          // nil: unknown until its producer has run
	At    unsafe.Pointer // of the first element; dense, row by row
	Type  graph.DType
	Const bool // the elements never change, and can be read in Make
	// Computed says that nodes compute the elements from constants alone, at whatever time and
	// to whatever place.
	Computed bool
	Layout   Layout // of an image; the operators around the tensor see Shape
	Made     any    // identifies a constant that a node computed; else nil
	// Several says that readers would pack a constant in several forms, which together take more
	// memory than it does: none of them is kept.
	Several bool
	// Alike is an element that all elements equal, so that weights can be packed without them;
	// nil: none is known.
	Alike unsafe.Pointer
}

// Packs reports whether a kernel may keep a packed form of the tensor.
func (t *Tensor) Packs() bool { return t.Const && !t.Several }

// Fixed reports whether nothing but constants goes into the elements: the tensor is one, or
// computed from some. A kernel that has several orders of the terms of a sum may choose by
// Fixed, which a model determines. It may not choose by Const, which depends on what is
// folded, packed or shared: so would the bits of the result.
func (t *Tensor) Fixed() bool { return t.Const || t.Computed }

// Len is the number of elements.
func (t *Tensor) Len() int { return Count(t.Shape) }

// Bytes is the size of the elements; packed types are rounded up.
func (t *Tensor) Bytes() int { return (t.Len()*ElementBits(t.Type) + 7) / 8 }

// Width is the size of an element in bytes.
func (t *Tensor) Width() int { return ElementBits(t.Type) / 8 }

// ElementBits is the size of an element in bits. A string is a number of 64 bits that
// the session translates (Runtime.Text), so that the kernels that move elements move
// strings, too. Equal strings have equal numbers, and the empty string is 0.
func ElementBits(d graph.DType) int {
	if d == graph.String {
		return 64
	}
	return int(d.Bits())
}

// Rank is the number of axes.
func (t *Tensor) Rank() int { return len(t.Shape) }

// TypeError reports a tensor whose elements are smaller than the operator's dtype. A
// model can declare such a tensor if no type inference contradicts it.
type TypeError struct {
	Type graph.DType
	Want string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("an input or output is of dtype %v, expected %s", e.Type, e.Want)
}

// Elements returns the elements of t. The slice must not outlive the run. It panics with a
// *TypeError if the slice would reach beyond the tensor.
func Elements[T any](t *Tensor) []T {
	var zero T
	if n := ElementBits(t.Type); n >= 8 && int(unsafe.Sizeof(zero)) > n/8 {
		panic(&TypeError{t.Type, fmt.Sprintf("%T", zero)})
	}
	return unsafe.Slice((*T)(t.At), t.Len())
}

// Count is the number of elements of a shape.
func Count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// IsHalf reports whether a tensor has floating-point elements of 16 bits.
func IsHalf(t *Tensor) bool {
	return t != nil && (t.Type == graph.Float16 || t.Type == graph.BFloat16)
}

// Integers returns the elements of an integer or bool tensor; false for other dtypes.
func (t *Tensor) Integers() ([]int, bool) {
	if _, whole := IntReader(t.Type); !whole {
		return nil, false
	}
	list, err := readInts(t)
	return list, err == nil
}

// Reals returns the elements of a numeric tensor; false for other dtypes.
func (t *Tensor) Reals() ([]float64, bool) {
	get, ok := Reader(t.Type)
	if !ok {
		return nil, false
	}
	out := make([]float64, t.Len())
	for i := range out {
		out[i] = get(t.At, i)
	}
	return out, true
}

// Fill sets all elements of a numeric tensor to x.
func (t *Tensor) Fill(x float64) error {
	set, ok := Writer(t.Type)
	if !ok {
		return Unsupported(t.Type)
	}
	for i := range t.Len() {
		set(t.At, i, x)
	}
	return nil
}

// Store sets the elements of a numeric tensor to reals, or, if reals is nil, to integers.
func Store(t *Tensor, reals []float64, integers []int64) error {
	set, ok := Writer(t.Type)
	if !ok {
		return Unsupported(t.Type)
	}
	for i := range t.Len() {
		if reals != nil {
			set(t.At, i, reals[i])
		} else {
			set(t.At, i, float64(integers[i]))
		}
	}
	return nil
}

// Strides returns the strides of a dense tensor, in elements.
func Strides(shape []int) []int {
	s := make([]int, len(shape))
	step := 1
	for a := len(shape) - 1; a >= 0; a-- {
		s[a] = step
		step *= shape[a]
	}
	return s
}

// WholeBytes returns the bytes of an element. It fails for packed types, whose elements
// have no address.
func WholeBytes(t *Tensor) (int, error) {
	if w := t.Width(); w > 0 {
		return w, nil
	}
	return 0, Unsupported(t.Type)
}

// Byte reports whether a tensor has elements of 8 bits.
func (t *Tensor) Byte() bool { return t.Type == graph.Int8 || t.Type == graph.Uint8 }
