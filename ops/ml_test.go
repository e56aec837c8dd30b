package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestClassical(t *testing.T) {
	x := arg(graph.Float32, 4, 3)
	strings := func(name string, v ...string) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrStrings, Strings: v}
	}
	floats := func(name string, v ...float32) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrFloats, Floats: v}
	}
	runCases(t, []opCase{
		{doc: "labels are integers", op: "ai.onnx.ml.LinearClassifier", in: []Arg{x}, outs: 2, attrs: []*graph.Attr{attrInts("classlabels_ints", 0, 1), floats("intercepts", 1)}, want: "int64[4], float32[4,2]"},
		{doc: "labels are strings", op: "ai.onnx.ml.TreeEnsembleClassifier", in: []Arg{x}, outs: 2, attrs: []*graph.Attr{strings("classlabels_strings", "a", "b", "c")}, want: "string[4], float32[4,3]"},
		{doc: "no labels", op: "ai.onnx.ml.TreeEnsembleClassifier", in: []Arg{x}, want: "error: expected the labels"},
		{doc: "a vote per pair", op: "ai.onnx.ml.SVMClassifier", in: []Arg{x}, outs: 2, attrs: []*graph.Attr{attrInts("classlabels_ints", 0, 1, 2, 3), attrInts("vectors_per_class", 1, 1, 1, 1)}, want: "int64[4], float32[4,6]"},
		{doc: "probabilities", op: "ai.onnx.ml.SVMClassifier", in: []Arg{x}, outs: 2, attrs: []*graph.Attr{attrInts("classlabels_ints", 0, 1, 2, 3), attrInts("vectors_per_class", 1, 1, 1, 1), floats("prob_a", 1)}, want: "int64[4], float32[4,4]"},
		{doc: "one row", op: "ai.onnx.ml.LinearRegressor", in: []Arg{arg(graph.Float32, 3)}, attrs: []*graph.Attr{attrInt("targets", 2)}, want: "float32[1,2]"},
		{doc: "targets", op: "ai.onnx.ml.TreeEnsemble", in: []Arg{arg(graph.Float64, 4, 3)}, attrs: []*graph.Attr{attrInt("n_targets", 2)}, want: "float64[4,2]"},
		{doc: "other integers become floats", op: "ai.onnx.ml.Scaler", in: []Arg{arg(graph.Int32, 4, 3)}, want: "float32[4,3] over 0<0"},
		{doc: "one more axis", op: "ai.onnx.ml.OneHotEncoder", in: []Arg{x}, attrs: []*graph.Attr{attrInts("cats_int64s", 1, 2)}, want: "float32[4,3,2]"},
		{doc: "all axes but the first are features", op: "ai.onnx.ml.FeatureVectorizer", in: []Arg{x, arg(graph.Float32, 4, 1, 6)}, want: "float32[4,9]"},
		{doc: "side by side", op: "ai.onnx.ml.FeatureVectorizer", in: []Arg{x, arg(graph.Int64, 4, 2)}, attrs: []*graph.Attr{attrInts("inputdimensions", 3, 2)}, want: "float32[4,5]"},
		{doc: "no input may be left out", op: "ai.onnx.ml.FeatureVectorizer", in: []Arg{x, {}, x}, want: "error: input 1 is missing"},
		{doc: "values tell the type", op: "ai.onnx.ml.LabelEncoder", in: []Arg{arg(graph.String, 4)}, attrs: []*graph.Attr{attrInts("values_int64s", 1)}, want: "int64[4]"},
		{doc: "the first version maps both ways", op: "ai.onnx.ml.LabelEncoder", version: 1, in: []Arg{arg(graph.Int64, 4)}, want: "string[4]"},
		{doc: "a sequence of maps", op: "ai.onnx.ml.ZipMap", in: []Arg{x}, attrs: []*graph.Attr{strings("classlabels_strings", "no", "yes")}, want: "sequence(map(string, float32))"},
		{doc: "a sequence of maps from numbers", op: "ai.onnx.ml.ZipMap", in: []Arg{x}, want: "sequence(map(int64, float32))"},
		{doc: "picks along the last axis", op: "ai.onnx.ml.ArrayFeatureExtractor", in: []Arg{x, arg(graph.Int64, 2)}, want: "float32[4,2]"},
	})
}

func TestOptimizers(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	r, step := f(), arg(graph.Int64)
	runCases(t, []opCase{
		{
			doc: "parameters and states in place", op: "ai.onnx.preview.training.Adam", in: []Arg{r, step, f(2), f(3), f(2), f(3), f(2), f(3), f(2), f(3)}, outs: 6,
			want: "float32[2], float32[3], float32[2], float32[3], float32[2], float32[3] over 0<2 1<3 2<6 3<7 4<8 5<9",
		},
		{doc: "one parameter", op: "ai.onnx.preview.training.Momentum", in: []Arg{r, step, f(2), f(2), f(2)}, outs: 2, want: "float32[2], float32[2] over 0<2 1<4"},
		{doc: "count of inputs", op: "ai.onnx.preview.training.Adagrad", in: []Arg{r, step, f(2), f(2)}, outs: 2, want: "error: found 4 inputs and 2 outputs"},
		{doc: "shape of the gradient", op: "ai.onnx.preview.training.Adagrad", in: []Arg{r, step, f(2), f(3), f(2)}, outs: 2, want: "error: input 3 has shape [3], expected [2]"},
	})
}

