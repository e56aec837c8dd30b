package form

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/ops/attr"
)

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

// MostAxes bounds the axes of a tensor that is resized.
const MostAxes = 16

// Interpolations returns how a Resize or Upsample makes the elements of each axis, and
// the value of those outside of the image.
func (c *Call) Interpolations() (list []Interpolation, extra float64, err error) {
	rank := c.In[0].Rank()
	if rank > MostAxes {
		return nil, 0, Unsupportedf("%d axes, more than %d", rank, MostAxes)
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
func (c *Call) resizedAxes(r *attr.Resize) ([]attr.ResizedAxis, error) {
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

// interpolate computes indices and weights of one axis.
func (c *Call) interpolate(r *attr.Resize, a *attr.ResizedAxis) (Interpolation, error) {
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
			return v, Unsupportedf("a scale of %v that makes %d elements of %d, with antialias", a.Scale, out, in)
		}
		v.Taps = int(taps)
	}
	if out > mostTaps/v.Taps {
		return v, Unsupportedf("%d elements of %d each", out, v.Taps)
	}
	v.From = Numbers[int](c, Mul(out, v.Taps))
	if v.Taps > 1 {
		v.Weight = Numbers[float64](c, Mul(out, v.Taps))
	}
	f := filter{support: support, stretch: 1, a: float64(r.CubicCoeffA), exclude: r.ExcludeOutside, wide: antialias}
	if antialias {
		f.stretch = a.Scale
	}
	m := c.Meter()
	for o := range out {
		m.Add(v.Taps)
		x, outside := attr.Source(a, int64(o))
		if outside {
			if v.Outside == nil {
				v.Outside = Numbers[uint8](c, out)
				c.Clear(v.Outside)
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
func (f *filter) taps(c *Call, from []int, weight []float64, x float64, in int) {
	first := math.Floor(x) - float64(len(from)/2) + 1
	if f.wide {
		first--
	}
	sum := 0.0
	for t := range from {
		if t&Often == Often {
			c.Poll()
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
