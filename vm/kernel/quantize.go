package kernel

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// quantizers go between reals and small integers.
var quantizers = family{"", []Kernel{
	{Name: "QuantizeLinear", Make: makeQuantize, Half: true},
	{Name: "DequantizeLinear", Make: makeDequantize, Half: true},
	{Name: "DynamicQuantizeLinear", Make: makeDynamicQuantize},
	{Name: "MatMulInteger", Make: makeMatMulInteger},
}}

// scales finds the scale (and zero point) of an element: one for all, one for
// each place along an axis, or one for each block of places.
type scales struct {
	axis, n, inner int // the axis, its length, elements behind it
	perAxis        bool
	block          int // places along the axis that share one; 0: none
}

func scalesOf(c *Call, x, scale *Tensor) (*scales, error) {
	s := &scales{inner: 1, n: 1}
	if scale.Len() == 1 && scale.rank() < 2 {
		return s, nil
	}
	k, err := axis(c.Int("axis", 1), x.rank())
	if err != nil {
		return nil, err
	}
	s.axis, s.n, s.inner = k, x.Shape[k], count(x.Shape[k+1:])
	s.block = c.Int("block_size", 0)
	switch {
	case s.block > 0:
		if scale.rank() != x.rank() || scale.Shape[k] != cuts(s.n, s.block) {
			return nil, fmt.Errorf("scales of shape %v for %v in blocks of %d", scale.Shape, x.Shape, s.block)
		}
	case scale.Len() == s.n:
		s.perAxis = true
	default:
		return nil, fmt.Errorf("scales of shape %v for axis %d of %v", scale.Shape, k, x.Shape)
	}
	return s, nil
}

// of is the index of the scale of element i.
func (s *scales) of(i int) int {
	switch {
	case s.perAxis:
		return i / s.inner % s.n
	case s.block > 0:
		outer, place := i/(s.inner*s.n), i/s.inner%s.n
		return (outer*cuts(s.n, s.block)+place/s.block)*s.inner + i%s.inner
	}
	return 0
}

// limits are the least and largest numbers of an integer type.
func limits(d graph.DType) (low, high float64, ok bool) {
	bits := d.Bits()
	switch d {
	case graph.Int8, graph.Int16, graph.Int32, graph.Int4, graph.Int2:
		return -math.Ldexp(1, int(bits-1)), math.Ldexp(1, int(bits-1)) - 1, true
	case graph.Uint8, graph.Uint16, graph.Uint4, graph.Uint2:
		return 0, math.Ldexp(1, int(bits)) - 1, true
	}
	return 0, 0, false
}

