package reference

var matmulOperators = []operator{
	{"MatMul", func(c *call) []*Tensor { return one(matmul(c.x(0), c.x(1))) }},
	{"Gemm", func(c *call) []*Tensor {
		a, b := c.x(0), c.x(1)
		if c.int("transA", 0) != 0 {
			a = a.permuted(1, 0)
		}
		if c.int("transB", 0) != 0 {
			b = b.permuted(1, 0)
		}
		y := matmul(a, b)
		alpha, beta := c.float("alpha", 1), c.float("beta", 1)
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
		}
		return one(y)
	}},
}

// matmul multiplies the last two axes and broadcasts the others; a vector is a
// row on the left, a column on the right.
func matmul(a, b *Tensor) *Tensor {
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
	a = a.spread(append(append([]int{}, batch...), m, k))
	b = b.spread(append(append([]int{}, batch...), k, n))
	y := zeros(a.Type, append(append([]int{}, batch...), m, n))
	for s := range size(batch) {
		for i := range m {
			for j := range n {
				t := 0.0
				for l := range k {
					t += a.real((s*m+i)*k+l) * b.real((s*k+l)*n+j)
				}
				y.set((s*m+i)*n+j, t)
			}
		}
	}
	shape := append([]int{}, batch...)
	if !row {
		shape = append(shape, m)
	}
	if !column {
		shape = append(shape, n)
	}
	return y.shaped(shape...)
}
