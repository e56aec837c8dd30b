package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// wave returns fixed float32 numbers in [-2, 2] that do not repeat.
func wave(shape ...int) *reference.Tensor {
	list := make([]float64, count(shape))
	for i := range list {
		list[i] = float64(float32(2 * math.Sin(float64(i)*1.7+float64(len(list)))))
	}
	return reference.Reals(shape, list...)
}

// spoilt is a wave with an infinite number at a corner of each image, which few taps read.
func spoilt(shape ...int) *reference.Tensor {
	t := wave(shape...)
	for i := 0; i < len(t.F); i += len(t.F) / shape[1] {
		t.F[i] = math.Inf(1)
	}
	return t
}

// few returns a wave of whole numbers, many of which are equal.
func few(shape ...int) *reference.Tensor {
	t := wave(shape...)
	for i := range t.F {
		t.F[i] = math.Round(t.F[i])
	}
	return t
}

// lost returns whole numbers of which the first third are -∞.
func lost(shape ...int) *reference.Tensor {
	t := few(shape...)
	for i := range len(t.F) / 3 {
		t.F[i] = math.Inf(-1)
	}
	return t
}

// sometimes returns truth values.
func sometimes(shape ...int) *reference.Tensor {
	list := make([]int64, count(shape))
	for i := range list {
		list[i] = int64(i*i%7) & 1
	}
	return &reference.Tensor{Type: graph.Bool, Shape: shape, I: list}
}

// weightGrad is a case of the gradient of a convolution's weights.
func weightGrad(kernel []int64, group int64, strides, dilations, pads []int64, x, d *reference.Tensor) nodeCase {
	return nodeCase{op: graph.SwapDomain + "." + graph.ConvWeightGrad, attrs: attrs(
		ints("kernel_shape", kernel...), whole1("group", group), ints("strides", strides...), ints("dilations", dilations...), ints("pads", pads...),
	), in: args(x, d)}
}

