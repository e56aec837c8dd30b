package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// sampling resample an image.
var sampling = family{"", []Kernel{
	{Name: "Resize", Make: makeResize},
	{Name: "Upsample", Make: makeResize},
}}

// interpolation is how the elements of an axis of the output are made: each out
// of a few elements of the input, with weights; outside says that it lies
// outside of the region and gets the extrapolation value.
type interpolation struct {
	in, out int
	taps    int
	from    []int     // nil: each of itself
	weight  []float64 // nil: 1, of one tap
	outside []uint8   // 1 where it is so; nil: nowhere
}

// mostTaps bounds the elements that one axis is made of, with repetitions: their
// places and weights are kept.
const mostTaps = 1 << 26

// mostAxes bounds the axes of a tensor that is resized.
const mostAxes = 16

// makeResize interpolates axis by axis: as the weights of several axes multiply,
// each element is the sum over all taps of all axes.
func makeResize(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	rank := in.rank()
	if rank > mostAxes {
		return nil, unsupportedf("%d axes, more than %d", rank, mostAxes)
	}
	scale, err := c.scales()
	if err != nil {
		return nil, err
	}
	roi, err := c.regions(rank)
	if err != nil {
		return nil, err
	}
	list := make([]interpolation, rank)
	for a := range list {
		if list[a], err = c.interpolate(in.Shape[a], out.Shape[a], scale[a], roi[a]); err != nil {
			return nil, fmt.Errorf("axis %d: %w", a, err)
		}
	}
	get, ok := reader(in.Type)
	set, fits := writer(out.Type)
	if !ok || !fits {
		return nil, unsupported(in.Type)
	}
	if in.Type == graph.Float32 && byPlanes(list) {
		return unlessView(out, in, resizePlanes(c, in, out, list)), nil
	}
	return unlessView(out, in, resample(c, in, out, list, get, set, float64(c.Float("extrapolation_value", 0)))), nil
}

// asUpsample reports whether the node has the meaning of Upsample: before opset 11.
func (c *Invocation) asUpsample() bool { return c.Node.Op == "Upsample" || c.Version < 11 }

// scales gives the scale of each axis: as it is stated, by sizes, or 1.
func (c *Invocation) scales() ([]float64, error) {
	in := c.In[0]
	scale := make([]float64, in.rank())
	for a := range scale {
		scale[a] = 1
	}
	at, input := c.axesOr(in.rank()), 2
	if c.asUpsample() {
		input = 1
	}
	given, err := c.Reals(input)
	if err != nil {
		return nil, err
	}
	if list := c.Node.Attr("scales"); c.asUpsample() && !c.Has(1) && list != nil {
		for _, f := range list.Floats {
			given = append(given, float64(f))
		}
	} else if c.asUpsample() && !c.Has(1) {
		given = []float64{1, 1, float64(c.Float("height_scale", 1)), float64(c.Float("width_scale", 1))}
	}
	for i, f := range given {
		scale[at[i]] = f
	}
	if len(given) > 0 || c.asUpsample() {
		return scale, nil
	}
	sizes, err := c.Value(3)
	if err != nil {
		return nil, err
	}
	least, largest := math.Inf(1), 0.0
	for i, n := range sizes {
		s := float64(n) / float64(in.Shape[at[i]])
		scale[at[i]] = s
		least, largest = min(least, s), max(largest, s)
	}
	for _, a := range at[:len(sizes)] {
		switch c.Str("keep_aspect_ratio_policy", "stretch") {
		case "not_larger":
			scale[a] = least
		case "not_smaller":
			scale[a] = largest
		}
	}
	return scale, nil
}

// axesOr gives the attribute axes, or all axes.
func (c *Invocation) axesOr(rank int) []int {
	list := c.Ints("axes")
	if list == nil {
		for a := range rank {
			list = append(list, a)
		}
	}
	for i, a := range list {
		if a < 0 {
			list[i] += rank
		}
	}
	return list
}

