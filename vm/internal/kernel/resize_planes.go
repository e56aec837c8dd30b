package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// byPlanes reports whether an interpolation changes nothing but the last two axes
// and needs no extrapolation value.
func byPlanes(list []form.Interpolation) bool {
	if len(list) < 2 {
		return false
	}
	for a := range list {
		v := &list[a]
		if v.Outside != nil || a < len(list)-2 && v.From != nil {
			return false
		}
	}
	return true
}

// resizePlanes interpolates the last two axes of float32 tensors: it first adds up
// weighted rows of the image, then weighted elements of that row.
func resizePlanes(c *Invocation, in, out *Tensor, list []form.Interpolation) Run {
	down, along := &list[len(list)-2], &list[len(list)-1]
	planes := count(out.Shape[:len(list)-2])
	off := c.Each(mul(4, along.In))
	weights, across := narrowed(c, down.Weight), narrowed(c, along.Weight)
	twice := takesTwice(along)
	var pool *work.Pool
	part := func(p, worker int) {
		x := span[float32](element[float32](in, p*down.In*along.In), down.In*along.In)
		d := span[float32](element[float32](out, p*down.Out*along.Out), down.Out*along.Out)
		aside := span[float32](pool.Each(worker, off), along.In)
		m := c.Meter()
		for o := range down.Out {
			row := aside
			switch {
			case o > 0 && down.Taps == 1 && down.From != nil && down.From[o] == down.From[o-1]: // the row before it
				m.Add(along.Out)
				copy(d[o*along.Out:(o+1)*along.Out], d[(o-1)*along.Out:])
				continue
			case down.From == nil:
				row = x[o*along.In:][:along.In]
			case down.Taps == 1:
				row = x[down.From[o]*along.In:][:along.In]
			default:
				mixRows(&m, row, x, down.From[o*down.Taps:(o+1)*down.Taps], weights[o*down.Taps:(o+1)*down.Taps])
			}
			if twice {
				m.Add(along.Out)
				simd.Double(d[o*along.Out:(o+1)*along.Out], row)
				continue
			}
			mixAlong(&m, d[o*along.Out:(o+1)*along.Out], row, along, across)
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(planes, part)
		return nil
	}
}

// takesTwice reports whether an axis has each element twice.
func takesTwice(v *form.Interpolation) bool {
	if v.Taps != 1 || v.From == nil || v.Out != 2*v.In {
		return false
	}
	for i, from := range v.From {
		if from != i/2 {
			return false
		}
	}
	return true
}

// narrowed converts a list to float32.
func narrowed(c *Invocation, list []float64) []float32 {
	out := numbersOf[float32](c, len(list))
	for from, to := range c.Pieces(len(list)) {
		for i := from; i < to; i++ {
			out[i] = float32(list[i])
		}
	}
	return out
}

// mixRows adds up weighted rows of a plane.
func mixRows(m *form.Meter, row, plane []float32, from []int, weights []float32) {
	n := len(row)
	for at := 0; at < n; {
		to := m.Next(at, n)
		d := row[at:to]
		a, b := plane[from[0]*n+at:][:len(d)], plane[from[1]*n+at:][:len(d)]
		w0, w1 := weights[0], weights[1]
		for i := range d {
			d[i] = w0*a[i] + w1*b[i]
		}
		for t := 2; t < len(from); t++ {
			m.Add(len(d))
			w := weights[t]
			for i, v := range plane[from[t]*n+at:][:len(d)] {
				d[i] += w * v
			}
		}
		at = to
	}
}

// mixAlong interpolates a row.
func mixAlong(m *form.Meter, d, row []float32, v *form.Interpolation, weights []float32) {
	switch {
	case v.From == nil:
		m.Add(len(d))
		copy(d, row)
	case v.Taps == 1:
		for from := 0; from < len(d); {
			to := m.Next(from, len(d))
			for i := from; i < to; i++ {
				d[i] = row[v.From[i]]
			}
			from = to
		}
	case v.Taps == 2:
		for from := 0; from < len(d); {
			to := m.Next(from, len(d))
			for i := from; i < to; i++ {
				d[i] = weights[2*i]*row[v.From[2*i]] + weights[2*i+1]*row[v.From[2*i+1]]
			}
			from = to
		}
	default:
		for i := range d {
			m.Add(v.Taps)
			sum := float32(0)
			for t := i * v.Taps; t < (i+1)*v.Taps; t++ {
				sum += weights[t] * row[v.From[t]]
			}
			d[i] = sum
		}
	}
}
