package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// withdrawn lists operators of early versions of ONNX that are no longer part of it.
var withdrawn = family{"", []Kernel{
	{Name: "Affine", Make: makeAffine},
	{Name: "Crop", Make: moving(form.CropMoves), Half: true},
	{Name: "Scale", Real: timesScale},
	{Name: "ScaledTanh", Real: scaledTanhOf},
	{Name: "ParametricSoftplus", Real: parametricSoftplusOf},
	{Name: "ImageScaler", Make: makeImageScaler},
}}

// makeAffine computes alpha · x + beta.
func makeAffine(c *Invocation) (Run, error) {
	alpha, beta := float64(c.Float("alpha", 1)), float64(c.Float("beta", 0))
	return real1(func(x float64) float64 { return alpha*x + beta })(c)
}

func timesScale(c *Invocation) function {
	scale := c.Float("scale", 1)
	return function{func(d, a []float32) { simd.MulScalar(d, a, scale) }, func(x float64) float64 { return float64(scale) * x }}
}

func scaledTanhOf(c *Invocation) function { return scaledReal(c, simd.Tanh, math.Tanh) }

func parametricSoftplusOf(c *Invocation) function { return scaledReal(c, simd.Softplus, softplus) }

// scaledReal is alpha · f(beta · x).
func scaledReal(c *Invocation, row func(dst, src []float32), one func(float64) float64) function {
	alpha, beta := c.Float("alpha", 1), c.Float("beta", 1)
	return function{func(d, a []float32) {
		simd.MulScalar(d, a, beta)
		row(d, d)
		simd.MulScalar(d, d, alpha)
	}, func(x float64) float64 { return float64(alpha) * one(float64(beta)*x) }}
}

// makeImageScaler computes scale · x + bias, with a bias for each channel.
func makeImageScaler(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	if in.Type != graph.Float32 {
		return nil, unsupported(in.Type)
	}
	scale, bias := c.Float("scale", 1), c.floats("bias")
	plane := in.Shape[2] * in.Shape[3]
	planes := in.Shape[0] * in.Shape[1]
	pieces := cuts(plane, grain)
	part := func(p, _ int) {
		image, at := p/pieces, p%pieces*grain
		from, to := image*plane+at, image*plane+min(at+grain, plane)
		d, plus := data[float32](out)[from:to], bias[image%len(bias)]
		for i, x := range data[float32](in)[from:to] {
			d[i] = scale*x + plus
		}
	}
	return func(w *work.Pool) error {
		w.For(planes*pieces, part)
		return nil
	}, nil
}
