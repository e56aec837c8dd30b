package form

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Run computes the outputs of a node.
type Run func(w *work.Pool) error

// ErrDataDependent is the error of a kernel that cannot be prepared before its inputs
// have been computed.
var ErrDataDependent = errors.New("depends on data")

// Runtime is the session's interface to its kernels.
type Runtime interface {
	// Known returns the elements of integer input i if they are the same in every run.
	Known(i int) ([]int64, bool)
	// Live reports whether the elements of all inputs have been computed.
	Live() bool
	// Resize sets the shape of output i, if it depends on data.
	Resize(i int, shape []int) error
	// Pack returns the packed form of a constant, of the given bytes, which fill
	// writes at the first call. ok is false if no memory beyond the plan's may be used.
	Pack(k PackKey, bytes int, fill func(dst unsafe.Pointer)) (at unsafe.Pointer, ok bool)
	// Release says, while a large constant is packed, that these bytes of it were.
	Release(at unsafe.Pointer, bytes int)
	// Keep asks, in Prepare, for scratch of the given bytes that holds something made of
	// input i. Its content stays during all iterations of a loop. ok is false if the node is
	// in no loop, or the input not the same in all iterations.
	Keep(i, bytes int) (ok bool)
	// Kept returns that scratch when the node runs. If it is not filled, the kernel must
	// fill it.
	Kept() (at unsafe.Pointer, filled bool)
	// Seed returns a number that differs from node to node and from step to step.
	Seed() uint64
	// Repeats reports whether the node may run several times in a step, as those of a
	// loop's body do.
	Repeats() bool
	// Stopping reports whether the run is being stopped. The kernel's results are not
	// used then.
	Stopping() bool
	// Heap counts bytes that the kernel is about to allocate on Go's heap and to keep
	// until it is prepared again. It fails if they exceed the memory limit.
	Heap(bytes int64) error
	// Table allocates memory outside of Go's heap for numbers that the kernel keeps
	// until it is prepared again. Its content is undefined. It fails as Heap does.
	Table(bytes int64) (unsafe.Pointer, error)
	// Text returns the string that an element of a string tensor stands for. It fails
	// if the element stands for none.
	Text(element uint64) (string, error)
	// Element returns the element that stands for a string. It fails as Heap does.
	Element(text string) (uint64, error)
	// Compose is Element for a string of at most the given bytes. It fails before it
	// makes the string.
	Compose(bytes int, make func() string) (uint64, error)
	// Constant returns the tensor of an attribute.
	Constant(d *graph.Data) (*Tensor, error)
}

// PackKey identifies a packed constant and its layout.
type PackKey struct {
	At         unsafe.Pointer // of the constant's elements; nil if a node computed them
	Made       any            // as in Tensor
	Off        int            // of the first element
	Alike      uint64         // the element that all equal, and 1<<32; 0: they may differ
	Type       graph.DType    // of the elements: constants may share bytes of a file
	Zeros      unsafe.Pointer // of the zero points of a quantized constant
	ZeroLen    int            // number of zero points, which may share bytes, too
	Narrow     bool           // packed as 16-bit numbers
	Right      bool           // the right side of a product
	Len, K     int            // rows of A or columns of B; its depth
	Step, Deep int            // as in gemm.Dense
	Taps       int            // as in gemm.Dense
	Lanes      bool           // of single channels, arranged for images in blocks
	Quads      bool           // packed for products of bytes that are not widened
	Pixels     [5]int         // and for pixels of an image with its kernel, its dilations, and whether it is in planes
	Nibbles    int            // 1, 2, 3: numbers of 4 bits, their scales, their zero points
}

// Call is one node with its tensors, as every device sees it.
type Call struct {
	Node    *graph.Node
	Version int64     // of the operator's domain, as the model imports it
	In, Out []*Tensor // nil for omitted ones
	Runtime Runtime
	// Block is the number of channels in a block of the graph's images (attr.NchwcBlock);
	// 0 if the graph does not tell.
	Block int32
	// Narrow is the invocation with the 16-bit inputs, if In has them as float32; else nil.
	Narrow *Call
	// Way says which algorithm computes the node, and what it computes at once: "implicit GEMM
	// 3x3, bias". A kernel sets it when it is prepared; "" if the operator has only one.
	Way string
	// Rounding bounds by how much, relative to its size, the kernel rounds an operand of a
	// product or a convolution before it multiplies; 0: not at all. A kernel sets it when it is
	// prepared.
	Rounding float64
}

// TF32Rounding is the Rounding of TF32, which has 10 bits of a float32's fraction. Tensor cores
// may cut the others off.
const TF32Rounding = 0x1p-10

// Has reports whether input i is present.
func (c *Call) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// HasOut reports whether output i is present.
func (c *Call) HasOut(i int) bool { return i < len(c.Out) && c.Out[i] != nil }

