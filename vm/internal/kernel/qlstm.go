package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// quantizedLSTM is an LSTM with weights of 8 bits. The input is quantized as a whole, and
// the states of the batch together at each step. Inputs 8 to 11 are the scale and zero
// point of W, then of R: one for each direction, or one for each direction and gate.
type quantizedLSTM struct {
	*sequence[float32]
	wide int // gates of all units: 4·hidden
	w, r []*byteWeights
	pool *work.Pool
	each int // scratch of a worker for products
	line int // scratch of a worker for the gates of a batch element

	now struct { // what the parts of a step need
		t, d  int
		scale float32 // of the state's bytes
	}
	advance func(b, worker int)

	// Offsets in the shared scratch: the input, the state and their bytes; the sums of
	// all steps, which become reals, and those of a step.
	x, h, q, gates, sums, cells int
}

// byteWeights are the weights of one direction, [depth, 4·hidden].
type byteWeights struct {
	t     *Tensor
	scale *Tensor
	first int // of the scales
	per   bool
	zeros *zeros
	bytes gemm.Bytes
	off   int

	left gemm.Bytes // what they are multiplied with
	zero [1]int16   // its zero point
	p    gemm.Integer
	to   unsafe.Pointer // the product
	part func(tile, worker int)
}

// weights returns the weights of direction d at input i, whose scale is input scale.
func (s *quantizedLSTM) weights(d, i, scale, depth int) (*byteWeights, error) {
	c := s.c
	t, zero := c.In[i], c.In[scale+1]
	signed, is := byteType(t.Type)
	if !is || c.In[scale].Type != graph.Float32 {
		return nil, unsupported(t.Type)
	}
	v := &byteWeights{t: t, scale: c.In[scale], first: d, off: d * depth * s.wide}
	if v.per = v.scale.Rank() > 1; v.per {
		v.first = d * s.wide
	}
	at, step := d, 0
	if zero.Rank() > 1 {
		at, step = d*s.wide, 1
	}
	v.zeros = newZeros(c, zero, s.wide, func(j int) int { return at + j*step })
	v.bytes = gemm.Bytes{Len: s.wide, Step: 1, Deep: s.wide, Signed: signed, Zeros: v.zeros.list}
	v.left = gemm.Bytes{Step: depth, Deep: 1, Zeros: v.zero[:]}
	v.p = gemm.Integer{N: s.wide, K: depth, A: &v.left, B: &v.bytes, Stop: c.Runtime}
	c.packBytes(&v.p, &v.bytes, v.zeros, &zeros{list: v.zero[:]}, t, v.off, depth, true)
	v.part = func(tile, worker int) {
		i, j, _, _ := v.p.Block(tile)
		v.p.Tile(tile, unsafe.Add(v.to, 4*(i*s.wide+j)), s.wide, s.pool.Each(worker, s.each))
	}
	return v, nil
}

// of is the scale of a column.
func (v *byteWeights) of(column int) float32 {
	if !v.per {
		column = 0
	}
	return data[float32](v.scale)[v.first+column]
}

func makeDynamicQuantizeLSTM(c *Invocation) (Run, error) {
	x, r := c.In[0], c.In[2]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	if c.Int("layout", 0) != 0 {
		return nil, unsupportedf("layout %d", c.Int("layout", 0))
	}
	s := &quantizedLSTM{sequence: &sequence[float32]{
		c: c, gates: 4, steps: x.Shape[0], batch: x.Shape[1], input: x.Shape[2], hidden: r.Shape[1], directions: r.Shape[0],
		backward: c.Str("direction", "forward") == "reverse", couple: c.Int("input_forget", 0) != 0, clip: float64(c.Float("clip", 0)),
	}}
	activations, err := c.RecurrentActivations(4, s.directions)
	if err != nil {
		return nil, err
	}
	s.activate(activations)
	s.wide = 4 * s.hidden
	for d := range s.directions {
		w, err := s.weights(d, 1, 8, s.input)
		if err != nil {
			return nil, err
		}
		r, err := s.weights(d, 2, 10, s.hidden)
		if err != nil {
			return nil, err
		}
		s.w, s.r = append(s.w, w), append(s.r, r)
	}
	s.x, s.gates = c.Shared(x.Len()), c.Shared(mul(4, s.steps, s.batch, s.wide))
	s.h, s.q, s.sums = c.Shared(mul(4, s.batch, s.hidden)), c.Shared(mul(s.batch, s.hidden)), c.Shared(mul(4, s.batch, s.wide))
	s.cells = c.Shared(mul(8, s.batch, s.hidden))
	s.advance = s.step
	s.each, s.line = c.Each(gemm.IntegerScratchBytes), c.Each(mul(8, 9, s.hidden))
	return func(w *work.Pool) error {
		if err := s.checkLengths(); err != nil {
			return err
		}
		s.pool = w
		s.run()
		return nil
	}, nil
}

