package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// argFloats returns a known vector of float32.
func argFloats(v ...float32) Arg {
	a := arg(f32, graph.Dim(len(v)))
	a.Value = &Value{Shape: []int64{int64(len(v))}, Elems: make([]Scalar, len(v))}
	for i, x := range v {
		a.Value.Elems[i].F = float64(x)
	}
	return a
}

func TestResize(t *testing.T) {
	x := arg(f32, 1, 3, 7, upTo5)
	none, empty := Arg{}, argFloats()
	axes := attrInts("axes", 2, -1)
	mode := func(s string) *graph.Attr { return attrString("coordinate_transformation_mode", s) }
	policy := func(s string) *graph.Attr { return attrString("keep_aspect_ratio_policy", s) }
	y := arg(f32, 7, 9)
	runCases(t, []opCase{
		{doc: "scales in opset 10", op: "Resize", version: 10, in: in(x, argFloats(1, 1, 1.5, 2)), want: "float32[1,3,10,<=10]"},
		{doc: "scales", op: "Resize", in: in(x, none, argFloats(1, 1, 0.5, 2)), want: "float32[1,3,3,<=10]"},
		{doc: "scales of some axes", op: "Resize", in: in(x, none, argFloats(0.5, 2)), attrs: attrs(axes), want: "float32[1,3,3,<=10]"},
		{doc: "in float32", op: "Resize", in: in(arg(f32, 10), none, argFloats(0.7)), want: "float32[7]"},
		{doc: "sizes, and empty scales", op: "Resize", version: 11, in: in(x, empty, empty, argInts(1, 3, 4, 6)), want: "float32[1,3,4,6]"},
		{doc: "sizes of some axes", op: "Resize", in: in(x, none, none, argDims(upTo5, u)), attrs: attrs(axes), want: "float32[1,3,<=5,?]"},
		{doc: "unknown scales of some axes", op: "Resize", in: in(x, none, arg(f32, 2)), attrs: attrs(axes), want: "float32[1,3,?,?]"},
		{doc: "a region", op: "Resize", in: in(y, argFloats(0, 0.25, 1, 0.75), argFloats(1, 2)), attrs: attrs(mode("tf_crop_and_resize")), want: "float32[7,9]"},
		{doc: "the least scale", op: "Resize", in: in(y, none, none, argInts(5, 8)), attrs: attrs(policy("not_larger")), want: "float32[5,6]"},
		{doc: "the largest scale", op: "Resize", in: in(y, none, none, argInts(5, 8)), attrs: attrs(policy("not_smaller")), want: "float32[6,8]"},
		{doc: "the least scale, bounded", op: "Resize", in: in(x, none, none, argInts(5, 8)), attrs: attrs(policy("not_larger"), axes), want: "float32[1,3,<=5,<=8]"},
		{doc: "the largest scale, bounded", op: "Resize", in: in(x, none, none, argInts(5, 8)), attrs: attrs(policy("not_smaller"), axes), want: "float32[1,3,?,?]"},

		{doc: "scales of 1", op: "Resize", in: in(x, none, argFloats(1, 1, 1, 1)), want: "float32[1,3,7,<=5] view 0<0"},
		{doc: "a scale that only rounds to the same", op: "Resize", in: in(arg(f32, 5), none, argFloats(1.1)), want: "float32[5]"},
		{doc: "sizes of the input", op: "Resize", in: in(y, none, none, argInts(7, 9)), attrs: attrs(mode("asymmetric")), want: "float32[7,9] view 0<0"},
		{doc: "sizes that one scale makes those of the input", op: "Resize", in: in(y, none, none, argInts(7, 9)), attrs: attrs(policy("not_larger")), want: "float32[7,9]"},
		{doc: "half a pixel off", op: "Resize", version: 11, in: in(y, empty, empty, argInts(7, 9)), attrs: attrs(mode("tf_half_pixel_for_nn")), want: "float32[7,9]"},
		{doc: "all of it as a region", op: "Resize", in: in(y, argFloats(0, 0, 1, 1), argFloats(1, 1)), attrs: attrs(mode("tf_crop_and_resize")), want: "float32[7,9]"},

		{doc: "a region of too few numbers", op: "Resize", in: in(y, argFloats(0, 1), argFloats(1, 1)), attrs: attrs(mode("tf_crop_and_resize")), want: "error: expected [4]: the starts, then the ends of the region"},
		{doc: "a region of more axes than are named", op: "Resize", in: in(y, argFloats(0, 0, 1, 1), none, argInts(3)), attrs: attrs(mode("tf_crop_and_resize"), attrInts("axes", 1)), want: "error: expected [2]: the starts"},
		{doc: "no region", op: "Resize", in: in(y, none, argFloats(1, 1)), attrs: attrs(mode("tf_crop_and_resize")), want: "float32[7,9]"},
		{doc: "neither", op: "Resize", in: in(x, none, empty), want: "error: neither scales nor sizes"},
		{doc: "both", op: "Resize", in: in(y, none, argFloats(1, 1), argInts(1, 1)), want: "error: both scales and sizes"},
		{doc: "a scale of 0", op: "Resize", in: in(y, none, argFloats(1, 0)), want: "error: scale of axis 1 is 0"},
		{doc: "a size below 0", op: "Resize", in: in(y, none, none, argInts(1, -1)), want: "error: size of axis 1 is -1"},
		{doc: "another number", op: "Resize", in: in(y, none, argFloats(1)), want: "error: scales has 1 elements, expected 2"},
		{doc: "beyond 63 bits", op: "Resize", in: in(y, none, argFloats(1e30, 1)), want: "error: scale of axis 0"},
		{doc: "an axis that is not there", op: "Resize", in: in(y, none, argFloats(1)), attrs: attrs(attrInts("axes", 2)), want: "error: axes is 2"},
		{doc: "a policy that is not there", op: "Resize", in: in(y, none, none, argInts(1, 1)), attrs: attrs(policy("fit")), want: "error: keep_aspect_ratio_policy is \"fit\""},

		{doc: "opset 1", op: "Upsample", version: 1, in: in(arg(f32, 1, 3, 7, 5)), attrs: attrs(attrFloat("height_scale", 2), attrFloat("width_scale", 1.5)), want: "float32[1,3,14,7]"},
		{doc: "opset 7", op: "Upsample", version: 7, in: in(y), attrs: attrs(&graph.Attr{Name: "scales", Type: graph.AttrFloats, Floats: []float32{2, 1}}), want: "float32[14,9]"},
		{doc: "opset 9", op: "Upsample", version: 9, in: in(y, argFloats(1, 1)), want: "float32[7,9] view 0<0"},
		{doc: "no scales", op: "Upsample", version: 7, in: in(y), want: "error: scales are missing"},
	})
}

