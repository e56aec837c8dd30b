package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// integerProducts lists the matrix products and convolutions of 8-bit integers.
var integerProducts = family{"", []Kernel{
	{Name: "MatMulInteger", Make: makeMatMulInteger},
	{Name: "QLinearMatMul", Make: makeQLinearMatMul, Half: true},
	{Name: "ConvInteger", Make: makeConvInteger},
	{Name: "QLinearConv", Make: makeQLinearConv},
}}

// integers is a list of products of 8-bit integers. Their sums are the output, or are
// scaled and rounded back to 8 bits.
type integers struct {
	c       *Invocation
	list    []gemm.Integer
	out     []int  // index of the first element of each product's output
	stride  int    // of the rows of the outputs
	arrange func() // finds the operands and zero points before a run

	// For quantized outputs, by product:
	scale     func(i, row, column int) float32
	channels  *channels              // a convolution's: what scale and bias return; nil: others
	perColumn bool                   // the scale differs from column to column
	columns   *columns               // in the place of scale and bias; nil: these count
	bias      func(i, row int) int32 // nil: none
	to        func() simd.Byte       // the type of the output
	quantized bool
}

// divide cuts few tiles for the workers.
func (p *integers) divide() {
	p.list[0].Divide(p.c.Workers, len(p.list))
	for i := range p.list {
		p.list[i].CutLike(&p.list[0])
	}
}

// run makes the kernel.
func (p *integers) run() (Run, error) {
	out := p.c.Out[0]
	if len(p.list) == 0 || out.Len() == 0 {
		return func(*work.Pool) error { return nil }, nil
	}
	p.divide()
	each := p.c.Each(gemm.IntegerScratchBytes)
	block := 0
	narrows, rows := p.quantized && !p.perColumn && p.columns == nil, 0
	narrowsColumns := p.quantized && p.columns != nil
	for i := range p.list {
		narrows = narrows && p.list[i].Narrows()
		narrowsColumns = narrowsColumns && p.list[i].NarrowsColumns()
	}
	switch {
	case narrowsColumns:
	case narrows:
		rows = p.c.Each(int(unsafe.Sizeof(gemm.ByteRows{})))
	case p.quantized:
		block = p.c.Each(4 * p.list[0].BlockLen())
	}
	tiles := p.list[0].Tiles()
	var pool *work.Pool
	part := func(part, worker int) {
		product, tile := part/tiles, part%tiles
		v := &p.list[product]
		i, j, m, n := v.Block(tile)
		first := p.out[product] + i*p.stride + j
		if narrows {
			to := (*gemm.ByteRows)(pool.Each(worker, rows))
			p.describe(to, product, i, m)
			v.ByteTile(tile, element[byte](out, first), p.stride, to, pool.Each(worker, each))
			return
		}
		if narrowsColumns {
			v.ColumnBytes(tile, element[byte](out, first), p.stride, &gemm.ByteColumns{Biases: p.columns.biases, Scales: p.columns.scales, To: p.to()}, pool.Each(worker, each))
			return
		}
		if !p.quantized {
			v.Tile(tile, element[int32](out, first), p.stride, pool.Each(worker, each))
			return
		}
		sums := pool.Each(worker, block)
		v.Tile(tile, sums, n, pool.Each(worker, each))
		to := p.to()
		if p.columns != nil {
			bytes := span[byte](element[byte](out, first), (m-1)*p.stride+n)
			simd.RequantizeColumns(bytes, span[int32](sums, m*n), p.columns.biases[j:][:n], p.columns.scales[j:], m, p.stride, n, to)
			return
		}
		for r := range m {
			row := span[int32](unsafe.Add(sums, 4*r*n), n)
			d := span[byte](element[byte](out, first+r*p.stride), n)
			bias := int32(0)
			if p.bias != nil {
				bias = p.bias(product, i+r)
			}
			if !p.perColumn {
				simd.Requantize(d, row, bias, p.scale(product, i+r, j), to)
				continue
			}
			for x := range d {
				simd.Requantize(d[x:x+1], row[x:x+1], bias, p.scale(product, i+r, j+x), to)
			}
		}
	}
	return p.forAll(&pool, tiles, part), nil
}

