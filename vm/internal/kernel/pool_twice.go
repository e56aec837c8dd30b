package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// paddedPool is the largest element under kernels of many taps that move by 1. It copies a
// plane into its padding, and then takes along each axis the larger of elements that are 1,
// 2, 4 … taps apart. Each doubles the taps that an element stands for, and the last step adds
// those that remain. A kernel of 13 x 13 takes 8 such steps, and each of them goes through
// the padded plane as one row, also over the ends of its rows: what it finds there lies
// beyond the output.
type paddedPool struct {
	c      *Invocation
	v      *form.Window
	padded [3]int
	length int // of the padded plane
	lanes  int // channels that lie side by side at each place of the plane
	each   int
}

// newPaddedPool returns nil if the window moves by more than 1, or the padded plane is far
// larger than its input and output.
func newPaddedPool(c *Invocation, v *form.Window, lanes int) *paddedPool {
	p := &paddedPool{c: c, v: v, length: 1, lanes: lanes}
	most := 4*(v.Inputs()+v.Outputs()) + 1024
	for a := range p.padded {
		if v.Stride[a] != 1 || v.Pad[a] < 0 || v.Kernel[a] > most || v.Dilation[a] > most {
			return nil
		}
		p.padded[a] = v.Out[a] + (v.Kernel[a]-1)*v.Dilation[a]
		if p.padded[a] > most || p.length*p.padded[a] > most {
			return nil
		}
		p.length *= p.padded[a]
	}
	if p.length == 0 {
		return nil
	}
	p.each = c.Each(mul(4, p.length, lanes))
	return p
}

func (p *paddedPool) run(x, out *Tensor) Run {
	v, inputs, outputs := p.v, p.v.Inputs()*p.lanes, p.v.Outputs()*p.lanes
	var pool *work.Pool
	part := func(plane, worker int) {
		in := span[float32](element[float32](x, plane*inputs), inputs)
		d := span[float32](element[float32](out, plane*outputs), outputs)
		room := span[float32](pool.Each(worker, p.each), p.length*p.lanes)
		p.fill(room, in)
		p.join(room)
		m := p.c.Meter()
		for od := range v.Out[0] {
			for oh := range v.Out[1] {
				row := v.Out[2] * p.lanes
				m.Add(row)
				copy(d[(od*v.Out[1]+oh)*row:][:row], room[(od*p.padded[1]+oh)*p.padded[2]*p.lanes:])
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*x.Shape[1]/p.lanes, part)
		return nil
	}
}

// fill copies the image into its padding. Behind the last output, some of it may be missing.
func (p *paddedPool) fill(room, in []float32) {
	v := p.v
	fillAll(p.c, room, float32(math.Inf(-1)))
	n := [3]int{}
	for a := range n {
		n[a] = min(v.In[a], p.padded[a]-v.Pad[a])
		if n[a] <= 0 {
			return // no tap reaches the image
		}
	}
	m := p.c.Meter()
	for id := range n[0] {
		for ih := range n[1] {
			m.Add(n[2] * p.lanes)
			to := ((id+v.Pad[0])*p.padded[1]+ih+v.Pad[1])*p.padded[2] + v.Pad[2]
			copy(room[to*p.lanes:][:n[2]*p.lanes], in[(id*v.In[1]+ih)*v.In[2]*p.lanes:])
		}
	}
}

// join leaves in each place that is one of the output the largest element under the kernel
// that begins there.
func (p *paddedPool) join(room []float32) {
	v := p.v
	unit := p.length * p.lanes
	for a, n := range p.padded {
		unit /= n
		for taps := 1; taps < v.Kernel[a]; {
			further := min(taps, v.Kernel[a]-taps)
			ahead := room[further*v.Dilation[a]*unit:]
			// Elements are read before they are written: what is ahead is from the step before.
			for from, to := range p.c.Pieces(len(ahead)) {
				simd.Max(room[from:to], room[from:to], ahead[from:to])
			}
			taps += further
		}
		if a == 1 && p.padded[0] == 1 {
			room = room[:v.Out[1]*unit] // the rows behind are in no output
		}
	}
}
