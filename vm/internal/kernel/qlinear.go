package kernel

import (
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// quantity is a tensor of 8-bit integers with its scale and its zero point, which may be
// omitted.
type quantity struct {
	x, scale, zero *Tensor
	signed         bool
}

// quantity returns tensor x with the scale and zero point that are inputs i and i+1.
func (c *Invocation) quantity(x *Tensor, i int) (*quantity, error) {
	q := &quantity{x: x, scale: c.Input(i), zero: c.Input(i + 1)}
	var is bool
	if q.signed, is = byteType(x.Type); !is {
		return nil, unsupported(x.Type)
	}
	if q.scale.Type != graph.Float32 {
		return nil, unsupportedf("a scale of dtype %v", q.scale.Type)
	}
	return q, nil
}

// quantities returns the tensors at the given inputs, each of which is followed by its
// scale and zero point, and then the output with those at input out.
func (c *Invocation) quantities(out int, inputs ...int) ([]*quantity, error) {
	var list []*quantity
	for _, i := range inputs {
		q, err := c.quantity(c.In[i], i+1)
		if err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	y, err := c.quantity(c.Out[0], out)
	return append(list, y), err
}

// step is the scale, at run time.
func (q *quantity) step() float32 { return data[float32](q.scale)[0] }

// bytes is the type with its zero point, at run time.
func (q *quantity) bytes() simd.Byte {
	b := simd.Byte{Signed: q.signed}
	switch {
	case q.zero == nil:
	case q.signed:
		b.Zero = int32(data[int8](q.zero)[0])
	default:
		b.Zero = int32(data[uint8](q.zero)[0])
	}
	return b
}

// qlinearBinary makes the kernel of a commutative operation on reals, between quantized
// tensors.
func qlinearBinary(op func(d, a, b []float32)) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		list, err := c.quantities(6, 0, 3)
		if err != nil {
			return nil, err
		}
		a, b, y := list[0], list[1], list[2]
		if y.x.Layout == form.NHWC && !sameShape(a.x, b.x) {
			if IsChannels(a.x, y.x) {
				return acrossPixels(c, y, b, a, op), nil
			}
			if IsChannels(b.x, y.x) {
				return acrossPixels(c, y, a, b, op), nil
			}
		}
		s, err := newSweep(y.x.Shape, a.x.Shape, b.x.Shape)
		if err != nil {
			return nil, err
		}
		// If one operand is a number in each row, a row of some length is looked up in a table.
		const leastRow = 512
		looksUp := s.inner[0] != s.inner[1] && s.n >= leastRow
		list = list[:2]
		const atOnce = 2048 // elements, whose reals stay in the fastest cache
		wide := min(atOnce, max(s.n, 1))
		each, tables := c.Each(mul(8, wide)), c.Each(2*256)
		var pool *work.Pool
		// compute writes the results of n elements of both operands, of which those with
		// inner 0 are one.
		compute := func(d []byte, at [2]unsafe.Pointer, worker int) {
			n := len(d)
			scratch := span[float32](pool.Each(worker, each), 2*wide)
			l, r := scratch[:n], scratch[wide:wide+n]
			for k, reals := range [][]float32{l, r} {
				if s.inner[k] == 1 {
					simd.Dequantize(reals, span[byte](at[k], n), list[k].step(), list[k].bytes())
					continue
				}
				simd.Dequantize(reals[:1], span[byte](at[k], 1), list[k].step(), list[k].bytes())
				fill(reals[1:], reals[0])
			}
			op(l, l, r)
			simd.Quantize(d, l, y.step(), y.bytes())
		}
		run := s.each(func(row, from, to, worker int) {
			at := [2]unsafe.Pointer{element[byte](a.x, s.at(row, 0)+from*s.inner[0]), element[byte](b.x, s.at(row, 1)+from*s.inner[1])}
			d := span[byte](element[byte](y.x, row*s.n+from), to-from)
			if looksUp && to-from >= leastRow {
				long := s.inner[1] // the operand that is not a number
				row := span[byte](at[long], to-from)
				at[long] = pool.Each(worker, tables)
				table := (*[256]byte)(unsafe.Add(at[long], 256))
				countUp(at[long])
				compute(table[:], at, worker)
				simd.LookUp(d, row, table)
				return
			}
			for ; len(d) > 0; d = d[min(wide, len(d)):] {
				n := min(wide, len(d))
				compute(d[:n], at, worker)
				for k := range at {
					at[k] = unsafe.Add(at[k], n*s.inner[k])
				}
			}
		})
		return func(w *work.Pool) error {
			pool = w
			return run(w)
		}, nil
	}
}

