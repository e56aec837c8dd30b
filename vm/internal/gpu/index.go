package gpu

import (
	"math/bits"
	"strconv"

	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// most is the largest number of elements and the largest offset, in elements, that the
// kernels that move elements can count.
const most = 1<<31 - 1

// mostAxes is the largest number of axes of such a kernel, after merging.
const mostAxes = 8

// unitOf names the type that moves elements of a width in bytes.
var unitOf = map[int]string{1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "u128"}

// widthOf returns the bytes of an element, whatever its dtype.
func widthOf(t *form.Tensor) (int, error) {
	width := form.ElementBits(t.Type) / 8
	if unitOf[width] == "" {
		return 0, unsupportedf("dtype %v", t.Type)
	}
	return width, nil
}

// divider is a Divider of index.cuh: a division by n, from 1 to 2^31 - 1.
func divider(n int) []int {
	shift := bits.Len(uint(n - 1))
	return []int{n, (1<<(31+shift) + n - 1) / n, shift}
}

// axesOf is an Axes of index.cuh with as many axes as rank, which is at least as large
// as the length of the lists.
func axesOf(rank int, shape, from, to []int) []int {
	var over, x, y []int
	for range rank - len(shape) {
		over, x, y = append(over, divider(1)...), append(x, 0), append(y, 0)
	}
	for _, n := range shape {
		over = append(over, divider(n)...)
	}
	return append(append(over, append(x, from...)...), append(y, to...)...)
}

// axesFor returns the Axes for a copy with merged axes, and the suffix of the kernels
// that take as many.
func axesFor(m *form.Move) (suffix string, axes any, err error) {
	if len(m.Shape) > mostAxes {
		return "", nil, unsupportedf("%d axes, more than %d", len(m.Shape), mostAxes)
	}
	rank := max(2, len(m.Shape))
	if rank > 4 {
		rank = mostAxes
	}
	return strconv.Itoa(rank), unsigned(axesOf(rank, m.Shape, m.From, m.To), 4), nil
}

// stridesOf returns the strides of a dense tensor, in elements.
func stridesOf(shape []int) []int {
	strides, step := make([]int, len(shape)), 1
	for a := len(shape) - 1; a >= 0; a-- {
		strides[a] = step
		step *= shape[a]
	}
	return strides
}