// makeQuantize divides by the scale, rounds ties to even, adds the zero point
// and cuts off what does not fit.
func makeQuantize(c *Call) (Run, error) {
	x, scale, out := c.In[0], c.In[1], c.Out[0]
	s, err := scalesOf(c, x, scale)
	if err != nil {
		return nil, err
	}
	get, okX := reader(x.Type)
	step, okS := reader(scale.Type)
	set, okOut := writer(out.Type)
	low, high, whole := limits(out.Type)
	if !okX || !okS || !okOut || !whole && !isFloat8(out.Type) {
		return nil, unsupported(out.Type)
	}
	zero := zeroPoint(c, 2)
	single := x.Type == graph.Float32 && scale.Type == graph.Float32
	n := out.Len()
	part := func(p, _ int) {
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			k := s.of(i)
			v := get(x.At, i) / step(scale.At, k)
			if single {
				v = float64(float32(v))
			}
			if whole {
				v = min(max(math.RoundToEven(v)+zero(k), low), high)
			} else {
				v += zero(k)
			}
			set(out.At, i, v)
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// zeroPoint reads element k of input i, 0 where it is left out.
func zeroPoint(c *Call, i int) func(k int) float64 {
	if !c.Has(i) {
		return func(int) float64 { return 0 }
	}
	t := c.In[i]
	get, ok := reader(t.Type)
	if !ok {
		return func(int) float64 { return 0 }
	}
	if t.Len() == 1 {
		return func(int) float64 { return get(t.At, 0) }
	}
	return func(k int) float64 { return get(t.At, k) }
}

func makeDequantize(c *Call) (Run, error) {
	x, scale, out := c.In[0], c.In[1], c.Out[0]
	s, err := scalesOf(c, x, scale)
	if err != nil {
		return nil, err
	}
	get, okX := reader(x.Type)
	step, okS := reader(scale.Type)
	set, okOut := writer(out.Type)
	if !okX || !okS || !okOut {
		return nil, unsupported(x.Type)
	}
	zero := zeroPoint(c, 2)
	n := out.Len()
	part := func(p, _ int) {
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			k := s.of(i)
			set(out.At, i, (get(x.At, i)-zero(k))*step(scale.At, k))
		}
	}
	return func(w *work.Pool) error {
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// makeDynamicQuantize finds scale and zero point so that the input's range and
// 0 fit into 8 bits.
func makeDynamicQuantize(c *Call) (Run, error) {
	x, out := c.In[0], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	return func(*work.Pool) error {
		low, high := float32(0), float32(0)
		for _, v := range data[float32](x) {
			low, high = min(low, v), max(high, v)
		}
		scale := (high - low) / 255
		zero := float32(0)
		if scale != 0 {
			zero = float32(math.RoundToEven(float64(min(max(-low/scale, 0), 255))))
		}
		if c.HasOut(1) {
			data[float32](c.Out[1])[0] = scale
		}
		if c.HasOut(2) {
			data[uint8](c.Out[2])[0] = uint8(zero)
		}
		d := data[uint8](out)
		for i, v := range data[float32](x) {
			q := float32(0)
			if scale != 0 {
				q = float32(math.RoundToEven(float64(v / scale)))
			}
			d[i] = uint8(min(max(q+zero, 0), 255))
		}
		return nil
	}, nil
}

// makeMatMulInteger multiplies 8-bit integers less their zero points into 32
// bits.
func makeMatMulInteger(c *Call) (Run, error) {
	inner := *c
	inner.In, inner.Out = c.In[:2:2], c.Out
	p, err := matMul(&inner)
	if err != nil {
		return nil, err
	}
	a, b, out := c.In[0], c.In[1], c.Out[0]
	zeroA, zeroB := zeroPoint(c, 2), zeroPoint(c, 3)
	perRow := c.Has(2) && c.In[2].Len() > 1
	perColumn := c.Has(3) && c.In[3].Len() > 1
	readA, okA := smallReader(a.Type)
	readB, okB := smallReader(b.Type)
	if !okA || !okB || out.Type != graph.Int32 {
		return nil, unsupported(a.Type)
	}
	part := func(row, _ int) {
		batch, i := row/p.m, row%p.m
		d := span[int32](element[int32](out, row*p.n), p.n)
		clear(d)
		x, y := p.off(p.offA, batch)+i*p.aStep, p.off(p.offB, batch)
		k := 0
		if perRow {
			k = i
		}
		za := int32(zeroA(k))
		zb := int32(zeroB(0))
		s := span[byte](b.At, b.Len())
		for depth := range p.k {
			v := readA(span[byte](a.At, a.Len())[x+depth*p.aDeep]) - za
			if v == 0 {
				continue
			}
			line := s[y+depth*p.bDeep:]
			for j := range d {
				if perColumn {
					zb = int32(zeroB(j))
				}
				d[j] += v * (readB(line[j*p.bStep]) - zb)
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(p.batches*p.m, part)
		return nil
	}, nil
}

// smallReader makes an 8-bit integer a number.
func smallReader(d graph.DType) (func(byte) int32, bool) {
	switch d {
	case graph.Uint8:
		return func(b byte) int32 { return int32(b) }, true
	case graph.Int8:
		return func(b byte) int32 { return int32(int8(b)) }, true
	}
	return nil, false
}
