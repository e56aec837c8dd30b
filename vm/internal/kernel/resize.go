package kernel

import (
	"fmt"
	"math"
	"sort"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// sampling reads between the elements of an image.
var sampling = family{"", []Kernel{
	{Name: "Resize", Make: makeResize},
	{Name: "Upsample", Make: makeResize},
	{Name: "RoiAlign", Make: makeRoiAlign},
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
func makeResize(c *Call) (Run, error) {
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
func (c *Call) asUpsample() bool { return c.Node.Op == "Upsample" || c.Version < 11 }

// scales gives the scale of each axis: as it is stated, by sizes, or 1.
func (c *Call) scales() ([]float64, error) {
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
func (c *Call) axesOr(rank int) []int {
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
func (c *Call) regions(rank int) ([][2]float64, error) {
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
func resample(c *Call, in, out *Tensor, list []interpolation, get func(unsafe.Pointer, int) float64, set func(unsafe.Pointer, int, float64), extra float64) Run {
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
func (c *Call) interpolate(in, out int, scale float64, roi [2]float64) (interpolation, error) {
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
func (c *Call) nearestMode(scale float64) string {
	if c.asUpsample() {
		if scale < 1 {
			return "ceil"
		}
		return "floor"
	}
	return c.Str("nearest_mode", "round_prefer_floor")
}

// taps fills in the elements around x and their weights, which add up to 1.
func (c *Call) taps(from []int, weight []float64, x float64, in int, scale, support float64, antialias bool) {
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

// makeRoiAlign takes the mean, or the largest, of bilinear samples in each bin
// of each region.
func makeRoiAlign(c *Call) (Run, error) {
	x, rois, index := c.In[0], c.In[1], c.In[2]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	v := &roiAlign{
		c: c, largest: c.Str("mode", "avg") == "max", rows: c.Int("output_height", 1), columns: c.Int("output_width", 1),
		ratio: c.Int("sampling_ratio", 0), scale: c.Float("spatial_scale", 1), shift: 0.5, minimum: float32(math.Inf(-1)),
	}
	if c.Version < 16 || c.Str("coordinate_transformation_mode", "half_pixel") == "output_half_pixel" {
		v.shift, v.minimum = 0, 1
	}
	batch, err := indexReader(index)
	if err != nil {
		return nil, err
	}
	part := func(r, _ int) {
		image, _ := batch(r, x.Shape[0])
		v.region(r, image)
	}
	return func(p *work.Pool) error {
		for i, image := range data[int64](index) {
			if image < 0 || image >= int64(x.Shape[0]) {
				return fmt.Errorf("region %d is of image %d: expected one in [0, %d)", i, image, x.Shape[0])
			}
		}
		for r := range rois.Shape[0] {
			if r&often == 0 {
				c.poll()
			}
			if high, wide := v.axes(r); max(high.samples, wide.samples) > mostSamples {
				return fmt.Errorf("region %d of %v takes %g x %g samples for each bin, expected at most %d along an axis (sampling_ratio)",
					r, data[float32](rois)[4*r:4*r+4], high.samples, wide.samples, mostSamples)
			}
		}
		p.For(rois.Shape[0], part)
		return nil
	}, nil
}

// mostSamples bounds the samples of a bin along an axis.
const mostSamples = 1 << 31

// roiAlign is a RoiAlign node.
type roiAlign struct {
	c             *Call
	largest       bool
	rows, columns int // bins of a region
	ratio         int // samples of a bin along each axis; 0: about one for each element
	scale, shift  float32
	minimum       float32 // of the lengths of a region
}

// roiAxis is a region along one axis of the image: where it begins, how long its
// bins are, and how many samples each has.
type roiAxis struct {
	begin, bin float32
	samples    float64
}

// axes are the two of region r.
func (v *roiAlign) axes(r int) (high, wide roiAxis) {
	b := data[float32](v.c.In[1])[4*r:]
	along := func(from, to float32, bins int) roiAxis {
		a := roiAxis{begin: from*v.scale - v.shift, samples: float64(v.ratio)}
		length := max(to*v.scale-v.shift-a.begin, v.minimum)
		a.bin = length / float32(bins)
		if v.ratio <= 0 {
			a.samples = math.Ceil(float64(length) / float64(bins))
		}
		if !(a.samples > 0) { // NaN, too
			a.samples = 0
		}
		return a
	}
	return along(b[1], b[3], v.rows), along(b[0], b[2], v.columns)
}

// at is sample k of a bin.
func (a *roiAxis) at(bin, k int) float32 {
	return a.begin + float32(bin)*a.bin + (float32(k)+0.5)*a.bin/float32(a.samples)
}

// inside gives the samples [from, to) of a bin that lie in [-1, high]: elsewhere an
// image is 0. They are neighbours, as at grows with k, or falls. A region may be
// far larger than its image.
func (a *roiAxis) inside(bin int, high float32) (from, to int) {
	n := int(a.samples)
	if a.bin >= 0 {
		from = sort.Search(n, func(k int) bool { return a.at(bin, k) >= -1 })
		to = sort.Search(n, func(k int) bool { return !(a.at(bin, k) <= high) })
	} else {
		from = sort.Search(n, func(k int) bool { return a.at(bin, k) <= high })
		to = sort.Search(n, func(k int) bool { return !(a.at(bin, k) >= -1) })
	}
	return from, max(from, to)
}

// region does the bins of region r of an image.
func (v *roiAlign) region(r, image int) {
	x, out := v.c.In[0], v.c.Out[0]
	channels, h, w := x.Shape[1], x.Shape[2], x.Shape[3]
	high, wide := v.axes(r)
	all := high.samples * wide.samples
	total := float32(max(all, 1))
	m := meter{c: v.c}
	// The places of a bin are the same in all channels.
	var list [64]sample
	for p := range v.rows * v.columns {
		fromY, toY := high.inside(p/v.columns, float32(h))
		fromX, toX := wide.inside(p%v.columns, float32(w))
		across := toX - fromX
		samples := (toY - fromY) * across
		outside := all > float64(samples)
		for from := 0; from == 0 || from < samples; from += len(list) {
			n := min(len(list), samples-from)
			for i := range list[:n] {
				list[i] = sampleAt(h, w, high.at(p/v.columns, fromY+(from+i)/across), wide.at(p%v.columns, fromX+(from+i)%across))
			}
			for ch := range channels {
				m.add(8 * (n + 1))
				d := &data[float32](out)[(r*channels+ch)*v.rows*v.columns+p]
				plane := data[float32](x)[(image*channels+ch)*h*w:][:h*w]
				if v.largest {
					best := *d
					if from == 0 && outside {
						best = 0
					}
					*d = largestOf(list[:n], plane, best, from == 0 && !outside)
					continue
				}
				sum := float32(0)
				if from > 0 {
					sum = *d
				}
				for i := range list[:n] {
					s := &list[i]
					sum += plane[s.at[0]]*s.weight[0] + plane[s.at[1]]*s.weight[1] + plane[s.at[2]]*s.weight[2] + plane[s.at[3]]*s.weight[3]
				}
				*d = sum
				if from+n >= samples {
					*d = sum / total
				}
			}
		}
	}
}

// sample is a place between four elements of a plane.
type sample struct {
	at     [4]int
	weight [4]float32 // all 0: outside
}

func sampleAt(h, w int, y, x float32) (s sample) {
	if !(y >= -1 && y <= float32(h) && x >= -1 && x <= float32(w)) {
		return s
	}
	y, x = max(y, 0), max(x, 0)
	y0, x0 := min(int(y), h-1), min(int(x), w-1)
	y1, x1 := min(y0+1, h-1), min(x0+1, w-1)
	fy, fx := y-float32(y0), x-float32(x0)
	if y0 == h-1 {
		fy = 0
	}
	if x0 == w-1 {
		fx = 0
	}
	s.at = [4]int{y0*w + x0, y0*w + x1, y1*w + x0, y1*w + x1}
	s.weight = [4]float32{(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}
	return s
}

// largestOf is the largest weighted element of some places: what mode max of
// RoiAlign compares. It goes on from best unless it is the first.
func largestOf(list []sample, plane []float32, best float32, first bool) float32 {
	if first && len(list) == 0 {
		return 0
	}
	for i := range list {
		for k, at := range list[i].at {
			if v := plane[at] * list[i].weight[k]; first || v > best {
				best, first = v, false
			}
		}
	}
	return best
}
