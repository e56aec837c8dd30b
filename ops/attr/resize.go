package attr

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Resize is what the attributes of a Resize or Upsample node say.
type Resize struct {
	Axes      []int  // the axes that the node's lists are for, each in [0, rank)
	Mode      string // nearest, linear or cubic
	Transform string // coordinate_transformation_mode
	Policy    string // keep_aspect_ratio_policy

	CubicCoeffA    float32
	ExcludeOutside bool // elements outside the image have no weight
	Antialias      bool // a kernel that makes the image smaller becomes wider
	Extrapolation  float32

	// upsample: the node has the meaning of Upsample (before opset 11), whose
	// nearest element depends on the scale.
	upsample bool
	nearest  string // nearest_mode
}

// IsUpsample reports whether the node has the meaning of Upsample, which Resize
// had before opset 11, too: input 1 holds the scales. version is that of the
// operator's domain; 0, which is not known, counts as new.
func IsUpsample(n *graph.Node, version int64) bool {
	return n.Op == "Upsample" || version != 0 && version < 11
}

// ReadResize reads the attributes of a Resize or Upsample node of the given
// version whose image has the given rank. It fails if axes are wrong; Check
// tests the modes.
func ReadResize(n *graph.Node, version int64, rank int) (*Resize, error) {
	axes, err := AxesOrAll(n, "axes", rank)
	if err != nil {
		return nil, err
	}
	r := &Resize{
		Axes:           axes,
		Mode:           String(n, "mode", "nearest"),
		Transform:      String(n, "coordinate_transformation_mode", "half_pixel"),
		Policy:         String(n, "keep_aspect_ratio_policy", "stretch"),
		CubicCoeffA:    Float(n, "cubic_coeff_a", -0.75),
		ExcludeOutside: Int(n, "exclude_outside", 0) != 0,
		Antialias:      Int(n, "antialias", 0) != 0,
		Extrapolation:  Float(n, "extrapolation_value", 0),
		upsample:       IsUpsample(n, version),
		nearest:        String(n, "nearest_mode", "round_prefer_floor"),
	}
	if r.upsample {
		r.Transform = "asymmetric"
	}
	if r.Mode == "bilinear" {
		r.Mode = "linear"
	}
	return r, nil
}