// describe sets how m rows of a product from row i on become bytes.
func (p *integers) describe(to *gemm.ByteRows, product, i, m int) {
	to.To = p.to()
	if p.channels != nil {
		p.channels.describe(to, product, i, m)
		return
	}
	for r := range m {
		to.Scales[r], to.Biases[r] = p.scale(product, i+r, 0), 0
		if p.bias != nil {
			to.Biases[r] = p.bias(product, i+r)
		}
	}
}

// forAll makes the run that arranges the products and computes all their tiles in a pool.
func (p *integers) forAll(pool **work.Pool, tiles int, part func(part, worker int)) Run {
	for i := range p.list {
		p.list[i].Stop = p.c.Runtime
	}
	return func(w *work.Pool) error {
		*pool = w
		p.arrange()
		w.For(len(p.list)*tiles, part)
		return nil
	}
}

// zeros holds the zero points of one side of a batch of products.
type zeros struct {
	t    *Tensor // nil: 0
	list []int16
	of   func(i int) int // maps an index of the list to an element of t
}

// newZeros returns n zero points, or a single one if they are known to be the same.
func newZeros(c *Invocation, t *Tensor, n int, of func(i int) int) *zeros {
	z := &zeros{t: t, of: of}
	if t == nil || t.Len() == 1 || t.Const && allSame(c, data[byte](t)) {
		n, z.of = 1, func(int) int { return 0 }
	}
	z.list = numbersOf[int16](c, n)
	return z
}

// allSame reports whether all bytes are the same.
func allSame(c *Invocation, s []byte) bool {
	for from, to := range c.Pieces(len(s)) {
		for _, b := range s[from:to] {
			if b != s[0] {
				return false
			}
		}
	}
	return true
}

// read reads the zero points.
func (z *zeros) read() {
	if z.t == nil {
		return
	}
	signed, _ := byteType(z.t.Type)
	s := data[byte](z.t)
	for i := range z.list {
		b := s[z.of(i)%len(s)]
		z.list[i] = int16(b)
		if signed {
			z.list[i] = int16(int8(b))
		}
	}
}

func (z *zeros) constant() bool { return z.t == nil || z.t.Const }

func (z *zeros) at() unsafe.Pointer {
	if z.t == nil {
		return nil
	}
	return z.t.At
}

// packBytes packs one side of a product, which begins at element off of t, and returns
// how it is packed. It returns false if t or its zero points are not constant, or if no
// memory may be used for it. other has the zero points of the other side.
func (c *Invocation) packBytes(v *gemm.Integer, from *gemm.Bytes, z, other *zeros, t *Tensor, off, depth int, right bool) bool {
	if !t.Packs() || !z.constant() || depth == 0 || from.Len == 0 {
		return false
	}
	z.read()
	m := *from
	m.At = element[byte](t, off)
	key := form.PackKey{At: m.At, Type: t.Type, Zeros: z.at(), ZeroLen: len(z.list), Right: right, Len: m.Len, K: depth, Step: m.Step, Deep: m.Deep}
	key.Quads = gemm.Quads() && len(other.list) == 1 && (right && len(z.list) == 1 || !right && gemm.CanQuadRows(&m))
	var bytes int
	var whole func(dst unsafe.Pointer)
	switch n := m.Len; {
	case right && key.Quads:
		bytes, whole = gemm.QuadColumnsBytes(n, depth), func(dst unsafe.Pointer) { gemm.PackQuadColumns(dst, &m, n, depth, c.Runtime) }
	case right:
		bytes, whole = gemm.PackedColumnsBytes(n, depth), func(dst unsafe.Pointer) { gemm.PackColumns(dst, &m, n, depth, c.Runtime) }
	case key.Quads:
		bytes, whole = gemm.QuadRowsBytes(n, depth), func(dst unsafe.Pointer) { gemm.PackQuadRows(dst, &m, n, depth, c.Runtime) }
	default:
		bytes, whole = gemm.PackedRowsBytes(n, depth), func(dst unsafe.Pointer) { gemm.PackRows(dst, &m, n, depth, c.Runtime) }
	}
	at, ok := c.Runtime.Pack(key, bytes, func(dst unsafe.Pointer) {
		whole(dst)
		c.Poll() // a stop discards the half-packed operand
	})
	switch {
	case !ok:
	case right && key.Quads:
		v.B = gemm.QuadColumnsAt(at, &m, m.Len, depth)
	case right:
		v.B = &gemm.PackedColumns{At: at, K: depth}
	case key.Quads:
		v.A = gemm.QuadRowsAt(at, m.Len, depth)
	default:
		v.A = &gemm.PackedRows{At: at, K: depth}
	}
	return ok
}

