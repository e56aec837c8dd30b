package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// makeDequantize writes (number - zero point)·scale.
func makeDequantize(c *Invocation) (Run, error) {
	x, scale, out := c.In[0], c.In[1], c.Out[0]
	s, err := form.ScalesOf(&c.Call, x, scale)
	if err != nil {
		return nil, err
	}
	get, okX := form.Reader(x.Type)
	step, okS := form.Reader(scale.Type)
	set, okOut := form.Writer(out.Type)
	if !okX || !okS || !okOut {
		return nil, unsupported(x.Type)
	}
	if out.Type == graph.Float32 && scale.Type == graph.Float32 {
		if run := dequantizeLines(c, s); run != nil {
			return run, nil
		}
	}
	zero := zeroPoint(c, 2)
	n := out.Len()
	part := func(p, _ int) {
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			k := scaleOf(s, i)
			set(out.At, i, (get(x.At, i)-zero(k))*step(scale.At, k))
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// scaleLines divides a tensor into lines, whose elements have one scale, or each its own.
type scaleLines struct {
	n, count int                // elements of a line, lines
	each     bool               // element i of a line has the scale first + i, else all have the first
	first    func(line int) int // index of the first scale
}

// shortLine is the least number of elements of a line for which vectors pay.
const shortLine = 8

// scaleLinesOf returns the lines of n elements. It returns false if they are too short.
func scaleLinesOf(s *form.Scales, n int) (l scaleLines, ok bool) {
	blocks := 0
	if s.Block > 0 {
		blocks = cuts(s.N, s.Block)
	}
	switch {
	case s.PerAxis && s.Inner > 1:
		l = scaleLines{n: s.Inner, first: func(line int) int { return line % s.N }}
	case s.PerAxis:
		l = scaleLines{n: s.N, each: true, first: func(int) int { return 0 }}
	case blocks == 0:
		l = scaleLines{n: n, first: func(int) int { return 0 }}
	case s.Inner > 1:
		l = scaleLines{n: s.Inner, each: true, first: func(line int) int {
			return (line/s.N*blocks + line%s.N/s.Block) * s.Inner
		}}
	case s.N%s.Block == 0:
		l = scaleLines{n: s.Block, first: func(line int) int { return line }}
	}
	if l.n < shortLine {
		return l, false
	}
	l.count = n / l.n
	return l, true
}

// dequantizeLines makes the kernel for numbers of 8 and 4 bits with real scales, whose lines are
// long enough for vectors; nil for others.
func dequantizeLines(c *Invocation, s *form.Scales) Run {
	x, out := c.In[0], c.Out[0]
	l, ok := scaleLinesOf(s, out.Len())
	widen := widener(x.Type)
	if !ok || widen == nil || l.n%2 != 0 && x.Type.Bits() == 4 {
		return nil
	}
	scales := data[float32](c.In[1])
	zero, hasZero := zeroPoint(c, 2), c.Has(2)
	zeros := c.Each(4 * min(l.n, grain))
	signed, bytes := byteType(x.Type)
	var pool *work.Pool
	lines := l.run(func(line, from, n, worker int) {
		k, at := l.first(line), line*l.n+from
		d := span[float32](element[float32](out, at), n)
		if !l.each && bytes {
			simd.Dequantize(d, span[byte](element[byte](x, at), n), scales[k], simd.Byte{Signed: signed, Zero: int32(zero(k))})
			return
		}
		widen(d, x, at)
		if !l.each {
			z := float32(zero(k))
			for i := range d {
				d[i] = (d[i] - z) * scales[k]
			}
			return
		}
		if hasZero {
			z := span[float32](pool.Each(worker, zeros), n)
			for i := range z {
				z[i] = float32(zero(k + from + i))
			}
			simd.Sub(d, d, z)
		}
		simd.Mul(d, d, scales[k+from:][:n])
	})
	return func(w *work.Pool) error {
		pool = w
		return lines(w)
	}
}

// run makes a kernel from a function that handles n elements of a line, from one of them on.
func (l scaleLines) run(one func(line, from, n, worker int)) Run {
	several := max(1, grain/max(l.n, 1)) // lines of a part
	pieces := cuts(l.n, grain)           // parts of a line
	part := func(p, worker int) {
		if pieces > 1 {
			from := p % pieces * grain
			one(p/pieces, from, min(grain, l.n-from), worker)
			return
		}
		for line := p * several; line < min((p+1)*several, l.count); line++ {
			one(line, 0, l.n, worker)
		}
	}
	return func(w *work.Pool) error {
		if pieces > 1 {
			w.For(l.count*pieces, part)
		} else {
			w.For(cuts(l.count, several), part)
		}
		return nil
	}
}

// widener returns the function that writes numbers of a type as reals, from element from of a
// tensor on, which is even for 4 bits; nil for other types.
func widener(d graph.DType) func(dst []float32, x *Tensor, from int) {
	switch d {
	case graph.Int8, graph.Uint8:
		return func(dst []float32, x *Tensor, from int) {
			simd.Dequantize(dst, span[byte](element[byte](x, from), len(dst)), 1, simd.Byte{Signed: d == graph.Int8})
		}
	case graph.Int4:
		return func(dst []float32, x *Tensor, from int) { widenPairs(dst, raw(x)[from/2:], &signedPairs) }
	case graph.Uint4:
		return func(dst []float32, x *Tensor, from int) { widenPairs(dst, raw(x)[from/2:], &unsignedPairs) }
	}
	return nil
}

// widenPairs writes two reals for each byte of src.
func widenPairs(dst []float32, src []byte, pairs *[256][2]float32) {
	for i, b := range src[:len(dst)/2] {
		d := (*[2]float32)(dst[2*i:])
		*d = pairs[b]
	}
	if n := len(dst); n%2 != 0 {
		dst[n-1] = pairs[src[n/2]][0]
	}
}

// The two numbers of 4 bits of each byte; the lower bits are the first.
var unsignedPairs, signedPairs = pairTables()

func pairTables() (plain, signed [256][2]float32) {
	for b := range 256 {
		for i, v := range [2]int{b & 15, b >> 4} {
			plain[b][i], signed[b][i] = float32(v), float32((v^8)-8)
		}
	}
	return plain, signed
}