func (s *quantizedLSTM) run() {
	steps := 0
	for b := range s.batch {
		steps = max(steps, s.length(b))
	}
	rows := steps * s.batch
	scale, zero := s.quantize(s.pool.Shared(s.x), s.c.In[0].At, rows*s.input)
	for d := range s.directions {
		s.product(s.w[d], s.pool.Shared(s.x), zero, s.pool.Shared(s.gates), rows)
		gates := span[int32](s.pool.Shared(s.gates), rows*s.wide)
		m := s.c.Meter()
		for row := range rows {
			m.Add(s.wide)
			sums := gates[row*s.wide:][:s.wide]
			reals := span[float32](unsafe.Pointer(unsafe.SliceData(sums)), s.wide)
			for j, v := range sums {
				reals[j] = float32(v) * scale * s.w[d].of(j)
			}
		}
		s.direction(d, steps)
	}
}

// direction runs one direction over the gates of the input.
func (s *quantizedLSTM) direction(d, steps int) {
	n := s.hidden
	h, cells := span[float32](s.pool.Shared(s.h), s.batch*n), span[float64](s.pool.Shared(s.cells), s.batch*n)
	for b := range s.batch {
		row := cells[b*n:][:n]
		s.state(row, 5, d, b)
		for i, v := range row {
			h[b*n+i] = float32(v)
		}
		s.state(row, 6, d, b)
		if s.length(b) == 0 {
			s.final(2, d, b, row)
			s.state(row, 5, d, b)
			s.final(1, d, b, row)
			clear(h[b*n:][:n])
		}
	}
	for t := range steps {
		scale, zero := s.quantize(s.pool.Shared(s.q), unsafe.Pointer(unsafe.SliceData(h)), s.batch*n)
		s.product(s.r[d], s.pool.Shared(s.q), zero, s.pool.Shared(s.sums), s.batch)
		s.now.t, s.now.d, s.now.scale = t, d, scale
		s.pool.For(s.batch, s.advance)
	}
	for b := range s.batch {
		for t := max(steps, s.length(b)); t < s.steps; t++ {
			s.output(t, d, b, nil)
		}
	}
}

// step computes the next state of batch element b, from the sums with its present one.
func (s *quantizedLSTM) step(b, worker int) {
	n, length, t, d := s.hidden, s.length(b), s.now.t, s.now.d
	h := span[float32](s.pool.Shared(s.h), s.batch*n)[b*n:][:n]
	cell := span[float64](s.pool.Shared(s.cells), s.batch*n)[b*n:][:n]
	scratch := span[float64](s.pool.Each(worker, s.line), 9*n)
	wx, rh, next := scratch[:4*n], scratch[4*n:8*n], scratch[8*n:]
	if t >= length {
		s.output(t, d, b, nil)
		return
	}
	at := t
	if s.backward || d == 1 {
		at = length - 1 - t
	}
	fromX := span[float32](s.pool.Shared(s.gates), s.steps*s.batch*s.wide)[(at*s.batch+b)*s.wide:][:s.wide]
	sums := span[int32](s.pool.Shared(s.sums), s.batch*s.wide)[b*s.wide:][:s.wide]
	m := s.c.Meter()
	m.Add(s.wide)
	for j := range s.wide {
		wx[j], rh[j] = float64(fromX[j]), float64(float32(sums[j])*s.now.scale*s.r[d].of(j))
	}
	if s.c.Has(3) {
		bias := data[float32](s.c.In[3])[2*d*s.wide:]
		for j := range s.wide {
			wx[j] += float64(bias[j]) + float64(bias[s.wide+j])
		}
	}
	s.lstm(s.acts[3*d:], d, wx, rh, cell, next)
	s.output(at, d, b, next)
	if t == length-1 {
		s.final(1, d, b, next)
		s.final(2, d, b, cell)
		clear(h) // takes no part in the scale of later steps
		return
	}
	for i, v := range next {
		h[i] = float32(v)
	}
}

// quantize writes n reals as bytes whose range fits the reals and 0.
func (s *quantizedLSTM) quantize(to, from unsafe.Pointer, n int) (scale float32, zero int32) {
	reals := span[float32](from, n)
	low, high := float32(0), float32(0)
	for i, j := range s.c.Pieces(n) {
		l, h := simd.Extent(reals[i:j])
		low, high = min(low, l), max(high, h)
	}
	scale = 1
	if high > low {
		scale = (high - low) / 255
	}
	zero = int32(math.RoundToEven(float64(min(max(-low/scale, 0), 255))))
	for i, j := range s.c.Pieces(n) {
		simd.Quantize(span[byte](to, n)[i:j], reals[i:j], scale, simd.Byte{Zero: zero})
	}
	return scale, zero
}

// product multiplies rows of bytes with the weights, in 32 bits.
func (s *quantizedLSTM) product(v *byteWeights, from unsafe.Pointer, zero int32, to unsafe.Pointer, rows int) {
	if rows == 0 {
		return
	}
	v.zeros.read()
	v.bytes.At = element[byte](v.t, v.off)
	v.left.At, v.left.Len, v.zero[0] = from, rows, int16(zero)
	v.p.M, v.to = rows, to
	s.pool.For(v.p.Tiles(), v.part)
}
