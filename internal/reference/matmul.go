package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// matmulOperators are the operators of linear algebra.
var matmulOperators = []operator{
	{"MatMul", func(c *evaluation) []*Tensor { return one(c.matmul(c.x(0), c.x(1))) }},
	{"Gemm", gemm},
	{"Det", det},
}

func gemm(c *evaluation) []*Tensor {
	a, b := c.x(0), c.x(1)
	if c.int("transA", 0) != 0 {
		a = a.permuted(1, 0)
	}
	if c.int("transB", 0) != 0 {
		b = b.permuted(1, 0)
	}
	y := c.matmul(a, b)
	mass := c.bounded(0).mass
	alpha, beta := c.float("alpha", 1), c.float("beta", 1)
	if y.I != nil && alpha == 1 && beta == 1 { // of integers, exactly
		if c.x(2) != nil {
			for i, v := range c.x(2).spread(y.Shape).I {
				y.I[i] += v
			}
		}
		return one(y)
	}
	var bias *Tensor
	if c.x(2) != nil {
		bias = c.x(2).spread(y.Shape)
	}
	for i := range size(y.Shape) {
		v := alpha * y.real(i)
		if bias != nil {
			v += beta * bias.real(i)
		}
		y.set(i, v)
		if mass != nil {
			mass[i] *= math.Abs(alpha)
			if bias != nil {
				mass[i] += math.Abs(beta * bias.real(i))
			}
		}
	}
	return one(y)
}

// matmul returns the product of a and b as output 0.
func (c *evaluation) matmul(a, b *Tensor) *Tensor {
	y, mass := matmul(a, b)
	c.sums(0, mass, a.Shape[len(a.Shape)-1])
	return y
}

// matmul multiplies matrices in the last two axes and broadcasts the others. A vector is
// a row on the left and a column on the right. mass is the product of the absolute
// values; nil for integers, which wrap.
func matmul(a, b *Tensor) (y *Tensor, mass []float64) {
	row, column := len(a.Shape) == 1, len(b.Shape) == 1
	if row {
		a = a.shaped(1, a.Shape[0])
	}
	if column {
		b = b.shaped(b.Shape[0], 1)
	}
	ra, rb := len(a.Shape), len(b.Shape)
	m, k, n := a.Shape[ra-2], a.Shape[ra-1], b.Shape[rb-1]
	if b.Shape[rb-2] != k {
		fail("product of %v and %v", a.Shape, b.Shape)
	}
	batch := broadcast(a.Shape[:ra-2], b.Shape[:rb-2])
	// The matrices of a and b for each of the batch.
	left := numbered(a.Shape[:ra-2]).spread(batch)
	right := numbered(b.Shape[:rb-2]).spread(batch)
	y = zeros(a.Type, append(append([]int{}, batch...), m, n))
	if y.F != nil {
		mass = make([]float64, len(y.F))
	}
	parallel(size(batch)*m, func(part int) {
		s, i := part/m, part%m
		firstA, firstB := (int(left.I[s])*m+i)*k, int(right.I[s])*k*n
		if y.F == nil {
			out := y.I[part*n:][:n]
			for l := range k {
				v := a.I[firstA+l]
				for j, w := range b.I[firstB+l*n:][:n] {
					out[j] += v * w
				}
			}
			return
		}
		sums := terms{y.F[part*n:][:n], mass[part*n:][:n]}
		for l := 0; l < k; l += 4 {
			sums.add(0, 1, a.F[firstA+l:firstA+min(l+4, k)], 0, 1, n, func(i int) []float64 { return b.F[firstB+(l+i)*n:] })
		}
	})
	shape := append([]int{}, batch...)
	if !row {
		shape = append(shape, m)
	}
	if !column {
		shape = append(shape, n)
	}
	return y.shaped(shape...), mass
}

// numbered returns 0, 1, 2 and so on.
func numbered(shape []int) *Tensor {
	x := zeros(graph.Int64, shape)
	for i := range x.I {
		x.I[i] = int64(i)
	}
	return x
}

// det computes determinants by elimination. Hadamard's inequality bounds the mass.
func det(c *evaluation) []*Tensor {
	x := c.x(0)
	r := len(x.Shape)
	n := x.Shape[r-1]
	if x.Shape[r-2] != n {
		fail("matrices of %v", x.Shape[r-2:])
	}
	y := zeros(x.Type, x.Shape[:r-2])
	mass := make([]float64, len(y.F))
	for p := range y.F {
		m := append([]float64{}, x.F[p*n*n:][:n*n]...)
		mass[p] = 1
		for i := range n {
			mass[p] *= math.Sqrt(sumOf(m[i*n:][:n], square))
		}
		d := 1.0
		for k := range n {
			best := k
			for i := k; i < n; i++ {
				if math.Abs(m[i*n+k]) > math.Abs(m[best*n+k]) {
					best = i
				}
			}
			if best != k {
				d = -d
				for j := range n {
					m[k*n+j], m[best*n+j] = m[best*n+j], m[k*n+j]
				}
			}
			pivot := m[k*n+k]
			if d *= pivot; pivot == 0 {
				break
			}
			for i := k + 1; i < n; i++ {
				f := m[i*n+k] / pivot
				for j := k; j < n; j++ {
					m[i*n+j] -= f * m[k*n+j]
				}
			}
		}
		y.F[p] = d
	}
	c.terms(0, mass)
	return one(y)
}
