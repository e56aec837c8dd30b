package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestBlockedImages(t *testing.T) {
	const in = "com.microsoft.nchwc."
	x := arg(f32, 2, 48, 9, 11)
	channels := func(n int64) []*graph.Attr { return attrs(attrInt("channels", n)) }
	runCases(t, []opCase{
		{doc: "into blocks", op: in + "ReorderInput", version: 1, in: []Arg{x}, want: "float32[2,48,9,11]"},
		{doc: "from pixels", op: in + "ReorderInput", version: 1, in: []Arg{arg(f32, 2, 9, 11, 48)}, attrs: attrs(attrInt("channels_last", 1)), want: "float32[2,48,9,11]"},
		{doc: "channels that may be padded", op: in + "ReorderInput", version: 1, in: []Arg{arg(f32, 2, 40, 9, 11)}, want: "error: a multiple of 16 channels"},
		{doc: "out of blocks", op: in + "ReorderOutput", version: 1, in: []Arg{x}, attrs: channels(40), want: "float32[2,40,9,11]"},
		{doc: "to pixels", op: in + "ReorderOutput", version: 1, in: []Arg{x}, attrs: attrs(attrInt("channels", 40), attrInt("channels_last", 1)), want: "float32[2,9,11,40]"},
		{doc: "more than a block of padding", op: in + "ReorderOutput", version: 1, in: []Arg{x}, attrs: channels(32), want: "error: 32 channels, padded by less than a block"},
		{doc: "more channels than there are", op: in + "ReorderOutput", version: 1, in: []Arg{x}, attrs: channels(49), want: "error: 49 channels"},
		{doc: "a convolution over a sum", op: in + "Conv", version: 1, in: []Arg{x, arg(f32, 48, 48, 1, 1), {}, x}, want: "float32[2,48,9,11] over 0<3"},
		{doc: "windows", op: in + "MaxPool", version: 1, in: []Arg{x}, attrs: attrs(attrInts("kernel_shape", 2, 2)), want: "float32[2,48,8,10]"},
		{doc: "one window", op: in + "GlobalAveragePool", version: 1, in: []Arg{x}, want: "float32[2,48,1,1]"},
		{doc: "larger", op: in + "Upsample", version: 1, in: []Arg{x}, attrs: attrs(attrInts("scales", 1, 1, 2, 3)), want: "float32[2,48,18,33]"},
		{doc: "more channels", op: in + "Upsample", version: 1, in: []Arg{x}, attrs: attrs(attrInts("scales", 1, 2, 2, 3)), want: "error: expected four: 1, 1, and two of at least 1"},
	})
	runGate(t, []opCase{
		{doc: "no whole block", op: in + "AveragePool", version: 1, in: []Arg{arg(f32, 2, 42, 9, 11)}, attrs: attrs(attrInts("kernel_shape", 2, 2)), want: "error: input 0 has shape [2,42,9,11], expected a multiple of 8 channels"},
	})
}