func TestLosses(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	none := []*graph.Attr{attrString("reduction", "none")}
	runCases(t, []opCase{
		{doc: "reduced", op: "SoftmaxCrossEntropyLoss", in: []Arg{f(2, 3, 4), arg(graph.Int64, 2, 4)}, outs: 2, want: "float32[], float32[2,3,4]"},
		{doc: "not reduced", op: "NegativeLogLikelihoodLoss", in: []Arg{f(2, 3, 4), arg(graph.Int64, 2, 4)}, attrs: none, want: "float32[2,4]"},
		{doc: "lengths from either", op: "NegativeLogLikelihoodLoss", in: []Arg{f(2, 3, graph.Unknown), arg(graph.Int64, graph.Unknown, 4)}, attrs: none, want: "float32[2,4]"},
		{doc: "labels", op: "NegativeLogLikelihoodLoss", in: []Arg{f(2, 3, 4), arg(graph.Int64, 2, 3)}, want: "error: expected [2,4]: a label"},
		{doc: "weights", op: "NegativeLogLikelihoodLoss", in: []Arg{f(2, 3), arg(graph.Int64, 2), f(2)}, want: "error: expected [3]: a weight per class"},
		{doc: "reduction", op: "NegativeLogLikelihoodLoss", in: []Arg{f(2, 3), arg(graph.Int64, 2)}, attrs: []*graph.Attr{attrString("reduction", "max")}, want: `error: reduction is "max"`},
	})
}

func TestSignalsAndImages(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	onesided := []*graph.Attr{attrInt("onesided", 1)}
	runCases(t, []opCase{
		{doc: "an attribute before 20", op: "DFT", version: 17, in: []Arg{f(2, 10, 1)}, attrs: onesided, want: "float32[2,6,2]"},
		{doc: "an input from 20 on", op: "DFT", in: []Arg{f(2, 10, 1), {}, argInt(0)}, attrs: onesided, want: "float32[2,10,2]"},
		{doc: "whichever axis, the shape stays", op: "DFT", in: []Arg{f(2, 10, 1), {}, arg(graph.Int64)}, want: "float32[2,10,2]"},
		{doc: "half of either axis", op: "DFT", in: []Arg{f(2, 10, 1), {}, arg(graph.Int64)}, attrs: onesided, want: "float32[2,<=10,2]"},
		{doc: "back to real", op: "DFT", in: []Arg{f(2, 6, 2)}, attrs: []*graph.Attr{attrInt("inverse", 1), attrInt("onesided", 1)}, want: "float32[2,10,1]"},
		{doc: "the axis of parts", op: "DFT", in: []Arg{f(2, 10, 1), {}, argInt(-1)}, want: "error: the one of the real and imaginary parts"},
		{doc: "a negative length", op: "DFT", in: []Arg{f(2, 10, 1), argInt(-1)}, want: "error: the dft_length, is -1, expected at least 0"},
		{doc: "frames of a negative length", op: "STFT", in: []Arg{f(2, 16, 1), argInt(4), {}, argInt(-8)}, want: "error: the frame_length, is -8, expected at least 0"},
		{doc: "frames", op: "STFT", in: []Arg{f(2, 16, 1), argInt(4), {}, argInt(8)}, want: "float32[2,3,5,2]"},
		{doc: "a step from data", op: "STFT", in: []Arg{f(2, 16, 1), arg(graph.Int64), f(8)}, want: "float32[2,<=9,5,2]"},
		{doc: "step 0", op: "STFT", in: []Arg{f(2, 16, 1), argInt(0), f(8)}, want: "error: frame_step is 0"},
		{doc: "a window of another length", op: "STFT", in: []Arg{f(2, 16, 1), argInt(4), f(7), argInt(8)}, want: "error: expected the frame_length 8"},

		{doc: "grey", op: "ImageDecoder", in: []Arg{arg(graph.Uint8, 99)}, attrs: []*graph.Attr{attrString("pixel_format", "Grayscale")}, want: "uint8[?,?,1]"},
		{doc: "at most so many of each class", op: "NonMaxSuppression", in: []Arg{f(2, 6, 4), f(2, 3, 6), argInts(2)}, want: "int64[<=12,3]"},
		{doc: "no more than there are", op: "NonMaxSuppression", in: []Arg{f(2, 6, 4), f(2, 3, 6), argInts(100)}, want: "int64[<=36,3]"},
		{doc: "a maximum from data", op: "NonMaxSuppression", in: []Arg{f(2, 6, 4), f(2, 3, 6), arg(graph.Int64, 1)}, want: "int64[<=36,3]"},
		{doc: "none by default", op: "NonMaxSuppression", in: []Arg{f(2, 6, 4), f(2, 3, 6)}, want: "int64[0,3]"},
		{doc: "boxes from data", op: "NonMaxSuppression", in: []Arg{f(1, graph.Unknown, 4), f(1, 3, graph.Unknown), argInts(5)}, want: "int64[<=15,3]"},
		{doc: "scores of other boxes", op: "NonMaxSuppression", in: []Arg{f(2, 6, 4), f(2, 3, 5)}, want: "error: expected [2,?,6]"},
	})
}
