// Package kernel runs operators on the host. It has one file per family of
// operators, named as in package ops, and one table entry (Kernel) per operator.
//
// A kernel is prepared once for the shapes, dtypes and attributes of a node: it
// checks them, chooses an algorithm, and declares its scratch. The Run function that
// it returns is called at every step. Kernels know tensors by dtype, shape and
// address. They keep no Go slice of a tensor from one run to the next, since the
// address may change. A kernel allocates nothing when it runs.
//
// An output that is computed in place (ops.Op.Inplace) has the address of the input
// that it overwrites, and a view the address of the tensor that it views.
package kernel

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/work"
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
	// Pixels says that the session holds the image in NHWC, while the operators around the
	// tensor see NCHW, as in Shape.
	Pixels bool
	// Blocks says that the session holds the image in NCHW16c: that of shape [N, C, H, W] as
	// [N, C/BlockLen, H, W, BlockLen] (gemm.BlockLen), while the operators around the tensor
	// see NCHW, as in Shape. C is a multiple of BlockLen.
	Blocks bool
	// Planes is not 0 if the operators around the tensor see NCHWc with blocks of so many
	// channels (attr.Nchwc), and the session holds the image in NCHW.
	Planes int
	Made   any // identifies a constant that a node computed; else nil
}

// Fixed reports whether nothing but constants goes into the elements: the tensor is one, or
// computed from some. A kernel that has several orders of the terms of a sum may choose by
// Fixed, which a model determines. It may not choose by Const, which depends on what is
// folded, packed or shared: so would the bits of the result.
func (t *Tensor) Fixed() bool { return t.Const || t.Computed }

// Len is the number of elements.
func (t *Tensor) Len() int { return count(t.Shape) }

// Bytes is the size of the elements; packed types are rounded up.
func (t *Tensor) Bytes() int { return (t.Len()*ElementBits(t.Type) + 7) / 8 }

// width is the size of an element in bytes.
func (t *Tensor) width() int { return ElementBits(t.Type) / 8 }

// ElementBits is the size of an element in bits. A string is a number of 64 bits that
// the session translates (Runtime.Text), so that the kernels that move elements move
// strings, too. Equal strings have equal numbers, and the empty string is 0.
func ElementBits(d graph.DType) int {
	if d == graph.String {
		return 64
	}
	return int(d.Bits())
}

// rank is the number of axes.
func (t *Tensor) rank() int { return len(t.Shape) }

// TypeError reports a tensor whose elements are smaller than the operator's dtype. A
// model can declare such a tensor if no type inference contradicts it.
type TypeError struct {
	Type graph.DType
	Want string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("an input or output is of dtype %v, expected %s", e.Type, e.Want)
}

// data returns the elements of t. The slice must not outlive the run. It panics with a
// *TypeError if the slice would reach beyond the tensor.
func data[T any](t *Tensor) []T {
	var zero T
	if n := ElementBits(t.Type); n >= 8 && int(unsafe.Sizeof(zero)) > n/8 {
		panic(&TypeError{t.Type, fmt.Sprintf("%T", zero)})
	}
	return unsafe.Slice((*T)(t.At), t.Len())
}

// span returns n elements, beginning at address at.
func span[T any](at unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(at), n) }

// raw returns the bytes of t.
func raw(t *Tensor) []byte { return unsafe.Slice((*byte)(t.At), t.Bytes()) }

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Kernel runs one operator, in all its opset versions.
type Kernel struct {
	Name string
	// Make returns the function that runs a node. It fails with ErrDataDependent if it
	// needs the elements of an input that has not been computed. It is then called
	// again at every step, right before the node runs.
	Make func(c *Invocation) (Run, error)
	// Finds is set if only the kernel can find the shape of an output, when it runs
	// (Runtime.Resize). For other kernels the shapes follow from the inputs.
	Finds bool
	// Half is set if the kernel handles float16 and bfloat16 tensors itself.
	Half bool
	// Moves is set if the kernel only moves elements by their addresses, whatever they are;
	// elements that share a byte then get one each for it.
	Moves bool
	// Fuses is set if the kernel can apply the activation that follows
	// (Invocation.Then).
	Fuses bool
	// Finish returns a float32 activation of this kind in the form that other kernels
	// can apply, or nil if it has none. Its parameters must be constants.
	Finish func(c *Invocation) *Finish
	// Blocks tells how the kernel can read and write images in NCHW16c (Tensor.Blocks); nil:
	// not at all.
	Blocks func(c *Invocation) BlockForm
	// Across is set if an operation on quantized images in NHWC (Tensor.Pixels) also takes an
	// image and a number for each channel.
	Across bool
	// Link says how a chain of elementwise nodes computes the operator; nil: no chain has it.
	Link *Link
	// Row is d = a op b, element by element, of a binary operation on float32.
	Row func(d, a, b []float32)
}

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
	Nibbles    int            // 1, 2, 3: numbers of 4 bits, their scales, their zero points
}

