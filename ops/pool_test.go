package ops

import (
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
		{doc: "a kernel of another rank", op: "MaxPool", in: line(6), attrs: []*graph.Attr{ints("kernel_shape", 3, 3)}, want: "error: expected rank 4"},
		{doc: "global", op: "GlobalAveragePool", in: []Arg{arg(graph.Float32, 1, 2, 7, graph.Unknown)}, want: "float32[1,2,1,1]"},
		{doc: "unpool", op: "MaxUnpool", in: []Arg{arg(graph.Float32, 1, 1, 2), arg(graph.Int64, 1, 1, 2)}, attrs: []*graph.Attr{ints("kernel_shape", 2), ints("strides", 2)}, want: "float32[1,1,4]"},
		{doc: "unpool to a value", op: "MaxUnpool", in: []Arg{arg(graph.Float32, 1, 1, 2), arg(graph.Int64, 1, 1, 2), argInts(1, 1, 5)}, attrs: []*graph.Attr{ints("kernel_shape", 2)}, want: "float32[1,1,5]"},
		{doc: "unpool to data", op: "MaxUnpool", in: []Arg{arg(graph.Float32, 1, 1, 2), arg(graph.Int64, 1, 1, 2), arg(graph.Int64, 3)}, attrs: []*graph.Attr{ints("kernel_shape", 2)}, want: "float32[1,1,?]"},
		{doc: "regions from data", op: "RoiAlign", in: []Arg{arg(graph.Float32, 1, 3, 8, 8), arg(graph.Float32, graph.AtMost(9), 4), arg(graph.Int64, graph.AtMost(9))}, attrs: []*graph.Attr{attrInt("output_height", 2)}, want: "float32[<=9,3,2,1]"},
		{doc: "regions that differ", op: "RoiAlign", in: []Arg{arg(graph.Float32, 1, 3, 8, 8), arg(graph.Float32, 5, 4), arg(graph.Int64, 6)}, want: "error: expected [5]: an image per region"},
		{doc: "channels last", op: "com.microsoft.NhwcMaxPool", in: []Arg{arg(graph.Uint8, 1, 6, 8, 3)}, attrs: []*graph.Attr{ints("kernel_shape", 2, 2), ints("strides", 2, 2)}, want: "uint8[1,3,4,3]"},
	})
}
