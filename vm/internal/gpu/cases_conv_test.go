package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() { cases = append(cases, convCases...) }

// floats are attributes of that type.
func floats(name string, list ...float32) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrFloats, Floats: list}
}

// weightGrad is a case of the gradient of a convolution's weights.
func weightGrad(kernel []int64, group int64, strides, dilations, pads []int64, x, d *reference.Tensor) nodeCase {
	return nodeCase{op: graph.SwapDomain + "." + graph.ConvWeightGrad, attrs: attrs(
		ints("kernel_shape", kernel...), whole("group", group), ints("strides", strides...), ints("dilations", dilations...), ints("pads", pads...),
	), in: args(x, d), types: inSingle}
}

var convCases = []nodeCase{
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 5, 9, 11), noise(7, 5, 3, 3), noise(7)), types: allReals},
	{op: "Conv", in: args(noise(2, 5, 6, 7), noise(7, 5, 1, 1), noise(7)), types: inSingle},
	{op: "Conv", in: args(noise(2, 8, 6, 6), noise(12, 4, 1, 1)), attrs: attrs(whole("group", 2)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("strides", 2, 2), ints("pads", 3, 3, 3, 3)), in: args(noise(1, 3, 20, 20), noise(8, 3, 7, 7), noise(8)), types: inSingle},
	{op: "Conv", attrs: attrs(whole("group", 3), ints("dilations", 2, 3), ints("pads", 2, 0, 1, 3)), in: args(noise(2, 6, 9, 9), noise(9, 2, 3, 2)), types: inSingle},
	{op: "Conv", attrs: attrs(text("auto_pad", "SAME_LOWER"), ints("strides", 2, 3)), in: args(noise(1, 2, 9, 10), noise(3, 2, 4, 4)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("pads", 2, 1)), in: args(noise(3, 4, 17), noise(5, 4, 3), noise(5)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1, 0, 1), ints("strides", 1, 2, 1)), in: args(noise(2, 3, 5, 6, 7), noise(4, 3, 3, 3, 2), noise(4)), types: inSingle},
	// The gradient of weights: the kernel is as large as the image, the result small.
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(6, 4, 14, 14), noise(9, 4, 14, 14))},
	{op: "Conv", attrs: attrs(ints("dilations", 2, 2), ints("pads", 1, 1, 0, 0)), in: args(noise(6, 4, 14, 14), noise(9, 4, 7, 7)), types: inSingle},

	// Few channels in each group.
	{op: "Conv", attrs: attrs(whole("group", 6), ints("pads", 1, 1, 1, 1), ints("strides", 2, 1)), in: args(noise(2, 6, 9, 11), noise(6, 1, 3, 3), noise(6))},
	{op: "Conv", attrs: attrs(whole("group", 3), ints("dilations", 1, 2)), in: args(noise(2, 3, 9, 11), noise(6, 1, 3, 3), noise(6))},
	{op: "Conv", attrs: attrs(whole("group", 2)), in: args(noise(2, 6, 5, 5, 5), noise(10, 3, 2, 3, 2)), types: inSingle},
	// The gradients of their weights.
	{op: "Conv", attrs: attrs(whole("group", 5), ints("pads", 1, 1, 1, 1)), in: args(noise(1, 20, 17, 17), noise(5, 4, 17, 17)), types: inSingle},
	{op: "Conv", attrs: attrs(whole("group", 3), ints("dilations", 2, 2), ints("pads", 2, 2, 1, 1)), in: args(noise(2, 9, 40, 40), noise(6, 3, 20, 20)), types: inSingle},

	// The same as one operator.
	weightGrad([]int64{3, 3}, 1, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, noise(2, 5, 9, 11), noise(2, 7, 9, 11)),
	weightGrad([]int64{2, 2}, 1, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(3, 8, 12, 13), noise(3, 40, 11, 12)),
	weightGrad([]int64{3, 2}, 2, []int64{2, 3}, []int64{2, 1}, []int64{1, 0, 2, 1}, noise(3, 10, 16, 17), noise(3, 34, 7, 5)),
	weightGrad([]int64{1, 1}, 1, []int64{2, 2}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(2, 4, 14, 14), noise(2, 33, 7, 7)),
	weightGrad([]int64{5}, 1, []int64{1}, []int64{2}, []int64{1, 1}, noise(1, 6, 200), noise(1, 9, 194)),
	weightGrad([]int64{3, 3}, 6, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, noise(2, 6, 9, 9), noise(2, 6, 9, 9)),
	weightGrad([]int64{3, 3}, 3, []int64{2, 2}, []int64{1, 1}, []int64{1, 1, 0, 0}, noise(3, 3, 40, 40), noise(3, 6, 20, 20)),
	weightGrad([]int64{2, 2, 2}, 1, []int64{1, 1, 1}, []int64{1, 1, 1}, []int64{0, 0, 0, 0, 0, 0}, noise(2, 4, 5, 6, 7), noise(2, 4, 4, 5, 6)),

	{op: "ConvTranspose", in: args(noise(2, 5, 4, 6), noise(5, 7, 3, 3), noise(7)), attrs: attrs(ints("pads", 1, 1, 1, 1)), types: []graph.DType{graph.Float32, graph.Float64}},
	{op: "ConvTranspose", in: args(noise(2, 5, 4, 6), noise(5, 7, 1, 1), noise(7)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 6, 4, 6), noise(6, 17, 3, 4), noise(34)), attrs: attrs(whole("group", 2), ints("strides", 2, 3), ints("output_padding", 1, 2), ints("pads", 1, 0, 0, 2)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 5, 4, 6), noise(5, 7, 2, 2)), attrs: attrs(ints("strides", 2, 2)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 5, 4, 6), noise(5, 7, 1, 1)), attrs: attrs(ints("strides", 2, 2), ints("output_padding", 1, 1)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 5, 4, 6), noise(5, 7, 3, 3)), attrs: attrs(ints("strides", 4, 2), ints("dilations", 2, 3)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(1, 2, 5), noise(2, 3, 4), noise(3)), attrs: attrs(ints("strides", 3), ints("output_shape", 15)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 3, 3, 4, 5), noise(3, 5, 3, 2, 3)), attrs: attrs(ints("strides", 2, 1, 2), ints("pads", 1, 0, 1, 1, 0, 1)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(1, 500, 3, 3), noise(500, 7, 3, 3), noise(7)), attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 6, 5, 5), noise(6, 1, 3, 3), noise(6)), attrs: attrs(whole("group", 6), ints("pads", 1, 1, 1, 1)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 6, 5, 5), noise(6, 2, 5, 3), noise(6)), attrs: attrs(whole("group", 3), ints("strides", 2, 3), ints("dilations", 2, 1), ints("pads", 2, 1, 1, 0), ints("output_padding", 1, 1)), types: inSingle},

	// Tap by tap: enough channels, or one tap.
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 40, 9, 11), noise(18, 40, 3, 3), noise(18)), types: allReals},
	{op: "Conv", attrs: attrs(ints("pads", 1, 0, 0, 1), ints("strides", 2, 1), whole("group", 2)), in: args(noise(3, 16, 9, 10), noise(72, 8, 3, 2), noise(72)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("dilations", 2, 3), ints("pads", 2, 2, 2, 2)), in: args(noise(1, 25, 12, 13), noise(20, 25, 2, 3)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("strides", 2, 2)), in: args(noise(2, 7, 9, 8), noise(33, 7, 1, 1)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("strides", 3), ints("pads", 2, 1)), in: args(noise(3, 24, 100), noise(21, 24, 5), noise(21)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 0, 0, 1, 1)), in: args(noise(2, 8, 4, 5, 6), noise(17, 8, 2, 3, 2)), types: inSingle},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 160, 6, 6), noise(20, 160, 3, 3), noise(20)), types: inSingle}, // in parts
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Relu"), ints("pads", 1, 1, 1, 1)), in: args(noise(2, 160, 7, 7), noise(19, 160, 3, 3), noise(19), noise(2, 19, 7, 7)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 26, 6, 7), noise(26, 18, 3, 3), noise(18)), attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1), ints("output_padding", 1, 0)), types: allReals},
	{op: "ConvTranspose", in: args(noise(2, 16, 8, 6), noise(16, 20, 3, 4), noise(40)), attrs: attrs(whole("group", 2), ints("strides", 2, 3), ints("output_padding", 1, 2), ints("pads", 1, 0, 0, 2)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(2, 300, 5, 5), noise(300, 18, 3, 3), noise(18)), attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1), ints("output_padding", 1, 1)), types: inSingle}, // in parts, of which remainders have several numbers
	{op: "ConvTranspose", in: args(noise(2, 300, 5, 5), noise(300, 20, 1, 1), noise(20)), attrs: attrs(ints("strides", 2, 2), ints("output_padding", 1, 1)), types: inSingle},                           // three remainders of four have no taps
	{op: "ConvTranspose", in: args(noise(2, 24, 7, 11), noise(24, 18, 3, 3)), attrs: attrs(ints("pads", 1, 1, 1, 1)), types: inSingle},
	{op: "ConvTranspose", in: args(noise(1, 24, 5, 6, 7), noise(24, 18, 2, 2, 2)), attrs: attrs(ints("strides", 2, 1, 2)), types: inSingle},
	weightGrad([]int64{3, 3}, 1, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, noise(3, 26, 12, 12), noise(3, 20, 12, 12)),
	weightGrad([]int64{3, 2}, 2, []int64{2, 1}, []int64{1, 2}, []int64{1, 1, 1, 1}, noise(3, 48, 13, 9), noise(3, 34, 7, 9)),
	weightGrad([]int64{1, 1}, 1, []int64{2, 2}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(2, 28, 14, 14), noise(2, 33, 7, 7)),
	weightGrad([]int64{1, 1}, 1, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(4, 32, 12, 12), noise(4, 20, 12, 12)), // in parts
	weightGrad([]int64{3}, 1, []int64{1}, []int64{2}, []int64{2, 2}, noise(2, 24, 200), noise(2, 19, 200)),
	weightGrad([]int64{2, 2, 2}, 1, []int64{1, 1, 1}, []int64{1, 1, 1}, []int64{0, 0, 0, 0, 0, 0}, noise(2, 24, 5, 6, 7), noise(2, 18, 4, 5, 6)),

	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Relu")), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3), noise(4), noise(1, 4, 4, 4)), types: inSingle},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Clip"), floats("activation_params", -1, 0.5)), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3)), types: inSingle},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Sigmoid")), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3), noise(4)), types: inSingle},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "HardSwish")), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3), noise(4))},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Elu"), floats("activation_params", 0.5)), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3), noise(4)), types: inSingle},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "ThresholdedRelu")), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3), noise(4)), types: inSingle},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Softplus")), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3), noise(4)), types: inSingle},
	{op: "com.microsoft.FusedConv", attrs: attrs(text("activation", "Softsign")), in: args(noise(1, 3, 6, 6), noise(4, 3, 3, 3), noise(4)), types: inSingle},
}