// Invocation is one node with its tensors.
type Invocation struct {
	Node    *graph.Node
	Version int64     // of the operator's domain, as the model imports it
	In, Out []*Tensor // nil for omitted ones
	Runtime Runtime

	// Residual is added to output 0 before the activation that follows, in the layout of the
	// output; nil: nothing. See AddsResidual.
	Residual *Tensor

	// Then is the activation that follows, if it overwrites output 0 in place and is
	// its only reader; else nil. Prepare sets Taken if the kernel applies it.
	Then  *Finish
	Taken bool
	// Block is the number of channels in a block of the graph's images (attr.NchwcBlock);
	// 0 if the graph does not tell.
	Block int32

	// Way says which algorithm computes the node, and what it computes at once: "implicit GEMM
	// 3x3, bias". Prepare sets it; "" if the operator has only one.
	Way string

	// Packed lists the constant inputs that the kernel has packed, and so does not
	// read when it runs.
	Packed []*Tensor

	// SharedBytes and EachBytes are the scratch that the kernel asked for in Prepare:
	// shared by all workers, and for each worker.
	SharedBytes, EachBytes int
	// Walls, if not nil, separates the parts of the scratch.
	Walls *Walls

	narrow *Invocation // with the 16-bit inputs, if In has them as float32; else nil
	added  *Tensor     // of output 0's shape: a convolution adds it before the activation
}

// Has reports whether input i is present.
func (c *Invocation) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// HasOut reports whether output i is present.
func (c *Invocation) HasOut(i int) bool { return i < len(c.Out) && c.Out[i] != nil }

