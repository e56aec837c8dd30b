package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// activations lists the activation functions of neural networks.
var activations = family{"", []Kernel{
	{Name: "Relu", Make: makeRelu, Finish: finishRelu, Link: linkOfRelu},
	{Name: "Sigmoid", Real: always(simd.Sigmoid, sigmoid), Link: linkOfSigmoid},
	{Name: "Tanh", Real: always(simd.Tanh, math.Tanh), Link: single(simd.Tanh)},
	{Name: "Softplus", Real: always(simd.Softplus, softplus)},
	{Name: "Softsign", Real: always(simd.Softsign, func(x float64) float64 { return x / (1 + math.Abs(x)) })},
	{Name: "Mish", Real: always(simd.Mish, func(x float64) float64 { return x * math.Tanh(softplus(x)) })},
	{Name: "LeakyRelu", Real: leakyReluOf},
	{Name: "ThresholdedRelu", Real: thresholdedReluOf},
	{Name: "Elu", Real: eluOf},
	{Name: "Celu", Make: makeCelu},
	{Name: "Swish", Real: swishOf},
	{Name: "Selu", Real: seluOf},
	{Name: "HardSigmoid", Real: hardSigmoidOf},
	{Name: "HardSwish", Real: always(hardSwish, func(x float64) float64 { return x * max(0, min(1, x/6+0.5)) })},
	{Name: "Gelu", Real: geluOf},
	{Name: "Shrink", Make: makeShrink},
	{Name: "PRelu", Make: scaled(legacy(makePRelu)), Blocks: scalesBlocks},
	{Name: "Clip", Make: makeClip, Finish: finishClip},
	{Name: "Dropout", Make: makeDropout},
}}

func sigmoid(x float64) float64 {
	if x < 0 {
		e := math.Exp(x)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-x))
}

// softplus is log(1 + e^x) without overflow.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func makeRelu(c *Invocation) (Run, error) {
	switch c.In[0].Type {
	case graph.Float32:
		return rowwise(c, reluVectors)
	case graph.Float64:
		return rowwise(c, reluRow[float64])
	case graph.Int64:
		return rowwise(c, reluRow[int64])
	case graph.Int32:
		return rowwise(c, reluRow[int32])
	case graph.Int16:
		return rowwise(c, reluRow[int16])
	case graph.Int8:
		return rowwise(c, reluRow[int8])
	}
	return nil, unsupported(c.In[0].Type)
}

func reluVectors(d, a []float32) { simd.Clamp(d, a[:len(d)], 0, float32(math.Inf(1))) }

func reluRow[T number](d, a []T) {
	for i, x := range a[:len(d)] {
		d[i] = max(x, 0)
	}
}

func thresholdedReluOf(c *Invocation) function {
	alpha := c.Float("alpha", 1)
	return function{func(d, a []float32) { simd.ThresholdedRelu(d, a, alpha) }, func(x float64) float64 {
		if x > float64(alpha) {
			return x
		}
		return 0
	}}
}

func leakyReluOf(c *Invocation) function {
	alpha := c.Float("alpha", 0.01)
	return function{func(d, a []float32) { simd.LeakyRelu(d, a, alpha) }, func(x float64) float64 {
		if x < 0 {
			return float64(alpha) * x
		}
		return x
	}}
}

func eluOf(c *Invocation) function {
	alpha := c.Float("alpha", 1)
	return function{func(d, a []float32) { simd.Elu(d, a, alpha, 1, 1) }, elu(float64(alpha), 1, 1)}
}

func makeCelu(c *Invocation) (Run, error) {
	alpha := c.Float("alpha", 1)
	if !(alpha > 0) {
		return real1(func(x float64) float64 {
			return max(0, x) + min(0, float64(alpha)*math.Expm1(x/float64(alpha)))
		})(c)
	}
	return function{func(d, a []float32) {
		simd.Elu(d, a, alpha, alpha, 1)
		simd.AddScalar(d, d, 0) // no -0: Celu is the sum of what is above 0 and what is below
	}, elu(float64(alpha), float64(alpha), 1)}.run(c)
}

func seluOf(c *Invocation) function {
	alpha, gamma := c.Float("alpha", 1.67326319217681884765625), c.Float("gamma", 1.05070102214813232421875)
	return function{func(d, a []float32) { simd.Elu(d, a, alpha, 1, gamma) }, elu(float64(alpha), 1, float64(gamma))}
}

// elu is the function that simd.Elu computes.
func elu(alpha, beta, gamma float64) func(x float64) float64 {
	return func(x float64) float64 {
		if x < 0 {
			return gamma * alpha * math.Expm1(x/beta)
		}
		return gamma * x
	}
}

func hardSigmoidOf(c *Invocation) function {
	alpha, beta := c.Float("alpha", 0.2), c.Float("beta", 0.5)
	return function{func(d, a []float32) { simd.HardSigmoid(d, a, alpha, beta) }, func(x float64) float64 {
		return max(0, min(1, float64(alpha)*x+float64(beta)))
	}}
}

func hardSwish(d, a []float32) { simd.HardSwish(d, a, 1./6, 0.5) }

func geluOf(c *Invocation) function {
	if c.Str("approximate", "none") == "tanh" {
		return function{simd.GeluTanh, func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}}
	}
	return function{simd.Gelu, func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }}
}

func swishOf(c *Invocation) function { return swish(c.Float("alpha", 1)) }

// swish is x · sigmoid(alpha · x).
func swish(alpha float32) function {
	return function{func(d, a []float32) { simd.Swish(d, a, alpha) }, func(x float64) float64 {
		return x * sigmoid(float64(alpha)*x)
	}}
}

