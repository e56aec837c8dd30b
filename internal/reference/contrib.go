package reference

import "slices"

// Operators of com.microsoft, as ONNX Runtime's documentation of them reads.
var contribOperators = []operator{
	{"Gelu", real1(gelu)},
	{"BiasGelu", func(c *call) []*Tensor { return one(c.biased().each(gelu)) }},
	{"FastGelu", func(c *call) []*Tensor { return one(c.biased().each(tanhGelu)) }},
	{"QuickGelu", real1With(func(c *call) func(float64) float64 {
		alpha := c.float("alpha", float64(float32(1.702)))
		return func(v float64) float64 { return v * sigmoid(alpha*v) }
	})},
	{"FusedMatMul", fusedMatMul},
	{"TransposeMatMul", fusedMatMul},
	{"SimplifiedLayerNormalization", rmsNorm},
	{"Inverse", func(c *call) []*Tensor { return one(inverse(c.x(0))) }},
}

// biased is input 0 with input 1, if that is there, added.
func (c *call) biased() *Tensor {
	if c.x(1) == nil {
		return c.x(0)
	}
	return plus(c.x(0), c.x(1))
}

// plus adds with broadcasting.
func plus(a, b *Tensor) *Tensor {
	shape := broadcast(a.Shape, b.Shape)
	y, b := a.spread(shape), b.spread(shape)
	for i := range y.F {
		y.F[i] += b.F[i]
	}
	return y
}

// transposed exchanges the last two axes.
func (x *Tensor) transposed() *Tensor {
	perm := make([]int, len(x.Shape))
	for k := range perm {
		perm[k] = k
	}
	slices.Reverse(perm[len(perm)-2:])
	return x.permuted(perm...)
}

func fusedMatMul(c *call) []*Tensor {
	if c.int("transBatchA", 0) != 0 || c.int("transBatchB", 0) != 0 {
		fail("a transposed batch")
	}
	a, b := c.x(0), c.x(1)
	if c.int("transA", 0) != 0 {
		a = a.transposed()
	}
	if c.int("transB", 0) != 0 {
		b = b.transposed()
	}
	alpha := c.float("alpha", 1)
	return one(matmul(a, b).each(func(v float64) float64 { return alpha * v }))
}

// inverse is that of each matrix, by elimination without a choice of pivots.
func inverse(x *Tensor) *Tensor {
	n := x.Shape[len(x.Shape)-1]
	y := zeros(x.Type, x.Shape)
	for first := 0; first < len(x.F); first += n * n {
		m, inv := slices.Clone(x.F[first:first+n*n]), y.F[first:first+n*n]
		for i := range n {
			inv[i*n+i] = 1
		}
		for i := range n {
			pivot := m[i*n+i]
			for k := range n {
				m[i*n+k] /= pivot
				inv[i*n+k] /= pivot
			}
			for r := range n {
				factor := m[r*n+i]
				for k := range n {
					if r != i {
						m[r*n+k] -= factor * m[i*n+k]
						inv[r*n+k] -= factor * inv[i*n+k]
					}
				}
			}
		}
	}
	return y
}