func TestGrids(t *testing.T) {
	x := arg(f32, 1, 3, 7, 5)
	runCases(t, []opCase{
		{doc: "some axes", op: "CenterCropPad", in: in(x, argInts(4, 9)), attrs: attrs(attrInts("axes", 2, -1)), want: "float32[1,3,4,9]"},
		{doc: "as it was", op: "CenterCropPad", in: in(x, argInts(1, 3, 7, 5)), want: "float32[1,3,7,5] view 0<0"},
		{doc: "unknown lengths of some axes", op: "CenterCropPad", in: in(x, argHidden(1)), attrs: attrs(attrInts("axes", 2)), want: "float32[1,3,?,5]"},
		{doc: "another number", op: "CenterCropPad", in: in(x, argInts(4)), want: "error: shape has 1 elements, expected 4"},

		{op: "GridSample", in: in(arg(f32, u, 3, 7, 5), arg(f32, 2, upTo5, 8, 2)), want: "float32[2,3,<=5,8]"},
		{doc: "volumes", op: "GridSample", in: in(arg(f32, 1, 3, 7, 5, 4), arg(f32, 1, 2, 2, 2, 3)), want: "float32[1,3,2,2,2]"},
		{doc: "places of another rank", op: "GridSample", in: in(x, arg(f32, 1, 8, 8, 3)), want: "error: 1 on axis 0 and 2 on the last"},

		{op: "AffineGrid", in: in(arg(f32, u, 2, 3), argInts(2, 3, 7, 5)), want: "float32[2,7,5,2]"},
		{doc: "volumes", op: "AffineGrid", in: in(arg(f32, 2, 3, 4), argDims(u, 3, 7, upTo5, 4)), want: "float32[2,7,<=5,4,3]"},
		{doc: "an unknown size", op: "AffineGrid", in: in(arg(f32, 2, 2, 3), argHidden(u)), want: "float32[2,?,?,2]"},
		{doc: "matrices of another kind", op: "AffineGrid", in: in(arg(f32, 2, 3, 4), argInts(2, 3, 7, 5)), want: "error: expected [2,2,3]"},
		{doc: "a size of another kind", op: "AffineGrid", in: in(arg(f32, 2, 3, 4), argInts(2, 3)), want: "error: size has 2 elements"},
	})
}

