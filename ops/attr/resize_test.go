package attr

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// resized makes the one axis of a Resize.
func resized(t *testing.T, transform string, in, out int64, scale float64) *ResizedAxis {
	t.Helper()
	r, err := ReadResize(node(text("coordinate_transformation_mode", transform)), 19, 1)
	if err == nil {
		err = r.Check()
	}
	want(t, err, "")
	axes := r.Along([]int64{in}, []int64{out}, []float64{scale}, nil, []float64{0.25, 0.75})
	return &axes[0]
}

// TestSource takes its numbers from the formulas in the documentation of Resize.
func TestSource(t *testing.T) {
	for _, c := range []struct {
		transform string
		in, out   int64
		scale     float64
		want      []float64
	}{
		{"half_pixel", 4, 2, 0.5, []float64{0.5, 2.5}},
		{"half_pixel_symmetric", 4, 2, 0.625, []float64{0.7, 2.3}}, // 2·(1 - 2/2.5) + 0.5/0.625 - 0.5
		{"pytorch_half_pixel", 4, 2, 0.5, []float64{0.5, 2.5}},
		{"pytorch_half_pixel", 4, 1, 0.25, []float64{0}},
		{"align_corners", 4, 7, 1.75, []float64{0, 0.5, 1, 1.5, 2, 2.5, 3}},
		{"align_corners", 4, 2, 0.6, []float64{0, 3}}, // the length is 2.4 before it is rounded
		{"align_corners", 4, 1, 0.25, []float64{0}},
		{"asymmetric", 4, 2, 0.5, []float64{0, 2}},
		{"tf_half_pixel_for_nn", 4, 2, 0.5, []float64{1, 3}},
		{"tf_crop_and_resize", 5, 3, 0.6, []float64{1, 2, 3}},
		{"tf_crop_and_resize", 5, 1, 0.2, []float64{2}},
	} {
		a := resized(t, c.transform, c.in, c.out, c.scale)
		for o, x := range c.want {
			if got, outside := Source(a, int64(o)); math.Abs(got-x) > 1e-6 || outside {
				t.Errorf("%s from %d to %d: element %d lies at %v, expected %v", c.transform, c.in, c.out, o, got, x)
			}
		}
	}
}

// TestSourceOutside: a region can reach beyond the image.
func TestSourceOutside(t *testing.T) {
	r, err := ReadResize(node(text("coordinate_transformation_mode", "tf_crop_and_resize")), 19, 1)
	want(t, err, "")
	a := r.Along([]int64{3}, []int64{3}, nil, []int64{3}, []float64{-0.5, 1.5})[0]
	var got []bool
	for o := range int64(3) {
		_, outside := Source(&a, o)
		got = append(got, outside)
	}
	same(t, got, []bool{true, false, true})
	if a.Copies() {
		t.Error("a region is taken for a copy")
	}
}

// TestAlong: scales and sizes are for the axes that the node names. With an aspect
// ratio to keep, one axis decides for all of them.
func TestAlong(t *testing.T) {
	in := []int64{1, 3, 4}
	for _, c := range []struct {
		policy string
		scales []float64
		sizes  []int64
		want   []float64
	}{
		{"stretch", []float64{2, 0.5}, nil, []float64{1, 0.5, 2}},
		{"stretch", nil, []int64{6, 6}, []float64{1, 2, 1.5}},
		{"not_larger", nil, []int64{6, 6}, []float64{1, 1.5, 1.5}},
		{"not_smaller", nil, []int64{6, 6}, []float64{1, 2, 2}},
	} {
		r, err := ReadResize(node(ints("axes", -1, 1), text("keep_aspect_ratio_policy", c.policy)), 18, 3)
		want(t, err, "")
		want(t, r.CheckPolicy(), "")
		var got []float64
		for _, a := range r.Along(in, []int64{1, 5, 6}, c.scales, c.sizes, nil) {
			got = append(got, a.Scale)
		}
		same(t, got, c.want)
	}
}

