package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// rowPool pools float32 row by row: it first joins the rows under the kernel into
// one, then the taps along that row. With a stride, it first separates the row by
// residues, so that each tap reads neighbouring elements.
type rowPool struct {
	c      *Invocation
	v      *form.Window
	start  float32
	join   func(dst, a, b []float32)
	finish func(row []float32, od, oh int) // last step on a row of the output; may be nil
	length int                             // of the row of one residue; 0: it is not separated
	each   int

	begin, end int // the taps along a row that lie within the image somewhere
}

// mostResidues bounds the stride for which a row is separated: a larger stride
// reads few elements of a row.
const mostResidues = 64

// byRows reports whether rowPool fits the window: its scratch is not far larger
// than a row of the image and one of the output. Attributes alone decide how large
// padding, strides and kernel are.
func byRows(v *form.Window) bool {
	most := 8*(v.In[2]+v.Out[2]) + 64
	return v.Kernel[2] <= most && v.Pad[2] <= most && v.Stride[2] <= most && v.Dilation[2]*v.Kernel[2] <= most && v.Out[2]*v.Stride[2] <= most
}

// newRowPool reserves scratch.
func newRowPool(c *Invocation, v *form.Window, start float32, join func(dst, a, b []float32)) *rowPool {
	r := &rowPool{c: c, v: v, start: start, join: join}
	lines := 0
	if s := v.Stride[2]; s > 1 && s <= mostResidues {
		r.length = v.In[2]/s + 2
		lines = s
	}
	r.begin, r.end = v.Seen(2)
	r.each = c.Each(mul(4, v.In[2]+lines*r.length))
	return r
}

