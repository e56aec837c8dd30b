package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// Finish is an activation that another node's kernel applies to each part of its own
// result, while the part is still in the cache. The bits are the same as those of a
// separate activation.
type Finish struct {
	Row func(d []float32) // in place, for any number of elements
	// Clamps says that the activation is min(max(x, Low), High), which micro-kernels
	// compute in registers. Rounding to 16 bits is monotonic and keeps the bounds, so
	// the clamp may come before it or after it.
	Clamps    bool
	Low, High float32
}

// rows makes the Finish of a vectorized function.
func rows(f func(dst, src []float32)) func(*Invocation) *Finish {
	return func(*Invocation) *Finish { return &Finish{Row: func(d []float32) { f(d, d) }} }
}

func clamps(low, high float32) *Finish {
	low, high = low+0, high+0 // no -0
	return &Finish{Row: func(d []float32) { simd.Clamp(d, d, low, high) }, Clamps: true, Low: low, High: high}
}

func finishRelu(*Invocation) *Finish { return clamps(0, float32(math.Inf(1))) }

// finishClip returns nil if the bounds are not constants.
func finishClip(c *Invocation) *Finish {
	bound := func(name string, i int, otherwise float64) (float32, bool) {
		if a := c.Node.Attr(name); a != nil {
			return a.Float, true
		}
		if c.Has(i) && !c.In[i].Const {
			return 0, false
		}
		x, err := c.Real(i, otherwise)
		return float32(x), err == nil
	}
	low, known := bound("min", 1, math.Inf(-1))
	high, both := bound("max", 2, math.Inf(1))
	if !known || !both {
		return nil
	}
	return clamps(low, high)
}

// activationParam returns parameter i of an activation, or otherwise if the node leaves
// it out: 0 is alpha, or the lower bound of Clip, and 1 is beta, or the upper bound.
type activationParam func(i int, otherwise float32) float32

// listedParams are those in the list activation_params.
func (c *Invocation) listedParams() activationParam {
	var list []float32
	if a := c.Node.Attr("activation_params"); a != nil {
		list = a.Floats
	}
	return func(i int, otherwise float32) float32 {
		if i < len(list) {
			return list[i]
		}
		return otherwise
	}
}

// namedParams are those in activation_alpha and activation_beta.
func (c *Invocation) namedParams() activationParam {
	return func(i int, otherwise float32) float32 {
		return c.Float([]string{"activation_alpha", "activation_beta"}[i], otherwise)
	}
}

// finishNamed returns the activation that ONNX Runtime's attribute activation names; nil
// for "".
func finishNamed(name string, param activationParam) (*Finish, error) {
	each := func(f func(x float64) float64) *Finish {
		return &Finish{Row: func(d []float32) {
			for i, x := range d {
				d[i] = float32(f(float64(x)))
			}
		}}
	}
	infinity := float32(math.Inf(1))
	switch name {
	case "":
		return nil, nil
	case "Relu":
		return clamps(0, infinity), nil
	case "Clip":
		return clamps(param(0, -infinity), param(1, infinity)), nil
	case "Sigmoid":
		return rows(simd.Sigmoid)(nil), nil
	case "Tanh":
		return rows(simd.Tanh)(nil), nil
	case "HardSwish":
		return rows(hardSwish)(nil), nil
	case "HardSigmoid":
		alpha, beta := param(0, 0.2), param(1, 0.5)
		return rows(func(d, a []float32) { simd.HardSigmoid(d, a, alpha, beta) })(nil), nil
	case "LeakyRelu":
		alpha := param(0, 0.01)
		return rows(func(d, a []float32) {
			for i, x := range a {
				if d[i] = x; x < 0 {
					d[i] = alpha * x
				}
			}
		})(nil), nil
	case "Elu":
		alpha := float64(param(0, 1))
		return each(func(x float64) float64 { return max(x, 0) + alpha*math.Expm1(min(x, 0)) }), nil
	case "ThresholdedRelu":
		alpha := param(0, 1)
		return rows(func(d, a []float32) {
			for i, x := range a {
				if !(x > alpha) {
					x = 0
				}
				d[i] = x
			}
		})(nil), nil
	case "Softplus":
		return each(softplus), nil
	case "Softsign":
		return each(func(x float64) float64 { return x / (1 + math.Abs(x)) }), nil
	}
	return nil, unsupportedf("activation %q", name)
}

// take returns the activation that follows, if this kernel can apply it. The kernel
// then must apply it.
func (c *Invocation) take() *Finish {
	if c.Then == nil || c.Out[0].Type != graph.Float32 && !(isHalf(c.Out[0]) && c.Then.Clamps) {
		return nil
	}
	c.Taken = true
	return c.Then
}

// epilogue returns the part of the activation that gemm applies. more reports whether
// Row must be called as well.
func (f *Finish) epilogue() (act gemm.Activation, low, high float32, more bool) {
	switch {
	case f == nil:
		return gemm.None, 0, 0, false
	case !f.Clamps:
		return gemm.None, 0, 0, true
	case f.Low == 0 && math.IsInf(float64(f.High), 1):
		return gemm.Relu, 0, 0, false
	}
	return gemm.Clip, f.Low, f.High, false
}
