package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// resizeOperators resample an image.
var resizeOperators = []operator{
	{"Resize", resize},
	{"Upsample", upsample},
}

// resizing is one axis of a Resize.
type resizing struct {
	in, out    int
	scale      float64
	start, end float64 // roi
}

// upsample is resize before there was Resize.
func upsample(c *evaluation) []*Tensor {
	if c.version >= 11 {
		fail("replaced by Resize")
	}
	return resize(c)
}

// resize interpolates along one axis after the other. Before opset 11, coordinates are
// asymmetric and nearest rounds down, or up
// where the image becomes smaller.
func resize(c *evaluation) []*Tensor {
	x := c.x(0)
	old := c.version < 11
	mode, coordinates := c.str("mode", "nearest"), c.str("coordinate_transformation_mode", "half_pixel")
	nearest := c.str("nearest_mode", "round_prefer_floor")
	roi, scales, sizes := c.x(1), c.x(2), c.list(3)
	if old {
		coordinates = "asymmetric"
		roi, scales, sizes = nil, c.x(1), nil
		if a := c.attr("scales"); a != nil {
			scales = zeros(graph.Float32, []int{len(a.Floats)})
			for i, v := range a.Floats {
				scales.F[i] = float64(v)
			}
		}
	}
	axes := c.ints("axes", nil)
	if axes == nil {
		for k := range x.Shape {
			axes = append(axes, k)
		}
	}
	list := make([]resizing, len(axes))
	keep := math.NaN() // one scale for all axes
	if len(sizes) > 0 {
		for k, a := range axes {
			s := float64(sizes[k]) / float64(x.Shape[wrapAxis(a, len(x.Shape))])
			switch c.str("keep_aspect_ratio_policy", "stretch") {
			case "not_larger":
				keep = branch(math.IsNaN(keep) || s < keep, s, keep)
			case "not_smaller":
				keep = branch(math.IsNaN(keep) || s > keep, s, keep)
			}
		}
	}
	for k, a := range axes {
		r := resizing{in: x.Shape[wrapAxis(a, len(x.Shape))], end: 1}
		switch {
		case len(sizes) == 0:
			r.scale = scales.F[k]
			r.out = int(float32(r.in) * float32(r.scale)) // as in ONNX Runtime
		case math.IsNaN(keep):
			r.out = sizes[k]
			r.scale = float64(r.out) / float64(r.in)
		default:
			r.scale = keep
			r.out = int(math.Floor(keep*float64(r.in) + 0.5))
		}
		if coordinates == "tf_crop_and_resize" {
			r.start, r.end = roi.real(k), roi.real(len(axes)+k)
		}
		list[k] = r
	}
	y, mass := x, x.reals().each(math.Abs)
	if coordinates != "tf_crop_and_resize" && coordinates != "tf_half_pixel_for_nn" && !slices.ContainsFunc(list, func(r resizing) bool { return r.in != r.out }) {
		list, axes = nil, nil // an image that keeps its lengths is copied
	}
	for k, a := range axes {
		r := list[k]
		if old && r.scale < 1 {
			nearest = "ceil"
		} else if old {
			nearest = "floor"
		}
		if r.in == r.out && r.scale == 1 && r.start == 0 && r.end == 1 {
			continue
		}
		y = y.resized(c, wrapAxis(a, len(x.Shape)), r, mode, coordinates, nearest, false)
		mass = mass.resized(c, wrapAxis(a, len(x.Shape)), r, mode, coordinates, nearest, true)
	}
	if mode == "nearest" {
		c.bounded(0).exact = true
	} else {
		c.terms(0, mass.F)
	}
	return one(y.clone())
}

