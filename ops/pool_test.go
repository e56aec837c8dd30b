package ops

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestPooling(t *testing.T) {
	ints, ceil := attrInts, attrInt("ceil_mode", 1)
	line := func(n graph.Dim) []Arg { return []Arg{arg(graph.Float32, 1, 2, n)} }
	runCases(t, []opCase{
		{doc: "floor", op: "MaxPool", in: line(6), outs: 2, attrs: []*graph.Attr{ints("kernel_shape", 3), ints("strides", 2)}, want: "float32[1,2,2], int64[1,2,2]"},
		{doc: "ceil", op: "MaxPool", in: line(6), attrs: []*graph.Attr{ints("kernel_shape", 3), ints("strides", 2), ceil}, want: "float32[1,2,3]"},
		{doc: "ceil drops a window that begins in the padding", op: "AveragePool", in: line(6), attrs: []*graph.Attr{ints("kernel_shape", 2), ints("strides", 3), ints("pads", 0, 1), ceil}, want: "float32[1,2,2]"},
		{doc: "ceil with VALID, as ONNX Runtime", op: "MaxPool", in: line(6), attrs: []*graph.Attr{ints("kernel_shape", 3), ints("strides", 2), ceil, attrString("auto_pad", "VALID")}, want: "float32[1,2,3]"},
		{doc: "SAME", op: "LpPool", in: line(7), attrs: []*graph.Attr{ints("kernel_shape", 3), ints("strides", 2), attrString("auto_pad", "SAME_UPPER")}, want: "float32[1,2,4]"},
		{doc: "dilations", op: "MaxPool", in: line(8), attrs: []*graph.Attr{ints("kernel_shape", 3), ints("dilations", 2)}, want: "float32[1,2,4]"},
		{doc: "a kernel that overhangs by less than a stride", op: "MaxPool", in: line(2), attrs: []*graph.Attr{ints("kernel_shape", 3), ints("strides", 2)}, want: "float32[1,2,1]"},
		{doc: "a kernel that does not fit", op: "MaxPool", in: line(1), attrs: []*graph.Attr{ints("kernel_shape", 3)}, want: "error: expected at least 3 along spatial axis 0, where it has 1"},
		{doc: "bound", op: "MaxPool", in: line(graph.AtMost(6)), attrs: []*graph.Attr{ints("kernel_shape", 3), ints("strides", 2)}, want: "float32[1,2,<=2]"},
		{doc: "unknown rank", op: "MaxPool", in: []Arg{argUnranked(graph.Float32)}, attrs: []*graph.Attr{ints("kernel_shape", 3)}, want: "float32[?,?,?]"},
		{doc: "no kernel", op: "MaxPool", in: line(6), want: "error: kernel_shape is missing"},
		{doc: "a kernel without elements", op: "MaxPool", in: line(6), attrs: []*graph.Attr{ints("kernel_shape", 0)}, want: "error: the kernel has length 0"},
		{doc: "a kernel of another rank", op: "MaxPool", in: line(6), attrs: []*graph.Attr{ints("kernel_shape", 3, 3)}, want: "error: expected rank 4"},
		{doc: "global", op: "GlobalAveragePool", in: []Arg{arg(graph.Float32, 1, 2, 7, graph.Unknown)}, want: "float32[1,2,1,1]"},
		{doc: "unpool", op: "MaxUnpool", in: []Arg{arg(graph.Float32, 1, 1, 2), arg(graph.Int64, 1, 1, 2)}, attrs: []*graph.Attr{ints("kernel_shape", 2), ints("strides", 2)}, want: "float32[1,1,4]"},
		{doc: "unpool to a value", op: "MaxUnpool", in: []Arg{arg(graph.Float32, 1, 1, 2), arg(graph.Int64, 1, 1, 2), argInts(1, 1, 5)}, attrs: []*graph.Attr{ints("kernel_shape", 2)}, want: "float32[1,1,5]"},
		{doc: "unpool to a length below 0", op: "MaxUnpool", in: []Arg{arg(graph.Float32, 1, 1, 2), arg(graph.Int64, 1, 1, 2), argInts(1, 1, -5)}, attrs: []*graph.Attr{ints("kernel_shape", 2)}, want: "error: input 2 holds -5, expected lengths"},
		{doc: "unpool to data", op: "MaxUnpool", in: []Arg{arg(graph.Float32, 1, 1, 2), arg(graph.Int64, 1, 1, 2), arg(graph.Int64, 3)}, attrs: []*graph.Attr{ints("kernel_shape", 2)}, want: "float32[1,1,?]"},
		{doc: "regions from data", op: "RoiAlign", in: []Arg{arg(graph.Float32, 1, 3, 8, 8), arg(graph.Float32, graph.AtMost(9), 4), arg(graph.Int64, graph.AtMost(9))}, attrs: []*graph.Attr{attrInt("output_height", 2)}, want: "float32[<=9,3,2,1]"},
		{doc: "regions that differ", op: "RoiAlign", in: []Arg{arg(graph.Float32, 1, 3, 8, 8), arg(graph.Float32, 5, 4), arg(graph.Int64, 6)}, want: "error: expected [5]: an image per region"},
		{doc: "channels last", op: "com.microsoft.NhwcMaxPool", in: []Arg{arg(graph.Uint8, 1, 6, 8, 3)}, attrs: []*graph.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 2)}, want: "uint8[1,3,4,3]"},
	})
}

func TestPoolChecks(t *testing.T) {
	ints := attrInts
	line := func(n graph.Dim) []Arg { return []Arg{arg(graph.Float32, 1, 2, n)} }
	runGate(t, []opCase{
		{doc: "a window of padding alone", op: "MaxPool", in: line(4), attrs: attrs(ints("kernel_shape", 2), ints("pads", 2, 0)), want: "float32[1,2,5]"},
		{doc: "its place", op: "MaxPool", in: line(4), outs: 2, attrs: attrs(ints("kernel_shape", 2), ints("pads", 2, 0)), want: "error: that of place 0 along spatial axis 0 sees padding alone"},
		{doc: "behind the image", op: "MaxPool", in: line(4), outs: 2, attrs: attrs(ints("kernel_shape", 2), ints("pads", 0, 2)), want: "error: that of place 4 along spatial axis 0 sees padding alone"},
		{doc: "between two taps", op: "MaxPool", in: line(1), outs: 2, attrs: attrs(ints("kernel_shape", 2), ints("dilations", 2), ints("pads", 1, 1)), want: "error: that of place 0 along spatial axis 0 sees padding alone"},
		{doc: "padding that is asked for", op: "MaxPool", in: line(4), outs: 2, attrs: attrs(ints("kernel_shape", 4), attrString("auto_pad", "SAME_LOWER")), want: "float32[1,2,4], int64[1,2,4]"},
		{doc: "a power of 0", op: "LpPool", in: line(4), attrs: attrs(ints("kernel_shape", 2), attrInt("p", 0)), want: "error: p is 0, expected 1 or more"},
		{doc: "no number", op: "GlobalLpPool", version: 1, in: line(4), attrs: attrs(attrFloat("p", float32(math.NaN()))), want: "error: p is NaN, expected a power above 0"},
		{doc: "a real power, of opset 1", op: "GlobalLpPool", version: 1, in: line(4), attrs: attrs(attrFloat("p", 1.5)), want: "float32[1,2,1]"},
	})
}