// gradientCases are nodes as the gradients of convolutions have them, in forms that have
// code of their own: no input is a constant.
var gradientCases = []nodeCase{
	// The gradient of weights: images and channels exchanged, a kernel as large as the image.
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(wave(7, 2, 14, 14), wave(9, 2, 14, 14))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(wave(40, 3, 7, 7), wave(70, 3, 7, 7))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 0, 0), ints("dilations", 2, 2)), in: args(wave(13, 2, 16, 16), wave(17, 2, 8, 8))},
	{op: "Conv", attrs: attrs(ints("pads", 3, 3, 2, 2), ints("dilations", 2, 2)), in: args(wave(3, 2, 30, 30), wave(20, 2, 15, 15))},
	{op: "Conv", attrs: attrs(ints("pads", 2, 2, 2, 2), ints("strides", 2, 2)), in: args(wave(9, 3, 14, 14), wave(33, 3, 14, 14))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 0, 1, 0), whole1("group", 3)), in: args(wave(8, 6, 11, 15), wave(27, 2, 11, 13))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1)), in: args(wave(300, 2, 40), wave(9, 2, 40))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1, 1, 1)), in: args(wave(6, 2, 5, 6, 7), wave(8, 2, 5, 6, 7))},
	// The same of single channels.
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), whole1("group", 6)), in: args(wave(1, 6, 14, 14), wave(6, 1, 14, 14))},
	{op: "Conv", attrs: attrs(ints("pads", 2, 2, 2, 2), whole1("group", 3)), in: args(wave(2, 3, 7, 7), wave(3, 1, 7, 7))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 0, 0), ints("dilations", 2, 2), whole1("group", 5)), in: args(wave(1, 5, 28, 28), wave(5, 1, 14, 14))},
	{op: "Conv", attrs: attrs(ints("pads", 2, 1, 2, 1), ints("strides", 2, 1), ints("dilations", 1, 3), whole1("group", 2)), in: args(wave(1, 2, 20, 31), wave(2, 1, 20, 11))},
	{op: "Conv", attrs: attrs(ints("pads", 2, 2), whole1("group", 4)), in: args(wave(1, 4, 50), wave(4, 1, 50))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), whole1("group", 2)), in: args(spoilt(1, 2, 14, 14), wave(2, 1, 14, 14))},
	// The same as one operator: products of groups, images of one, two and three axes, windows
	// that leave out the end of the image, kernels of one element.
	weightGrad([]int64{3, 3}, 1, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, wave(2, 7, 14, 14), wave(2, 9, 14, 14)),
	weightGrad([]int64{3, 3}, 1, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, wave(3, 40, 17, 17), wave(3, 70, 17, 17)),
	weightGrad([]int64{3, 2}, 1, []int64{2, 3}, []int64{2, 1}, []int64{1, 0, 2, 1}, wave(2, 5, 16, 17), wave(2, 17, 7, 5)),
	weightGrad([]int64{1, 1}, 1, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}, wave(3, 9, 7, 7), wave(3, 33, 7, 7)),
	weightGrad([]int64{1, 1}, 1, []int64{2, 2}, []int64{1, 1}, []int64{0, 0, 0, 0}, wave(2, 4, 14, 14), wave(2, 33, 7, 7)),
	weightGrad([]int64{3, 5}, 3, []int64{1, 1}, []int64{1, 1}, []int64{1, 0, 1, 0}, wave(2, 6, 11, 15), wave(2, 27, 11, 11)),
	weightGrad([]int64{5}, 1, []int64{1}, []int64{2}, []int64{1, 1}, wave(2, 30, 400), wave(2, 9, 394)),
	weightGrad([]int64{2, 3, 3}, 1, []int64{1, 2, 1}, []int64{1, 1, 1}, []int64{1, 1, 1, 1, 1, 1}, wave(2, 6, 5, 6, 7), wave(2, 8, 6, 3, 7)),
	weightGrad([]int64{3, 3}, 6, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, wave(2, 6, 14, 14), wave(2, 6, 14, 14)),
	weightGrad([]int64{3, 3}, 3, []int64{2, 2}, []int64{1, 1}, []int64{1, 1, 0, 0}, wave(3, 3, 28, 28), wave(3, 6, 14, 14)),
	weightGrad([]int64{5, 5}, 2, []int64{1, 3}, []int64{2, 1}, []int64{2, 1, 2, 1}, wave(1, 2, 20, 31), wave(1, 2, 16, 9)),
	weightGrad([]int64{2, 2, 2}, 4, []int64{1, 1, 1}, []int64{1, 1, 1}, []int64{0, 0, 0, 0, 0, 0}, wave(2, 4, 5, 6, 7), wave(2, 4, 4, 5, 6)),
	weightGrad([]int64{3, 3}, 2, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, spoilt(1, 2, 14, 14), wave(1, 2, 14, 14)),
	// The places of the largest elements, which gradients are scattered to.
	{op: "MaxPool", outputs: 2, attrs: attrs(ints("kernel_shape", 3, 3), ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(wave(2, 3, 15, 22))},
	{op: "MaxPool", outputs: 2, attrs: attrs(ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1)), in: args(few(1, 2, 60, 47))},
	{op: "MaxPool", outputs: 2, attrs: attrs(ints("kernel_shape", 2, 3), ints("dilations", 2, 3), ints("strides", 1, 3), ints("pads", 0, 2, 1, 3)), in: args(few(1, 2, 15, 40))},
	{op: "MaxPool", outputs: 2, attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 3, 2)), in: args(lost(1, 2, 16, 20))},
	{op: "MaxPool", outputs: 2, attrs: attrs(ints("kernel_shape", 5), ints("strides", 3), ints("pads", 4, 3)), in: args(lost(2, 1, 50))},
	{op: "ScatterElements", attrs: attrs(text("reduction", "add"), whole1("axis", 1)), in: args(wave(5, 40), wholes32([]int{3, 4}, 0, 39, -1, 7, 5, 5, 5, -40, 1, 2, 1, 2), wave(3, 4))},
	{op: "ScatterElements", attrs: attrs(text("reduction", "add")), in: args(wave(9), wholes([]int{4}, 8, 0, 8, -2), wave(4))},
	// Comparisons, and sums over the first axes.
	{op: "Greater", in: args(few(5, 7, 9), wave(7, 9))},
	{op: "Less", in: args(few(5, 70), scalar(0))},
	{op: "GreaterOrEqual", in: args(scalar(1), few(333))},
	{op: "Where", in: args(sometimes(5, 7, 9), wave(5, 7, 9), scalar(0))},
	{op: "Where", in: args(sometimes(7, 1), wave(5, 7, 90), wave(90))},
	{op: "And", in: args(sometimes(333), sometimes(333))},
	{op: "Or", in: args(sometimes(5, 70), sometimes(70))},
	{op: "ReduceSum", in: args(wave(4, 30, 41), wholes([]int{1}, 0))},
	{op: "ReduceSum", in: args(wave(70, 300), wholes([]int{1}, 0))},
	{op: "ReduceMean", in: args(wave(3, 4, 70, 5), wholes([]int{2}, 0, 2))},
	{op: "ReduceSumSquare", in: args(wave(4, 6, 70), wholes([]int{2}, 0, 2))},
	// The gradient of the image, by single steps.
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(wave(2, 6, 20, 23), wave(6, 9, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 0, 2, 1, 2), ints("dilations", 1, 2), whole1("group", 2)), in: args(wave(2, 6, 20, 23), wave(6, 5, 2, 3), wave(10))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1, 1, 1)), in: args(wave(1, 3, 6, 9, 9), wave(3, 4, 3, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(whole1("group", 2)), in: args(wave(2, 6, 5, 9), wave(6, 70, 1, 1), wave(140))},
	{op: "ConvTranspose", in: args(wave(2, 30, 50), wave(30, 70, 1))},
	// The gradient of the image of single channels.
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1), whole1("group", 6)), in: args(wave(2, 6, 14, 14), wave(6, 1, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 2), ints("output_padding", 1, 1), whole1("group", 6)), in: args(wave(2, 6, 14, 14), wave(6, 1, 3, 3), wave(6))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 2, 2, 2, 2), ints("strides", 1, 3), ints("dilations", 2, 1), whole1("group", 3)), in: args(wave(1, 3, 9, 31), wave(3, 1, 5, 5))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 4, 5, 4, 5), whole1("group", 2)), in: args(wave(1, 2, 12, 13), wave(2, 1, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(whole1("group", 4), ints("strides", 4)), in: args(wave(1, 4, 50), wave(4, 1, 3))},
}

// TestGradients: nodes of training steps agree with the plain float64 evaluator, with the
// micro-kernels of every level.
func TestGradients(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	for _, level := range gemm.Levels() {
		if err := gemm.Use(level); err != nil {
			t.Fatal(err)
		}
		for i := range gradientCases {
			k := &gradientCases[i]
			k.fresh = true
			t.Run(fmt.Sprintf("%s/%03d-%s", level, i, k.op), func(t *testing.T) { k.check(t, graph.Float32) })
		}
	}
}
