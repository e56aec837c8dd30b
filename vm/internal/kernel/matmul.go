package kernel

import (
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// products lists the operators of linear algebra.
var products = family{"", []Kernel{
	{Name: "MatMul", Make: makeMatMul, Half: true, Fuses: true, sides: matricesOf},
	{Name: "Gemm", Make: makeGemm, Half: true, Fuses: true, sides: gemmProduct},
	{Name: "Det", Make: makeDet},
}}

// makeMatMul is numpy's matmul: leading axes broadcast, and a vector is a row on the
// left and a column on the right.
func makeMatMul(c *Invocation) (Run, error) {
	p, err := matMul(c)
	if err != nil {
		return nil, err
	}
	p.last = true
	return p.make()
}

// matricesOf is matMul for Kernel.sides.
func matricesOf(c *Invocation) *product {
	p, err := matMul(c)
	if err != nil {
		return nil
	}
	return p
}

// factor is one operand of a batch of products: matrices of rows x columns, whose
// elements are rowStep and columnStep apart. Matrix i begins at element i·apart.
type factor struct {
	batch               []int
	rows, columns       int
	rowStep, columnStep int
	apart               int
}

// newFactor reads the shape of an operand. transBatch moves its first axis behind the
// other axes of the batch, and trans then swaps the last two axes.
func newFactor(shape []int, trans, transBatch bool) *factor {
	n := len(shape)
	f := &factor{batch: shape[:n-2], rows: shape[n-2], columns: shape[n-1], columnStep: 1}
	f.rowStep, f.apart = f.columns, f.rows*f.columns
	if transBatch {
		f.batch, f.rows = shape[1:n-1], shape[0]
		f.rowStep, f.apart = count(f.batch)*f.columns, f.columns
	}
	if trans {
		f.rows, f.columns, f.rowStep, f.columnStep = f.columns, f.rows, f.columnStep, f.rowStep
	}
	return f
}

// matMul returns the batch of products of inputs 0 and 1.
func matMul(c *Invocation) (*product, error) {
	a, b := c.In[0].Shape, c.In[1].Shape
	if len(a) == 1 {
		a = []int{1, a[0]}
	}
	if len(b) == 1 {
		b = []int{b[0], 1}
	}
	return productOf(c, newFactor(a, false, false), newFactor(b, false, false))
}

// productOf returns the batch of products of inputs 0 and 1, which are read as a and b.
func productOf(c *Invocation, a, b *factor) (*product, error) {
	batch := broadcastShape(a.batch, b.batch)
	s, err := newSweep(append(batch, 1), append(slices.Clip(a.batch), 1), append(slices.Clip(b.batch), 1))
	if err != nil {
		return nil, err
	}
	p := &product{
		c: c, m: a.rows, n: b.columns, k: a.columns, alpha: 1,
		aStep: a.rowStep, aDeep: a.columnStep, bStep: b.columnStep, bDeep: b.rowStep,
	}
	p.batches = count(batch)
	if p.batches > 1 {
		// The offsets of the operands in each batch.
		p.offA, p.offB = numbersOf[int](c, p.batches), numbersOf[int](c, p.batches)
		for i := range p.batches {
			if i&form.Often == 0 {
				c.Poll()
			}
			row, within := i/s.n, i%s.n
			p.offA[i] = (s.at(row, 0) + within*s.inner[0]) * a.apart
			p.offB[i] = (s.at(row, 1) + within*s.inner[1]) * b.apart
		}
	}
	// If all batches share the right side, their rows form one larger matrix.
	if p.batches > 1 && sameOffset(p.offB) && inRow(p.offA, p.m*p.aStep) {
		p.m, p.batches, p.offA, p.offB = p.m*p.batches, 1, nil, nil
	}
	return p, nil
}

func sameOffset(list []int) bool {
	for _, v := range list {
		if v != list[0] {
			return false
		}
	}
	return true
}

func inRow(list []int, step int) bool {
	for i, v := range list {
		if v != i*step {
			return false
		}
	}
	return true
}

// broadcastShape returns the shape that two shapes broadcast to. newSweep checks it.
func broadcastShape(a, b []int) []int {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := append([]int{}, a...)
	for i, n := range b {
		if o := len(a) - len(b) + i; out[o] == 1 {
			out[o] = n
		}
	}
	return out
}

// gemmProduct returns the product alpha·A'·B' of Gemm.
func gemmProduct(c *Invocation) *product {
	a, b, out := c.In[0].Shape, c.In[1].Shape, c.Out[0].Shape
	p := &product{c: c, m: out[0], n: out[1], batches: 1, alpha: c.Float("alpha", 1)}
	p.k, p.aStep, p.aDeep = a[1], a[1], 1
	if c.Int("transA", 0) != 0 {
		p.k, p.aStep, p.aDeep = a[0], 1, a[1]
	}
	p.bStep, p.bDeep = 1, b[1]
	if c.Int("transB", 0) != 0 {
		p.bStep, p.bDeep = b[1], 1
	}
	return p
}

// makeGemm computes alpha·A'·B' + beta·C, where C broadcasts to the result.
func makeGemm(c *Invocation) (Run, error) {
	p := gemmProduct(c)
	beta := c.Float("beta", 1)
	if !c.Has(2) || beta == 0 {
		p.last = true
		return p.make()
	}
	if c.Out[0].Type == graph.Float32 && slices.Equal(c.In[2].Shape, c.Out[0].Shape) {
		return makeGemmOver(c)
	}
	if beta == 1 && isRow(c.In[2], p.n) && (isHalf(c.In[0]) || c.In[0].Type == graph.Float32) {
		p.bias, p.last = c.In[2], true
		return p.make()
	}
	if isHalf(c.Out[0]) || c.Out[0].Type == graph.Float32 {
		// C is added where a bias is, and where a C of the result's shape is: a slice of one row
		// or column may have that shape, and has the bits of the whole.
		return makeGemmOver(c)
	}
	run, err := p.make()
	if err != nil {
		return nil, err
	}
	add, err := addScaled(c.Out[0], c.In[2], float64(beta))
	if err != nil {
		return nil, err
	}
	return func(w *work.Pool) error {
		if err := run(w); err != nil {
			return err
		}
		return add(w)
	}, nil
}

// isRow reports whether a tensor is one row of n elements.
func isRow(t *Tensor, n int) bool {
	return t.Len() == n && (t.Rank() == 0 || t.Shape[t.Rank()-1] == n)
}

// addScaled makes a kernel for out += beta·x, where x broadcasts.
func addScaled(out, x *Tensor, beta float64) (Run, error) {
	switch out.Type {
	case graph.Float32:
		return loopsOf(func(a, b float32) float32 { return a + float32(beta)*b }).between(out, out, x)
	case graph.Float64:
		return loopsOf(func(a, b float64) float64 { return a + beta*b }).between(out, out, x)
	case graph.Int64:
		return loopsOf(func(a, b int64) int64 { return a + int64(beta)*b }).between(out, out, x)
	case graph.Int32:
		return loopsOf(func(a, b int32) int32 { return a + int32(beta)*b }).between(out, out, x)
	case graph.Uint64:
		return loopsOf(func(a, b uint64) uint64 { return a + uint64(beta)*b }).between(out, out, x)
	case graph.Uint32:
		return loopsOf(func(a, b uint32) uint32 { return a + uint32(beta)*b }).between(out, out, x)
	}
	return nil, unsupported(out.Type)
}

// product is a batch of matrix products of inputs 0 and 1.
type product struct {
	c                          *Invocation
	m, n, k, batches           int
	aStep, aDeep, bStep, bDeep int
	offA, offB                 []int   // offset of each batch, in elements; nil: 0
	alpha, beta                float32 // beta multiplies what the output holds before
	bias                       *Tensor // one for each column, of the output's type
	last                       bool    // nothing follows: the result is the node's output
}

func (p *product) make() (Run, error) {
	switch p.c.Out[0].Type {
	case graph.Float32, graph.Float16, graph.BFloat16:
		return p.packed()
	case graph.Float64:
		return plainProduct[float64](p)
	case graph.Int64:
		return plainProduct[int64](p)
	case graph.Int32:
		return plainProduct[int32](p)
	case graph.Uint64:
		return plainProduct[uint64](p)
	case graph.Uint32:
		return plainProduct[uint32](p)
	}
	return nil, unsupported(p.c.Out[0].Type)
}

// offsetOf is the offset of a batch in a list of them; a nil list has none.
func offsetOf(list []int, batch int) int {
	if list == nil {
		return 0
	}
	return list[batch]
}

// packed multiplies with the packed micro-kernel. Each part is one tile of one batch.
func (p *product) packed() (Run, error) {
	a, b := p.c.In[0], p.c.In[1]
	type side struct {
		a, b             gemm.Dense
		packedA, packedB gemm.Packed
	}
	listed := min(p.batches, atOnce)
	sides := tableOf[side](p.c, listed)
	v := &reals{c: p.c, total: p.batches, list: tableOf[gemm.Product](p.c, listed)}
	if p.last {
		v.finish = p.c.take()
	}
	left, right := 0, 0
	for i := range v.list {
		s := &sides[i]
		s.a = gemm.Dense{Len: p.m, Step: p.aStep, Deep: p.aDeep, Format: formatOf(a.Type)}
		s.b = gemm.Dense{Len: p.n, Step: p.bStep, Deep: p.bDeep, Format: formatOf(b.Type)}
		v.list[i] = gemm.Product{
			M: p.m, N: p.n, K: p.k, A: &s.a, B: &s.b, Alpha: p.alpha, Beta: p.beta, Stride: p.n, ColBias: p.bias != nil, Stop: p.c.Runtime,
		}
		if listed < p.batches {
			continue
		}
		if p.c.pack(&s.packedA, &s.a, a, offsetOf(p.offA, i), p.k, false) {
			v.list[i].A = &s.packedA
			left++
		}
		if p.c.pack(&s.packedB, &s.b, b, offsetOf(p.offB, i), p.k, true) {
			v.list[i].B = &s.packedB
			right++
		}
	}
	kept := len(v.list) == 1 && right == 0 && p.m <= fewRows && p.k > 0 && p.c.Runtime.Keep(1, gemm.PackedBBytes(p.n, p.k))
	if kept {
		v.list[0].B = &sides[0].packedB
	}
	if left == p.batches && (a != b || right == left) {
		p.c.Packed = append(p.c.Packed, a)
	}
	if right == p.batches && (a != b || right == left) {
		p.c.Packed = append(p.c.Packed, b)
	}
	p.c.by("GEMM", nil, noted(p.batches > 1, "batched"), noted(left+right > 0, "prepacked"), noted(p.bias != nil, "bias"))
	// What the kernel keeps are not the products themselves: a model may have thousands.
	movesA, movesB := left < p.batches, right < p.batches
	if one := &sides[0]; p.batches == 1 && p.offA == nil && p.offB == nil {
		v.arrange = func(*work.Pool, int, int) {
			if movesA {
				one.a.At = a.At
			}
			if movesB {
				one.b.At = b.At
			}
		}
	} else {
		offA, offB := p.offA, p.offB
		v.arrange = func(_ *work.Pool, first, n int) {
			for i := range sides[:n] {
				if movesA {
					sides[i].a.At = elementAt(a, offsetOf(offA, first+i), a.Width())
				}
				if movesB {
					sides[i].b.At = elementAt(b, offsetOf(offB, first+i), b.Width())
				}
			}
		}
	}
	if kept {
		arrange, c, n, k := v.arrange, p.c, p.n, p.k
		v.arrange = func(w *work.Pool, first, products int) {
			arrange(w, first, products)
			at, filled := c.Runtime.Kept()
			if !filled {
				gemm.PackB(at, &sides[0].b, n, k, c.Runtime)
				c.Poll() // a stop ends the loop, too
			}
			sides[0].packedB = gemm.Packed{At: at, K: k}
		}
	}
	return v.run(p.bias, 0)
}

// fewRows is the largest number of rows for which packing the right side takes longer than
// the product: a loop then packs it once.
const fewRows = 24

// plainProduct multiplies row by row.
func plainProduct[T number](p *product) (Run, error) {
	a, b, out := p.c.In[0], p.c.In[1], p.c.Out[0]
	p.c.by("loops", nil)
	part := func(row, _ int) {
		batch, i := row/p.m, row%p.m
		d := span[T](element[T](out, row*p.n), p.n)
		fillAll(p.c, d, 0)
		m := p.c.Meter()
		x, y := element[T](a, offsetOf(p.offA, batch)+i*p.aStep), element[T](b, offsetOf(p.offB, batch))
		var zero T
		size := int(unsafe.Sizeof(zero))
		for k := range p.k {
			v := *(*T)(unsafe.Add(x, k*p.aDeep*size))
			r := unsafe.Add(y, k*p.bDeep*size)
			for from := 0; from < len(d); {
				to := m.Next(from, len(d))
				for j := from; j < to; j++ {
					d[j] += v * *(*T)(unsafe.Add(r, j*p.bStep*size))
				}
				from = to
			}
		}
		if p.alpha != 1 {
			for from, to := range p.c.Pieces(len(d)) {
				for j := from; j < to; j++ {
					d[j] = T(float64(p.alpha) * float64(d[j]))
				}
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(p.batches*p.m, part)
		return nil
	}, nil
}
