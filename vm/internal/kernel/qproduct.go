package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// epilogue is what an operator of ONNX Runtime does with the sums of products of integers: it
// adds integers, scales, and adds reals or requantizes.
type epilogue struct {
	terms           *Tensor // int32, added to the sums; nil: none
	rowStep, column int     // of terms, in elements
	// factor returns the scale of a column of product i.
	factor    func(i, column int) float32
	perColumn bool             // the factor differs from column to column
	scales    []float32        // these factors; nil: of several products
	zeros     []int32          // one for each of scales
	bias      *Tensor          // float32, one for each column; nil: none
	to        func() simd.Byte // the type of the output; nil: float32
}

// runThen makes the kernel of products with an epilogue.
func (p *integers) runThen(e *epilogue) (Run, error) {
	out := p.c.Out[0]
	if len(p.list) == 0 || out.Len() == 0 {
		return func(*work.Pool) error { return nil }, nil
	}
	p.divide()
	each, block := p.c.Each(gemm.IntegerScratchBytes), p.c.Each(4*p.list[0].BlockLen())
	tiles := p.list[0].Tiles()
	var pool *work.Pool
	part := func(part, worker int) {
		product, tile := part/tiles, part%tiles
		v := &p.list[product]
		i, j, m, n := v.Block(tile)
		sums := pool.Each(worker, block)
		v.Tile(tile, sums, n, pool.Each(worker, each))
		meter := p.c.Meter()
		for r := range m {
			meter.Add(n)
			row := span[int32](unsafe.Add(sums, 4*r*n), n)
			if e.terms != nil {
				at := (i+r)*e.rowStep + j*e.column
				for x := range row {
					row[x] += *(*int32)(element[int32](e.terms, at+x*e.column))
				}
			}
			e.finish(out, product, p.out[product]+(i+r)*p.stride+j, j, row)
		}
	}
	run := p.forAll(&pool, tiles, part)
	if !e.perColumn || len(p.list) > 1 {
		return run, nil
	}
	e.scales, e.zeros = numbersOf[float32](p.c, p.list[0].N), numbersOf[int32](p.c, p.list[0].N)
	return func(w *work.Pool) error {
		for from, to := range p.c.Pieces(len(e.scales)) {
			for j := from; j < to; j++ {
				e.scales[j] = e.factor(0, j)
			}
		}
		return run(w)
	}, nil
}

// finish writes a row of sums of product i to the elements from at on; j is its first
// column.
func (e *epilogue) finish(out *Tensor, i, at, j int, row []int32) {
	if e.to != nil {
		d := span[byte](element[byte](out, at), len(row))
		if !e.perColumn {
			simd.Requantize(d, row, 0, e.factor(i, 0), e.to())
			return
		}
		to := e.to()
		if e.scales != nil {
			simd.RequantizeColumns(d, row, e.zeros[j:][:len(row)], e.scales[j:], 1, len(row), len(row), to)
			return
		}
		for x := range d {
			simd.Requantize(d[x:x+1], row[x:x+1], 0, e.factor(i, j+x), to)
		}
		return
	}
	d := span[float32](element[float32](out, at), len(row))
	switch {
	case e.scales != nil:
		for x, scale := range e.scales[j:][:len(row)] {
			d[x] = float32(row[x]) * scale
		}
	case e.perColumn:
		for x, v := range row {
			d[x] = float32(v) * e.factor(i, j+x)
		}
	default:
		scale := e.factor(i, 0)
		for x, v := range row {
			d[x] = float32(v) * scale
		}
	}
	if e.bias != nil {
		simd.Add(d, d, span[float32](element[float32](e.bias, j), len(d)))
	}
}

// columnFactor returns a function that multiplies the scale at input a, of one element,
// with that of a column at input b, which has one element or, for each of the products,
// one for each column.
func columnFactor(c *Invocation, p *product, a, b int) (factor func(i, column int) float32, perColumn bool) {
	n := c.In[b].Len()
	return func(i, column int) float32 {
		return data[float32](c.In[a])[0] * data[float32](c.In[b])[(offsetOf(p.offB, i)/max(p.k, 1)+column)%n]
	}, n > 1
}

// makeMatMulIntegerToFloat: a and b, their scales, their zero points, and a bias.
func makeMatMulIntegerToFloat(c *Invocation) (Run, error) {
	if c.Out[0].Type != graph.Float32 {
		return nil, unsupported(c.Out[0].Type)
	}
	v, p, err := byteProducts(c, 0, 1, 4, 5)
	if err != nil {
		return nil, err
	}
	e := &epilogue{bias: c.Input(6)}
	e.factor, e.perColumn = columnFactor(c, p, 2, 3)
	return v.runThen(e)
}