// Check fails unless the modes are those that ONNX names.
func (r *Resize) Check() error {
	if err := oneOf("mode", r.Mode, "nearest", "linear", "cubic"); err != nil {
		return err
	}
	if err := oneOf("coordinate_transformation_mode", r.Transform, transforms...); err != nil {
		return err
	}
	if r.Mode != "nearest" {
		return nil
	}
	return oneOf("nearest_mode", r.nearest, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
}

var transforms = []string{
	"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
	"tf_half_pixel_for_nn", "tf_crop_and_resize",
}

// Crops reports whether input 1 is a region of the image, of which the result
// is made.
func (r *Resize) Crops() bool { return r.Transform == "tf_crop_and_resize" }

// Stretches reports whether each axis has the scale of its own size. Otherwise
// sizes have one scale in common (see Leading).
func (r *Resize) Stretches() bool { return r.Policy == "stretch" }

// CheckPolicy fails unless the policy is one that ONNX names.
func (r *Resize) CheckPolicy() error {
	if !slices.Contains([]string{"stretch", "not_larger", "not_smaller"}, r.Policy) {
		return graph.Errorf("keep_aspect_ratio_policy is %q, expected stretch, not_larger or not_smaller", graph.Short(r.Policy))
	}
	return nil
}

// Leading returns the index in r.Axes of the axis whose scale all of them get:
// the smallest (not_larger) or the largest (not_smaller), the first of equal ones.
// in is the shape of the image; sizes has one length for each of r.Axes.
func (r *Resize) Leading(in, sizes []int64) int {
	scale := func(i int) float64 { return float64(sizes[i]) / float64(in[r.Axes[i]]) }
	best := 0
	for i := range sizes {
		if r.Policy == "not_larger" && scale(i) < scale(best) || r.Policy == "not_smaller" && scale(i) > scale(best) {
			best = i
		}
	}
	return best
}

// UpsampleScales returns the scales that are attributes of Upsample: a list in
// opset 7, two numbers for an image of rank 4 in opset 1. It fails if there are
// none.
func UpsampleScales(n *graph.Node) ([]float32, error) {
	if a := n.Attr("scales"); a != nil {
		return a.Floats, nil
	}
	if n.Attr("height_scale") == nil || n.Attr("width_scale") == nil {
		return nil, graph.Errorf("scales are missing: expected input 1 (opset 9), scales (7), or height_scale and width_scale (1)")
	}
	return []float32{1, 1, Float(n, "height_scale", 1), Float(n, "width_scale", 1)}, nil
}

// ResizedAxis is how one axis of the result of a Resize lies on the image.
type ResizedAxis struct {
	In, Out    int64
	Scale      float64 // elements of the result for each of the image
	Start, End float64 // of the region: 0 is the first element of the image, 1 the last

	transform string
}

// Along returns all axes of an image of shape in that is resized to shape out. Of the lists,
// which have one number for each of r.Axes, either scales or sizes is stated. roi, the starts
// and then the ends of the region, is read if the node crops; it is empty for the whole
// image.
func (r *Resize) Along(in, out []int64, scales []float64, sizes []int64, roi []float64) []ResizedAxis {
	axes := make([]ResizedAxis, len(in))
	for a := range axes {
		axes[a] = ResizedAxis{In: in[a], Out: out[a], Scale: 1, End: 1, transform: r.Transform}
	}
	for i, f := range scales {
		axes[r.Axes[i]].Scale = f
	}
	if len(scales) == 0 && len(sizes) > 0 {
		leading := r.Leading(in, sizes)
		for i := range sizes {
			k := i
			if !r.Stretches() {
				k = leading
			}
			axes[r.Axes[i]].Scale = float64(sizes[k]) / float64(in[r.Axes[k]])
		}
	}
	if slices.Equal(in, out) && !r.Crops() && r.Transform != "tf_half_pixel_for_nn" {
		// As in ONNX Runtime, the result is the image, whatever scales led to its lengths.
		for a := range axes {
			axes[a].Scale = 1
		}
	}
	if r.Crops() && len(roi) > 0 {
		for i, a := range r.Axes {
			axes[a].Start, axes[a].End = roi[i], roi[len(r.Axes)+i]
		}
	}
	return axes
}

// Copies reports whether the axis of the result is that of the image.
func (a *ResizedAxis) Copies() bool {
	return a.In == a.Out && a.Scale == 1 && a.transform != "tf_crop_and_resize"
}

// Source returns where element o of the result lies on the image, in elements. outside
// reports that it lies outside of the image, which is then extrapolated: only a region can
// reach there.
//
// The formulas are those of Resize in ONNX, in the arithmetic of ONNX Runtime: float32, and
// float64 within the formulas of half_pixel_symmetric. The arithmetic decides where an
// element lies between two others, or beside a whole number. With align_corners, the divisor
// is the length of the result, which is a whole number, as the text of ONNX and ONNX Runtime
// say. (Two of ONNX's operator tests divide by the length before it is rounded.)
// pytorch_half_pixel maps a single element to 0.
func Source(a *ResizedAxis, o int64) (x float64, outside bool) {
	scale, in, out, at := float32(a.Scale), float32(a.In), float32(a.Out), float32(o)
	switch a.transform {
	case "asymmetric":
		return float64(at / scale), false
	case "align_corners":
		if a.Out == 1 {
			return 0, false
		}
		return float64(float32(at*(in-1)) / (out - 1)), false
	case "pytorch_half_pixel":
		if a.Out == 1 {
			return 0, false
		}
	case "half_pixel_symmetric":
		offset := float32(in / 2 * float32(1-out/float32(scale*in)))
		return float64(float32(float64(offset) + (float64(at)+0.5)/float64(scale) - 0.5)), false
	case "tf_half_pixel_for_nn":
		return float64((at + 0.5) / scale), false
	case "tf_crop_and_resize":
		start, end := float32(a.Start), float32(a.End)
		if a.Out == 1 {
			x = 0.5 * float64(float32(start+end)) * float64(in-1)
		} else {
			x = float64(float32(start*(in-1)) + float32(float32(at*float32(end-start))*(in-1))/(out-1))
		}
		x = float64(float32(x))
		return x, x < 0 || x > float64(in-1)
	}
	return float64(float32((at+0.5)/scale) - 0.5), false
}

// halfway is how far from the middle between two elements a coordinate still counts as the
// middle, as in ONNX Runtime: in exact arithmetic it would lie there.
const halfway = 1e-6

// Nearest rounds a coordinate to an element. Upsample says nothing about it:
// ONNX's operator tests and ONNX Runtime round up if the image becomes smaller.
func (r *Resize) Nearest(a *ResizedAxis, x float64) float64 {
	mode := r.nearest
	if r.upsample {
		mode = "floor"
		if a.Scale < 1 {
			mode = "ceil"
		}
	}
	switch mode {
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	}
	low := math.Floor(x)
	switch over := x - low - 0.5; {
	case mode == "round_prefer_ceil" && over > -halfway, over >= halfway:
		return low + 1
	}
	return low // round_prefer_floor
}