// regions gives the region of interest of each axis.
func (c *Invocation) regions(rank int) ([][2]float64, error) {
	roi := make([][2]float64, rank)
	for a := range roi {
		roi[a] = [2]float64{0, 1}
	}
	if c.asUpsample() || c.Str("coordinate_transformation_mode", "") != "tf_crop_and_resize" {
		return roi, nil
	}
	list, err := c.Reals(1)
	if err != nil {
		return nil, err
	}
	for i, at := 0, c.axesOr(rank); i < len(list)/2; i++ { // none: all of the input
		roi[at[i]] = [2]float64{list[i], list[len(at)+i]}
	}
	return roi, nil
}

// resample makes the kernel of an interpolation along several axes.
func resample(c *Invocation, in, out *Tensor, list []interpolation, get func(unsafe.Pointer, int) float64, set func(unsafe.Pointer, int, float64), extra float64) Run {
	s := strides(in.Shape)
	rank := len(list)
	n := out.Len()
	var active []int // the axes of several taps
	for a := range list {
		if list[a].taps > 1 {
			active = append(active, a)
		}
	}
	part := func(p, _ int) {
		m := meter{c: c}
		var at [mostAxes]int
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			rest, base, outside := i, 0, false
			for a := rank - 1; a >= 0; a-- {
				at[a] = rest % out.Shape[a]
				rest /= out.Shape[a]
				outside = outside || list[a].outside != nil && list[a].outside[at[a]] != 0
			}
			for a := range rank {
				switch v := &list[a]; {
				case v.from == nil:
					base += at[a] * s[a]
				case v.taps == 1:
					base += v.from[at[a]] * s[a]
				}
			}
			if outside {
				set(out.At, i, extra)
				continue
			}
			set(out.At, i, blend(&m, in, list, active, s, &at, base, 0, get))
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}
}

// blend sums the taps of the axes from number k on.
func blend(m *meter, in *Tensor, list []interpolation, active, s []int, at *[mostAxes]int, off, k int, get func(unsafe.Pointer, int) float64) float64 {
	if k == len(active) {
		return get(in.At, off)
	}
	a := active[k]
	v := &list[a]
	m.add(v.taps)
	sum := 0.0
	for t := range v.taps {
		j := at[a]*v.taps + t
		if v.weight[j] != 0 {
			sum += v.weight[j] * blend(m, in, list, active, s, at, off+v.from[j]*s[a], k+1, get)
		}
	}
	return sum
}

// interpolate finds taps and weights of one axis.
func (c *Invocation) interpolate(in, out int, scale float64, roi [2]float64) (interpolation, error) {
	v := interpolation{in: in, out: out, taps: 1}
	transform := c.Str("coordinate_transformation_mode", "half_pixel")
	if c.asUpsample() {
		transform = "asymmetric"
	}
	mode := c.Str("mode", "nearest")
	if in == out && scale == 1 && transform != "tf_crop_and_resize" {
		return v, nil
	}
	antialias := c.Int("antialias", 0) != 0 && scale < 1
	support := 1.0
	switch mode {
	case "nearest":
	case "linear", "bilinear":
		v.taps = 2
	case "cubic":
		v.taps, support = 4, 2
	default:
		return v, unsupportedf("mode %q", mode)
	}
	if antialias && mode != "nearest" {
		// The output is about as long as the input times the scale: all taps
		// together are a few times the input, unless a region is far larger than it.
		taps := 2*math.Ceil(support/scale) + 1
		if taps*float64(out) > 16*(float64(in)+float64(out)) {
			return v, unsupportedf("a scale of %v that makes %d elements of %d, with antialias", scale, out, in)
		}
		v.taps = int(taps)
	}
	if out > mostTaps/v.taps {
		return v, unsupportedf("%d elements of %d each", out, v.taps)
	}
	v.from = numbersOf[int](c, mul(out, v.taps))
	if v.taps > 1 {
		v.weight = numbersOf[float64](c, mul(out, v.taps))
	}
	m := meter{c: c}
	for o := range out {
		m.add(v.taps)
		x, err := coordinate(transform, float64(o), in, out, scale, roi)
		if err != nil {
			return v, err
		}
		if transform == "tf_crop_and_resize" && (x < 0 || x > float64(in-1)) {
			if v.outside == nil {
				v.outside = numbersOf[uint8](c, out)
				fillAll(c, v.outside, 0)
			}
			v.outside[o] = 1
		}
		if v.taps == 1 {
			v.from[o] = clampTo(nearest(c.nearestMode(scale), x), in)
			continue
		}
		c.taps(v.from[o*v.taps:(o+1)*v.taps], v.weight[o*v.taps:(o+1)*v.taps], x, in, scale, support, antialias)
	}
	return v, nil
}