func makeShrink(c *Invocation) (Run, error) {
	lambda, bias := float64(c.Float("lambd", 0.5)), float64(c.Float("bias", 0))
	f := func(x float64) float64 {
		switch {
		case x < -lambda:
			return x + bias
		case x > lambda:
			return x - bias
		}
		return 0
	}
	return numeric1(c, f, func(x int64) int64 { return int64(f(float64(x))) })
}

func makePRelu(c *Invocation) (Run, error) {
	switch c.In[0].Type {
	case graph.Float32:
		return loopsOf(slope[float32]).run(c)
	case graph.Float64:
		return loopsOf(slope[float64]).run(c)
	case graph.Int64:
		return loopsOf(slope[int64]).run(c)
	case graph.Int32:
		return loopsOf(slope[int32]).run(c)
	case graph.Uint64:
		return loopsOf(slope[uint64]).run(c)
	case graph.Uint32:
		return loopsOf(slope[uint32]).run(c)
	}
	return nil, unsupported(c.In[0].Type)
}

func slope[T number](x, s T) T {
	if x < 0 {
		return s * x
	}
	return x
}

// makeClip: the bounds are attributes before opset 11. Since then they are inputs,
// which the kernel reads when it runs.
func makeClip(c *Invocation) (Run, error) {
	switch c.In[0].Type {
	case graph.Float32:
		return clip(c, float32(math.Inf(-1)), float32(math.Inf(1)))
	case graph.Float64:
		return clip(c, math.Inf(-1), math.Inf(1))
	case graph.Int64:
		return clip[int64](c, math.MinInt64, math.MaxInt64)
	case graph.Int32:
		return clip[int32](c, math.MinInt32, math.MaxInt32)
	case graph.Int16:
		return clip[int16](c, math.MinInt16, math.MaxInt16)
	case graph.Int8:
		return clip[int8](c, math.MinInt8, math.MaxInt8)
	case graph.Uint64:
		return clip[uint64](c, 0, math.MaxUint64)
	case graph.Uint32:
		return clip[uint32](c, 0, math.MaxUint32)
	case graph.Uint16:
		return clip[uint16](c, 0, math.MaxUint16)
	case graph.Uint8:
		return clip[uint8](c, 0, math.MaxUint8)
	}
	return nil, unsupported(c.In[0].Type)
}

func clip[T number](c *Invocation, low, high T) (Run, error) {
	if a := c.Node.Attr("min"); a != nil {
		low = T(a.Float)
	}
	if a := c.Node.Attr("max"); a != nil {
		high = T(a.Float)
	}
	least, most := c.Input(1), c.Input(2)
	return rowwise(c, func(d, a []T) {
		lo, hi := low, high
		if least != nil && least.Len() > 0 {
			lo = *(*T)(least.At)
		}
		if most != nil && most.Len() > 0 {
			hi = *(*T)(most.At)
		}
		if f32, is := any(d).([]float32); is {
			simd.Clamp(f32, any(a).([]float32)[:len(d)], float32(lo), float32(hi))
			return
		}
		for i, x := range a[:len(d)] {
			if x < lo { // never for a bound that is NaN
				x = lo
			}
			if x > hi {
				x = hi
			}
			d[i] = x
		}
	})
}

// makeDropout copies input 0, or, in training, drops elements at random and scales the
// others. The mask says which elements are kept.
func makeDropout(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	copies, err := makeCopy(c)
	if err != nil {
		return nil, err
	}
	var drop Run
	switch in.Type {
	case graph.Float32:
		drop = dropout[float32](c)
	case graph.Float64:
		drop = dropout[float64](c)
	default:
		return nil, unsupported(in.Type)
	}
	return func(w *work.Pool) error {
		if c.Has(2) && *(*uint8)(c.In[2].At) != 0 {
			return drop(w)
		}
		if c.HasOut(1) {
			mask := c.Out[1]
			switch mask.Type {
			case graph.Bool:
				fillAll(c, data[uint8](mask), 1)
			case graph.Float32:
				fillAll(c, data[float32](mask), 1)
			case graph.Float64:
				fillAll(c, data[float64](mask), 1)
			default:
				return unsupported(mask.Type)
			}
		}
		if out.At == in.At {
			return nil
		}
		return copies(w)
	}, nil
}

func fill[T any](d []T, v T) {
	for i := range d {
		d[i] = v
	}
}

// dropout draws one number for each element with a counter-based generator
// (SplitMix64, Steele et al. 2014), so that the draw depends only on the element's
// index.
func dropout[T floating](c *Invocation) Run {
	var ratio float64
	var seed uint64
	var scale T
	part := func(p, _ int) {
		var mask []uint8
		if c.HasOut(1) {
			mask = data[uint8](c.Out[1])
		}
		d, s := data[T](c.Out[0]), data[T](c.In[0])
		for i := p * grain; i < min((p+1)*grain, len(s)); i++ {
			x := s[i]
			kept := uniform(seed, i) >= ratio
			if mask != nil {
				mask[i] = 0
				if kept {
					mask[i] = 1
				}
			}
			d[i] = 0
			if kept {
				d[i] = x * scale
			}
		}
	}
	return func(w *work.Pool) error {
		ratio = 0.5
		if c.Has(1) {
			ratio = c.Number(1)
		}
		seed, scale = c.Runtime.Seed(), T(1)
		if a := c.Node.Attr("seed"); a != nil {
			seed = uint64(a.Int)
		}
		if ratio < 1 {
			scale = T(1 / (1 - ratio))
		}
		w.For(cuts(c.In[0].Len(), grain), part)
		return nil
	}
}

// uniform is number i of a sequence in [0, 1).
func uniform(seed uint64, i int) float64 {
	z := seed + (uint64(i)+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
