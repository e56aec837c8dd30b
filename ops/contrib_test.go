package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestContrib(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	u := func(shape ...graph.Dim) Arg { return arg(graph.Uint8, shape...) }
	transA := attrInt("transA", 1)
	packed := []*graph.Attr{attrInt("N", 5), attrInt("K", 32)}
	runCases(t, []opCase{
		{doc: "transposed batch", op: "com.microsoft.FusedMatMul", in: []Arg{f(2, 7, 3, 4), f(7, 3, 2, 5)}, attrs: []*graph.Attr{attrInt("transBatchA", 1), transA}, want: "float32[7,3,4,5]"},
		{doc: "a vector", op: "com.microsoft.FusedMatMul", in: []Arg{f(4), f(2, 4, 5)}, want: "float32[2,5]"},
		{doc: "inner lengths", op: "com.microsoft.FusedMatMul", in: []Arg{f(3, 4), f(3, 5)}, want: "error: one that can be multiplied with input 0 [3,4]"},
		{doc: "scalars", op: "com.microsoft.FusedMatMul", in: []Arg{f(), f(3, 5)}, want: "error: at least rank 1"},
		{doc: "over the bias", op: "com.microsoft.FusedGemm", in: []Arg{f(4, 3), f(4, 5), f(3, 5)}, attrs: []*graph.Attr{transA}, want: "float32[3,5] over 0<2"},
		{doc: "a bias that is too large", op: "com.microsoft.FusedGemm", in: []Arg{f(3, 4), f(4, 5), f(2, 3, 5)}, want: "error: one that broadcasts to [3,5]"},
		{doc: "full precision", op: "com.microsoft.QGemm", in: []Arg{u(3, 4), f(), u(), u(4, 5), f(), u()}, want: "float32[3,5]"},
		{doc: "quantized", op: "com.microsoft.QGemm", in: []Arg{u(3, 4), f(), u(), u(4, 5), f(), u(), {}, f(), u()}, want: "uint8[3,5]"},
		{doc: "packed weights", op: "com.microsoft.MatMulNBits", in: []Arg{f(2, graph.AtMost(3), 32), u(5, 2, 8), f(10)}, attrs: packed, want: "float32[2,<=3,5]"},
		{doc: "packed weights of another length", op: "com.microsoft.MatMulNBits", in: []Arg{f(2, 31), u(5, 2, 8), f(10)}, attrs: packed, want: "error: length K 32"},
		{doc: "scale's type", op: "com.microsoft.MatMulIntegerToFloat", in: []Arg{u(3, 4), u(4, 5), arg(graph.Float16), f()}, want: "float16[3,5]"},

		{doc: "over input or skip", op: "com.microsoft.SkipLayerNormalization", in: []Arg{f(2, 3, 8), f(2, 3, 8), f(8)}, want: "float32[2,3,8] over 0<0 0<1"},
		{doc: "the sum too", op: "com.microsoft.SkipSimplifiedLayerNormalization", in: []Arg{f(2, 3, 8), f(3, 8), f(8)}, outs: 4, want: "float32[2,3,8], float32[2,3,1], float32[2,3,1], float32[2,3,8] over 0<0 3<0"},
		{doc: "skip does not broadcast", op: "com.microsoft.SkipLayerNormalization", in: []Arg{f(2, 3, 8), f(2, 4, 8), f(8)}, want: "error: one that broadcasts to input 0"},
		{doc: "embeddings", op: "com.microsoft.EmbedLayerNormalization", in: []Arg{arg(graph.Int32, 2, 5), {}, f(10, 8), f(12, 8), {}, f(8), f(8)}, outs: 3, want: "float32[2,5,8], int32[2], float32[2,5,8]"},
		{doc: "embeddings of two sizes", op: "com.microsoft.EmbedLayerNormalization", in: []Arg{arg(graph.Int32, 2, 5), {}, f(10, 8), f(12, 9), {}, f(8), f(8)}, want: "error: expected [?,8]"},
		{doc: "channels last", op: "com.microsoft.GroupNorm", in: []Arg{f(1, 4, 4, 32), f(32), f(32)}, attrs: []*graph.Attr{attrInt("groups", 8)}, want: "float32[1,4,4,32] over 0<0"},

		{doc: "a new axis is a view", op: "com.microsoft.ExpandDims", in: []Arg{f(3, 4), argInt(-1)}, want: "float32[3,4,1] view 0<0"},
		{doc: "half", op: "com.microsoft.BiasSplitGelu", in: []Arg{f(1, 2, 8), f(8)}, want: "float32[1,2,4]"},
		{doc: "triangle", op: "com.microsoft.Trilu", in: []Arg{f(3, 4)}, want: "float32[3,4] over 0<0"},
		{doc: "packed rows", op: "com.microsoft.GatherBlockQuantized", in: []Arg{u(6, 16), arg(graph.Int64, 2, 3), arg(graph.Float16, 6, 2)}, want: "float16[2,3,32]"},
		{doc: "tokens", op: "com.microsoft.RemovePadding", in: []Arg{f(2, 5, 8), arg(graph.Int32, 2)}, outs: 4, want: "float32[<=10,8], int32[2,5], int32[3], int32[1]"},
		{doc: "table by length", op: "com.microsoft.RelativePositionBias", in: []Arg{f(32, 4), argInt(5), argInt(6)}, want: "float32[1,4,5,6]"},
	})
}

// Checks that precede the kernels of fused products.
func TestCheckFused(t *testing.T) {
	x, w, b := arg(f32, 1, 2, 8, 8), arg(f32, 4, 2, 3, 3), arg(f32, 4)
	sum := arg(f32, 1, 4, 6, 6)
	runGate(t, []opCase{
		{doc: "with a sum", op: "com.microsoft.FusedConv", version: 1, in: []Arg{x, w, b, sum}},
		{doc: "a sum of another shape", op: "com.microsoft.FusedConv", version: 1, in: []Arg{x, w, b, arg(f32, 4, 6, 6)}, want: "error: input 3 has shape [4,6,6], expected [1,4,6,6]: the shape of the result"},
		{doc: "a sum that broadcasts", op: "com.microsoft.FusedConv", version: 1, in: []Arg{x, w, {}, arg(f32, 1, 4, 1, 1)}, want: "error: input 3 has shape [1,4,1,1]"},
		{doc: "a bias of another type", op: "com.microsoft.FusedGemm", version: 1, in: []Arg{arg(f32, 2, 3), arg(f32, 3, 4), arg(graph.Float16, 4)}, want: "error: input 2 has elements of type float16, expected float32"},
	})
}
