package gpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() { cases = append(cases, arithmeticCases...) }

// float32s is for operators that treat the other dtypes as those that cases cover.
var float32s = []graph.DType{graph.Float32}

var arithmeticCases = []nodeCase{
	// Four elements at once, a rest, and each way to find a broadcast operand.
	{op: "Add", in: args(noise(4096), noise(4096)), types: float32s},
	{op: "Add", in: args(noise(3), noise(3)), types: float32s},
	{op: "Add", in: args(noise(6, 8), noise(8)), types: float32s},
	{op: "Add", in: args(noise(2, 3, 4, 4), noise(3, 1, 1)), types: float32s},
	{op: "Add", in: args(noise(2, 3, 7, 7), noise(3, 1, 1)), types: float32s},
	{op: "Add", in: args(noise(3, 1, 5, 1), noise(1, 4, 1, 6)), types: float32s},
	{op: "Add", in: args(noise(3, 1, 5, 1), noise(1, 4, 1, 8)), types: float32s},
	{op: "Add", in: args(noise(2, 1, 3, 1, 2, 1), noise(1, 3, 1, 2, 1, 5)), types: float32s},
	{op: "Add", in: args(noise(5), noise()), types: allReals},
	{op: "Add", in: args(noise(), noise()), types: allReals},

	{op: "Sub", in: args(wholes(graph.Uint8, 0, 256, 333), wholes(graph.Uint8, 0, 256, 333))},
	{op: "Mul", in: args(wholes(graph.Int16, -180, 180, 333), wholes(graph.Int16, -180, 180, 333))},
	{op: "Div", in: args(wholes(graph.Int8, -128, 128, 333), wholes(graph.Int8, 1, 4, 333))},

	{op: "Sum", in: args(noise(5, 7), noise(7), noise(5, 1), noise()), types: allReals},
	{op: "Sum", in: args(noise(5, 7)), types: float32s},
	{op: "Mean", in: args(noise(5, 7), noise(7), noise(5, 1))},
	{op: "Min", in: args(noise(5, 7), noise(7), noise(5, 1))},
	{op: "Max", in: args(noise(5, 7), noise(7), noise(5, 1))},
	{op: "Max", in: args(wholes(graph.Uint32, 0, 90, 33), wholes(graph.Uint32, 0, 90, 33))},
	{op: "Min", in: args(wholes(graph.Int64, -90, 90, 33), wholes(graph.Int64, -90, 90, 33))},

	{op: "Mod", in: args(wholes(graph.Int32, -90, 90, 333), wholes(graph.Int32, 1, 9, 333))},
	{op: "Mod", in: args(wholes(graph.Int8, -90, 90, 333), wholes(graph.Int8, -9, 0, 333))},
	{op: "Mod", attrs: attrs(whole("fmod", 1)), in: args(wholes(graph.Int64, -90, 90, 333), wholes(graph.Int64, -9, 0, 333))},
	{op: "Mod", attrs: attrs(whole("fmod", 1)), in: args(noise(333), positive(333)), types: []graph.DType{graph.Float32, graph.Float64}},
	{op: "Pow", in: args(positive(333), noise(333)), types: allReals},
	{op: "Pow", in: args(noise(333), scalar(2)), types: float32s},
	{op: "Pow", in: args(noise(333), scalar(3)), types: float32s},
	{op: "Pow", in: args(positive(333), wholes(graph.Int64, -3, 9, 333)), types: float32s},
	{op: "Pow", in: args(wholes(graph.Int64, -9, 9, 333), wholes(graph.Int64, 0, 9, 333))},
	{op: "Pow", in: args(wholes(graph.Int32, -9, 9, 333), wholes(graph.Uint8, 0, 9, 333))},
	{op: "Pow", in: args(wholes(graph.Int32, 1, 9, 333), noise(333)), types: float32s},

	{op: "Abs", in: args(noise(333)), types: allReals},
	{op: "Abs", in: args(wholes(graph.Int8, -128, 128, 333))},
	{op: "Abs", in: args(wholes(graph.Uint16, 0, 90, 333))},
	{op: "Neg", in: args(noise(333)), types: float32s},
	{op: "Neg", in: args(wholes(graph.Int64, -90, 90, 333))},
	{op: "Sign", in: args(noise(333)), types: float32s},
	{op: "Sign", in: args(wholes(graph.Int32, -2, 3, 33))},
	{op: "Floor", in: args(noise(333)), types: float32s},
	{op: "Ceil", in: args(noise(333)), types: float32s},
	{op: "Round", in: args(halves(333)), types: allReals},
	{op: "Sqrt", in: args(positive(333)), types: allReals},
	{op: "Reciprocal", in: args(positive(333))},
	{op: "Exp", in: args(noise(333)), types: allReals},
	{op: "Log", in: args(positive(333)), types: float32s},
	{op: "Erf", in: args(noise(333)), types: float32s},
	{op: "Sin", in: args(noise(333)), types: float32s},
	{op: "Cos", in: args(noise(333)), types: float32s},
	{op: "Tan", in: args(positive(333)), types: float32s},
	{op: "Asin", in: args(unit(333)), types: float32s},
	{op: "Acos", in: args(unit(333)), types: float32s},
	{op: "Atan", in: args(noise(333)), types: float32s},
	{op: "Sinh", in: args(noise(333)), types: float32s},
	{op: "Cosh", in: args(noise(333)), types: float32s},
	{op: "Asinh", in: args(noise(333)), types: float32s},
	{op: "Acosh", in: args(reference.Reals([]int{5}, 1, 1.25, 1.5, 3, 900)), types: float32s},
	{op: "Atanh", in: args(unit(333)), types: float32s},
}

// unit returns reals in [-1, 1).
func unit(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] /= 2
	}
	return t
}

// halves returns multiples of a half in [-8, 8).
func halves(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] = math.Floor(8*t.F[i]) / 2
	}
	return t
}

// odd returns NaN, both infinities and numbers.
func odd() *reference.Tensor {
	return reference.Reals([]int{7}, math.NaN(), 1, math.Inf(1), 0, math.Inf(-1), -2, 0.5)
}

// whole0 returns an integer without axes.
func whole0(d graph.DType, v int64) *reference.Tensor {
	return &reference.Tensor{Type: d, Shape: []int{}, I: []int64{v}}
}

// TestWideIndices: tensors of 2³¹ elements and more have kernels of their own, which this
// runs on small ones.
func TestWideIndices(t *testing.T) {
	defer func(n int) { narrowIndices = n }(narrowIndices)
	narrowIndices = 0
	b := newBench(t)
	var list []*prepared
	for i := range arithmeticCases[:8] {
		list = append(list, b.prepare(&arithmeticCases[i], graph.Float32))
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for i, p := range list {
		t.Run(fmt.Sprintf("%d-%s", i, p.c.op), func(t *testing.T) { b.check(t, p) })
	}
	b.t = t
}
