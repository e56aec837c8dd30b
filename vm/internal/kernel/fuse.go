package kernel

import (
	"math"
	"slices"

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

// finishRows is rows of a function that depends on the node.
func finishRows(of func(*Invocation) func(dst, src []float32)) func(*Invocation) *Finish {
	return func(c *Invocation) *Finish { return rows(of(c))(c) }
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

// NamedActivation is an activation that an attribute of a recurrent layer, or of ONNX
// Runtime's fused operators, names. Alpha and Beta are its parameters or their defaults; for Clip, the bounds.
type NamedActivation struct {
	Name        string // "" for none
	Alpha, Beta float32
}

// namedActivation is a row of the activations that an attribute can name, with the defaults
// of its parameters.
type namedActivation struct {
	name        string
	alpha, beta float32
	finish      func(alpha, beta float32) *Finish
}

// namedActivations lists them in the order of the constants of vm/cuda/kernels/finish.cu, and
// last those that clamp, which need none there.
var namedActivations = []namedActivation{
	{"Sigmoid", 0, 0, plain(rows(simd.Sigmoid))},
	{"Tanh", 0, 0, plain(rows(simd.Tanh))},
	{"HardSwish", 0, 0, plain(rows(hardSwish))},
	{"HardSigmoid", 0.2, 0.5, func(alpha, beta float32) *Finish {
		return rows(func(d, a []float32) { simd.HardSigmoid(d, a, alpha, beta) })(nil)
	}},
	{"LeakyRelu", 0.01, 0, func(alpha, _ float32) *Finish {
		return rows(func(d, a []float32) {
			for i, x := range a {
				if d[i] = x; x < 0 {
					d[i] = alpha * x
				}
			}
		})(nil)
	}},
	{"Elu", 1, 0, func(alpha, _ float32) *Finish {
		return singly(func(x float64) float64 { return max(x, 0) + float64(alpha)*math.Expm1(min(x, 0)) })
	}},
	{"ThresholdedRelu", 1, 0, func(alpha, _ float32) *Finish {
		return rows(func(d, a []float32) {
			for i, x := range a {
				if !(x > alpha) {
					x = 0
				}
				d[i] = x
			}
		})(nil)
	}},
	{"Softplus", 0, 0, func(_, _ float32) *Finish { return singly(softplus) }},
	{"Softsign", 0, 0, func(_, _ float32) *Finish {
		return singly(func(x float64) float64 { return x / (1 + math.Abs(x)) })
	}},
	{"Relu", 0, 0, func(_, _ float32) *Finish { return clamps(0, float32(math.Inf(1))) }},
	{"Clip", float32(math.Inf(-1)), float32(math.Inf(1)), clamps},
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

// row is the activation's row; nil if there is none of its name.
func (a *NamedActivation) row() *namedActivation {
	k := slices.IndexFunc(namedActivations, func(n namedActivation) bool { return n.name == a.Name })
	if k < 0 {
		return nil
	}
	return &namedActivations[k]
}

// Kind is the number of the activation in vm/cuda/kernels/finish.cu; 0 for none.
func (a *NamedActivation) Kind() int {
	return slices.IndexFunc(namedActivations[:len(namedActivations)-2], func(n namedActivation) bool { return n.name == a.Name }) + 1
}

// newNamedActivation is the activation of a name, without parameters.
func newNamedActivation(name string) *NamedActivation {
	a := &NamedActivation{Name: name}
	if row := a.row(); row != nil {
		a.Alpha, a.Beta = row.alpha, row.beta
	}
	return a
}

// ListedActivation is the activation of FusedConv, whose parameters are in the list
// activation_params.
func (c *Invocation) ListedActivation() *NamedActivation {
	a := newNamedActivation(c.Str("activation", ""))
	if list := c.Node.Attr("activation_params"); list != nil {
		for i, v := range list.Floats[:min(len(list.Floats), 2)] {
			*[]*float32{&a.Alpha, &a.Beta}[i] = v
		}
	}
	return a
}

// TitledActivation is the activation of FusedGemm, whose parameters are activation_alpha
// and activation_beta.
func (c *Invocation) TitledActivation() *NamedActivation {
	a := newNamedActivation(c.Str("activation", ""))
	a.Alpha, a.Beta = c.Float("activation_alpha", a.Alpha), c.Float("activation_beta", a.Beta)
	return a
}

// Finish returns the activation in the form that kernels apply; nil for none.
func (a *NamedActivation) Finish() (*Finish, error) {
	if a.Name == "" {
		return nil, nil
	}
	row := a.row()
	if row == nil {
		return nil, unsupportedf("activation %q", a.Name)
	}
	return row.finish(a.Alpha, a.Beta), nil
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
