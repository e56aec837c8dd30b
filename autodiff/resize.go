package autodiff

import "math"

// resizeRules resample an image.
var resizeRules = []Rule{
	{Op: "Resize", Inputs: []int{0}, Fused: true, Grad: resizeGrad},
}

// resizeGrad uses that a resampling with fixed lengths is linear and works axis
// by axis: the gradient is the product with the transpose of each axis's matrix
// of interpolation. Where elements are only repeated it is a sum.
func resizeGrad(c *Backward) {
	x, y := c.shape(c.X(0)), c.shape(c.Y(0))
	if c.err != nil {
		return
	}
	if c.Int("antialias", 0) != 0 {
		c.Failf("antialias is 1: expected 0, for which there is a gradient rule")
		return
	}
	maps := make([]*resampling, len(x))
	repeats := true
	for a := range x {
		r := c.resampling(a, x[a], y[a])
		if c.err != nil {
			return
		}
		if maps[a] = r; r != nil {
			repeats = repeats && r.repeats()
		}
	}
	d := c.D(0)
	if repeats {
		var split, over []int64
		for a := range x {
			split = append(split, x[a])
			if maps[a] != nil {
				over = append(over, int64(len(split)))
				split = append(split, y[a]/x[a])
			}
		}
		c.Set(0, c.sum(c.reshape(d, split), over, false))
		return
	}
	for a := len(x) - 1; a >= 0; a-- {
		if maps[a] != nil {
			d = c.contract(d, a, maps[a].matrix, x[a])
		}
	}
	c.Set(0, d)
}

// resampling is how the out elements of one axis follow from its in elements.
type resampling struct {
	in, out int64
	matrix  []float64 // out x in
}

// repeats reports whether each element is repeated equally often, in place.
func (r *resampling) repeats() bool {
	if r.out%r.in != 0 {
		return false
	}
	for o := range r.out {
		if r.matrix[o*r.in+o/(r.out/r.in)] != 1 {
			return false
		}
	}
	return true
}

// maxResampling bounds the elements of the matrix of one axis.
const maxResampling = 1 << 26

// resampling works out the matrix of an axis; nil where nothing changes. The
// arithmetic of coordinates is the specification's (Resize), in float32 as
// runtimes compute it: it tells which of two neighbours is the nearest.
func (c *Backward) resampling(axis int, in, out int64) *resampling {
	scale, region, stated := c.resizeScale(axis, in, out)
	mode := c.Str("coordinate_transformation_mode", "half_pixel")
	if !stated || in == out && scale == 1 && mode != "tf_crop_and_resize" {
		return nil
	}
	if in < 1 || out < 1 || in > maxResampling/out {
		c.Failf("axis %d is resized from %d to %d: expected 1 to %d elements in its matrix", axis, in, out, maxResampling)
		return nil
	}
	r := &resampling{in: in, out: out, matrix: make([]float64, in*out)}
	for o := range out {
		at, inside := resizeCoordinate(mode, float32(o), scale, float32(in), float32(out), region)
		if !inside {
			continue // the extrapolation value
		}
		c.interpolate(r.matrix[o*in:(o+1)*in], at)
	}
	return r
}

// resizeScale is the scale of an axis and, of tf_crop_and_resize, the region's
// first and last coordinate. stated is false for an axis that stays.
func (c *Backward) resizeScale(axis int, in, out int64) (scale float32, region [2]float32, stated bool) {
	rank := c.rank(c.X(0))
	over := axes(0, rank)
	if a := c.Node.Attr("axes"); a != nil {
		over = a.Ints
	}
	at := -1
	for k, a := range over {
		if int(a) == axis || int(a)+rank == axis {
			at = k
		}
	}
	if at < 0 {
		return 1, region, false
	}
	region = [2]float32{0, 1}
	if c.Str("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
		roi, ok := c.values[c.X(1)].Floats()
		if !ok || len(roi) != 2*len(over) {
			c.Failf("input 1 (roi) is not known before the data are there: expected a constant")
			return 1, region, false
		}
		region = [2]float32{float32(roi[at]), float32(roi[len(over)+at])}
	}
	if c.given(c.X(2)) && elements(c.shape(c.X(2))) > 0 {
		scales, ok := c.values[c.X(2)].Floats()
		if !ok {
			c.Failf("input 2 (scales) is not known before the data are there: expected a constant")
			return 1, region, false
		}
		return float32(scales[at]), region, true
	}
	if c.Str("keep_aspect_ratio_policy", "stretch") == "stretch" {
		return float32(out) / float32(in), region, true
	}
	return c.commonScale(over), region, true
}

