// Package kernel is what operators do on the host: one file per family of
// operators, named as in package ops, and one table entry (Kernel) per operator.
//
// A kernel is prepared once for the shapes, dtypes and attributes of a node: it
// checks them, chooses how to compute, and says how much scratch it wants. What
// it returns is run at every step. Kernels know tensors by dtype, shape and
// address; they keep no Go slice of a tensor from one run to the next, since the
// addresses may change. A kernel allocates nothing when it runs.
//
// Where an output may be written over an input (ops.Op.Inplace), the two have
// one address; a view has the address of what it views.
package kernel

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Tensor is a value as kernels see it.
type Tensor struct {
	Type  graph.DType
	Shape []int          // nil: not known before its maker has run
	At    unsafe.Pointer // of the first element; dense, row by row
	Const bool           // the elements never change, and are there from the start
	Made  any            // of a constant that a node made: what it is known by
}

// Len is the number of elements.
func (t *Tensor) Len() int { return count(t.Shape) }

// Bytes is the size of the elements; packed types are rounded up.
func (t *Tensor) Bytes() int { return (t.Len()*int(t.Type.Bits()) + 7) / 8 }

// width is the size of an element in bytes.
func (t *Tensor) width() int { return int(t.Type.Bits() / 8) }

// rank is the number of axes.
func (t *Tensor) rank() int { return len(t.Shape) }

// TypeError says that the elements of a tensor are smaller than those that an
// operator is defined for. A model can say so where nothing infers its types.
type TypeError struct {
	Type graph.DType
	Want string
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("an input or output is of dtype %v, expected %s", e.Type, e.Want)
}

// data is the elements of t. The slice must not outlive the run. It panics with
// a *TypeError where it would reach beyond the tensor.
func data[T any](t *Tensor) []T {
	var zero T
	if n := t.Type.Bits(); n >= 8 && int(unsafe.Sizeof(zero)) > int(n/8) {
		panic(&TypeError{t.Type, fmt.Sprintf("%T", zero)})
	}
	return unsafe.Slice((*T)(t.At), t.Len())
}

// span is n elements from address at on.
func span[T any](at unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(at), n) }

// raw is the bytes of t.
func raw(t *Tensor) []byte { return unsafe.Slice((*byte)(t.At), t.Bytes()) }

func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Kernel is how one operator runs, in all its opset versions.
type Kernel struct {
	Name string
	// Make makes the function that runs a node. It fails with ErrDataDependent when it
	// needs the elements of an input that is not computed yet. It is then called
	// again at every step, right before the node runs.
	Make func(c *Invocation) (Run, error)
	// Finds: it finds the shape of its output when it runs (Runtime.Resize), where
	// that does not follow from the inputs. Those of others are known before.
	Finds bool
	// Half: it knows float16 and bfloat16 tensors by itself.
	Half bool
	// Fuses: it can do an activation that follows, too (Invocation.Then).
	Fuses bool
	// Finish makes the form in which another kernel does the work of a float32
	// node of this kind; nil where it has none. Bounds and the like must be
	// known before.
	Finish func(c *Invocation) *Finish
}

// Run computes the outputs of a node.
type Run func(w *work.Pool) error

// ErrDataDependent says that a kernel cannot be prepared before its inputs have been
// computed.
var ErrDataDependent = errors.New("depends on data")

// Runtime is what a call asks of the session that it belongs to.
type Runtime interface {
	// Known gives the elements of integer input i where they are the same in
	// every run.
	Known(i int) ([]int64, bool)
	// Live reports whether the elements of all inputs are there.
	Live() bool
	// Resize gives output i its shape, where that depends on data.
	Resize(i int, shape []int) error
	// Pack gives a constant in another form, of so many bytes, which fill
	// writes when it is asked for the first time. It fails where memory beside
	// the plan's is not wanted.
	Pack(k PackKey, bytes int, fill func(dst unsafe.Pointer)) (at unsafe.Pointer, ok bool)
	// Seed is a number that differs from node to node and from step to step.
	Seed() uint64
	// Stopping reports whether the run is to end: the kernel's results are not
	// used then.
	Stopping() bool
	// Heap counts so many more bytes that the kernel is about to take from Go's
	// heap, to keep them until it is prepared again. It fails where memory is
	// limited to less.
	Heap(bytes int64) error
	// Table gives memory for numbers that the kernel keeps until it is prepared
	// again, beside Go's heap; what is in it is not said. It fails as Heap does.
	Table(bytes int64) (unsafe.Pointer, error)
}

// PackKey says what was packed and how.
type PackKey struct {
	At         unsafe.Pointer // of the constant's elements; nil if it was made
	Made       any            // as in Tensor
	Off        int            // of its first element
	Type       graph.DType    // of theirs: constants may share bytes of a file
	Zeros      unsafe.Pointer // of the zero points of quantized ones
	ZeroLen    int            // and how many there are: they may share bytes, too
	Right      bool           // the right side of a product
	Len, K     int            // rows of A or columns of B; its depth
	Step, Deep int            // as in gemm.Dense
}

