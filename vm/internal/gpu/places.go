package gpu

import (
	"math/bits"
	"slices"

	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// operandKind says how a kernel finds the element of an operand.
type operandKind int

const (
	flat    operandKind = iota // at the same index as that of the output
	single                     // it has one element
	strided                    // by strides along the axes of the output
)

// operand is an input of an expression in the shape of the outputs.
type operand struct {
	t       *form.Tensor
	kind    operandKind
	strides []int // along the expression's axes; that of the last axis is 0 or 1
}

// stridesIn returns the strides, in elements, of a tensor along the axes of a shape that
// it is broadcast to; 0 along axes that it is repeated along.
func stridesIn(from, to []int) []int {
	strides := make([]int, len(to))
	step := 1
	for i := len(from) - 1; i >= 0; i-- {
		if from[i] != 1 {
			strides[i+len(to)-len(from)] = step
		}
		step *= from[i]
	}
	return strides
}

// collapse merges neighbouring axes that all operands run through as through one, drops
// axes of length 1, and finds the kind of each operand.
func collapse(shape []int, list []operand) ([]int, []operand) {
	var axes []int
	merged := make([]operand, len(list))
	for i, o := range list {
		merged[i] = operand{t: o.t}
	}
	for a := len(shape) - 1; a >= 0; a-- {
		if shape[a] == 1 {
			continue
		}
		joins := len(axes) > 0
		for i, o := range list {
			joins = joins && o.strides[a] == merged[i].strides[0]*axes[0]
		}
		if joins {
			axes[0] *= shape[a]
			continue
		}
		axes = slices.Insert(axes, 0, shape[a])
		for i, o := range list {
			merged[i].strides = slices.Insert(merged[i].strides, 0, o.strides[a])
		}
	}
	if len(axes) == 0 {
		axes = []int{1}
		for i := range merged {
			merged[i].strides = []int{0}
		}
	}
	for i := range merged {
		merged[i].kind = kindOf(merged[i].strides, axes)
	}
	return axes, merged
}

// kindOf finds the kind of an operand.
func kindOf(strides, axes []int) operandKind {
	if !slices.ContainsFunc(strides, func(s int) bool { return s != 0 }) {
		return single
	}
	step := 1
	for a := len(axes) - 1; a >= 0; a-- {
		if strides[a] != step {
			return strided
		}
		step *= axes[a]
	}
	return flat
}

// divisor returns the numbers with which kernels divide a 32-bit number n < 2³¹ by d:
// n/d = (n·multiplier/2³² + n) / 2^shift (Granlund & Montgomery 1994, figure 4.1).
func divisor(d int) (multiplier, shift int) {
	shift = bits.Len(uint(d - 1))
	return (1<<shift-d)<<32/d + 1, shift
}