// countUp writes all bytes.
func countUp(at unsafe.Pointer) {
	for i, d := 0, (*[256]byte)(at); i < len(d); i++ {
		d[i] = byte(i)
	}
}

// byteTable maps each byte of one quantized tensor to a byte of another.
type byteTable struct {
	from, to *quantity
	f        func(float64) float64 // of the reals; nil: they stay
	off      int                   // in the shared scratch
}

func (c *Invocation) byteTable(from, to *quantity, f func(float64) float64) *byteTable {
	return &byteTable{from, to, f, c.Shared(256)}
}

// write fills the table.
func (t *byteTable) write(w *work.Pool) {
	var in [256]byte
	var reals [256]float32
	for i := range in {
		in[i] = byte(i)
	}
	simd.Dequantize(reals[:], in[:], t.from.step(), t.from.bytes())
	if t.f != nil {
		for i, x := range reals {
			reals[i] = float32(t.f(float64(x)))
		}
	}
	simd.Quantize(t.at(w)[:], reals[:], t.to.step(), t.to.bytes())
}

func (t *byteTable) at(w *work.Pool) *[256]byte { return (*[256]byte)(w.Shared(t.off)) }

// apply maps n bytes.
func (t *byteTable) apply(w *work.Pool, to, from unsafe.Pointer, n int) {
	simd.LookUp(span[byte](to, n), span[byte](from, n), t.at(w))
}

// qlinearUnary makes the kernel of a function of reals.
func qlinearUnary(function func(c *Invocation) func(float64) float64) func(*Invocation) (Run, error) {
	return func(c *Invocation) (Run, error) {
		list, err := c.quantities(3, 0)
		if err != nil {
			return nil, err
		}
		x, y := list[0], list[1]
		t := c.byteTable(x, y, function(c))
		n := y.x.Len()
		var pool *work.Pool
		part := func(p, _ int) {
			from := p * grain
			t.apply(pool, element[byte](y.x, from), element[byte](x.x, from), min(grain, n-from))
		}
		return func(w *work.Pool) error {
			pool = w
			t.write(w)
			w.For(cuts(n, grain), part)
			return nil
		}, nil
	}
}

func leakyOf(c *Invocation) func(float64) float64 {
	alpha := float64(c.Float("alpha", 0.01))
	return func(x float64) float64 {
		if x > 0 { // whatever alpha is
			return x
		}
		return alpha * x
	}
}

// makeQLinearWhere requantizes the elements of either tensor.
func makeQLinearWhere(c *Invocation) (Run, error) {
	list, err := c.quantities(7, 1, 4)
	if err != nil {
		return nil, err
	}
	a, b, y := list[0], list[1], list[2]
	s, err := newSweep(y.x.Shape, c.In[0].Shape, a.x.Shape, b.x.Shape)
	if err != nil {
		return nil, err
	}
	first, second := c.byteTable(a, y, nil), c.byteTable(b, y, nil)
	var pool *work.Pool
	run := s.each(func(row, from, to, _ int) {
		d := span[byte](element[byte](y.x, row*s.n), s.n)
		one, other := first.at(pool), second.at(pool)
		m := c.Meter()
		for from < to {
			end := m.Next(from, to)
			for i := from; i < end; i++ {
				if *(*byte)(element[byte](c.In[0], s.at(row, 0)+i*s.inner[0])) != 0 {
					d[i] = one[*(*byte)(element[byte](a.x, s.at(row, 1)+i*s.inner[1]))]
				} else {
					d[i] = other[*(*byte)(element[byte](b.x, s.at(row, 2)+i*s.inner[2]))]
				}
			}
			from = end
		}
	})
	return func(w *work.Pool) error {
		pool = w
		first.write(w)
		second.write(w)
		return run(w)
	}, nil
}

