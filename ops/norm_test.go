package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestNormalization(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	image, c := f(2, 3, 4, 4), f(3)
	runCases(t, []opCase{
		{doc: "inference", op: "BatchNormalization", in: []Arg{image, c, c, c, c}, want: "float32[2,3,4,4] over 0<0"},
		{doc: "training", op: "BatchNormalization", in: []Arg{image, c, c, c, c}, outs: 3, want: "float32[2,3,4,4], float32[3], float32[3] over 0<0 1<3 2<4"},
		{doc: "statistics of another type", op: "BatchNormalization", in: []Arg{arg(graph.Float16, 2, 3), c, c, c, c}, outs: 3, want: "float16[2,3], float32[3], float32[3] over 0<0 1<3 2<4"},
		{doc: "five outputs", op: "BatchNormalization", version: 9, in: []Arg{image, c, c, c, c}, outs: 5, want: "float32[2,3,4,4], float32[3], float32[3], float32[3], float32[3] over 0<0 1<3 2<4"},
		{doc: "per place", op: "BatchNormalization", version: 7, in: []Arg{f(2, 3, 4), f(3, 4), f(3, 4), f(3, 4), f(3, 4)}, attrs: []*graph.Attr{attrInt("spatial", 0)}, want: "float32[2,3,4] over 0<0"},
		{doc: "channels", op: "BatchNormalization", in: []Arg{image, f(4), c, c, c}, want: "error: input 1 has shape [4], expected [3]: one element per channel"},
		{doc: "channels known from the scale", op: "BatchNormalization", in: []Arg{argUnranked(graph.Float32), c, c, c, c}, outs: 2, want: "float32[...], float32[3] over 1<3"},
		{doc: "bounded batch", op: "InstanceNormalization", in: []Arg{f(graph.AtMost(2), 3, 4), c, c}, want: "float32[<=2,3,4] over 0<0"},
		{doc: "layer", op: "LayerNormalization", in: []Arg{arg(graph.Float16, 2, 5, 8), arg(graph.Float16, 8)}, outs: 3, want: "float16[2,5,8], float32[2,5,1], float32[2,5,1] over 0<0"},
		{doc: "two axes", op: "LayerNormalization", in: []Arg{f(2, 5, 8), f(5, 8), f(8)}, outs: 2, attrs: []*graph.Attr{attrInt("axis", -2)}, want: "float32[2,5,8], float32[2,1,1] over 0<0"},
		{doc: "scale does not broadcast", op: "LayerNormalization", in: []Arg{f(2, 5, 8), f(5)}, want: "error: input 1 has shape [5], expected one that broadcasts to input 0 [2,5,8]"},
		{doc: "axis", op: "LayerNormalization", in: []Arg{f(2, 5, 8), f(8)}, attrs: []*graph.Attr{attrInt("axis", 3)}, want: "error: axis is 3"},
		{doc: "type of the scale", op: "RMSNormalization", in: []Arg{arg(graph.Float16, 2, 8), f(8)}, want: "float32[2,8]"},
		{doc: "simplified, in both domains", op: "SimplifiedLayerNormalization", version: 1, in: []Arg{f(2, 8), f(8)}, outs: 2, want: "float32[2,8], float32[2,1] over 0<0"},
		{doc: "simplified, in both domains", op: "com.microsoft.SimplifiedLayerNormalization", version: 1, in: []Arg{f(2, 8), f(8)}, want: "float32[2,8] over 0<0"},
		{doc: "per group", op: "GroupNormalization", version: 18, in: []Arg{f(1, 4, 2), f(2), f(2)}, attrs: []*graph.Attr{attrInt("num_groups", 2)}, want: "float32[1,4,2] over 0<0"},
		{doc: "per channel", op: "GroupNormalization", in: []Arg{f(1, 4, 2), f(2), f(2)}, attrs: []*graph.Attr{attrInt("num_groups", 2)}, want: "error: expected [4]: one element per channel"},
		{doc: "groups", op: "GroupNormalization", in: []Arg{f(1, 4, 2), f(4), f(4)}, attrs: []*graph.Attr{attrInt("num_groups", 3)}, want: "error: a multiple of num_groups 3"},
		{doc: "no groups", op: "GroupNormalization", in: []Arg{f(1, 4, 2), f(4), f(4)}, want: "error: num_groups is 0"},
		{doc: "mean and variance", op: "MeanVarianceNormalization", in: []Arg{image}, want: "float32[2,3,4,4] over 0<0"},
		{doc: "reads its neighbours", op: "LRN", in: []Arg{image}, attrs: []*graph.Attr{attrInt("size", 5)}, want: "float32[2,3,4,4]"},
	})
}

// Checks that precede the kernels of normalizations.
func TestCheckNormalization(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	image, c := f(2, 3, 4, 4), f(3)
	norm := []Arg{image, c, c, c, c}
	runGate(t, []opCase{
		{doc: "inference", op: "BatchNormalization", in: norm},
		{doc: "training", op: "BatchNormalization", in: norm, outs: 3, attrs: attrs(attrInt("training_mode", 1))},
		{doc: "statistics of inference", op: "BatchNormalization", in: norm, outs: 3, want: "error: output 1 is made in training alone, expected training_mode 1"},
		{doc: "training of an old opset", op: "BatchNormalization", version: 9, in: norm, outs: 2, attrs: attrs(attrInt("training_mode", 1)), want: "error: output 1 is made in training alone"},
		{doc: "statistics of places", op: "BatchNormalization", version: 7, in: []Arg{f(2, 3, 4), f(3, 4), f(3, 4), f(3, 4), f(3, 4)}, attrs: attrs(attrInt("spatial", 0)), want: "error: spatial is 0, expected statistics of channels"},
		{doc: "a list", op: "BatchNormalization", in: []Arg{f(5), f(1), f(1), f(1), f(1)}},
	})
}
