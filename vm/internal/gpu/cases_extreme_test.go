package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// past32 is a length, a step or an edge that 32 bits do not hold, past one beyond all images.
const (
	past32 = 1<<32 + 1
	widest = 1<<31 - 1
	past   = 1 << 28
)

// extremeCases have attributes beyond all images: no kernel may loop over what lies outside,
// or take the lower half of a number.
var extremeCases = extremely([]nodeCase{
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", past, past), ints("pads", past-2, past-2, past-2, past-2), ints("strides", past, past)), in: args(noise(1, 2, 3, 4))},
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", widest, widest)), in: args(noise(1, 2, 3, 4))},
	{op: "MaxPool", attrs: attrs(ints("kernel_shape", 2, 2), ints("dilations", past, 1), ints("pads", past-1, 0, past-1, 0), ints("strides", past, 1)), in: args(noise(1, 2, 3, 4))},
	{op: "AveragePool", attrs: attrs(ints("kernel_shape", past, past), ints("pads", past-2, past-2, past-2, past-2), ints("strides", past, past)), in: args(noise(1, 2, 3, 4))},
	{op: "AveragePool", attrs: attrs(ints("kernel_shape", past, past), ints("pads", past-2, past-2, past-2, past-2), ints("strides", past, past), whole("count_include_pad", 1)), in: args(noise(1, 2, 3, 4))},
	{op: "AveragePool", version: 22, attrs: attrs(ints("kernel_shape", 2), ints("dilations", widest), ints("pads", 0, widest), ints("strides", widest)), in: args(noise(1, 2, 3))},
	{op: "LpPool", attrs: attrs(ints("kernel_shape", past, past), ints("pads", past-2, past-2, past-2, past-2), ints("strides", past, past)), in: args(noise(1, 2, 3, 4))},
	{op: "LpPool", attrs: attrs(ints("kernel_shape", 2), ints("strides", widest), ints("pads", 1, 1), whole("p", past32)), in: args(noise(1, 2, 3))},
	{op: "com.microsoft.QLinearAveragePool", version: 1, attrs: attrs(ints("kernel_shape", past, past), ints("pads", past-2, past-2, past-2, past-2), ints("strides", past, past)), in: args(bytes8(1, 2, 3, 4), scalar(0.03), nil, scalar(0.02), nil)},
	{op: "Conv", attrs: attrs(ints("pads", past, past, past, past), ints("strides", past, past)), in: args(noise(1, 2, 3, 4), noise(3, 2, 2, 2))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", widest, widest)), in: args(noise(1, 2, 3, 4), noise(3, 2, 2, 2))},
	{op: "Conv", attrs: attrs(ints("dilations", past, past), ints("pads", past, past, past, past), ints("strides", past, past)), in: args(noise(1, 2, 3, 4), noise(3, 2, 2, 2))},
	{op: "Conv", attrs: attrs(ints("dilations", widest), ints("pads", widest, 0)), in: args(noise(1, 2, 3), noise(3, 2, 2))},
	{op: "Conv", attrs: attrs(whole("group", 2), ints("dilations", widest), ints("pads", widest, 0)), in: args(noise(1, 2, 3), noise(2, 1, 2))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", widest), ints("pads", widest, 0)), in: args(noise(1, 2, 2), noise(2, 3, 2))},
	{op: "ConvTranspose", attrs: attrs(ints("dilations", widest), ints("pads", widest, 0)), in: args(noise(1, 2, 2), noise(2, 3, 2))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", past, past), ints("output_shape", 3, 3)), in: args(noise(1, 2, 2, 2), noise(2, 3, 2, 2))},
	{op: "DeformConv", version: 19, attrs: attrs(ints("pads", past, past, past, past), ints("strides", past, past)), in: args(noise(1, 2, 3, 4), noise(3, 2, 2, 2), noise(1, 8, 3, 3))},
	{op: "Col2Im", attrs: attrs(ints("pads", past, 0, past, 0), ints("strides", past, 1)), in: args(noise(1, 4, 9), list(3, 4), list(2, 2)), consts: []int{1, 2}},
	{op: "LRN", attrs: attrs(whole("size", widest)), in: args(noise(1, 7, 2, 2))},
	{op: "Slice", in: args(noise(3, 5), list(-past32, past32), list(past32, -past32), list(0, 1), list(1, -past32))},
	{op: "Slice", in: args(noise(3, 5), list(0), list(past32), list(1), list(past32)), consts: []int{1, 2, 3, 4}},
	{op: "EyeLike", attrs: attrs(whole("k", past32)), in: args(noise(3, 5))},
	{op: "EyeLike", attrs: attrs(whole("k", -past32+2)), in: args(noise(3, 5))},
	{op: "Trilu", in: args(noise(3, 5), whole0(graph.Int64, past32))},
	{op: "Trilu", in: args(noise(3, 5), whole0(graph.Int64, -past32)), attrs: attrs(whole("upper", 0))},
	{op: "Trilu", in: args(noise(3, 5), whole0(graph.Int64, past32)), consts: []int{1}},
	{op: "Pad", attrs: attrs(text("mode", "wrap")), version: 19, in: args(noise(3), list(1000, 900)), consts: []int{1}},
	{op: "Pad", in: args(noise(3), list(past, -past)), consts: []int{1}},
	{op: "Attention", version: 24, attrs: attrs(whole("left_window_size", past32), whole("right_window_size", past32)), in: args(noise(1, 2, 3, 8), noise(1, 2, 9, 8), noise(1, 2, 9, 8))},
	{op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, attrs: attrs(whole("num_heads", 2), whole("kv_num_heads", 1), whole("local_window_size", past32)), in: args(noise(1, 2, 16), noise(1, 2, 8), noise(1, 2, 8), noise(1, 1, 9, 8), noise(1, 1, 9, 8), numbers([]int{1}, 5), numbers(nil, 6))},
	{op: "RoiAlign", attrs: attrs(whole("output_height", 2), whole("output_width", 2), whole("sampling_ratio", 1024)), in: args(noise(1, 1, 5, 5), reference.Reals([]int{1, 4}, 0, 0, 4, 4), list(0))},
	{op: "RoiAlign", attrs: attrs(whole("output_height", 2), whole("output_width", 2)), in: args(noise(1, 1, 5, 5), reference.Reals([]int{1, 4}, -1e9, -1e9, 1e9, 1e9), list(0))},
	{op: "MaxRoiPool", attrs: attrs(ints("pooled_shape", 2, 2), real("spatial_scale", 1e30)), in: args(noise(1, 1, 5, 5), reference.Reals([]int{1, 5}, 0, -1e9, -1e9, 1e9, 1e9))},
	{op: "CumSum", in: args(noise(3, 5), whole0(graph.Int64, past32))},
})

// extremely marks cases.
func extremely(list []nodeCase) []nodeCase {
	for i := range list {
		list[i].extreme = true
		list[i].types = onlySingle
	}
	return list
}