// coordinate returns the position of output element o in the input, rounded to float32 where
// ONNX Runtime rounds: that decides which element is nearest where a scale is no exact number.
func (r resizing) coordinate(o int, mode string) float64 {
	f := func(v float64) float64 { return float64(float32(v)) }
	x, in, out, scale := float64(o), float64(r.in), float64(r.out), f(r.scale)
	switch mode {
	case "align_corners":
		if out == 1 {
			return 0
		}
		return f(f(x*(in-1)) / (out - 1))
	case "asymmetric":
		return f(x / scale)
	case "tf_crop_and_resize":
		start, end := f(r.start), f(r.end)
		if out == 1 {
			return f(f(start+end) * (in - 1) / 2)
		}
		return f(f(start*(in-1)) + f(f(f(x*f(end-start))*(in-1))/(out-1)))
	case "pytorch_half_pixel":
		if out == 1 {
			return 0
		}
	case "half_pixel_symmetric":
		return f(f(in/2*f(1-f(out/f(in*scale)))) + (x+0.5)/scale - 0.5)
	case "tf_half_pixel_for_nn":
		return f((x + 0.5) / scale)
	case "half_pixel":
	default:
		fail("coordinates %q", mode)
	}
	return f(f((x+0.5)/scale) - 0.5)
}

// weights returns the weights of the elements around a point that lies ratio, in (0, 1],
// after the element with index (len-1)/2.
func (r resizing) weights(c *evaluation, ratio float64, mode, nearest string) []float64 {
	scale := 1.0
	if c.int("antialias", 0) != 0 {
		scale = math.Min(r.scale, 1)
	}
	var f func(float64) float64
	radius := 1.0
	switch mode {
	case "nearest":
		const middle = 1e-6 // from the middle between two elements, which it is in exact arithmetic
		up := ratio == 1 || nearest == "ceil" || nearest == "round_prefer_floor" && ratio >= 0.5+middle || nearest == "round_prefer_ceil" && ratio > 0.5-middle
		if up {
			return []float64{0, 1}
		}
		return []float64{1, 0}
	case "linear":
		f = func(d float64) float64 { return math.Max(0, 1-math.Abs(d)) }
	case "cubic":
		a := c.float("cubic_coeff_a", -0.75)
		radius = 2
		f = func(d float64) float64 {
			switch d = math.Abs(d); {
			case d <= 1:
				return ((a+2)*d-(a+3))*d*d + 1
			case d < 2:
				return ((a*d-5*a)*d+8*a)*d - 4*a
			}
			return 0
		}
	default:
		fail("mode %q", mode)
	}
	start := int(math.Floor(-radius/scale)) + 1
	var w []float64
	total := 0.0
	for i := start; i < 2-start; i++ {
		v := f(scale * (float64(i) - ratio))
		w = append(w, v)
		total += v
	}
	for i := range w {
		w[i] /= total
	}
	return w
}

// resized interpolates along one axis. The first and the last element are repeated
// beyond the ends, unless exclude_outside is set. With mass, it sums the magnitudes of
// the terms instead; these include the rounding error of the position.
func (x *Tensor) resized(c *evaluation, axis int, r resizing, mode, coordinates, nearest string, mass bool) *Tensor {
	shape := slices.Clone(x.Shape)
	shape[axis] = r.out
	y := zeros(x.Type, shape)
	step := size(shape[axis+1:])
	parallel(r.out, func(o int) {
		p := r.coordinate(o, coordinates)
		outside := coordinates == "tf_crop_and_resize" && (p < 0 || p > float64(r.in-1))
		base := int(math.Ceil(p)) - 1
		w := r.weights(c, p-float64(base), mode, nearest)
		first := base - (len(w)/2 - 1)
		if c.int("exclude_outside", 0) != 0 {
			total := 0.0
			for k := range w {
				if first+k < 0 || first+k >= r.in {
					w[k] = 0
				}
				total += w[k]
			}
			for k := range w {
				w[k] /= total
			}
		}
		for line := range size(shape[:axis]) * step {
			outer, inner := line/step, line%step
			v := 0.0
			from := func(k int) int { return (outer*r.in+min(max(first+k, 0), r.in-1))*step + inner }
			if k := slices.Index(w, 1); mode == "nearest" && k >= 0 && !outside && x.I != nil { // of all 64 bits
				y.I[(outer*r.out+o)*step+inner] = x.I[from(k)]
				continue
			}
			for k := range w {
				i := from(k)
				if mass {
					v += (math.Abs(w[k]) + math.Abs(p)*2) * x.F[i]
				} else {
					v += w[k] * x.real(i)
				}
			}
			if outside {
				v = c.float("extrapolation_value", 0)
			}
			y.set((outer*r.out+o)*step+inner, v)
		}
	})
	return y
}