// TestNearest: of two elements, at 2 and 3.
func TestNearest(t *testing.T) {
	for _, c := range []struct {
		op, mode           string
		scale              float64
		below, half, above float64 // of 2.25, 2.5, 2.75
	}{
		{"Resize", "round_prefer_floor", 2, 2, 2, 3},
		{"Resize", "round_prefer_ceil", 2, 2, 3, 3},
		{"Resize", "floor", 2, 2, 2, 2},
		{"Resize", "ceil", 2, 3, 3, 3},
		{"Upsample", "", 2, 2, 2, 2},
		{"Upsample", "", 0.5, 3, 3, 3},
	} {
		n := node(text("nearest_mode", c.mode))
		if n.Op = c.op; c.mode == "" {
			n.Attrs = nil
		}
		r, err := ReadResize(n, 19, 1)
		want(t, err, "")
		a := &ResizedAxis{Scale: c.scale}
		same(t, [3]float64{r.Nearest(a, 2.25), r.Nearest(a, 2.5), r.Nearest(a, 2.75)}, [3]float64{c.below, c.half, c.above})
		same(t, r.Nearest(a, 2), 2.0)
	}
}

// TestNearestOfFractions: element 17 of 51 that are made of 30 by the scale 1.7 of float32 lies
// at 10 in float32, and just before it in exact arithmetic. A coordinate that float32 moves off
// the middle between two elements is the middle.
func TestNearestOfFractions(t *testing.T) {
	for _, c := range []struct {
		transform, mode string
		in, out         int64
		scale           float32
		at              int64
		want            float64
	}{
		{"asymmetric", "floor", 30, 51, 1.7, 17, 10},
		{"asymmetric", "ceil", 30, 51, 1.7, 17, 10},
		{"half_pixel", "round_prefer_floor", 24, 31, 1.3, 19, 14},
		{"pytorch_half_pixel", "round_prefer_ceil", 40, 116, 2.9, 43, 15},
		{"half_pixel_symmetric", "round_prefer_ceil", 29, 110, 3.8, 7, 2},
		{"half_pixel_symmetric", "floor", 27, 89, 3.3, 77, 23},
		{"tf_half_pixel_for_nn", "round_prefer_floor", 47, 122, 2.6, 19, 7},
	} {
		r, err := ReadResize(node(text("coordinate_transformation_mode", c.transform), text("nearest_mode", c.mode)), 19, 1)
		want(t, err, "")
		a := r.Along([]int64{c.in}, []int64{c.out}, []float64{float64(c.scale)}, nil, nil)[0]
		x, _ := Source(&a, c.at)
		if got := r.Nearest(&a, x); got != c.want {
			t.Errorf("%s, %s: element %d of %d is element %v of %d, expected %v as in ONNX Runtime", c.transform, c.mode, c.at, c.out, got, c.in, c.want)
		}
	}
}

// TestSameLengths: an image that keeps its lengths is copied, whatever its scales.
func TestSameLengths(t *testing.T) {
	r, err := ReadResize(node(), 19, 2)
	want(t, err, "")
	for _, c := range []struct {
		out  []int64
		want bool
	}{{[]int64{3, 4}, true}, {[]int64{3, 6}, false}} {
		a := r.Along([]int64{3, 4}, c.out, []float64{1.1, 1.2}, nil, nil)
		same(t, a[0].Copies(), c.want)
	}
}

func TestResizeRefused(t *testing.T) {
	for _, c := range []struct {
		attr  *graph.Attr
		words string
	}{
		{text("mode", "area"), `mode is "area", expected one of`},
		{text("coordinate_transformation_mode", "corners"), `coordinate_transformation_mode is "corners"`},
		{text("nearest_mode", "even"), `nearest_mode is "even"`},
		{ints("axes", 1, 1), "axes names axis 1 twice"},
		{ints("axes", 2), "axes is 2, expected one of"},
	} {
		r, err := ReadResize(node(c.attr), 19, 2)
		if err == nil {
			err = r.Check()
		}
		want(t, err, c.words)
	}
	r, _ := ReadResize(node(text("keep_aspect_ratio_policy", "crop")), 19, 2)
	want(t, r.CheckPolicy(), `keep_aspect_ratio_policy is "crop", expected stretch, not_larger or not_smaller`)
}

// TestUpsampleScales: opset 7 states a list, opset 1 two numbers.
func TestUpsampleScales(t *testing.T) {
	list := &graph.Attr{Name: "scales", Type: graph.AttrFloats, Floats: []float32{1, 2}}
	height, width := &graph.Attr{Name: "height_scale", Float: 2}, &graph.Attr{Name: "width_scale", Float: 3}
	got, err := UpsampleScales(node(list))
	want(t, err, "")
	same(t, got, []float32{1, 2})
	got, err = UpsampleScales(node(height, width))
	want(t, err, "")
	same(t, got, []float32{1, 1, 2, 3})
	_, err = UpsampleScales(node(height))
	want(t, err, "scales are missing")
}
