package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// topLines is Lines of kernels/topk.cu.
type topLines struct{ N, Step, Parts, Span int32 }

// topRoom is the shared memory for the keys of a line, in bytes: as much as a kernel may
// have without asking the driver, in a power of two.
const topRoom = 32 << 10

// makeTopK finds the k largest or smallest elements of each line, in order, and their
// places. Equal elements keep their order, and NaN is larger than all numbers, as on the
// host. Lines of up to 4,096 elements (2,048 of 64 bits) are sorted; of longer ones up to
// half as many are found.
func makeTopK(n *Node) error {
	x, y := n.In[0], n.Out[0]
	if !isNumber(x.Type) {
		return unsupportedf("dtype %v", x.Type)
	}
	if err := needTypes(x.Type, y); err != nil {
		return err
	}
	if err := tooLarge(x); err != nil {
		return err
	}
	axis, err := n.axis(-1, len(x.Shape))
	if err != nil {
		return err
	}
	length, k, step := x.Shape[axis], y.Shape[axis], count(x.Shape[axis+1:])
	if y.Len() == 0 {
		return nil
	}
	width := 8 // bytes of a key
	if form.ElementBits(x.Type) == 64 {
		width = 16
	}
	room := topRoom / width
	if k > length || length > room && k > room/2 {
		return unsupportedf("the first %d of %d elements", k, length)
	}
	lines, parts := x.Len()/length, 1
	if length > room { // few long lines are shared out to the device's processors
		parts = max(1, min(length/(4*room), 2*multiprocessors/lines))
	}
	s := topLines{int32(length), int32(step), int32(parts), int32((length + parts - 1) / parts)}
	at, err := n.addresses(y, n.output(1), x)
	if err != nil {
		return err
	}
	launch := func(name string, blocks, keys int, params ...any) error {
		size := atLeast(keys, room)
		threads := max(32, min(threadsPerBlock, size/2))
		f := n.kernel("topk.cu", name, "ELEMENT="+cType[x.Type])
		return n.launch3(f, driver.Dim3{X: uint32(blocks), Y: 1, Z: 1}, driver.Dim3{X: uint32(threads), Y: 1, Z: 1}, size*width, append(params, int32(size))...)
	}
	largest := int32(0)
	if n.Int("largest", 1) != 0 {
		largest = 1
	}
	var keys any = driver.Ptr(0)
	if parts > 1 {
		keys = n.scratch(int64(lines * parts * k * width))
	}
	if err := launch("top", lines*parts, length, at[0], at[1], keys, at[2], s, int32(k), largest); err != nil || parts == 1 {
		return err
	}
	return launch("join", lines, parts*k, at[0], at[1], keys, at[2], s, int32(k))
}