func TestResizeChecks(t *testing.T) {
	y, none := arg(f32, 7, 9), Arg{}
	word := func(attr string) []*graph.Attr { return attrs(attrString(attr, "bogus")) }
	runGate(t, []opCase{
		{op: "Resize", in: in(y, none, none, argInts(3, 3)), want: "float32[3,3]"},
		{doc: "a mode that is not there", op: "Resize", in: in(y, none, none, argInts(3, 3)), attrs: word("mode"), want: `error: mode is "bogus"`},
		{doc: "a way of rounding that is not there", op: "Resize", in: in(y, none, none, argInts(3, 3)), attrs: word("nearest_mode"), want: `error: nearest_mode is "bogus"`},
		{doc: "a way of rounding that nobody asks for", op: "Resize", in: in(y, none, none, argInts(3, 3)), attrs: attrs(attrString("nearest_mode", "bogus"), attrString("mode", "linear")), want: "float32[3,3]"},
		{doc: "coordinates that are not there", op: "Resize", in: in(y, none, none, argInts(3, 3)), attrs: word("coordinate_transformation_mode"), want: `error: coordinate_transformation_mode is "bogus"`},
		{doc: "something out of nothing", op: "Resize", in: in(arg(f32, 7, 0), none, none, argInts(3, 3)), want: "error: expected elements on axis 1, which is resized to 3"},
		{doc: "nothing out of nothing", op: "Resize", in: in(arg(f32, 7, 0), none, none, argInts(3, 0)), want: "float32[3,0]"},

		{op: "GridSample", in: in(arg(f32, 1, 2, 4, 5), arg(f32, 1, 3, 3, 2)), want: "float32[1,2,3,3]"},
		{doc: "an image without elements", op: "GridSample", in: in(arg(f32, 1, 2, 0, 5), arg(f32, 1, 3, 3, 2)), want: "error: expected elements on every spatial axis"},
		{doc: "a mode that is not there", op: "GridSample", in: in(arg(f32, 1, 2, 4, 5), arg(f32, 1, 3, 3, 2)), attrs: word("mode"), want: `error: mode is "bogus"`},
		{doc: "padding that is not there", op: "GridSample", in: in(arg(f32, 1, 2, 4, 5), arg(f32, 1, 3, 3, 2)), attrs: word("padding_mode"), want: `error: padding_mode is "bogus"`},

		{op: "RoiAlign", in: in(arg(f32, 1, 2, 4, 5), arg(f32, 3, 4), arg(i64, 3)), attrs: attrs(attrInt("sampling_ratio", 1024)), want: "float32[3,2,1,1]"},
		{doc: "samples without end", op: "RoiAlign", in: in(arg(f32, 1, 2, 4, 5), arg(f32, 3, 4), arg(i64, 3)), attrs: attrs(attrInt("sampling_ratio", 1<<31)), want: "error: sampling_ratio is 2147483648, expected at most 1024"},
		{doc: "an image without elements", op: "RoiAlign", in: in(arg(f32, 1, 2, 4, 0), arg(f32, 3, 4), arg(i64, 3)), want: "error: expected elements on both spatial axes"},
		{doc: "a mode that is not there", op: "RoiAlign", in: in(arg(f32, 1, 2, 4, 5), arg(f32, 3, 4), arg(i64, 3)), attrs: word("mode"), want: `error: mode is "bogus"`},
		{doc: "coordinates that are not there", op: "RoiAlign", in: in(arg(f32, 1, 2, 4, 5), arg(f32, 3, 4), arg(i64, 3)), attrs: word("coordinate_transformation_mode"), want: `error: coordinate_transformation_mode is "bogus"`},
	})
}
