package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// sampling lists the operators that resample an image.
var sampling = family{"", []Kernel{
	{Name: "Resize", Make: makeResize, Blocks: inAndOut(canBlocksResize)},
	{Name: "Upsample", Make: makeResize, Blocks: inAndOut(canBlocksResize)},
}}

// Interpolation is how the elements of one axis of the result are made: each is a
// weighted sum of a few elements of the image.
type Interpolation struct {
	In, Out int
	Taps    int       // elements of the image for one of the result
	From    []int     // Out·Taps indices; nil: each element is a copy
	Weight  []float64 // Out·Taps; nil: one tap of weight 1
	Outside []uint8   // Out: 1 for the extrapolation value; nil: none has it
}

// mostTaps bounds out·taps of one axis: indices and weights are stored.
const mostTaps = 1 << 26

// mostAxes bounds the axes of a tensor that is resized.
const mostAxes = 16

// makeResize interpolates all axes at once: the weights of the axes multiply, so
// an element is the sum over all combinations of their taps.
func makeResize(c *Invocation) (Run, error) {
	if c.In[0].Blocks {
		return makeBlocksResize(c)
	}
	in, out := c.In[0], c.Out[0]
	list, extra, err := c.Interpolations()
	if err != nil {
		return nil, err
	}
	get, ok := reader(in.Type)
	set, fits := writer(out.Type)
	if (!ok || !fits) && (in.Type != out.Type || !onlyCopies(list)) {
		return nil, unsupported(in.Type)
	}
	if in.Type == graph.Float32 && byPlanes(list) {
		return unlessView(out, in, resizePlanes(c, in, out, list)), nil
	}
	return unlessView(out, in, resample(c, in, out, list, get, set, extra)), nil
}

// onlyCopies reports whether each element of the result is one of the image.
func onlyCopies(list []Interpolation) bool {
	for i := range list {
		if list[i].Taps > 1 || list[i].Outside != nil {
			return false
		}
	}
	return true
}

// Interpolations returns how a Resize or Upsample makes the elements of each axis, and
// the value of those outside of the image.
func (c *Invocation) Interpolations() (list []Interpolation, extra float64, err error) {
	rank := c.In[0].rank()
	if rank > mostAxes {
		return nil, 0, unsupportedf("%d axes, more than %d", rank, mostAxes)
	}
	r, err := attr.ReadResize(c.Node, c.Version, rank)
	if err != nil {
		return nil, 0, err
	}
	if err := r.Check(); err != nil {
		return nil, 0, err
	}
	axes, err := c.resizedAxes(r)
	if err != nil {
		return nil, 0, err
	}
	list = make([]Interpolation, rank)
	for a := range list {
		if list[a], err = c.interpolate(r, &axes[a]); err != nil {
			return nil, 0, fmt.Errorf("axis %d: %w", a, err)
		}
	}
	return list, float64(r.Extrapolation), nil
}

// resizedAxes reads scales, sizes and the region.
func (c *Invocation) resizedAxes(r *attr.Resize) ([]attr.ResizedAxis, error) {
	var scales, roi []float64
	var sizes []int
	var err error
	old := attr.IsUpsample(c.Node, c.Version)
	switch {
	case old && !c.Has(1):
		list, err := attr.UpsampleScales(c.Node)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			scales = append(scales, float64(f))
		}
	case old:
		scales, err = c.Reals(1)
	default:
		if scales, err = c.Reals(2); err == nil && len(scales) == 0 {
			sizes, err = c.Value(3)
		}
		if err == nil && r.Crops() {
			roi, err = c.Reals(1)
		}
	}
	if err != nil {
		return nil, err
	}
	return r.Along(toInt64s(c.In[0].Shape), toInt64s(c.Out[0].Shape), scales, toInt64s(sizes), roi), nil
}