// makeQLinearConcat requantizes each part.
func makeQLinearConcat(c *Invocation) (Run, error) {
	y, err := c.quantity(c.Out[0], 0)
	if err != nil {
		return nil, err
	}
	axis, err := c.Axis(0, y.x.Rank())
	if err != nil {
		return nil, err
	}
	outer, stride := count(y.x.Shape[:axis]), count(y.x.Shape[axis:])
	type piece struct {
		table *byteTable
		n     int // bytes in each row of the output
		off   int // of the first of them
	}
	var pieces []piece
	off := 0
	for i := 2; i < len(c.In); i += 3 {
		x, err := c.quantity(c.In[i], i+1)
		if err != nil {
			return nil, err
		}
		n := count(x.x.Shape[axis:])
		pieces = append(pieces, piece{c.byteTable(x, y, nil), n, off})
		off += n
	}
	var pool *work.Pool
	at := 0
	part := func(p, _ int) {
		v := &pieces[at]
		group := max(1, grain/max(v.n, 1))
		blocks := cuts(v.n, grain)
		row, from := p/blocks*group, p%blocks*grain
		for end := min(row+group, outer); row < end; row++ {
			v.table.apply(pool, element[byte](y.x, row*stride+v.off+from), element[byte](v.table.from.x, row*v.n+from), min(grain, v.n-from))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		for at = range pieces {
			v := &pieces[at]
			v.table.write(w)
			w.For(cuts(outer, max(1, grain/max(v.n, 1)))*cuts(v.n, grain), part)
		}
		return nil
	}, nil
}

// makeQLinearSoftmax is a softmax along an axis or, if attribute opset is below 13, over
// that axis and all that follow. Like ONNX Runtime, it divides by the scale of the output
// with an inverse that is rounded down.
func makeQLinearSoftmax(c *Invocation) (Run, error) {
	list, err := c.quantities(3, 0)
	if err != nil {
		return nil, err
	}
	x, y := list[0], list[1]
	old := c.Int("opset", 13) < 13
	otherwise := -1
	if old {
		otherwise = 1
	}
	k, err := c.Axis(otherwise, max(x.x.Rank(), 1))
	if err != nil {
		return nil, err
	}
	n, step := 1, 1
	if x.x.Rank() > 0 {
		n, step = x.x.Shape[k], count(x.x.Shape[k+1:])
		if old {
			n, step = n*step, 1
		}
	}
	lines, group := x.x.Len()/max(n, 1), max(1, grain/max(n, 1))
	off := c.Shared(256 * 8)
	var flip byte
	if x.signed {
		flip = 0x80
	}
	var pool *work.Pool
	part := func(p, _ int) {
		powers := (*[256]float64)(pool.Shared(off))
		to, inverse := y.bytes(), math.Floor(float64(1/y.step()))
		low, high := float64(0), float64(255)
		if to.Signed {
			low, high = -128, 127
		}
		m := c.Meter()
		for l := p * group; l < min((p+1)*group, lines); l++ {
			first := l/step*step*n + l%step
			s, d := span[byte](element[byte](x.x, first), (n-1)*step+1), span[byte](element[byte](y.x, first), (n-1)*step+1)
			most, sum := byte(0), 0.0
			for from := 0; from < n; {
				to := m.Next(from, n)
				for ; from < to; from++ {
					most = max(most, s[from*step]^flip)
				}
			}
			for from := 0; from < n; {
				to := m.Next(from, n)
				for ; from < to; from++ {
					sum += powers[most-(s[from*step]^flip)]
				}
			}
			for from := 0; from < n; {
				end := m.Next(from, n)
				for ; from < end; from++ {
					v := math.RoundToEven(powers[most-(s[from*step]^flip)]*inverse/sum) + float64(to.Zero)
					d[from*step] = byte(int32(min(max(v, low), high)))
				}
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		powers := (*[256]float64)(w.Shared(off))
		for i := range powers {
			powers[i] = math.Exp(-float64(i) * float64(x.step()))
		}
		w.For(cuts(lines, group), part)
		return nil
	}, nil
}

// makeQLinearAveragePool averages the reals.
func makeQLinearAveragePool(c *Invocation) (Run, error) {
	list, err := c.quantities(3, 0)
	if err != nil {
		return nil, err
	}
	x, y := list[0], list[1]
	if c.Int("channels_last", 0) != 0 {
		return nil, unsupportedf("channels that come last")
	}
	planes := &Tensor{Type: graph.Float32, Shape: slices.Clone(x.x.Shape)}
	means := &Tensor{Type: graph.Float32, Shape: slices.Clone(y.x.Shape)}
	in, out := c.Shared(planes.Bytes()), c.Shared(means.Bytes())
	inner := *c
	inner.In, inner.Out = []*Tensor{planes}, []*Tensor{means}
	pool, err := makeAveragePool(&inner)
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes = inner.SharedBytes, inner.EachBytes
	return func(w *work.Pool) error {
		planes.At, means.At = w.Shared(in), w.Shared(out)
		d, s := data[float32](planes), data[byte](x.x)
		w.Steps(len(d), func(from, to int) { simd.Dequantize(d[from:to], s[from:to], x.step(), x.bytes()) })
		if err := pool(w); err != nil {
			return err
		}
		e, r := data[byte](y.x), data[float32](means)
		w.Steps(len(r), func(from, to int) { simd.Quantize(e[from:to], r[from:to], y.step(), y.bytes()) })
		return nil
	}, nil
}