// Input returns input i, or nil if it is omitted.
func (c *Call) Input(i int) *Tensor {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// Int returns an integer attribute, or its default.
func (c *Call) Int(name string, otherwise int) int {
	return int(attr.Int(c.Node, name, int64(otherwise)))
}

// Float returns a float attribute, or its default.
func (c *Call) Float(name string, otherwise float32) float32 {
	return attr.Float(c.Node, name, otherwise)
}

// Str returns a string attribute, or its default.
func (c *Call) Str(name, otherwise string) string {
	return attr.String(c.Node, name, otherwise)
}

// Ints returns a list attribute, or nil if the node does not have it.
func (c *Call) Ints(name string) []int {
	if list := attr.Ints(c.Node, name); list != nil || c.Node.Attr(name) != nil {
		return toInts(list)
	}
	return nil
}

func toInts(list []int64) []int {
	out := make([]int, len(list))
	for i, v := range list {
		out[i] = int(v)
	}
	return out
}

// mostList bounds the length of the lists that kernels read when they are prepared:
// axes, lengths, pads, scales.
const mostList = 1 << 16

func tooLong(i int, t *Tensor) error {
	return fmt.Errorf("input %d has %d elements, expected a list of at most %d", i, t.Len(), mostList)
}

// Value returns the elements of integer input i, or nil if it is omitted. It fails
// with ErrDataDependent if they have not been computed.
func (c *Call) Value(i int) ([]int, error) {
	t := c.Input(i)
	if t == nil {
		return nil, nil
	}
	if t.Len() > mostList {
		return nil, tooLong(i, t)
	}
	if t.Const || c.Runtime.Live() {
		return readInts(t)
	}
	if list, ok := c.Runtime.Known(i); ok {
		return toInts(list), nil
	}
	return nil, ErrDataDependent
}

// ListOr returns a list that is an attribute in old opsets and input i in new ones,
// or nil if it is neither.
func (c *Call) ListOr(attr string, i int) ([]int, error) {
	if list := c.Ints(attr); list != nil {
		return list, nil
	}
	return c.Value(i)
}

// readInts reads an integer or bool tensor.
func readInts(t *Tensor) ([]int, error) {
	out := make([]int, t.Len())
	switch t.Type {
	case graph.Int64, graph.Uint64:
		for i, v := range Elements[int64](t) {
			out[i] = int(v)
		}
	case graph.Int32:
		for i, v := range Elements[int32](t) {
			out[i] = int(v)
		}
	case graph.Uint32:
		for i, v := range Elements[uint32](t) {
			out[i] = int(v)
		}
	case graph.Int16:
		for i, v := range Elements[int16](t) {
			out[i] = int(v)
		}
	case graph.Uint16:
		for i, v := range Elements[uint16](t) {
			out[i] = int(v)
		}
	case graph.Int8:
		for i, v := range Elements[int8](t) {
			out[i] = int(v)
		}
	case graph.Uint8, graph.Bool:
		for i, v := range Elements[uint8](t) {
			out[i] = int(v)
		}
	default:
		return nil, fmt.Errorf("%v, expected an integer type", t.Type)
	}
	return out, nil
}

// Real returns the element of the scalar floating-point input i, or otherwise if it is
// omitted. It fails with ErrDataDependent if it has not been computed.
func (c *Call) Real(i int, otherwise float64) (float64, error) {
	list, err := c.Reals(i)
	switch {
	case err != nil || len(list) == 0:
		return otherwise, err
	}
	return list[0], nil
}

// Reals returns the elements of floating-point input i, or nil if it is omitted. It
// fails with ErrDataDependent if they have not been computed.
func (c *Call) Reals(i int) ([]float64, error) {
	t := c.Input(i)
	if t == nil {
		return nil, nil
	}
	if c.Narrow != nil {
		t = c.Narrow.In[i]
	}
	if !t.Const && !c.Runtime.Live() {
		return nil, ErrDataDependent
	}
	if t.Len() > mostList {
		return nil, tooLong(i, t)
	}
	out := make([]float64, t.Len())
	get, ok := Reader(t.Type)
	if !ok {
		return nil, fmt.Errorf("%v, expected a number type", t.Type)
	}
	for k := range out {
		out[k] = get(t.At, k)
	}
	return out, nil
}

// ErrUnsupported is the error of an operator that has a kernel, but none for the
// dtypes or attributes of a node.
var ErrUnsupported = errors.New("no kernel")

// Unsupported returns the error for a dtype without a kernel.
func Unsupported(d graph.DType) error { return fmt.Errorf("%w for dtype %v", ErrUnsupported, d) }

// Unsupportedf returns an ErrUnsupported for the attributes or inputs that the format
// describes.
func Unsupportedf(format string, args ...any) error {
	return fmt.Errorf("%w for "+format, append([]any{ErrUnsupported}, args...)...)
}

// Axis returns the attribute axis, or its default, in [0, rank).
func (c *Call) Axis(otherwise, rank int) (int, error) {
	return attr.Axis("axis", int64(c.Int("axis", otherwise)), rank)
}

// Number returns the element of a scalar input at run time.
func (c *Call) Number(i int) float64 {
	t := c.In[i]
	if c.Narrow != nil {
		t = c.Narrow.In[i]
	}
	get, _ := Reader(t.Type)
	return get(t.At, 0)
}

// Strings returns a list of strings, or nil.
func (c *Call) Strings(name string) []string {
	if a := c.Node.Attr(name); a != nil {
		return a.Strings
	}
	return nil
}