// resample is the general form: any types, any number of axes. extra is the
// extrapolation value.
func resample(c *Invocation, in, out *Tensor, list []Interpolation, get func(unsafe.Pointer, int) float64, set func(unsafe.Pointer, int, float64), extra float64) Run {
	s := strides(in.Shape)
	rank, width := len(list), in.width()
	n := out.Len()
	var active []int // the axes with several taps
	for a := range list {
		if list[a].Taps > 1 {
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
				outside = outside || list[a].Outside != nil && list[a].Outside[at[a]] != 0
			}
			for a := range rank {
				switch v := &list[a]; {
				case v.From == nil:
					base += at[a] * s[a]
				case v.Taps == 1:
					base += v.From[at[a]] * s[a]
				}
			}
			switch {
			case outside:
				set(out.At, i, extra)
				continue
			case len(active) == 0 && in.Type == out.Type: // a float64 does not hold all integers
				copy(span[byte](element[byte](out, i*width), width), span[byte](element[byte](in, base*width), width))
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

// blend returns the weighted sum over the taps of active[k:]; off is the offset that
// the other axes give.
func blend(m *meter, in *Tensor, list []Interpolation, active, s []int, at *[mostAxes]int, off, k int, get func(unsafe.Pointer, int) float64) float64 {
	if k == len(active) {
		return get(in.At, off)
	}
	a := active[k]
	v := &list[a]
	m.add(v.Taps)
	sum := 0.0
	for t := range v.Taps {
		j := at[a]*v.Taps + t
		if v.Weight[j] != 0 {
			sum += v.Weight[j] * blend(m, in, list, active, s, at, off+v.From[j]*s[a], k+1, get)
		}
	}
	return sum
}

// interpolate computes indices and weights of one axis.
func (c *Invocation) interpolate(r *attr.Resize, a *attr.ResizedAxis) (Interpolation, error) {
	in, out := int(a.In), int(a.Out)
	v := Interpolation{In: in, Out: out, Taps: 1}
	if a.Copies() {
		return v, nil
	}
	antialias := r.Antialias && a.Scale < 1
	support := 1.0
	switch r.Mode {
	case "nearest":
	case "linear":
		v.Taps = 2
	case "cubic":
		v.Taps, support = 4, 2
	}
	if antialias && r.Mode != "nearest" {
		// The result is about as long as the image times the scale, so all taps
		// together are a few times the image, unless a region is far larger than it.
		taps := 2*math.Ceil(support/a.Scale) + 1
		if taps*float64(out) > 16*(float64(in)+float64(out)) {
			return v, unsupportedf("a scale of %v that makes %d elements of %d, with antialias", a.Scale, out, in)
		}
		v.Taps = int(taps)
	}
	if out > mostTaps/v.Taps {
		return v, unsupportedf("%d elements of %d each", out, v.Taps)
	}
	v.From = numbersOf[int](c, mul(out, v.Taps))
	if v.Taps > 1 {
		v.Weight = numbersOf[float64](c, mul(out, v.Taps))
	}
	f := filter{support: support, stretch: 1, a: float64(r.CubicCoeffA), exclude: r.ExcludeOutside, wide: antialias}
	if antialias {
		f.stretch = a.Scale
	}
	m := meter{c: c}
	for o := range out {
		m.add(v.Taps)
		x, outside := attr.Source(a, int64(o))
		if outside {
			if v.Outside == nil {
				v.Outside = numbersOf[uint8](c, out)
				fillAll(c, v.Outside, 0)
			}
			v.Outside[o] = 1
		}
		if v.Taps == 1 {
			v.From[o] = clampTo(r.Nearest(a, x), in)
			continue
		}
		f.taps(c, v.From[o*v.Taps:(o+1)*v.Taps], v.Weight[o*v.Taps:(o+1)*v.Taps], x, in)
	}
	return v, nil
}

// filter is the function that weights elements by their distance: a triangle
// (linear) or a piecewise cubic (Keys 1981, with its free coefficient a).
type filter struct {
	support float64 // its radius: 1 is linear, 2 cubic
	stretch float64 // what distances are multiplied by
	a       float64
	exclude bool // elements outside the image have weight 0
	wide    bool // antialias: the function is stretched to cover more elements
}

// taps sets the elements around x and their weights, which add up to 1.
func (f *filter) taps(c *Invocation, from []int, weight []float64, x float64, in int) {
	first := math.Floor(x) - float64(len(from)/2) + 1
	if f.wide {
		first--
	}
	sum := 0.0
	for t := range from {
		if t&often == often {
			c.poll()
		}
		at := first + float64(t)
		d := math.Abs(x-at) * f.stretch
		w := 0.0
		switch {
		case f.support == 1:
			w = max(0, 1-d)
		case d <= 1:
			w = ((f.a+2)*d-(f.a+3))*d*d + 1
		case d < 2:
			w = ((f.a*d-5*f.a)*d+8*f.a)*d - 4*f.a
		}
		if f.exclude && (at < 0 || at >= float64(in)) {
			w = 0
		}
		from[t], weight[t] = clampTo(at, in), w
		sum += w
	}
	if sum != 0 {
		for t := range weight {
			weight[t] /= sum
		}
	}
}

// clampTo returns the index in [0, n) that is nearest to a whole number; 0 for NaN.
// A region can be anywhere.
func clampTo(x float64, n int) int {
	switch {
	case x >= float64(n):
		return n - 1
	case x > 0:
		return int(x)
	}
	return 0
}
