package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// lineSet describes the lines of a tensor along an axis: the number of lines, the length
// of a line, and the distance of its elements. wide is set if a thread takes four
// neighbouring elements at once.
type lineSet struct {
	count, n, step int
	wide           bool
}

// inFours makes lines wide if their shape allows it. It does not look at addresses, since
// it decides the order of sums.
func (l lineSet) inFours() lineSet {
	l.wide = l.step == 1 && l.n%4 == 0 && l.n >= 32
	return l
}

// linesOf returns the lines along an axis; with rest, along that axis and all that
// follow. A scalar is a single line of one element.
func linesOf(shape []int, axis int, rest bool) lineSet {
	if len(shape) == 0 {
		return lineSet{count: 1, n: 1, step: 1}
	}
	l := lineSet{n: shape[axis], step: count(shape[axis+1:])}
	if rest {
		l.n, l.step = l.n*l.step, 1
	}
	l.count = count(shape[:axis]) * l.step
	return l
}

// lineParam is Lines of rows.cuh.
type lineParam struct {
	count                              int64
	n, step, kept, along, wide, packed int32
}

// keptBytes is the shared memory that a block takes for the elements of its lines. What
// a kernel may have without asking the driver is 48 KiB; reductions need some, too.
const keptBytes = 32 << 10

// team shares the lines out to blocks of threads. width is the size of an element that
// the kernel keeps in shared memory if a block's lines fit; 0 if it keeps none.
func (l lineSet) team(width int) (p lineParam, grid, block driver.Dim3, shared int, err error) {
	if l.count == 0 || l.n == 0 || l.n >= 1<<31-1<<20 || l.step >= 1<<31 {
		return p, grid, block, 0, unsupportedf("%d lines of %d elements, %d apart", l.count, l.n, l.step)
	}
	p = lineParam{count: int64(l.count), n: int32(l.n), step: int32(l.step)}
	x, y := 1, 1
	each := 0 // elements of each thread
	if l.step == 1 {
		p.along = 1
		unit := 1
		if l.wide {
			p.wide, unit = 1, 4
		}
		x = atLeast(l.n/unit, 32)
		if l.n > 1024 {
			x = 256
		}
		if l.n > 8192 {
			x = 1024
		}
		y = min(128/min(x, 128), max(32/min(x, 32), atLeast(l.count, 128))) // whole warps: lanes exchange values
		each = (l.n/unit + x - 1) / x * unit
		grid = driver.Dim3{X: uint32((l.count + y - 1) / y), Y: 1, Z: 1}
	} else {
		x = atLeast(l.count, 32)
		y = atLeast(l.n, 256/x)
		each = (l.n + y - 1) / y
		grid = driver.Dim3{X: uint32((l.count + x - 1) / x), Y: 1, Z: 1}
	}
	if bytes := each * x * y * width; bytes > 0 && bytes <= keptBytes {
		p.kept, shared = 1, bytes
	}
	return p, grid, driver.Dim3{X: uint32(x), Y: uint32(y), Z: 1}, shared, nil
}

// atLeast returns the smallest power of two that is at least n, or most if that is
// smaller.
func atLeast(n, most int) int {
	p := 1
	for p < n && p < most {
		p *= 2
	}
	return p
}

// launchTeams appends a launch of a kernel that works on lines, which are its parameter
// after the tensors; more follow. width is as in team.
func (n *Node) launchTeams(k cuda.Kernel, l lineSet, width int, tensors []*form.Tensor, more ...any) error {
	p, grid, block, shared, err := l.team(width)
	if err != nil {
		return err
	}
	at, err := n.addresses(tensors...)
	if err != nil {
		return err
	}
	var params []any
	p.packed = p.wide
	for _, a := range at {
		if a%16 != 0 {
			p.packed = 0
		}
		params = append(params, a)
	}
	return n.launch3(k, grid, block, shared, append(append(params, p), more...)...)
}

// computeBytes is the size of the type in which kernels compute with a tensor's
// elements.
func computeBytes(t *form.Tensor) int { return max(4, form.ElementBits(t.Type)/8) }

// count is the number of elements of a shape.
func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
