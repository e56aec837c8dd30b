package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// matmulRules are the operators of linear algebra.
var matmulRules = []Rule{
	{Op: "MatMul", Grad: matmulGrad},
	{Op: "Gemm", Grad: gemmGrad},
	{Op: "Det", Grad: detGrad},
}

// matmulGrad is dA = d·Bᵀ, dB = Aᵀ·d. If B is one matrix for a batch of A, the
// batch is folded into rows: this takes one product and no sum of gradients over
// the batch.
func matmulGrad(c *Backward) {
	a, b := c.shape(c.X(0)), c.shape(c.X(1))
	if c.err != nil {
		return
	}
	if len(a) == 1 || len(b) == 1 {
		matmulVectors(c, a, b)
		return
	}
	if len(b) == 2 && len(a) > 2 {
		k, n := b[0], b[1]
		rows := elements(a[:len(a)-1])
		if c.Needs(0) {
			d := c.with("Gemm", attrs{"transB": 1}, c.reshape(c.D(0), []int64{rows, n}), c.X(1))
			c.Set(0, c.reshape(d, a))
		}
		if c.Needs(1) {
			c.Set(1, c.with("Gemm", attrs{"transA": 1}, c.reshape(c.X(0), []int64{rows, k}), c.reshape(c.D(0), []int64{rows, n})))
		}
		return
	}
	if len(a) == 2 && len(b) == 2 {
		if c.Needs(0) {
			c.Set(0, c.with("Gemm", attrs{"transB": 1}, c.D(0), c.X(1)))
		}
		if c.Needs(1) {
			c.Set(1, c.with("Gemm", attrs{"transA": 1}, c.X(0), c.D(0)))
		}
		return
	}
	if c.Needs(0) {
		c.setUnbroadcast(0, c.product(c.D(0), c.X(1), false, true))
	}
	if c.Needs(1) {
		c.setUnbroadcast(1, c.product(c.X(0), c.D(0), true, false))
	}
}

// product is a·b with one operand transposed: Aᵀ·B, or (Bᵀ·A)ᵀ if B and the
// result are smaller than A. In attention, the longer the sequence, the larger
// the weights are beside the values.
func (c *Backward) product(a, b ID, transA, transB bool) ID {
	large, small := a, b
	if transB {
		large, small = b, a
	}
	ls, ss := c.shape(large), c.shape(small)
	if c.err != nil {
		return graph.None
	}
	r := len(ls)
	turned := c.saves(savingProduct) && r == len(ss) && slices.Equal(ls[:r-2], ss[:r-2])
	if turned {
		rows, columns := ls[r-1], ss[r-1] // of Aᵀ·B
		if transB {
			rows, columns = ss[r-2], ls[r-2] // of A·Bᵀ
		}
		turned = elements(ss)+elements(ls[:r-2])*rows*columns < elements(ls)
	}
	switch {
	case turned && transA:
		return c.swapLast(c.op("MatMul", c.swapLast(b), a))
	case turned:
		return c.swapLast(c.op("MatMul", b, c.swapLast(a)))
	case transA:
		return c.op("MatMul", c.swapLast(a), b)
	}
	return c.op("MatMul", a, c.swapLast(b))
}

// matmulVectors gives vectors the axis that MatMul adds to them.
func matmulVectors(c *Backward, a, b []int64) {
	x, y, d := c.X(0), c.X(1), c.D(0)
	out := slices.Clone(c.shape(d))
	if len(b) == 1 {
		out = append(out, 1)
		y = c.reshape(y, []int64{b[0], 1})
	}
	if len(a) == 1 {
		out = slices.Insert(out, len(out)-1, 1)
		x = c.reshape(x, []int64{1, a[0]})
	}
	d = c.reshape(d, out)
	if c.Needs(0) {
		c.Set(0, c.reshape(c.unbroadcast(c.op("MatMul", d, c.swapLast(y)), x), a))
	}
	if c.Needs(1) {
		c.Set(1, c.reshape(c.unbroadcast(c.op("MatMul", c.swapLast(x), d), y), b))
	}
}

// gemmGrad covers the four cases of transposed operands by attributes alone.
func gemmGrad(c *Backward) {
	alpha, beta := c.Float("alpha", 1), c.Float("beta", 1)
	ta, tb := int(c.Int("transA", 0)), int(c.Int("transB", 0))
	product := func(a, b ID, transA, transB int) ID {
		return c.with("Gemm", attrs{"alpha": alpha, "transA": transA, "transB": transB}, a, b)
	}
	if c.Needs(0) {
		if ta == 0 {
			c.Set(0, product(c.D(0), c.X(1), 0, 1-tb))
		} else {
			c.Set(0, product(c.X(1), c.D(0), tb, 1))
		}
	}
	if c.Needs(1) {
		if tb == 0 {
			c.Set(1, product(c.X(0), c.D(0), 1-ta, 0))
		} else {
			c.Set(1, product(c.D(0), c.X(0), 1, ta))
		}
	}
	if c.Needs(2) && c.present(c.X(2)) {
		d := c.unbroadcast(c.D(0), c.X(2))
		if beta != 1 {
			d = c.times(d, beta)
		}
		c.Set(2, d)
	}
}