// byteProducts returns the products of the matrices of inputs a and b, whose zero
// points are inputs za and zb.
func byteProducts(c *Invocation, a, b, za, zb int) (*integers, *product, error) {
	inner := *c
	inner.In = []*Tensor{c.In[a], c.In[b]}
	p, err := matMul(&inner)
	if err != nil {
		return nil, nil, err
	}
	v, err := byteProductsAs(c, p, a, b, za, zb)
	return v, p, err
}

// byteProductsAs is byteProducts with the shapes and strides of p.
func byteProductsAs(c *Invocation, p *product, a, b, za, zb int) (*integers, error) {
	x, y := c.In[a], c.In[b]
	signedA, isA := byteType(x.Type)
	signedB, isB := byteType(y.Type)
	if !isA || !isB {
		return nil, unsupported(x.Type)
	}
	c.by("GEMM", nil, "bytes", noted(p.batches > 1, "batched"))
	v := &integers{c: c, list: tableOf[gemm.Integer](c, p.batches), out: tableOf[int](c, p.batches), stride: p.n}
	rows, columns := tableOf[gemm.Bytes](c, p.batches), tableOf[gemm.Bytes](c, p.batches)
	zeroA, zeroB := tableOf[*zeros](c, p.batches), tableOf[*zeros](c, p.batches)
	for i := range v.list {
		offA, offB := offsetOf(p.offA, i), offsetOf(p.offB, i)
		zeroA[i] = newZeros(c, c.Input(za), p.m, func(r int) int { return offA/max(p.k, 1) + r })
		zeroB[i] = newZeros(c, c.Input(zb), p.n, func(j int) int { return offB/max(p.k, 1) + j })
		rows[i] = gemm.Bytes{Len: p.m, Step: p.aStep, Deep: p.aDeep, Signed: signedA, Zeros: zeroA[i].list}
		columns[i] = gemm.Bytes{Len: p.n, Step: p.bStep, Deep: p.bDeep, Signed: signedB, Zeros: zeroB[i].list}
		v.list[i] = gemm.Integer{M: p.m, N: p.n, K: p.k, A: &rows[i], B: &columns[i]}
		v.out[i] = i * p.m * p.n
		if !c.packBytes(&v.list[i], &columns[i], zeroB[i], zeroA[i], y, offB, p.k, true) {
			c.packBytes(&v.list[i], &rows[i], zeroA[i], zeroB[i], x, offA, p.k, false)
		}
	}
	v.arrange = func() {
		m := c.Meter()
		for i := range v.list {
			m.Add(len(zeroA[i].list) + len(zeroB[i].list))
			zeroA[i].read()
			zeroB[i].read()
			rows[i].At, columns[i].At = element[byte](x, offsetOf(p.offA, i)), element[byte](y, offsetOf(p.offB, i))
		}
	}
	return v, nil
}

// makeMatMulInteger multiplies 8-bit integers, less their zero points, with 32-bit
// results.
func makeMatMulInteger(c *Invocation) (Run, error) {
	v, _, err := byteProducts(c, 0, 1, 2, 3)
	if err != nil {
		return nil, err
	}
	return v.run()
}