// commonScale is that of sizes that keep the aspect ratio.
func (c *Backward) commonScale(over []int64) float32 {
	x, sizes := c.shape(c.X(0)), c.Lengths(3)
	if c.err != nil {
		return 1
	}
	smaller := c.Str("keep_aspect_ratio_policy", "") == "not_larger"
	best := float32(0)
	for k, a := range over {
		s := float32(sizes[k]) / float32(x[modulo(a, int64(len(x)))])
		if k == 0 || smaller == (s < best) {
			best = s
		}
	}
	return best
}

// resizeCoordinate is where, among the elements of the input, element o of the
// output lies; inside is false where an extrapolation value stands.
func resizeCoordinate(mode string, o, scale, in, out float32, region [2]float32) (at float32, inside bool) {
	length := scale * in // of the output, before it was rounded
	switch mode {
	case "asymmetric":
		return o / scale, true
	case "align_corners":
		if out == 1 {
			return 0, true
		}
		return o * (in - 1) / (out - 1), true
	case "pytorch_half_pixel":
		if out == 1 {
			return -0.5, true
		}
	case "half_pixel_symmetric":
		offset := in / 2 * (1 - out/length)
		return offset + (o+0.5)/scale - 0.5, true
	case "tf_half_pixel_for_nn":
		return (o + 0.5) / scale, true
	case "tf_crop_and_resize":
		at = 0.5 * (region[0] + region[1]) * (in - 1)
		if out > 1 {
			at = region[0]*(in-1) + o*(region[1]-region[0])*(in-1)/(out-1)
		}
		return at, at >= 0 && at <= in-1
	}
	return (o+0.5)/scale - 0.5, true
}

// interpolate fills in the row of one output element: the weights of the inputs.
// Beyond the ends stands the last element.
func (c *Backward) interpolate(row []float64, at float32) {
	last := len(row) - 1
	low := int(math.Floor(float64(at)))
	ratio := float64(at) - float64(low)
	put := func(i int, w float64) { row[min(max(i, 0), last)] += w }
	switch mode := c.Str("mode", "nearest"); mode {
	case "nearest":
		put(c.nearest(low, ratio), 1)
	case "linear":
		put(low, 1-ratio)
		put(low+1, ratio)
	case "cubic":
		w := cubicWeights(ratio, c.Float("cubic_coeff_a", -0.75))
		if c.Int("exclude_outside", 0) != 0 {
			sum := 0.0
			for k := range w {
				if i := low - 1 + k; i < 0 || i > last {
					w[k] = 0
				}
				sum += w[k]
			}
			for k := range w {
				w[k] /= sum
			}
		}
		for k := range w {
			put(low-1+k, w[k])
		}
	default:
		c.Failf("mode %q: expected nearest, linear or cubic", mode)
	}
}

// nearest is the element next to low + ratio.
func (c *Backward) nearest(low int, ratio float64) int {
	up := false
	switch c.Str("nearest_mode", "round_prefer_floor") {
	case "round_prefer_floor":
		up = ratio > 0.5
	case "round_prefer_ceil":
		up = ratio >= 0.5
	case "ceil":
		up = ratio > 0
	}
	if up {
		return low + 1
	}
	return low
}

// cubicWeights are those of the four elements around a point, the second of
// which lies ratio before it (Keys 1981, with its free coefficient a).
func cubicWeights(ratio, a float64) [4]float64 {
	near := func(t float64) float64 { return ((a+2)*t-(a+3))*t*t + 1 }
	far := func(t float64) float64 { return ((a*t-5*a)*t+8*a)*t - 4*a }
	return [4]float64{far(1 + ratio), near(ratio), near(1 - ratio), far(2 - ratio)}
}
