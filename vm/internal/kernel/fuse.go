package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// Finish is the work of an activation that another node does for it, on each
// part of its own result while that is still in the cache. The bits are those
// of the activation by itself.
type Finish struct {
	Row func(d []float32) // in place, of any number of elements
	// Clamps: it is min(max(x, Low), High), which micro-kernels do in
	// registers. As no rounding falls between two numbers that it tells
	// apart, it may come before a rounding to 16 bits as well as after.
	Clamps    bool
	Low, High float32
}

// rows is the Finish of a function that has vectors.
func rows(f func(dst, src []float32)) func(*Invocation) *Finish {
	return func(*Invocation) *Finish { return &Finish{Row: func(d []float32) { f(d, d) }} }
}

func clamps(low, high float32) *Finish {
	low, high = low+0, high+0 // no -0
	return &Finish{Row: func(d []float32) { simd.Clamp(d, d, low, high) }, Clamps: true, Low: low, High: high}
}

func finishRelu(*Invocation) *Finish { return clamps(0, float32(math.Inf(1))) }

// finishClip: bounds that are there only when the node runs cannot be told before.
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

// take gives the activation that the call's node is to do as well, if it is one
// that the kernel at hand can do; it then must.
func (c *Invocation) take() *Finish {
	if c.Then == nil || c.Out[0].Type != graph.Float32 && !(isHalf(c.Out[0]) && c.Then.Clamps) {
		return nil
	}
	c.Taken = true
	return c.Then
}

// epilogue is what of it gemm does; more tells whether Row is to be called.
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