// makeQLinearMatMul: the inputs are a with its scale and zero point, b with its scale
// and zero point, and the scale and zero point of the output.
func makeQLinearMatMul(c *Invocation) (Run, error) {
	v, p, err := byteProducts(c, 0, 3, 2, 5)
	if err != nil {
		return nil, err
	}
	scaleA, okA := form.Reader(c.In[1].Type)
	scaleB, okB := form.Reader(c.In[4].Type)
	scaleY, okY := form.Reader(c.In[6].Type)
	if !okA || !okB || !okY {
		return nil, unsupported(c.In[6].Type)
	}
	if err := v.quantize(7); err != nil {
		return nil, err
	}
	nA, nB := c.In[1].Len(), c.In[4].Len()
	if nA == 1 && nB == p.n && nB > 1 && c.In[1].Type == graph.Float32 && c.In[4].Type == graph.Float32 && c.In[6].Type == graph.Float32 {
		return v.runColumns(newColumns(c, p.n))
	}
	v.perColumn = nB > 1
	v.scale = func(i, row, column int) float32 {
		a := scaleA(c.In[1].At, (offsetOf(p.offA, i)/max(p.k, 1)+row)%nA)
		b := scaleB(c.In[4].At, (offsetOf(p.offB, i)/max(p.k, 1)+column)%nB)
		return float32(a) * float32(b) / float32(scaleY(c.In[6].At, 0))
	}
	return v.run()
}

// runColumns makes the kernel of products whose columns have scales of their own.
func (p *integers) runColumns(of *columns) (Run, error) {
	p.columns = of
	run, err := p.run()
	return func(w *work.Pool) error {
		of.read()
		return run(w)
	}, err
}

// quantize sets the type of the output and its zero point, input zero.
func (p *integers) quantize(zero int) error {
	signed, is := byteType(p.c.Out[0].Type)
	if !is {
		return unsupported(p.c.Out[0].Type)
	}
	p.quantized = true
	z := zeroPoint(p.c, zero)
	p.to = func() simd.Byte { return simd.Byte{Signed: signed, Zero: int32(z(0))} }
	return nil
}

// byteConvolution returns the products of a convolution of inputs x and w, whose zero
// points are inputs zx (a scalar) and zw (a scalar, or one for each output channel).
func byteConvolution(c *Invocation, x, w, zx, zw int) (*integers, error) {
	image, weight, out := c.In[x], c.In[w], c.Out[0]
	signedX, isX := byteType(image.Type)
	signedW, isW := byteType(weight.Type)
	if !isX || !isW {
		return nil, unsupported(image.Type)
	}
	v, err := form.NewWindow(&c.Call, weight.Shape[2:], image.Shape[2:], out.Shape[2:])
	if err != nil {
		return nil, err
	}
	group := c.Int("group", 1)
	m, ch := weight.Shape[0]/group, weight.Shape[1]
	k, parts := ch*v.Taps(), image.Shape[0]*group
	p := &integers{c: c, list: tableOf[gemm.Integer](c, parts), out: tableOf[int](c, parts), stride: v.Outputs()}
	rows, columns, zero := tableOf[gemm.Bytes](c, parts), tableOf[gemm.ByteImage](c, parts), tableOf[*zeros](c, parts)
	var flat []gemm.Bytes // in the place of columns, if the image is the matrix
	if v.Flat() {
		flat = tableOf[gemm.Bytes](c, parts)
	}
	zeroOfX := numbersOf[int16](c, 1)
	for i := range p.list {
		first := i % group * m
		zero[i] = newZeros(c, c.Input(zw), m, func(r int) int { return first + r })
		rows[i] = gemm.Bytes{Len: m, Step: k, Deep: 1, Signed: signedW, Zeros: zero[i].list}
		columns[i] = gemm.ByteImage{Signed: signedX, Image: gemm.Image{
			Channels: ch, In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad,
		}}
		p.list[i] = gemm.Integer{M: m, N: v.Outputs(), K: k, A: &rows[i], B: &columns[i]}
		if flat != nil {
			flat[i] = gemm.Bytes{Len: v.Outputs(), Step: 1, Deep: v.Inputs(), Signed: signedX, Zeros: zeroOfX}
			p.list[i].B = &flat[i]
		}
		p.out[i] = i * m * v.Outputs()
		c.packBytes(&p.list[i], &rows[i], zero[i], &zeros{list: zeroOfX}, weight, first*k, k, false)
	}
	zeroX := zeroPoint(c, zx)
	p.arrange = func() {
		work := c.Meter()
		zeroOfX[0] = int16(zeroX(0))
		for i := range p.list {
			work.Add(len(zero[i].list))
			zero[i].read()
			if flat != nil {
				flat[i].At = element[byte](image, i*ch*v.Inputs())
			}
			rows[i].At = element[byte](weight, i%group*m*k)
			columns[i].At, columns[i].Zero = element[byte](image, i*ch*v.Inputs()), zeroOfX[0]
		}
	}
	return p, nil
}

