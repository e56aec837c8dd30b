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
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// span returns n elements, beginning at address at.
func span[T any](at unsafe.Pointer, n int) []T { return unsafe.Slice((*T)(at), n) }

// raw returns the bytes of t.
func raw(t *Tensor) []byte { return unsafe.Slice((*byte)(t.At), t.Bytes()) }

// Kernel runs one operator, in all its opset versions.
type Kernel struct {
	Name string
	// Make returns the function that runs a node. It fails with ErrDataDependent if it
	// needs the elements of an input that has not been computed. It is then called
	// again at every step, right before the node runs.
	Make func(c *Invocation) (Run, error)
	// Real is the function of one real that a node computes for each element. Make follows
	// from it, and Finish if package ops has the column Activation for the operator.
	Real func(c *Invocation) function
	// Finds is set if only the kernel can find the shape of an output, when it runs
	// (Runtime.Resize). For other kernels the shapes follow from the inputs.
	Finds bool
	// Half is set if the kernel handles float16 and bfloat16 tensors itself.
	Half bool
	// Narrow returns the function that runs a node with float16 or bfloat16 tensors, with the bits
	// that Make has between two conversions, or nil for those that it does not take. It is not
	// asked if Half is set.
	Narrow func(c *Invocation) Run
	// Moves is set if the kernel only moves elements by their addresses, whatever they are;
	// elements that share a byte then get one each for it.
	Moves bool
	// Alike is set if all elements of the output are FillElement.
	Alike bool
	// Fuses is set if the kernel can apply the activation that follows
	// (Invocation.Then).
	Fuses bool
	// Finish returns a float32 activation of this kind in the form that other kernels
	// can apply, or nil if it has none. Its parameters must be constants.
	Finish func(c *Invocation) *Finish
	// Blocks tells how the kernel can read and write images in NCHW16c (form.NCHW16c); nil:
	// not at all.
	Blocks func(c *Invocation) BlockForm
	// Across is set if an operation on quantized images in NHWC (form.NHWC) also takes an
	// image and a number for each channel.
	Across bool
	// Link says how a chain of elementwise nodes computes the operator; nil: no chain has it.
	Link *Link
	// Row is d = a op b, element by element, of a binary operation on float32.
	Row   func(d, a, b []float32)
	sides func(c *Invocation) *product // of a product of matrices: its operands; nil if they are wrong
	sum   *reduction                   // what SumOfProduct computes
	// Op is the operation of Row, if vectors compute it between numbers of 16 bits at once.
	Op simd.Operation
}

// Invocation is a node that the host runs.
type Invocation struct {
	form.Call

	// Residual is added to output 0 before the activation that follows, in the layout of the
	// output; nil: nothing. See AddsResidual.
	Residual *Tensor

	// Then is the activation that follows, if it overwrites output 0 in place and is
	// its only reader; else nil. Prepare sets Taken if the kernel applies it.
	Then  *Finish
	Taken bool

	// Workers is how many goroutines run the parts of the kernel; 0: unknown. It decides how
	// the work is cut, never a result.
	Workers int

	// Packed lists the constant inputs that the kernel has packed, and so does not
	// read when it runs.
	Packed []*Tensor

	// SharedBytes and EachBytes are the scratch that the kernel asked for in Prepare:
	// shared by all workers, and for each worker.
	SharedBytes, EachBytes int
	// Walls, if not nil, separates the parts of the scratch.
	Walls *Walls

	added *Tensor // of output 0's shape: a convolution adds it before the activation
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