// in returns input i, or nil if it is omitted.
func (c *Invocation) in(i int) *Tensor {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// Int returns an integer attribute, or its default.
func (c *Invocation) Int(name string, otherwise int) int {
	return int(attr.Int(c.Node, name, int64(otherwise)))
}

// Float returns a float attribute, or its default.
func (c *Invocation) Float(name string, otherwise float32) float32 {
	return attr.Float(c.Node, name, otherwise)
}

// Str returns a string attribute, or its default.
func (c *Invocation) Str(name, otherwise string) string {
	return attr.String(c.Node, name, otherwise)
}

// Ints returns a list attribute, or nil if the node does not have it.
func (c *Invocation) Ints(name string) []int {
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
func (c *Invocation) Value(i int) ([]int, error) {
	t := c.in(i)
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
func (c *Invocation) ListOr(attr string, i int) ([]int, error) {
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
		for i, v := range data[int64](t) {
			out[i] = int(v)
		}
	case graph.Int32:
		for i, v := range data[int32](t) {
			out[i] = int(v)
		}
	case graph.Uint32:
		for i, v := range data[uint32](t) {
			out[i] = int(v)
		}
	case graph.Int16:
		for i, v := range data[int16](t) {
			out[i] = int(v)
		}
	case graph.Uint16:
		for i, v := range data[uint16](t) {
			out[i] = int(v)
		}
	case graph.Int8:
		for i, v := range data[int8](t) {
			out[i] = int(v)
		}
	case graph.Uint8, graph.Bool:
		for i, v := range data[uint8](t) {
			out[i] = int(v)
		}
	default:
		return nil, fmt.Errorf("%v, expected an integer type", t.Type)
	}
	return out, nil
}

// Real returns the element of the scalar floating-point input i, or otherwise if it is
// omitted. It fails with ErrDataDependent if it has not been computed.
func (c *Invocation) Real(i int, otherwise float64) (float64, error) {
	list, err := c.Reals(i)
	switch {
	case err != nil || len(list) == 0:
		return otherwise, err
	}
	return list[0], nil
}

// Reals returns the elements of floating-point input i, or nil if it is omitted. It
// fails with ErrDataDependent if they have not been computed.
func (c *Invocation) Reals(i int) ([]float64, error) {
	t := c.in(i)
	if t == nil {
		return nil, nil
	}
	if c.narrow != nil {
		t = c.narrow.In[i]
	}
	if !t.Const && !c.Runtime.Live() {
		return nil, ErrDataDependent
	}
	if t.Len() > mostList {
		return nil, tooLong(i, t)
	}
	out := make([]float64, t.Len())
	get, ok := reader(t.Type)
	if !ok {
		return nil, fmt.Errorf("%v, expected a number type", t.Type)
	}
	for k := range out {
		out[k] = get(t.At, k)
	}
	return out, nil
}

// Shared asks for n bytes of scratch that all parts of the kernel share, and returns
// their offset for work.Pool.Shared.
func (c *Invocation) Shared(n int) (off int) {
	if c.Walls != nil {
		return c.Walls.reserve(&c.SharedBytes, &c.Walls.Shared, n)
	}
	return reserve(&c.SharedBytes, n)
}

// Each asks for n bytes of scratch for each worker, and returns their offset for
// work.Pool.Each.
func (c *Invocation) Each(n int) (off int) {
	if c.Walls != nil {
		return c.Walls.reserve(&c.EachBytes, &c.Walls.Each, n)
	}
	return reserve(&c.EachBytes, n)
}

func reserve(sum *int, n int) int {
	off := *sum
	*sum += (n + 63) &^ 63
	return off
}

// Walls lays out the parts of a kernel's scratch so that each has pages of its own,
// followed by a page that the session makes inaccessible. An invocation shares it
// with the inner invocations that its kernel makes.
type Walls struct {
	Page  int  // bytes of a page
	Front bool // a part begins where its pages begin; else it ends where they end
	// Shared and Each list the bytes of the parts that the kernel asked for.
	Shared, Each []int
}

// Pages returns the number of pages of a part of n bytes, which is at least 1.
func (w *Walls) Pages(n int) int { return max(1, (n+w.Page-1)/w.Page) }

// Reset discards the parts.
func (w *Walls) Reset() { w.Shared, w.Each = w.Shared[:0], w.Each[:0] }

func (w *Walls) reserve(sum *int, parts *[]int, n int) int {
	off, bytes := *sum, w.Pages(n)*w.Page
	*sum += bytes + w.Page
	*parts = append(*parts, n)
	if w.Front {
		return off
	}
	return off + bytes - n
}

// ErrUnsupported is the error of an operator that has a kernel, but none for the
// dtypes or attributes of a node.
var ErrUnsupported = errors.New("no kernel")

// unsupported returns the error for a dtype without a kernel.
func unsupported(d graph.DType) error { return fmt.Errorf("%w for dtype %v", ErrUnsupported, d) }

// unsupportedf returns an ErrUnsupported for the attributes or inputs that the format
// describes.
func unsupportedf(format string, args ...any) error {
	return fmt.Errorf("%w for "+format, append([]any{ErrUnsupported}, args...)...)
}

// axis returns the attribute axis, or its default, in [0, rank).
func (c *Invocation) axis(otherwise, rank int) (int, error) {
	return attr.Axis("axis", int64(c.Int("axis", otherwise)), rank)
}

// Integers returns the elements of an integer or bool tensor; false for other dtypes.
func (t *Tensor) Integers() ([]int, bool) {
	if _, whole := intReader(t.Type); !whole {
		return nil, false
	}
	list, err := readInts(t)
	return list, err == nil
}

// Reals returns the elements of a numeric tensor; false for other dtypes.
func (t *Tensor) Reals() ([]float64, bool) {
	get, ok := reader(t.Type)
	if !ok {
		return nil, false
	}
	out := make([]float64, t.Len())
	for i := range out {
		out[i] = get(t.At, i)
	}
	return out, true
}

// number returns the element of a scalar input at run time.
func (c *Invocation) number(i int) float64 {
	t := c.In[i]
	if c.narrow != nil {
		t = c.narrow.In[i]
	}
	get, _ := reader(t.Type)
	return get(t.At, 0)
}

// Fill sets all elements of a numeric tensor to x.
func (t *Tensor) Fill(x float64) error {
	set, ok := writer(t.Type)
	if !ok {
		return unsupported(t.Type)
	}
	for i := range t.Len() {
		set(t.At, i, x)
	}
	return nil
}

// Store sets the elements of a numeric tensor to reals, or, if reals is nil, to integers.
func Store(t *Tensor, reals []float64, integers []int64) error {
	set, ok := writer(t.Type)
	if !ok {
		return unsupported(t.Type)
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