// makeConvInteger is a convolution of 8-bit integers, less their zero points, with
// 32-bit results.
func makeConvInteger(c *Invocation) (Run, error) {
	p, err := byteConvolution(c, 0, 1, 2, 3)
	if err != nil {
		return nil, err
	}
	return p.run()
}

// makeQLinearConv: the inputs are x with its scale and zero point, the weights with
// theirs, the scale and zero point of the output, and a 32-bit bias whose scale is the
// product of x's and the weights' scales.
func makeQLinearConv(c *Invocation) (Run, error) {
	if c.In[0].Layout == form.NHWC || c.Out[0].Layout == form.NHWC {
		return makeHeldConv(c)
	}
	// The scales of the sums are computed once for all tiles.
	factors := numbersOf[float32](c, c.In[3].Shape[0])
	run, err := qlinearConv(c, factors)
	if err != nil {
		return nil, err
	}
	multiply := func() {
		x, w, y := data[float32](c.In[1])[0], data[float32](c.In[4]), data[float32](c.In[6])[0]
		for from, to := range c.Pieces(len(factors)) {
			for i := from; i < to; i++ {
				factors[i] = x * w[i%len(w)] / y
			}
		}
	}
	if c.In[1].Const && c.In[4].Const && c.In[6].Const {
		multiply()
		return run, nil
	}
	return func(pool *work.Pool) error {
		multiply()
		return run(pool)
	}, nil
}

// qlinearConv is makeQLinearConv with the scales of the sums of each channel.
func qlinearConv(c *Invocation, factors []float32) (Run, error) {
	v, d, err := byteDepthwise(c)
	if err != nil {
		return nil, err
	}
	size, bias := c.In[3].Shape[2:], noted(c.Has(8), "bias")
	if d != nil {
		c.by("depthwise", size, "bytes", bias)
		return qlinearDepthwise(c, v, d, factors)
	}
	c.by("implicit GEMM", size, "bytes", bias)
	p, err := byteConvolution(c, 0, 3, 2, 5)
	if err != nil {
		return nil, err
	}
	if err := p.quantize(7); err != nil {
		return nil, err
	}
	group := c.Int("group", 1)
	m := len(factors) / group
	p.channels = &channels{scales: factors, bias: c.Input(8), group: group}
	p.scale = func(i, row, _ int) float32 { return factors[i%group*m+row] }
	if c.Has(8) {
		p.bias = func(i, row int) int32 { return *(*int32)(element[int32](c.In[8], i%group*m+row)) }
	}
	return p.run()
}

// channels are the rows of the products of a convolution: its channels, of which a product has those
// of a group.
type channels struct {
	scales []float32
	bias   *Tensor // int32; nil: none
	group  int
}

// describe copies those of m rows of a product, from row i on.
func (c *channels) describe(to *gemm.ByteRows, product, i, m int) {
	first := product%c.group*(len(c.scales)/c.group) + i
	copy(to.Scales[:m], c.scales[first:])
	if c.bias != nil {
		copy(to.Biases[:m], data[int32](c.bias)[first:])
	} else {
		clear(to.Biases[:m])
	}
}
