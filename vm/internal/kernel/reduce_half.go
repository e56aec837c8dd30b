package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Sums and means of 16 bits widen the terms of a result in a worker's scratch, or on its stack, as
// they add them up. The bits are those of float32 between two conversions.

// narrow is reduce for plain sums of 16 bits; it returns nil for others.
func (r reduction) narrow(c *Invocation) Run {
	x, out := c.In[0], c.Out[0]
	if !r.plainSum || !isHalf(x) || !isHalf(out) || x.Layout != form.Plain || x.Shape == nil || out.Shape == nil || x.Len() == 0 || x.Len() == out.Len() {
		return nil
	}
	drop, err := form.ReducedAxes(&c.Call)
	if err != nil {
		return nil
	}
	f, terms := form.FoldAxes(x.Shape, drop), x.Len()/out.Len()
	last := len(f.Reduced) - 1
	if last >= 0 && f.ReducedStride[last] == 1 && f.Reduced[last] > 1 {
		return r.narrowRows(c, f, terms)
	}
	return r.narrowLines(c, f, terms)
}

// narrowRows reduces terms that lie in rows.
func (r reduction) narrowRows(c *Invocation, f *form.Folded, terms int) Run {
	x, out := c.In[0], c.Out[0]
	inner := f.Reduced[len(f.Reduced)-1]
	if inner < shortestPair {
		return nil
	}
	if inner > mostKept {
		return r.narrowPieces(c, f, inner, terms/inner)
	}
	outer, outputs, group := terms/inner, out.Len(), max(1, grain/terms)
	room := roomFor(c, x, inner)
	var pool *work.Pool
	part := func(p, worker int) {
		m := c.Meter()
		for o := p * group; o < min((p+1)*group, outputs); o++ {
			base, sum := offset(o, f.Kept, f.KeptStride), 0.0
			for k := range outer {
				m.Add(inner)
				row := realsAt(pool.Each(worker, room), x, base+outerOffset(f, k, inner), inner)
				sum += sumOf(c, span[float32](row, inner))
			}
			putReal(out, o, float32(r.end(sum, float64(terms))))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(cuts(outputs, group), part)
		return nil
	}
}

// narrowPieces is narrowRows for rows that a worker does not hold.
func (r reduction) narrowPieces(c *Invocation, f *form.Folded, inner, outer int) Run {
	x := c.In[0]
	return r.inPieces(c, inner, outer, func(row []float32, o, k, from int) {
		at := offset(o, f.Kept, f.KeptStride) + outerOffset(f, k, inner) + from
		simd.Widen(row, span[uint16](element[uint16](x, at), len(row)), narrowType(x.Type))
	})
}

// inPieces adds up the terms of each output in pieces of rows, which workers share, and then those sums, in
// their order. read writes some terms of row k of output o, from the given one on.
func (r reduction) inPieces(c *Invocation, inner, outer int, read func(row []float32, o, k, from int)) Run {
	const length = 1 << 12 // its terms stay in the fastest cache, widened
	out := c.Out[0]
	each := cuts(inner, mostKept) // of a row
	pieces := each * outer
	sums := c.Shared(8 * pieces * out.Len())
	room := c.Each(4 * length)
	var pool *work.Pool
	part := func(p, worker int) {
		wide := span[float32](pool.Each(worker, room), length)
		o, k, from := p/pieces, p%pieces/each, p%each*mostKept
		sum := 0.0
		m := c.Meter()
		for end := min(from+mostKept, inner); from < end; from += length {
			row := wide[:min(length, end-from)]
			m.Add(len(row))
			read(row, o, k, from)
			sum += simd.Sum(row)
		}
		span[float64](pool.Shared(sums), pieces*out.Len())[p] = sum
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(pieces*out.Len(), part)
		list := span[float64](w.Shared(sums), pieces*out.Len())
		for o := range out.Len() {
			sum := 0.0
			for _, s := range list[o*pieces : (o+1)*pieces] {
				sum += s
			}
			putReal(out, o, float32(r.end(sum, float64(inner*outer))))
		}
		return nil
	}
}

// narrowLines is sumLines: the outputs are rows, and so are their terms.
func (r reduction) narrowLines(c *Invocation, f *form.Folded, terms int) Run {
	const most = 256
	x, out := c.In[0], c.Out[0]
	return linesOf(f, out.Len(), most, func(first, base, count int) {
		var sums [most]float64
		var wide [most]float32
		m := c.Meter()
		for k := range terms {
			m.Add(count)
			row := span[uint16](element[uint16](x, base+offset(k, f.Reduced, f.ReducedStride)), count)
			simd.Widen(wide[:count], row, narrowType(x.Type))
			simd.AddWide(sums[:count], wide[:count])
		}
		for i, sum := range sums[:count] {
			wide[i] = float32(r.end(sum, float64(terms)))
		}
		simd.Round(span[uint16](element[uint16](out, first), count), wide[:count], narrowType(out.Type))
	})
}

// meansOfHalfPlanes is makeGlobalAveragePool for 16 bits; it returns nil for others.
func meansOfHalfPlanes(c *Invocation) Run {
	x, out := c.In[0], c.Out[0]
	if !isHalf(x) || !isHalf(out) || x.Layout != form.Plain || x.Shape == nil {
		return nil
	}
	n := count(x.Shape[2:])
	if n == 0 || n > mostKept {
		return nil
	}
	room := roomFor(c, x, n)
	var pool *work.Pool
	part := func(p, worker int) {
		plane := realsAt(pool.Each(worker, room), x, p*n, n)
		putReal(out, p, float32(sumOf(c, span[float32](plane, n))/float64(n)))
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(x.Shape[0]*x.Shape[1], part)
		return nil
	}
}

// putReal rounds a number into an element of 16 bits.
func putReal(t *Tensor, i int, x float32) {
	one := [1]float32{x}
	simd.Round(span[uint16](element[uint16](t, i), 1), one[:], narrowType(t.Type))
}
