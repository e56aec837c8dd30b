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
