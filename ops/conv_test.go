package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestConvolution(t *testing.T) {
	x := arg(graph.Float32, 1, 4, 8, 8)
	w := arg(graph.Float32, 6, 4, 3, 3)
	huge := int64(1) << 62
	runCases(t, []opCase{
		{doc: "no padding", op: "Conv", in: []Arg{x, w}, want: "float32[1,6,6,6]"},
		{doc: "SAME divides by the stride", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrString("auto_pad", "SAME_LOWER"), attrInts("strides", 3, 3)}, want: "float32[1,6,3,3]"},
		{doc: "VALID ignores pads", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrString("auto_pad", "VALID"), attrInts("pads", 9, 9, 9, 9)}, want: "float32[1,6,6,6]"},
		{doc: "a batch that is bounded", op: "Conv", in: []Arg{arg(graph.Float32, graph.AtMost(5), 4, 8, 8), w}, want: "float32[<=5,6,6,6]"},
		{doc: "a bounded length gives a bound", op: "Conv", in: []Arg{arg(graph.Float32, 1, 4, graph.AtMost(8), graph.Unknown), w}, want: "float32[1,6,<=6,?]"},
		{doc: "weights of unknown lengths", op: "Conv", in: []Arg{x, arg(graph.Float32, 6, 4, graph.Unknown, 3)}, want: "float32[1,6,<=8,6]"},
		{doc: "an image of unknown rank", op: "Conv", in: []Arg{argUnranked(graph.Float32), w}, want: "float32[?,6,?,?]"},
		{doc: "nothing known", op: "Conv", in: []Arg{argUnranked(graph.Float32), argUnranked(graph.Float32)}, want: "float32[...]"},
		{doc: "no images", op: "Conv", in: []Arg{arg(graph.Float32, 0, 4, 8, 8), w}, want: "float32[0,6,6,6]"},
		{doc: "channels", op: "Conv", in: []Arg{x, arg(graph.Float32, 6, 3, 3, 3)}, want: "error: input 1 has shape [6,3,3,3], expected 4 channels to match input 0 [1,4,8,8]"},
		{doc: "channels of groups", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrInt("group", 2)}, want: "error: expected 4 channels in 2 groups"},
		{doc: "output channels and groups", op: "Conv", in: []Arg{x, arg(graph.Float32, 5, 2, 3, 3)}, attrs: []*graph.Attr{attrInt("group", 2)}, want: "error: a multiple of group 2"},
		{doc: "rank of the weights", op: "Conv", in: []Arg{x, arg(graph.Float32, 6, 4, 3)}, want: "error: input 1 has shape [6,4,3], expected rank 4"},
		{doc: "bias", op: "Conv", in: []Arg{x, w, arg(graph.Float32, 4)}, want: "error: input 2 has shape [4], expected [6]: one bias per output channel"},
		{doc: "kernel_shape", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("kernel_shape", 5, 5)}, want: "error: kernel_shape is [5 5], expected [3,3]"},
		{doc: "too few strides", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("strides", 1)}, want: "error: strides has 1 values, expected 2"},
		{doc: "stride 0", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("strides", 0, 1)}, want: "error: strides[0] is 0, expected 1 to"},
		{doc: "huge dilation", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("dilations", huge, huge)}, want: "error: dilations[0]"},
		{doc: "negative padding", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("pads", -1, 0, 0, 0)}, want: "error: pads[0] is -1"},
		{doc: "kernel larger than the image", op: "Conv", in: []Arg{arg(graph.Float32, 1, 4, 2, 8), w}, want: "error: expected at least 3 along spatial axis 0, where it has 2"},
		{doc: "a kernel without elements", op: "Conv", in: []Arg{x, arg(graph.Float32, 6, 4, 0, 3)}, want: "error: the kernel has length 0 along spatial axis 0, expected 1 to"},
		{doc: "a kernel beyond 63 bits, of no channels", op: "Conv", in: []Arg{arg(graph.Float32, 1, 0, 8, 8, 8), arg(graph.Float32, 6, 0, 1<<30, 1<<30, 1<<30)}, want: "error: overflows 63 bits"},
		{doc: "a sequence", op: "Conv", in: []Arg{{Present: true, Type: graph.Type{Kind: graph.KindSequence}}, w}, want: "error: input 0 has type sequence, expected a tensor"},
		{doc: "auto_pad", op: "Conv", in: []Arg{x, w}, attrs: []*graph.Attr{attrString("auto_pad", "SAME")}, want: `error: auto_pad is "SAME"`},
		{doc: "sums are int32", op: "ConvInteger", in: []Arg{arg(graph.Uint8, 1, 4, 8, 8), arg(graph.Int8, 6, 4, 3, 3)}, want: "int32[1,6,6,6]"},
		{doc: "channels last", op: "com.microsoft.NhwcConv", in: []Arg{arg(graph.Float32, 1, 8, 8, 4), w}, want: "float32[1,6,6,6]"},
		{doc: "over what is added", op: "com.microsoft.FusedConv", in: []Arg{x, w, {}, arg(graph.Float32, 1, 6, 6, 6)}, want: "float32[1,6,6,6] over 0<3"},
	})
}

