package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestWithdrawn(t *testing.T) {
	image := func(shape ...graph.Dim) []Arg { return []Arg{arg(graph.Float32, shape...)} }
	border := func(list ...int64) *graph.Attr { return attrInts("border", list...) }
	bias := &graph.Attr{Name: "bias", Type: graph.AttrFloats, Floats: []float32{1, 2}}
	u := graph.Unknown
	runCases(t, []opCase{
		{doc: "left, top, right, bottom", op: "Crop", in: image(1, 3, 20, 30), attrs: []*graph.Attr{border(1, 2, 3, 4)}, want: "float32[1,3,14,26]"},
		{doc: "nothing cut off is a view", op: "Crop", in: image(1, 3, 20, 30), attrs: []*graph.Attr{border(0, 0, 0, 0)}, want: "float32[1,3,20,30] view 0<0"},
		{doc: "a height and a width", op: "Crop", in: image(1, 3, 20, 30), attrs: []*graph.Attr{border(1, 2, 0, 0), attrInts("scale", 18, 5)}, want: "float32[1,3,18,5]"},
		{doc: "a length that is open", op: "Crop", in: image(1, 3, u, 30), attrs: []*graph.Attr{border(1, 2, 3, 4)}, want: "float32[1,3,?,26]"},
		{doc: "a height too large", op: "Crop", in: image(1, 3, 20, 30), attrs: []*graph.Attr{border(1, 2, 0, 0), attrInts("scale", 19, 5)}, want: "error: expected an axis 2 that is long enough"},
		{doc: "a border too wide", op: "Crop", in: image(1, 3, 20, 30), attrs: []*graph.Attr{border(16, 0, 15, 0)}, want: "error: expected an axis 3 that is long enough"},
		{doc: "a border beyond the image", op: "Crop", in: image(1, 3, 20, 30), attrs: []*graph.Attr{border(0, 1<<62, 0, 1<<62)}, want: "error: expected an axis 2 that is long enough"},
		{doc: "a border that is negative", op: "Crop", in: image(1, 3, 20, 30), attrs: []*graph.Attr{border(-1, 0, 0, 0)}, want: "error: expected no negative number"},
		{doc: "no border", op: "Crop", in: image(1, 3, 20, 30), want: "error: border has 0 elements"},
		{doc: "a bias for each channel", op: "ImageScaler", in: image(1, 2, 4, 4), attrs: []*graph.Attr{bias}, want: "float32[1,2,4,4] over 0<0"},
		{doc: "a bias too few", op: "ImageScaler", in: image(1, 3, 4, 4), attrs: []*graph.Attr{bias}, want: "error: bias has 2 numbers, expected one for each of 3 channels"},
		{doc: "a factor and a term", op: "Affine", in: image(2, 3), want: "float32[2,3] over 0<0"},
		{doc: "a function of each element", op: "ScaledTanh", in: image(2, 3), want: "float32[2,3] over 0<0"},
	})
}
