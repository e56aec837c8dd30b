package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// quantizers lists the conversions between reals and their quantized form.
var quantizers = family{"", []Kernel{
	{Name: "QuantizeLinear", Make: makeQuantize, Half: true},
	{Name: "DequantizeLinear", Make: makeDequantize, Half: true},
	{Name: "DynamicQuantizeLinear", Make: makeDynamicQuantize},
}}

// contribQuantizers lists ONNX Runtime's quantizers, and its operators on quantized
// tensors: each tensor is followed by a scale and a zero point.
var contribQuantizers = family{"com.microsoft", []Kernel{
	{Name: "QuantizeLinear", Make: makeQuantize, Half: true},
	{Name: "DequantizeLinear", Make: makeDequantize, Half: true},
	{Name: "QLinearAdd", Make: qlinearBinary(simd.Add), Across: true},
	{Name: "QLinearMul", Make: qlinearBinary(simd.Mul), Across: true},
	{Name: "QLinearSigmoid", Make: qlinearUnary(func(*Invocation) func(float64) float64 { return sigmoid })},
	{Name: "QLinearLeakyRelu", Make: qlinearUnary(leakyOf)},
	{Name: "QLinearSoftmax", Make: makeQLinearSoftmax},
	{Name: "QLinearWhere", Make: makeQLinearWhere},
	{Name: "QLinearConcat", Make: makeQLinearConcat},
	{Name: "QLinearAveragePool", Make: makeQLinearAveragePool},
	{Name: "QLinearGlobalAveragePool", Make: makeQLinearGlobalAveragePool},
}}

// scaleOf is the index of the scale of element i.
func scaleOf(s *form.Scales, i int) int {
	switch {
	case s.PerAxis:
		return i / s.Inner % s.N
	case s.Block > 0:
		outer, place := i/(s.Inner*s.N), i/s.Inner%s.N
		return (outer*cuts(s.N, s.Block)+place/s.Block)*s.Inner + i%s.Inner
	}
	return 0
}

// byteType reports whether a dtype is an 8-bit integer, and whether it is signed.
func byteType(d graph.DType) (signed, is bool) {
	return d == graph.Int8, d == graph.Int8 || d == graph.Uint8
}

// limits returns the least and the largest number of an integer type.
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

// makeQuantize divides by the scale, rounds ties to even, adds the zero point and
// saturates.
func makeQuantize(c *Invocation) (Run, error) {
	x, scale, out := c.In[0], c.In[1], c.Out[0]
	s, err := form.ScalesOf(&c.Call, x, scale)
	if err != nil {
		return nil, err
	}
	get, okX := form.Reader(x.Type)
	step, okS := form.Reader(scale.Type)
	set, okOut := c.Writer(out.Type)
	low, high, whole := limits(out.Type)
	if !okX || !okS || !okOut || !whole && !form.IsFloat8(out.Type) {
		return nil, unsupported(out.Type)
	}
	zero := zeroPoint(c, 2)
	single := x.Type == graph.Float32 && scale.Type == graph.Float32
	if signed, is := byteType(out.Type); is && single {
		if l, ok := scaleLinesOf(s, out.Len()); ok && !l.each {
			return l.run(func(line, from, n, _ int) {
				k, at := l.first(line), line*l.n+from
				simd.Quantize(span[byte](element[byte](out, at), n), span[float32](element[float32](x, at), n),
					data[float32](scale)[k], simd.Byte{Signed: signed, Zero: int32(zero(k))})
			}), nil
		}
	}
	n := out.Len()
	part := func(p, _ int) {
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			k := scaleOf(s, i)
			v := get(x.At, i) / step(scale.At, k)
			if single {
				v = float64(float32(v))
			}
			if whole {
				if v = math.RoundToEven(v) + zero(k); !(v >= low) { // NaN becomes the least number
					v = low
				}
				v = min(v, high)
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

// zeroPoint returns a function that reads element k of input i; 0 if it is omitted.
func zeroPoint(c *Invocation, i int) func(k int) float64 {
	if !c.Has(i) {
		return func(int) float64 { return 0 }
	}
	t := c.In[i]
	get, ok := form.Reader(t.Type)
	if !ok {
		return func(int) float64 { return 0 }
	}
	if t.Len() == 1 {
		return func(int) float64 { return get(t.At, 0) }
	}
	return func(k int) float64 { return get(t.At, k) }
}

// makeDynamicQuantize finds the scale and zero point with which the input's range and 0
// fit into 8 bits.
func makeDynamicQuantize(c *Invocation) (Run, error) {
	x, out := c.In[0], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	n := x.Len()
	parts := cuts(n, grain)
	off := c.Shared(8 * parts)
	var pool *work.Pool
	search := func(p, _ int) {
		e := &span[[2]float32](pool.Shared(off), parts)[p]
		e[0], e[1] = simd.Extent(span[float32](element[float32](x, p*grain), min(grain, n-p*grain)))
	}
	var scale float32
	to := simd.Byte{}
	write := func(p, _ int) {
		from, n := p*grain, min(grain, n-p*grain)
		simd.Quantize(span[byte](element[byte](out, from), n), span[float32](element[float32](x, from), n), scale, to)
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(parts, search)
		low, high := float32(0), float32(0)
		for _, e := range span[[2]float32](w.Shared(off), parts) {
			low, high = min(low, e[0]), max(high, e[1])
		}
		scale = (high - low) / 255
		to.Zero = 0
		if scale != 0 {
			to.Zero = int32(math.RoundToEven(float64(min(max(-low/scale, 0), 255))))
		}
		if c.HasOut(1) {
			data[float32](c.Out[1])[0] = scale
		}
		if c.HasOut(2) {
			data[uint8](c.Out[2])[0] = uint8(to.Zero)
		}
		if scale == 0 { // all elements are 0
			c.Clear(data[uint8](out))
			return nil
		}
		w.For(parts, write)
		return nil
	}, nil
}