func TestConvTranspose(t *testing.T) {
	x := arg(graph.Float32, 1, 4, 5)
	w := arg(graph.Float32, 4, 3, 3)
	runCases(t, []opCase{
		{doc: "undoes Conv", op: "ConvTranspose", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("strides", 2), attrInts("output_padding", 1), attrInts("pads", 1, 1)}, want: "float32[1,3,10]"},
		{doc: "groups", op: "ConvTranspose", in: []Arg{x, w}, attrs: []*graph.Attr{attrInt("group", 2)}, want: "float32[1,6,7]"},
		{doc: "SAME multiplies, whatever the output padding", op: "ConvTranspose", in: []Arg{x, w}, attrs: []*graph.Attr{attrString("auto_pad", "SAME_UPPER"), attrInts("strides", 2), attrInts("output_padding", 1)}, want: "float32[1,3,10]"},
		{doc: "stated shape", op: "ConvTranspose", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("output_shape", 12)}, want: "float32[1,3,12]"},
		{doc: "stated with batch and channels", op: "ConvTranspose", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("output_shape", 1, 3, 12)}, want: "float32[1,3,12]"},
		{doc: "bound", op: "ConvTranspose", in: []Arg{arg(graph.Float32, 1, 4, graph.AtMost(5)), w}, want: "float32[1,3,<=7]"},
		{doc: "negative length", op: "ConvTranspose", in: []Arg{x, w}, attrs: []*graph.Attr{attrInts("pads", 5, 5)}, want: "error: output axis 2 would have length -3"},
		{doc: "beyond 63 bits", op: "ConvTranspose", in: []Arg{arg(graph.Float32, 1, 0, 1<<40), arg(graph.Float32, 0, 3, 3)}, attrs: []*graph.Attr{attrInts("strides", 1<<30), attrInts("output_shape", 5)}, want: "error: overflows 63 bits"},
		{doc: "channels", op: "ConvTranspose", in: []Arg{x, arg(graph.Float32, 3, 4, 3)}, want: "error: expected 4 input channels"},
	})
}

func TestColumnsAndState(t *testing.T) {
	x := arg(graph.Float32, 1, 5, 5)
	runCases(t, []opCase{
		{doc: "more blocks than 63 bits count", op: "Col2Im", in: []Arg{arg(graph.Float32, 1, 1, 0), argInts(1, 1, 1), argInts(1, 1, 1)}, attrs: []*graph.Attr{attrInts("pads", 1<<30, 1<<30, 1<<30, 1<<30, 1<<30, 1<<30)}, want: "error: overflows 63 bits"},
		{doc: "padding that the operator does not have", op: "Col2Im", in: []Arg{x, argInts(5, 5), argInts(1, 5)}, attrs: []*graph.Attr{attrString("auto_pad", "SAME_UPPER")}, want: `error: auto_pad is "SAME_UPPER", expected pads`},
		{doc: "image by value", op: "Col2Im", in: []Arg{x, argInts(5, 5), argInts(1, 5)}, want: "float32[1,1,5,5]"},
		{doc: "image from data", op: "Col2Im", in: []Arg{x, arg(graph.Int64, 2), argInts(1, 5)}, want: "float32[1,1,?,?]"},
		{doc: "bounded image", op: "Col2Im", in: []Arg{x, argDims(graph.AtMost(5), 5), argInts(1, 5)}, want: "float32[1,1,<=5,5]"},
		{doc: "other blocks", op: "Col2Im", in: []Arg{x, argInts(6, 5), argInts(1, 5)}, want: "error: expected 6 blocks along axis 2"},
		{doc: "not a multiple", op: "Col2Im", in: []Arg{x, argInts(5, 5), argInts(2, 2)}, want: "error: a multiple of the block's 4 elements"},
		{doc: "empty block", op: "Col2Im", in: []Arg{x, argInts(5, 5), argInts(0, 2)}, want: "error: holds 0"},
		{doc: "state", op: "CausalConvWithState", in: []Arg{arg(graph.Float16, 2, 4, 6), arg(graph.Float16, 4, 1, 3)}, outs: 2, want: "float16[2,4,6], float16[2,4,2]"},
		{doc: "past of another kernel", op: "CausalConvWithState", in: []Arg{arg(graph.Float16, 2, 4, 6), arg(graph.Float16, 4, 1, 3), {}, arg(graph.Float16, 2, 4, 3)}, outs: 2, want: "error: expected [2,4,2]"},
		{doc: "offsets", op: "DeformConv", in: []Arg{arg(graph.Float32, 1, 1, 3, 3), arg(graph.Float32, 1, 1, 2, 2), arg(graph.Float32, 1, 7, 2, 2)}, want: "error: expected [1,8,2,2]: an offset"},
	})
}

func TestConvFLOPs(t *testing.T) {
	c, err := callOp("Conv", newest, []Arg{arg(graph.Float32, 1, 4, 8, 8), arg(graph.Float32, 6, 2, 3, 3)}, 1, attrInt("group", 2))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Node.Semantics.FLOPs, int64(2*6*6*6*2*3*3); got != want {
		t.Errorf("got %d operations, want %d", got, want)
	}
}
