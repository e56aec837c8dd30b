package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// sampling lists the operators that resample an image.
var sampling = family{"", []Kernel{
	{Name: "Resize", Make: makeResize, Blocks: inAndOut(canBlocksResize)},
	{Name: "Upsample", Make: makeResize, Blocks: inAndOut(canBlocksResize)},
}}

// makeResize interpolates all axes at once: the weights of the axes multiply, so
// an element is the sum over all combinations of their taps.
func makeResize(c *Invocation) (Run, error) {
	if c.In[0].Layout == form.NCHW16c {
		return makeBlocksResize(c)
	}
	in, out := c.In[0], c.Out[0]
	list, extra, err := c.Interpolations()
	if err != nil {
		return nil, err
	}
	get, ok := form.Reader(in.Type)
	set, fits := form.Writer(out.Type)
	if (!ok || !fits) && (in.Type != out.Type || !onlyCopies(list)) {
		return nil, unsupported(in.Type)
	}
	if in.Type == graph.Float32 && byPlanes(list) {
		return unlessView(out, in, resizePlanes(c, in, out, list)), nil
	}
	return unlessView(out, in, resample(c, in, out, list, get, set, extra)), nil
}

// onlyCopies reports whether each element of the result is one of the image.
func onlyCopies(list []form.Interpolation) bool {
	for i := range list {
		if list[i].Taps > 1 || list[i].Outside != nil {
			return false
		}
	}
	return true
}

// resample is the general form: any types, any number of axes. extra is the
// extrapolation value.
func resample(c *Invocation, in, out *Tensor, list []form.Interpolation, get func(unsafe.Pointer, int) float64, set func(unsafe.Pointer, int, float64), extra float64) Run {
	s := strides(in.Shape)
	rank, width := len(list), in.Width()
	n := out.Len()
	var active []int // the axes with several taps
	for a := range list {
		if list[a].Taps > 1 {
			active = append(active, a)
		}
	}
	part := func(p, _ int) {
		m := c.Meter()
		var at [form.MostAxes]int
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
func blend(m *form.Meter, in *Tensor, list []form.Interpolation, active, s []int, at *[form.MostAxes]int, off, k int, get func(unsafe.Pointer, int) float64) float64 {
	if k == len(active) {
		return get(in.At, off)
	}
	a := active[k]
	v := &list[a]
	m.Add(v.Taps)
	sum := 0.0
	for t := range v.Taps {
		j := at[a]*v.Taps + t
		if v.Weight[j] != 0 {
			sum += v.Weight[j] * blend(m, in, list, active, s, at, off+v.From[j]*s[a], k+1, get)
		}
	}
	return sum
}
