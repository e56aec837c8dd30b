package kernel

import "github.com/onnxmem/onnxmem/vm/internal/work"

// byPlanes reports whether an interpolation changes nothing but the last two axes
// and needs no extrapolation value.
func byPlanes(list []interpolation) bool {
	if len(list) < 2 {
		return false
	}
	for a := range list {
		v := &list[a]
		if v.outside != nil || a < len(list)-2 && v.from != nil {
			return false
		}
	}
	return true
}

// resizePlanes interpolates the last two axes of float32 tensors: it first adds up
// weighted rows of the image, then weighted elements of that row.
func resizePlanes(c *Invocation, in, out *Tensor, list []interpolation) Run {
	down, along := &list[len(list)-2], &list[len(list)-1]
	planes := count(out.Shape[:len(list)-2])
	off := c.Each(mul(4, along.in))
	weights, across := narrowed(c, down.weight), narrowed(c, along.weight)
	var pool *work.Pool
	part := func(p, worker int) {
		x := span[float32](element[float32](in, p*down.in*along.in), down.in*along.in)
		d := span[float32](element[float32](out, p*down.out*along.out), down.out*along.out)
		aside := span[float32](pool.Each(worker, off), along.in)
		m := meter{c: c}
		for o := range down.out {
			row := aside
			switch {
			case down.from == nil:
				row = x[o*along.in:][:along.in]
			case down.taps == 1:
				row = x[down.from[o]*along.in:][:along.in]
			default:
				mixRows(&m, row, x, down.from[o*down.taps:(o+1)*down.taps], weights[o*down.taps:(o+1)*down.taps])
			}
			mixAlong(&m, d[o*along.out:(o+1)*along.out], row, along, across)
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(planes, part)
		return nil
	}
}

// narrowed converts a list to float32.
func narrowed(c *Invocation, list []float64) []float32 {
	out := numbersOf[float32](c, len(list))
	for from, to := range c.pieces(len(list)) {
		for i := from; i < to; i++ {
			out[i] = float32(list[i])
		}
	}
	return out
}

// mixRows adds up weighted rows of a plane.
func mixRows(m *meter, row, plane []float32, from []int, weights []float32) {
	n := len(row)
	for at := 0; at < n; {
		to := m.next(at, n)
		d := row[at:to]
		a, b := plane[from[0]*n+at:][:len(d)], plane[from[1]*n+at:][:len(d)]
		w0, w1 := weights[0], weights[1]
		for i := range d {
			d[i] = w0*a[i] + w1*b[i]
		}
		for t := 2; t < len(from); t++ {
			m.add(len(d))
			w := weights[t]
			for i, v := range plane[from[t]*n+at:][:len(d)] {
				d[i] += w * v
			}
		}
		at = to
	}
}

// mixAlong interpolates a row.
func mixAlong(m *meter, d, row []float32, v *interpolation, weights []float32) {
	switch {
	case v.from == nil:
		m.add(len(d))
		copy(d, row)
	case v.taps == 1:
		for from := 0; from < len(d); {
			to := m.next(from, len(d))
			for i := from; i < to; i++ {
				d[i] = row[v.from[i]]
			}
			from = to
		}
	case v.taps == 2:
		for from := 0; from < len(d); {
			to := m.next(from, len(d))
			for i := from; i < to; i++ {
				d[i] = weights[2*i]*row[v.from[2*i]] + weights[2*i+1]*row[v.from[2*i+1]]
			}
			from = to
		}
	default:
		for i := range d {
			m.add(v.taps)
			sum := float32(0)
			for t := i * v.taps; t < (i+1)*v.taps; t++ {
				sum += weights[t] * row[v.from[t]]
			}
			d[i] = sum
		}
	}
}