// nearestMode is how coordinates are rounded. Opset 10 says nothing; ONNX's tests
// of it, and ONNX Runtime, round up where the tensor becomes smaller.
func (c *Invocation) nearestMode(scale float64) string {
	if c.asUpsample() {
		if scale < 1 {
			return "ceil"
		}
		return "floor"
	}
	return c.Str("nearest_mode", "round_prefer_floor")
}

// taps fills in the elements around x and their weights, which add up to 1.
func (c *Invocation) taps(from []int, weight []float64, x float64, in int, scale, support float64, antialias bool) {
	a := float64(c.Float("cubic_coeff_a", -0.75))
	exclude := c.Int("exclude_outside", 0) != 0
	stretch := 1.0
	if antialias {
		stretch = scale
	}
	first := math.Floor(x) - float64(len(from)/2) + 1
	if antialias {
		first--
	}
	sum := 0.0
	for t := range from {
		if t&often == often {
			c.poll()
		}
		k := first + float64(t)
		d := math.Abs(x-k) * stretch
		w := 0.0
		switch {
		case support == 1:
			w = max(0, 1-d)
		case d <= 1:
			w = ((a+2)*d-(a+3))*d*d + 1
		case d < 2:
			w = ((a*d-5*a)*d+8*a)*d - 4*a
		}
		if exclude && (k < 0 || k >= float64(in)) {
			w = 0
		}
		from[t], weight[t] = clampTo(k, in), w
		sum += w
	}
	if sum != 0 {
		for t := range weight {
			weight[t] /= sum
		}
	}
}

// coordinate is where place o of the output lies on the input's axis.
func coordinate(mode string, o float64, in, out int, scale float64, roi [2]float64) (float64, error) {
	switch mode {
	case "half_pixel":
		return (o+0.5)/scale - 0.5, nil
	case "half_pixel_symmetric":
		adjust := float64(out) / (scale * float64(in))
		center := float64(in) / 2
		return center*(1-adjust) + (o+0.5)/scale - 0.5, nil
	case "pytorch_half_pixel":
		if out > 1 {
			return (o+0.5)/scale - 0.5, nil
		}
		return 0, nil
	case "align_corners":
		if out == 1 {
			return 0, nil
		}
		return o * float64(in-1) / (scale*float64(in) - 1), nil
	case "asymmetric":
		return o / scale, nil
	case "tf_crop_and_resize":
		if out == 1 {
			return 0.5 * (roi[0] + roi[1]) * float64(in-1), nil
		}
		return roi[0]*float64(in-1) + o*(roi[1]-roi[0])*float64(in-1)/float64(out-1), nil
	}
	return 0, unsupportedf("coordinate_transformation_mode %q", mode)
}

// nearest rounds a coordinate.
func nearest(mode string, x float64) float64 {
	switch mode {
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	case "round_prefer_ceil":
		return math.Floor(x + 0.5)
	}
	return math.Ceil(x - 0.5) // round_prefer_floor
}

// clampTo is the place in [0, n) that is nearest to a whole number, or 0 where it
// is none: a region can be anywhere.
func clampTo(x float64, n int) int {
	switch {
	case x >= float64(n):
		return n - 1
	case x > 0:
		return int(x)
	}
	return 0
}