// Invocation is one node with its tensors.
type Invocation struct {
	Node    *graph.Node
	Version int64     // of the operator's domain, as the model imports it
	In, Out []*Tensor // nil where left out
	Runtime Runtime

	// Then is the activation that follows, where it overwrites output 0 and
	// nobody else reads that; nil if there is none. Taken says, after Prepare,
	// that the kernel does its work.
	Then  *Finish
	Taken bool

	// Packed are the inputs, constants, that the kernel does not read when it
	// runs: it has them in another form.
	Packed []*Tensor

	// Scratch in bytes, as the kernel asked for it in Prepare.
	SharedBytes, EachBytes int
	// Walls, where it is not nil, keeps the parts of scratch apart.
	Walls *Walls

	narrow []*Tensor // the inputs as they are, where In has them in float32
}

// Has reports whether input i is there.
func (c *Invocation) Has(i int) bool { return i < len(c.In) && c.In[i] != nil }

// HasOut reports whether output i is wanted.
func (c *Invocation) HasOut(i int) bool { return i < len(c.Out) && c.Out[i] != nil }

// in is input i, nil when it is left out.
func (c *Invocation) in(i int) *Tensor {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// Int is an integer attribute, or its default.
func (c *Invocation) Int(name string, otherwise int) int {
	if a := c.Node.Attr(name); a != nil {
		return int(a.Int)
	}
	return otherwise
}

// Float is a float attribute, or its default.
func (c *Invocation) Float(name string, otherwise float32) float32 {
	if a := c.Node.Attr(name); a != nil {
		return a.Float
	}
	return otherwise
}

// Str is a string attribute, or its default.
func (c *Invocation) Str(name, otherwise string) string {
	if a := c.Node.Attr(name); a != nil {
		return a.String
	}
	return otherwise
}

// Ints is a list attribute, nil if it is not there.
func (c *Invocation) Ints(name string) []int {
	a := c.Node.Attr(name)
	if a == nil {
		return nil
	}
	return toInts(a.Ints)
}

func toInts(list []int64) []int {
	out := make([]int, len(list))
	for i, v := range list {
		out[i] = int(v)
	}
	return out
}

// mostList bounds the lists that kernels read when they are prepared: of axes,
// lengths, pads, scales. One with more elements is not one of those.
const mostList = 1 << 16

func tooLong(i int, t *Tensor) error {
	return fmt.Errorf("input %d has %d elements, expected a list of at most %d", i, t.Len(), mostList)
}

// Value gives the elements of integer input i; nil if it is left out. It fails
// with ErrDataDependent when they are not there yet.
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

// ListOr gives a list that is an attribute in old opsets and input i in new
// ones; nil if it is neither.
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

// Real gives the one element of floating-point input i, or otherwise when it is
// left out. It fails with ErrDataDependent when it is not there yet.
func (c *Invocation) Real(i int, otherwise float64) (float64, error) {
	list, err := c.Reals(i)
	switch {
	case err != nil || len(list) == 0:
		return otherwise, err
	}
	return list[0], nil
}

// Reals gives the elements of a floating-point input, nil when it is left out.
// It fails with ErrDataDependent when they are not there yet.
func (c *Invocation) Reals(i int) ([]float64, error) {
	t := c.in(i)
	if t == nil {
		return nil, nil
	}
	if c.narrow != nil {
		t = c.narrow[i]
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

// Shared asks for n bytes that all parts of the kernel see, and gives their
// offset for work.Pool.Shared.
func (c *Invocation) Shared(n int) (off int) {
	if c.Walls != nil {
		return c.Walls.reserve(&c.SharedBytes, &c.Walls.Shared, n)
	}
	return reserve(&c.SharedBytes, n)
}

// Each asks for n bytes for each worker, and gives their offset for
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

// Walls lays the parts of scratch out so that each has pages of its own with a
// page behind them, which a session makes inaccessible. It is shared by a call
// and those that are made out of it.
type Walls struct {
	Page  int  // bytes of a page
	Front bool // a part begins where its pages begin; else it ends where they end
	// Shared and Each are the bytes of the parts that were asked for.
	Shared, Each []int
}

// Pages is how many pages a part of n bytes has; there is at least one.
func (w *Walls) Pages(n int) int { return max(1, (n+w.Page-1)/w.Page) }

// Reset forgets the parts.
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

// ErrUnsupported says that an operator has a kernel, but none for the dtypes or
// attributes of a node.
var ErrUnsupported = errors.New("no kernel")

// unsupported says that there is no kernel for the dtype of a tensor.
func unsupported(d graph.DType) error { return fmt.Errorf("%w for dtype %v", ErrUnsupported, d) }

// unsupportedf says that there is no kernel for what follows.
func unsupportedf(format string, args ...any) error {
	return fmt.Errorf("%w for "+format, append([]any{ErrUnsupported}, args...)...)
}

// axis brings an axis into [0, rank).
func axis(k, rank int) (int, error) {
	if k < -rank || k >= rank {
		return 0, fmt.Errorf("axis is %d, expected one of [%d, %d)", k, -rank, rank)
	}
	if k < 0 {
		k += rank
	}
	return k, nil
}

// Integers gives the elements of an integer or bool tensor.
func (t *Tensor) Integers() ([]int, bool) {
	list, err := readInts(t)
	return list, err == nil
}

// Reals gives the elements of a tensor of numbers.
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

// number is the one element of an input of numbers, while it runs.
func (c *Invocation) number(i int) float64 {
	t := c.In[i]
	if c.narrow != nil {
		t = c.narrow[i]
	}
	get, _ := reader(t.Type)
	return get(t.At, 0)
}

// Fill sets all elements of a tensor of numbers to x.
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