// makeDynamicQuantizeMatMul quantizes a as DynamicQuantizeLinear does: the other inputs
// are b with its scale and zero point, and a bias.
func makeDynamicQuantizeMatMul(c *Invocation) (Run, error) {
	bytes := &Tensor{Type: graph.Uint8, Shape: c.In[0].Shape}
	scale, zero := &Tensor{Type: graph.Float32, Shape: []int{}}, &Tensor{Type: graph.Uint8, Shape: []int{}}
	off := [3]int{c.Shared(bytes.Bytes()), c.Shared(4), c.Shared(1)}
	inner := *c
	inner.In, inner.Out = c.In[:1], []*Tensor{bytes, scale, zero}
	quantize, err := makeDynamicQuantize(&inner)
	if err != nil {
		return nil, err
	}
	whole := inner
	whole.In, whole.Out = []*Tensor{bytes, c.In[1], scale, c.In[2], zero, c.Input(3), c.Input(4)}, c.Out
	product, err := makeMatMulIntegerToFloat(&whole)
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes, c.Packed = whole.SharedBytes, whole.EachBytes, whole.Packed
	return func(w *work.Pool) error {
		bytes.At, scale.At, zero.At = w.Shared(off[0]), w.Shared(off[1]), w.Shared(off[2])
		if err := quantize(w); err != nil {
			return err
		}
		return product(w)
	}, nil
}

// makeQGemm: a with its scale and zero point, b with its own, a 32-bit c, and the scale
// and zero point of the output, without which the result is real.
func makeQGemm(c *Invocation) (Run, error) {
	inner := *c
	inner.In = []*Tensor{c.In[0], c.In[3]}
	p := gemmProduct(&inner)
	v, err := byteProductsAs(c, p, 0, 3, 2, 5)
	if err != nil {
		return nil, err
	}
	e := &epilogue{terms: c.Input(6)}
	if t := e.terms; t != nil {
		shape := t.Shape
		for len(shape) < 2 {
			shape = append([]int{1}, shape...)
		}
		if shape[0] > 1 {
			e.rowStep = shape[1]
		}
		if shape[1] > 1 {
			e.column = 1
		}
	}
	product, perColumn := columnFactor(c, p, 1, 4)
	e.perColumn = perColumn
	e.factor = func(i, column int) float32 { return p.alpha * product(i, column) }
	if c.Has(8) {
		if err := v.quantize(8); err != nil {
			return nil, err
		}
		e.to = v.to
		e.factor = func(i, column int) float32 {
			return p.alpha * product(i, column) / data[float32](c.In[7])[0]
		}
	}
	return v.runThen(e)
}

// makeContribQLinearConv is the QLinearConv of ONNX whose images may have their channels
// last. Those that makePixelsConv cannot compute are moved to the front in scratch.
func makeContribQLinearConv(c *Invocation) (Run, error) {
	if c.Int("channels_last", 0) == 0 {
		return makeQLinearConv(c)
	}
	if run, err := makePixelsConv(c); run != nil || err != nil {
		return run, err
	}
	first := func(t *Tensor) (*Tensor, []int) {
		rank := t.Rank()
		shape, from := []int{t.Shape[0], t.Shape[rank-1]}, []int{0, rank - 1}
		for k := 1; k < rank-1; k++ {
			shape, from = append(shape, t.Shape[k]), append(from, k)
		}
		s, steps := strides(t.Shape), make([]int, rank)
		for k, a := range from {
			steps[k] = s[a]
		}
		return &Tensor{Type: t.Type, Shape: shape}, steps
	}
	x, fromX := first(c.In[0])
	y, toY := first(c.Out[0])
	offX, offY := c.Shared(x.Bytes()), c.Shared(y.Bytes())
	inner := *c
	inner.In, inner.Out = append([]*Tensor{x}, c.In[1:]...), []*Tensor{y}
	conv, err := makeQLinearConv(&inner)
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes, c.Packed = inner.SharedBytes, inner.EachBytes, inner.Packed
	enter := newMover(1, &form.Move{Shape: x.Shape, From: fromX, To: strides(x.Shape)}).run(x, c.In[0], 0, 0)
	leave := newMover(1, &form.Move{Shape: y.Shape, From: strides(y.Shape), To: toY}).run(c.Out[0], y, 0, 0)
	return func(w *work.Pool) error {
		x.At, y.At = w.Shared(offX), w.Shared(offY)
		for _, run := range []Run{enter, conv, leave} {
			if err := run(w); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