// run makes the kernel: one plane is one part.
func (r *rowPool) run(x, out *Tensor) Run {
	v := r.v
	var pool *work.Pool
	part := func(p, worker int) {
		in := span[float32](element[float32](x, p*v.Inputs()), v.Inputs())
		d := span[float32](element[float32](out, p*v.Outputs()), v.Outputs())
		aside := pool.Each(worker, r.each)
		joined := span[float32](aside, v.In[2])
		m := r.c.Meter()
		for od := range v.Out[0] {
			startD, fromD, toD := v.Reach(0, od)
			for oh := range v.Out[1] {
				startH, fromH, toH := v.Reach(1, oh)
				row := d[(od*v.Out[1]+oh)*v.Out[2]:][:v.Out[2]]
				first := true
				for kd := fromD; kd < toD; kd++ {
					for kh := fromH; kh < toH; kh++ {
						s := in[((startD+kd*v.Dilation[0])*v.In[1]+startH+kh*v.Dilation[1])*v.In[2]:][:v.In[2]]
						if first {
							copyAll(r.c, joined, s)
						} else {
							r.add(joined, s)
						}
						first = false
						m.Add(len(s))
					}
				}
				if first {
					fillAll(r.c, row, r.start)
				} else {
					r.along(&m, row, joined, unsafe.Add(aside, 4*v.In[2]))
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

// add joins s to d and polls if they are long.
func (r *rowPool) add(d, s []float32) {
	if len(d) <= work.PollEvery {
		r.join(d, d, s)
		return
	}
	for from, to := range r.c.Pieces(len(d)) {
		r.join(d[from:to], d[from:to], s[from:to])
	}
}

// along joins the taps of a row.
func (r *rowPool) along(m *form.Meter, row, joined []float32, scratch unsafe.Pointer) {
	v := r.v
	s := v.Stride[2]
	fillAll(r.c, row, r.start)
	first := v.Pad[2] / s // smaller numbers are padding
	if r.length > 0 {
		// Element i of residue k is element (first+i)·s + k - pad of the row.
		for k := range s {
			line := span[float32](unsafe.Add(scratch, 4*k*r.length), r.length)
			i, x := 0, first*s+k-v.Pad[2]
			if x < 0 {
				i, x = 1, x+s
			}
			for x < len(joined) {
				end := min(len(joined), x+work.PollEvery)
				m.Add(end - x)
				for ; x < end; x += s {
					line[i] = joined[x]
					i++
				}
			}
		}
	}
	for k := r.begin; k < r.end; k++ {
		from, to := v.Within(2, k)
		if from >= to {
			m.Add(1)
			continue
		}
		shift := k * v.Dilation[2]
		line := joined
		at := from*s - v.Pad[2] + shift
		if s > mostResidues {
			for o := from; o < to; o++ {
				m.Add(1)
				x := at + (o-from)*s
				r.join(row[o:o+1], row[o:o+1], line[x:x+1])
			}
			continue
		}
		if s > 1 {
			line = span[float32](unsafe.Add(scratch, 4*(shift%s)*r.length), r.length)
			at = from + shift/s - first
		}
		line = line[at : at+to-from]
		r.add(row[from:to], line)
		m.Add(to - from)
	}
}

// mostTogether is the size of the largest kernel whose elements are joined all at once, at
// one load for each. For larger ones, rows and then columns take fewer.
const mostTogether = 25

// poolOf returns the pool in the form that joins rows with vectors.
func poolOf(v *form.Window, c *Invocation) *gemm.Pool {
	return &gemm.Pool{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad, Stop: c.Runtime}
}

// joinPlanes pools plane by plane; finish, the last step on a plane of the output, may be
// nil. It gets as much scratch as a row of the output.
func joinPlanes(c *Invocation, v *form.Window, p *gemm.Pool, finish func(plane, scratch []float32)) Run {
	x, out := c.In[0], c.Out[0]
	p.UseMasks(numbersOf[uint16](c, p.MaskLen()))
	each, row := c.Each(p.ScratchBytes()), 0
	if finish != nil {
		row = c.Each(mul(4, v.Out[2]))
	}
	var pool *work.Pool
	part := func(i, worker int) {
		d := element[float32](out, i*v.Outputs())
		p.Plane(d, element[float32](x, i*v.Inputs()), pool.Each(worker, each))
		if finish != nil {
			finish(span[float32](d, v.Outputs()), span[float32](pool.Each(worker, row), v.Out[2]))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}
}

// depthwiseOf returns the pool in the form of a convolution of one channel.
func depthwiseOf(v *form.Window) *gemm.Depthwise {
	return &gemm.Depthwise{In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad, Largest: true}
}

// maxPoolPlaces is maxPool of float32 with indices, plane by plane.
func maxPoolPlaces(c *Invocation, v *form.Window, d *gemm.Depthwise) Run {
	x, out, places, each := c.In[0], c.Out[0], c.Out[1], c.Each(d.PlacesBytes())
	d.Stop = c.Runtime
	var pool *work.Pool
	part := func(p, worker int) {
		list := span[int64](element[int64](places, p*v.Outputs()), v.Outputs())
		d.Places(element[float32](out, p*v.Outputs()), list, p*v.Inputs(), element[float32](x, p*v.Inputs()), pool.Each(worker, each))
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}
}

// maxPoolPlanes is maxPool of float32 without indices, plane by plane.
func maxPoolPlanes(c *Invocation, v *form.Window, d *gemm.Depthwise) Run {
	x, out, each := c.In[0], c.Out[0], planeScratch(c, d)
	d.Stop = c.Runtime
	var pool *work.Pool
	part := func(p, worker int) {
		d.Plane(element[float32](out, p*v.Outputs()), element[float32](x, p*v.Inputs()), nil, 0, pool.Each(worker, each))
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}
}

// maxPoolRows is maxPool of float32 without indices.
func maxPoolRows(c *Invocation, v *form.Window) Run {
	return newRowPool(c, v, float32(math.Inf(-1)), simd.Max).run(c.In[0], c.Out[0])
}

// averagePoolPlanes is averagePool of float32 by p; taps is as in averagePoolRows.
func averagePoolPlanes(c *Invocation, v *form.Window, p *gemm.Pool, taps func(axis, place int) int) Run {
	p.Sum = true
	down, along := numbersOf[float32](c, v.Out[1]), numbersOf[float32](c, v.Out[2])
	m := c.Meter()
	same := true // the same number of taps counts everywhere
	for a, list := range [][]float32{1: down, 2: along} {
		for o := range list {
			m.Add(1)
			list[o] = float32(max(taps(a, o), 1))
			same = same && list[o] == list[0]
		}
	}
	return joinPlanes(c, v, p, func(plane, counts []float32) {
		if same {
			for from, to := range c.Pieces(len(plane)) {
				simd.DivScalar(plane[from:to], plane[from:to], down[0]*along[0])
			}
			return
		}
		for oh, n := range down {
			if oh == 0 || n != down[oh-1] {
				simd.MulScalar(counts, along, n)
			}
			row := plane[oh*len(along):][:len(along)]
			simd.Div(row, row, counts)
		}
	})
}

// averagePoolRows is averagePool of float32; taps returns how many taps count at
// an output position along an axis.
func averagePoolRows(c *Invocation, v *form.Window, taps func(axis, place int) int) Run {
	r := newRowPool(c, v, 0, simd.Add)
	along := numbersOf[float32](c, v.Out[2])
	m := c.Meter()
	for o := range along {
		m.Add(1)
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
