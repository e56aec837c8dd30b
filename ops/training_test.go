package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestRuntimeTraining: gradients have the shapes of what they are gradients of.
func TestRuntimeTraining(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	seq := Arg{Present: true, Type: graph.Type{Kind: graph.KindSequence, Of: &graph.Type{Kind: graph.KindTensor, Elem: graph.Float32}}}
	lr := f(1)
	runCases(t, []opCase{
		{doc: "a convolution", op: "com.microsoft.ConvGrad", in: []Arg{f(2, 4, 6, 6), f(2, 3, 8, 8), f(4, 3, 3, 3)}, outs: 3, want: "float32[2,3,8,8], float32[4,3,3,3], float32[4]"},
		{doc: "a transposed one in groups", op: "com.microsoft.ConvTransposeGrad", attrs: []*graph.Attr{attrInt("group", 2)}, in: []Arg{f(2, 8, 8, 8), f(2, 6, 6, 6), f(6, 4, 3, 3)}, outs: 3, want: "float32[2,6,6,6], float32[6,4,3,3], float32[8]"},
		{doc: "no weights", op: "com.microsoft.ConvGrad", in: []Arg{f(2, 4, 6, 6), f(2, 3, 8, 8)}, want: "error: input 2 is missing: expected 3 inputs, found 2"},
		{doc: "a layer's norm", op: "com.microsoft.LayerNormalizationGrad", in: []Arg{f(2, 5, 8), f(2, 5, 8), f(8), f(2, 5, 1), f(2, 5, 1)}, outs: 3, want: "float32[2,5,8], float32[8], float32[8]"},
		{doc: "a quotient", op: "com.microsoft.DivGrad", in: []Arg{f(2, 3), f(2, 3), f(3)}, outs: 2, want: "float32[2,3], float32[3]"},
		{doc: "rows of a table", op: "com.microsoft.GatherGrad", in: []Arg{argInts(7, 6), arg(graph.Int64, 4), f(4, 6)}, want: "float32[7,6]"},
		{doc: "rows of a table of unknown lengths", op: "com.microsoft.GatherGrad", in: []Arg{argHidden(2), arg(graph.Int64, 4), f(4, 6)}, want: "float32[?,?]"},
		{doc: "a part", op: "com.microsoft.SliceGrad", in: []Arg{f(2, 3), argInts(5, 3), argInts(0), argInts(2)}, want: "float32[5,3]"},
		{doc: "axes of broadcasts", op: "com.microsoft.BroadcastGradientArgs", in: []Arg{argInts(2, 3), argInts(3)}, outs: 2, want: "int64[<=2], int64[<=2]"},
		{doc: "a sum over axes", op: "com.microsoft.ReduceSumTraining", attrs: []*graph.Attr{attrInt("keepdims", 0)}, in: []Arg{f(4, 5), argInts(0)}, want: "float32[5]"},
		{doc: "a loss", op: "com.microsoft.SoftmaxCrossEntropyLossInternal", in: []Arg{f(4, 5), arg(graph.Int64, 4)}, outs: 2, want: "float32[], float32[4,5]"},
		{doc: "losses", op: "com.microsoft.SoftmaxCrossEntropyLossInternal", attrs: []*graph.Attr{{Name: "reduction", Type: graph.AttrString, String: "none"}}, in: []Arg{f(4, 5), arg(graph.Int64, 4)}, outs: 2, want: "float32[4], float32[4,5]"},
		{doc: "the gradient of a loss", op: "com.microsoft.SoftmaxCrossEntropyLossInternalGrad", in: []Arg{f(), f(4, 5), arg(graph.Int64, 4)}, want: "float32[4,5]"},
		{doc: "a sum of gradients", op: "com.microsoft.InPlaceAccumulatorV2", in: []Arg{f(4, 5), f(4, 5), arg(graph.Bool, 1)}, outs: 2, want: "bool[1], float32[4,5] over 1<0"},
		{doc: "an update", op: "com.microsoft.AdamWOptimizer", in: []Arg{lr, arg(graph.Int64, 1), seq, seq, seq, seq}, outs: 2, want: "bool[1], sequence(float32[...])"},
		{doc: "parts and their lengths", op: "com.microsoft.ConcatTraining", attrs: []*graph.Attr{attrInt("axis", 0)}, in: []Arg{f(2, 3), f(4, 3)}, outs: 2, want: "float32[6,3], int64[2]"},
	})
}

// TestUnknownOperatorsTogether: an error about one unknown operator names the others.
func TestUnknownOperatorsTogether(t *testing.T) {
	types := map[string]graph.Type{"x": graph.TensorOf(graph.Float32, 2, 3)}
	spec := graphSpec{in: "x", out: "c", nodes: "a=com.acme::One(x); b=com.acme::Two(a); c=com.acme::Two(b)", types: types}
	_, got := spec.infer(t)
	const want = `error: node "a" (One, com.acme): tensor "a": output 0 of an unknown operator: shape unknown: add it to value_info (unknown operators here, with the number of nodes: One, com.acme 1; Two, com.acme 2)`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
