package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// A convolution of 8-bit integers whose images have their channels last is a product with
// a row for each pixel of the output: it reads and writes whole pixels. ONNX Runtime saves
// such convolutions at level ALL.

// makePixelsConv is makeQLinearConv for images with their channels last; nil if it cannot
// compute this convolution.
func makePixelsConv(c *Invocation) (Run, error) {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	rank := x.rank()
	group := c.Int("group", 1)
	single := weight.Shape[1] == 1 && weight.Shape[0] == group && x.Shape[rank-1] == group
	if group != 1 && !single || !weight.Const || c.Has(5) && !c.In[5].Const || out.Len() == 0 || weight.Len() == 0 {
		return nil, nil
	}
	for _, z := range []struct {
		i int
		t *Tensor
	}{{2, x}, {5, weight}, {7, out}} {
		if _, is := byteType(z.t.Type); !is || c.Has(z.i) && (c.In[z.i].Type != z.t.Type || c.In[z.i].Len() == 0) {
			return nil, nil
		}
	}
	v, err := newWindow(c, weight.Shape[2:], x.Shape[1:rank-1], out.Shape[1:rank-1])
	if err != nil {
		return nil, err
	}
	image := gemm.Image{Channels: x.Shape[rank-1], In: v.in, Out: v.out, Kernel: v.kernel, Stride: v.stride, Dilation: v.dil, Pad: v.pads}
	columns := &columns{c: c, scales: numbersOf[float32](c, weight.Shape[0]), biases: numbersOf[int32](c, weight.Shape[0])}
	if single {
		return depthwisePixels(c, image, columns)
	}
	p, err := pixelProducts(c, v, image)
	if err != nil {
		return nil, err
	}
	if err := p.quantize(7); err != nil {
		return nil, err
	}
	p.columns = columns
	run, err := p.run()
	return func(w *work.Pool) error {
		columns.read()
		return run(w)
	}, err
}

// columns holds the scales and biases of the columns of a product, the channels of a
// QLinearConv.
type columns struct {
	c      *Invocation
	scales []float32
	biases []int32
}

func (k *columns) read() {
	c := k.c
	x, w, y := data[float32](c.In[1])[0], data[float32](c.In[4]), data[float32](c.In[6])[0]
	for from, to := range c.pieces(len(k.scales)) {
		for i := from; i < to; i++ {
			k.scales[i], k.biases[i] = x*w[i%len(w)]/y, 0
			if c.Has(8) {
				k.biases[i] = data[int32](c.In[8])[i]
			}
		}
	}
}

// pixelProducts returns a product for each image.
func pixelProducts(c *Invocation, v *window, image gemm.Image) (*integers, error) {
	x, weight := c.In[0], c.In[3]
	signedX, _ := byteType(x.Type)
	signedW, _ := byteType(weight.Type)
	m, ch := weight.Shape[0], weight.Shape[1]
	k, images := ch*v.taps(), x.Shape[0]
	p := &integers{c: c, list: tableOf[gemm.Integer](c, images), out: tableOf[int](c, images), stride: m}
	flat, pixels := tableOf[gemm.Bytes](c, images), tableOf[gemm.BytePixels](c, images)
	zeroOfX, zeroW := numbersOf[int16](c, 1), newZeros(c, c.in(5), m, func(j int) int { return j })
	right := &gemm.Bytes{Len: m, Step: k, Deep: 1, Signed: signedW, Zeros: zeroW.list}
	if v.taps() > 1 && ch > 1 {
		right.Deep, right.Taps = ch, v.taps()
	}
	for i := range p.list {
		flat[i] = gemm.Bytes{Len: v.outputs(), Step: ch, Deep: 1, Signed: signedX, Zeros: zeroOfX}
		pixels[i] = gemm.BytePixels{Image: image, Signed: signedX}
		p.list[i] = gemm.Integer{M: v.outputs(), N: m, K: k, A: &pixels[i], B: right}
		if v.flat() {
			p.list[i].A = &flat[i]
		}
		p.out[i] = i * m * v.outputs()
		c.packBytes(&p.list[i], right, zeroW, &zeros{list: zeroOfX}, weight, 0, k, true)
	}
	zeroX := zeroPoint(c, 2)
	p.arrange = func() {
		zeroOfX[0] = int16(zeroX(0))
		zeroW.read()
		right.At = weight.At
		for i := range p.list {
			at := element[byte](x, i*ch*v.inputs())
			flat[i].At, pixels[i].At, pixels[i].Zero = at, at, zeroOfX[0]
		}
	}
	return p, nil
}

// depthwisePixels is a QLinearConv of single channels. The sums are those of the image
// without its zero point, which the biases take off.
func depthwisePixels(c *Invocation, image gemm.Image, k *columns) (Run, error) {
	x, weight, out := c.In[0], c.In[3], c.Out[0]
	signed, _ := byteType(x.Type)
	channels, taps := weight.Shape[0], count(weight.Shape[2:])
	d := &gemm.DepthwisePixels{Image: image, Signed: signed}
	if !d.CanWeigh() {
		return nil, nil
	}
	d.Blocks = numbersOf[int32](c, d.BlocksLen())
	bytesX, bytesW, bytesY := bytesOf(c, x, 2), bytesOf(c, weight, 5), bytesOf(c, out, 7)
	list, m := make([]int16, taps), meter{c: c}
	weights := func(ch int) ([]int16, int32, float32) {
		m.add(taps)
		of := bytesW(ch)
		for t, b := range data[byte](weight)[ch*taps : (ch+1)*taps] {
			w := int32(b)
			if of.Signed {
				w = int32(int8(b))
			}
			list[t] = int16(w - of.Zero)
		}
		return list, k.biases[ch], k.scales[ch]
	}
	arrange := func() {
		k.read()
		d.SetBlocks(bytesX(0).Zero, weights)
	}
	fixed := true // the blocks stay what they are
	for _, i := range []int{1, 2, 4, 6, 8} {
		fixed = fixed && (!c.Has(i) || c.In[i].Const)
	}
	if fixed {
		arrange()
	}
	const leastWork = 1 << 19 // multiplications: some forty microseconds
	height, inputs, outputs := image.Out[1], channels*image.In[1]*image.In[2], channels*image.Out[1]*image.Out[2]
	rows := min(height, max(1, leastWork/max(1, taps*channels*image.Out[2])))
	parts := cuts(height, rows)
	pads := c.Each(d.PadLen())
	var pool *work.Pool
	part := func(p, worker int) {
		i, from := p/parts, p%parts*rows
		pad := pool.Each(worker, pads)
		fill(span[byte](pad, d.PadLen()), byte(bytesX(0).Zero))
		d.Rows(element[byte](out, i*outputs), element[byte](x, i*inputs), pad, from, min(from+rows, height))
	}
	return func(w *work.Pool) error {
		pool = w
		if !fixed {
			arrange()
		}
		d.To = bytesY(0)
		w.For(x.Shape[0]*parts, part)
		return nil
	}, nil
}
