package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// rowPool joins windows of float32 row by row: the rows that a window sees are
// joined first, then the taps along the row, which the stride has been taken out
// of, so that each sees neighbours.
type rowPool struct {
	v      *window
	start  float32
	join   func(dst, a, b []float32)
	finish func(row []float32, od, oh int) // of a row of the output; nil: it is done
	length int                             // of a row of one residue of the stride
	each   int
}

// newRowPool reserves scratch.
func newRowPool(c *Call, v *window, start float32, join func(dst, a, b []float32)) *rowPool {
	r := &rowPool{v: v, start: start, join: join}
	// Residue and place of the last tap of the last window, and of the first.
	r.length = cuts(v.in[2]+v.pads[2]+v.stride[2], v.stride[2]) + v.out[2] + (v.kernel[2]-1)*v.dil[2]/v.stride[2] + 1
	r.each = c.Each(4 * (v.in[2] + r.length*v.stride[2]))
	return r
}

// run makes the kernel: one plane is one part.
func (r *rowPool) run(x, out *Tensor) Run {
	v := r.v
	var pool *work.Pool
	part := func(p, worker int) {
		in := span[float32](element[float32](x, p*v.inputs()), v.inputs())
		d := span[float32](element[float32](out, p*v.outputs()), v.outputs())
		aside := pool.Each(worker, r.each)
		joined := span[float32](aside, v.in[2])
		for od := range v.out[0] {
			startD, fromD, toD := v.reach(0, od)
			for oh := range v.out[1] {
				startH, fromH, toH := v.reach(1, oh)
				row := d[(od*v.out[1]+oh)*v.out[2]:][:v.out[2]]
				first := true
				for kd := fromD; kd < toD; kd++ {
					for kh := fromH; kh < toH; kh++ {
						s := in[((startD+kd*v.dil[0])*v.in[1]+startH+kh*v.dil[1])*v.in[2]:][:v.in[2]]
						if first {
							copy(joined, s)
						} else {
							r.join(joined, joined, s)
						}
						first = false
					}
				}
				if first {
					fill(row, r.start)
				} else {
					r.along(row, joined, unsafe.Add(aside, 4*v.in[2]))
				}
				if r.finish != nil {
					r.finish(row, od, oh)
				}
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}
}

// along joins the taps of a row.
func (r *rowPool) along(row, joined []float32, scratch unsafe.Pointer) {
	v := r.v
	s := v.stride[2]
	fill(row, r.start)
	if s > 1 {
		// Number i of residue k is number i·s + k - pad of the row.
		for k := range s {
			line := span[float32](unsafe.Add(scratch, 4*k*r.length), r.length)
			i, x := 0, k-v.pads[2]
			if x < 0 {
				i = cuts(-x, s)
				x += i * s
			}
			for ; x < len(joined); x += s {
				line[i] = joined[x]
				i++
			}
		}
	}
	for k := range v.kernel[2] {
		from, to := v.within(2, k)
		if from >= to {
			continue
		}
		shift := k * v.dil[2]
		line := joined
		at := from - v.pads[2] + shift
		if s > 1 {
			line = span[float32](unsafe.Add(scratch, 4*(shift%s)*r.length), r.length)
			at = from + shift/s
		}
		r.join(row[from:to], row[from:to], line[at:at+to-from])
	}
}

// maxPoolRows is maxPool of float32 without indices.
func maxPoolRows(c *Call, v *window) Run {
	return newRowPool(c, v, float32(math.Inf(-1)), simd.Max).run(c.In[0], c.Out[0])
}

// averagePoolRows is averagePool of float32; taps tells how many count for a
// place along an axis.
func averagePoolRows(c *Call, v *window, taps func(axis, place int) int) Run {
	r := newRowPool(c, v, 0, simd.Add)
	along := make([]float32, v.out[2])
	for o := range along {
		along[o] = float32(max(taps(2, o), 1))
	}
	r.finish = func(row []float32, od, oh int) {
		n := float32(max(taps(0, od)*taps(1, oh), 1))
		for o := range row {
			row[o] /= n * along[o]
		}
	}
	return r.run(c.In[0], c.Out[0])
}
