package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
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

// finishes are the activations that an attribute can name (form.Activation).
var finishes = map[string]func(alpha, beta float32) *Finish{
	"Sigmoid":   plain(rows(simd.Sigmoid)),
	"Tanh":      plain(rows(simd.Tanh)),
	"HardSwish": plain(rows(hardSwish)),
	"HardSigmoid": func(alpha, beta float32) *Finish {
		return rows(func(d, a []float32) { simd.HardSigmoid(d, a, alpha, beta) })(nil)
	},
	"LeakyRelu": func(alpha, _ float32) *Finish {
		return rows(func(d, a []float32) {
			for i, x := range a {
				if d[i] = x; x < 0 {
					d[i] = alpha * x
				}
			}
		})(nil)
	},
	"Elu": func(alpha, _ float32) *Finish {
		return singly(func(x float64) float64 { return max(x, 0) + float64(alpha)*math.Expm1(min(x, 0)) })
	},
	"ThresholdedRelu": func(alpha, _ float32) *Finish {
		return rows(func(d, a []float32) {
			for i, x := range a {
				if !(x > alpha) {
					x = 0
				}
				d[i] = x
			}
		})(nil)
	},
	"Softplus": func(_, _ float32) *Finish { return singly(softplus) },
	"Softsign": func(_, _ float32) *Finish {
		return singly(func(x float64) float64 { return x / (1 + math.Abs(x)) })
	},
	"Relu": func(_, _ float32) *Finish { return clamps(0, float32(math.Inf(1))) },
	"Clip": clamps,
}

// plain is a Finish without parameters.
func plain(f func(*Invocation) *Finish) func(alpha, beta float32) *Finish {
	return func(_, _ float32) *Finish { return f(nil) }
}

// singly makes the Finish of a function of one number.
func singly(f func(x float64) float64) *Finish {
	return &Finish{Row: func(d []float32) {
		for i, x := range d {
			d[i] = float32(f(float64(x)))
		}
	}}
}

// finishOf returns an activation in the form that kernels apply; nil for none.
func finishOf(a *form.Activation) (*Finish, error) {
	if a.Name == "" {
		return nil, nil
	}
	of := finishes[a.Name]
	if of == nil {
		return nil, unsupportedf("activation %q", a.Name)
	}
	return of(a.Alpha, a.Beta), nil
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
