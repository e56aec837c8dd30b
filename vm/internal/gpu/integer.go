package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// integerProducts lists the products and convolutions of 8-bit integers. Their sums are
// exact, and are rounded as on the host.
var integerProducts = []Row{
	{Name: "MatMulInteger", Make: makeMatMulInteger},
	{Name: "QLinearMatMul", Make: makeQLinearMatMul},
	{Name: "ConvInteger", Make: makeConvInteger},
	{Name: "QLinearConv", Make: makeQLinearConv},
}

// scaling is what becomes of sums of products of bytes; the struct Scaling of the kernels.
type scaling struct {
	B, Y, Zero, Terms, Bias driver.Ptr
	TermRow, TermColumn     int64
	CountA, CountB          int32
	Alpha                   float32
	_                       int32
}

// scales reads where the scales of b are, and that of the output, which may be nil. The
// left side has count scales.
func (v *scaling) scales(n *Node, count int, b, y *form.Tensor) (err error) {
	if err := realScales(b, y); err != nil {
		return err
	}
	at, err := n.addresses(b, y)
	if err != nil {
		return err
	}
	v.B, v.Y, v.CountA, v.CountB, v.Alpha = at[0], at[1], int32(count), int32(b.Len()), 1
	return nil
}

// realScales refuses scales that are not float32.
func realScales(list ...*form.Tensor) error {
	for _, t := range list {
		if t != nil && t.Type != graph.Float32 {
			return unsupportedf("a scale of dtype %v", t.Type)
		}
	}
	return nil
}

// byteSide is the left side of a product of bytes, or an image. Its parts lie in tensors
// or in the scratch.
type byteSide struct {
	*form.Tensor
	at, zero, scale any // parameters: addresses
	zeros           int // number of zero points
}

// byteSide returns a side that lies in tensors; zero and scale may be nil.
func (n *Node) byteSide(t, zero, scale *form.Tensor) (*byteSide, error) {
	if err := realScales(scale); err != nil {
		return nil, err
	}
	z, zeros, err := n.zeroPoints(zero, t)
	if err != nil {
		return nil, err
	}
	at, err := n.addresses(t, scale)
	if err != nil {
		return nil, err
	}
	return &byteSide{t, at[0], z, at[1], zeros}, nil
}

// zero reads where the zero point of the output is.
func (v *scaling) zero(n *Node, t *form.Tensor) (err error) {
	if t != nil && (t.Type != n.Out[0].Type || t.Len() != 1) {
		return unsupportedf("a zero point of dtype %v and %d elements for an output of %v", t.Type, t.Len(), n.Out[0].Type)
	}
	v.Zero, err = n.at(t)
	return err
}

// byteDefinitions are the definitions of a file of products of bytes of two dtypes.
func byteDefinitions(left, right, y *form.Tensor) ([]string, error) {
	if !left.Byte() || !right.Byte() {
		return nil, unsupportedf("a product of %v and %v", left.Type, right.Type)
	}
	return []string{"LEFT=" + cType[left.Type], "RIGHT=" + cType[right.Type], "RESULT=" + cType[y.Type]}, nil
}

// zeroPoints returns where the zero points of a tensor are, and how many.
func (n *Node) zeroPoints(t, of *form.Tensor) (driver.Ptr, int, error) {
	if t == nil {
		return 0, 1, nil
	}
	if t.Type != of.Type || t.Len() == 0 {
		return 0, 0, unsupportedf("%d zero points of dtype %v for %v", t.Len(), t.Type, of.Type)
	}
	at, err := n.at(t)
	return at, t.Len(), err
}

// byteTile is the tile for a product of bytes.
func byteTile(m, n, batches int) (t *productTile, tiles int) {
	for i := range productTiles {
		t = &productTiles[i]
		tiles = cuts(m, t.m) * cuts(n, t.n) * batches
		if !t.wide && tiles >= 2*multiprocessors {
			break
		}
	}
	return t, tiles
}

// byteBatch is the struct QMatMul of kernels/qmatmul.cu.
type byteBatch struct {
	M, N, K, Axes, CountA, CountB     int32
	ARow, ADeep, BColumn, BDeep, YRow int64
	Length                            [6]int32
	AStep, BStep, YStep               [6]int64
}

// multiply appends a batch of products of bytes.
func (p *matrices) multiply(n *Node, a *byteSide, b, zeroB *form.Tensor, s scaling) error {
	y := n.Out[0]
	definitions, err := byteDefinitions(a.Tensor, b, y)
	if err != nil {
		return err
	}
	p.merge()
	if len(p.batch) > 6 || max(p.m, p.n, p.k) > math.MaxInt32-128 {
		return unsupportedf("products of %dx%d and %dx%d in a batch of %d axes", p.m, p.k, p.k, p.n, len(p.batch))
	}
	t, tiles := byteTile(p.m, p.n, count(p.batch))
	if tiles > math.MaxInt32 {
		return unsupportedf("a product of %d tiles", tiles)
	}
	v := byteBatch{
		M: int32(p.m), N: int32(p.n), K: int32(p.k), Axes: int32(len(p.batch)),
		ARow: int64(p.aRow), ADeep: int64(p.aDeep), BColumn: int64(p.bColumn), BDeep: int64(p.bDeep), YRow: int64(p.yRow),
	}
	for i, length := range p.batch {
		v.Length[i] = int32(length)
		v.AStep[i], v.BStep[i], v.YStep[i] = int64(p.steps[0][i]), int64(p.steps[1][i]), int64(p.steps[2][i])
	}
	zB, countB, err := n.zeroPoints(zeroB, b)
	if err != nil {
		return err
	}
	v.CountA, v.CountB = int32(a.zeros), int32(countB)
	at, err := n.addresses(y, b)
	if err != nil {
		return err
	}
	k := n.kernel("qmatmul.cu", "product"+t.suffix, definitions...)
	return n.launch(k, tiles, t.threads, at[0], a.at, at[1], a.zero, zB, v, a.scale, s)
}

func makeMatMulInteger(n *Node) error {
	a, err := n.byteSide(n.In[0], n.Input(2), nil)
	if err != nil {
		return err
	}
	p := newMatrices(a.Shape, n.In[1].Shape, false, false, false, false)
	return p.multiply(n, a, n.In[1], n.Input(3), scaling{})
}

// makeQLinearMatMul: a and b with their scales and zero points, and those of the output.
func makeQLinearMatMul(n *Node) error {
	a, err := n.byteSide(n.In[0], n.In[2], n.In[1])
	if err != nil {
		return err
	}
	var s scaling
	if err := s.scales(n, n.In[1].Len(), n.In[4], n.In[6]); err != nil {
		return err
	}
	if err := s.zero(n, n.Input(7)); err != nil {
		return err
	}
	p := newMatrices(a.Shape, n.In[3].Shape, false, false, false, false)
	return p.multiply(n, a, n.In[3], n.In[5], s)
}

// makeMatMulIntegerToFloat: a and b, their scales, their zero points, and a bias.
func makeMatMulIntegerToFloat(n *Node) error {
	if n.In[2].Len() != 1 {
		return unsupportedf("%d scales of the left side", n.In[2].Len())
	}
	a, err := n.byteSide(n.In[0], n.Input(4), n.In[2])
	if err != nil {
		return err
	}
	return multiplyToFloat(n, a, n.In[1], n.In[3], n.Input(5), n.Input(6))
}

// multiplyToFloat appends a product of bytes whose result is real: b has a scale and zero
// points, and bias may be nil.
func multiplyToFloat(n *Node, a *byteSide, b, scale, zero, bias *form.Tensor) (err error) {
	if n.Out[0].Type != graph.Float32 {
		return unsupportedf("dtype %v", n.Out[0].Type)
	}
	var s scaling
	if err := s.scales(n, 1, scale, nil); err != nil {
		return err
	}
	if s.Bias, err = n.at(bias); err != nil {
		return err
	}
	p := newMatrices(a.Shape, b.Shape, false, false, false, false)
	return p.multiply(n, a, b, zero, s)
}

// makeDynamicQuantizeMatMul quantizes a as DynamicQuantizeLinear does: the other inputs
// are b with its scale and zero point, and a bias.
func makeDynamicQuantizeMatMul(n *Node) error {
	x := n.In[0]
	a := &byteSide{&form.Tensor{Type: graph.Uint8, Shape: x.Shape}, n.scratch(int64(x.Len())), n.scratch(4), n.scratch(4), 1}
	if err := quantizeRange(n, x, a.at, a.scale, a.zero); err != nil {
		return err
	}
	return multiplyToFloat(n, a, n.In[1], n.In[2], n.Input(3), n.Input(4))
}

// makeQGemm: a with its scale and zero point, b with its own, a 32-bit c, and the scale and
// zero point of the output, without which the result is real.
func makeQGemm(n *Node) error {
	if n.In[1].Len() != 1 {
		return unsupportedf("%d scales of the left side", n.In[1].Len())
	}
	a, err := n.byteSide(n.In[0], n.Input(2), n.In[1])
	if err != nil {
		return err
	}
	var s scaling
	var scale *form.Tensor
	if n.Has(8) {
		scale = n.In[7]
		if err := s.zero(n, n.In[8]); err != nil {
			return err
		}
	} else if n.Out[0].Type != graph.Float32 {
		return unsupportedf("dtype %v", n.Out[0].Type)
	}
	if err := s.scales(n, 1, n.In[4], scale); err != nil {
		return err
	}
	s.Alpha = n.Float("alpha", 1)
	if c := n.Input(6); c != nil {
		if s.Terms, err = n.at(c); err != nil {
			return err
		}
		steps := stridesIn(c.Shape, n.Out[0].Shape)
		s.TermRow, s.TermColumn = int64(steps[0]), int64(steps[1])
	}
	p := newMatrices(a.Shape, n.In[3].Shape, n.Int("transA", 0) != 0, n.Int("transB", 0) != 0, false, false)
	return p.multiply(n, a, n.In[3], n.Input(5), s)
}

// convolveBytes appends a convolution of bytes with weights, whose zero points are zero.
func convolveBytes(n *Node, image *byteSide, weight, zero *form.Tensor, s scaling) error {
	y := n.Out[0]
	definitions, err := byteDefinitions(weight, image.Tensor, y)
	if err != nil {
		return err
	}
	g, err := n.ConvWindow(image.Tensor, weight, y)
	if err != nil {
		return err
	}
	c := &convolution{Window: g, images: image.Shape[0], groups: n.Int("group", 1), channels: weight.Shape[1], x: image.Tensor, w: weight, r: &result{y: y}}
	c.m = weight.Shape[0] / c.groups
	if err := c.fits(c.channels*volume(g.Kernel), volume(g.Out)); err != nil {
		return err
	}
	zW, countW, err := n.zeroPoints(zero, weight)
	if err != nil {
		return err
	}
	if image.zeros != 1 || max(image.Len(), weight.Len(), y.Len()) > math.MaxInt32 {
		return unsupportedf("%d zero points of the image, %d elements", image.zeros, image.Len())
	}
	at, err := n.addresses(y, weight)
	if err != nil {
		return err
	}
	definitions = append(definitions, "INDEX=int")
	v := c.slide(n)
	if c.isDirect() {
		k := n.kernel("qconv.cu", "direct", definitions...)
		return n.launch(k, cuts(y.Len(), threadsPerBlock), threadsPerBlock, at[0], image.at, at[1], image.zero, zW, int32(countW), v, image.scale, s)
	}
	t, tiles := byteTile(c.m, int(v.N), c.groups)
	k := n.kernel("qconv.cu", "conv"+t.suffix, definitions...)
	return n.launch(k, tiles, t.threads, at[0], image.at, at[1], image.zero, zW, int32(countW), v, image.scale, s)
}

func makeConvInteger(n *Node) error {
	x, err := n.byteSide(n.In[0], n.Input(2), nil)
	if err != nil {
		return err
	}
	return convolveBytes(n, x, n.In[1], n.Input(3), scaling{})
}

// makeQLinearConv: x with its scale and zero point, the weights with theirs, the scale and
// zero point of the output, and a 32-bit bias.
func makeQLinearConv(n *Node) error {
	x, err := n.byteSide(n.In[0], n.In[2], n.In[1])
	if err != nil {
		return err
	}
	var s scaling
	if err := s.scales(n, 1, n.In[4], n.In[6]); err != nil {
		return err
	}
	if err := s.zero(n, n.Input(7)); err != nil {
		return err
	}
	if s.Terms, err = n.at(n.Input(8)); err != nil {
		return err
	}
	s.TermRow = 1
	return convolveBytes(n, x, n.In[3], n.In[5], s)
}

// makeContribQLinearConv is the QLinearConv of ONNX whose images may have their channels
// last.
func makeContribQLinearConv(n *Node) error {
	if n.Int("channels_last", 0) != 0 {
		return unsupportedf("channels that are last")
	}
	return makeQLinearConv(n)
}

// quantizeRange appends what finds the scale and zero point with which x and 0 fit into
// 8 bits, and rounds x. The results are addresses.
func quantizeRange(n *Node, x *form.Tensor, bytes, scale, zero any) error {
	if x.Type != graph.Float32 {
		return unsupportedf("dtype %v", x.Type)
	}
	at, err := n.at(x)
	if err != nil {
		return err
	}
	return quantizeReals(n, at, x.Len(), bytes, scale, zero, n.scratch(rangeBytes(x.Len())))
}

// rangeBlocks is the number of blocks that find the range of so many reals, and rangeBytes
// the scratch that they take.
func rangeBlocks(length int) int {
	return min(cuts(max(length, 1), 8*threadsPerBlock), 4*multiprocessors)
}
func rangeBytes(length int) int64 { return int64(8 * rangeBlocks(length)) }

// quantizeReals is quantizeRange of reals at an address, with scratch of rangeBytes.
func quantizeReals(n *Node, at any, length int, bytes, scale, zero any, parts cuda.Room) error {
	blocks := rangeBlocks(length)
	if err := n.launch(n.kernel("qrange.cu", "ranges"), blocks, threadsPerBlock, parts, at, int64(length)); err != nil {
		return err
	}
	if err := n.launch(n.kernel("qrange.cu", "scale_of"), 1, threadsPerBlock, scale, zero, parts, int32(blocks)); err != nil {
		return err
	}
	return n.launch(n.kernel("qrange.cu", "quantize"), blocksFor(length), threadsPerBlock, bytes, at, scale, zero, int64(length))
}

func makeDynamicQuantize(n *Node) error {
	var to [3]any
	for i := range to {
		if i < len(n.Out) && n.Out[i] != nil {
			at, err := n.at(n.Out[i])
			if err != nil {
				return err
			}
			to[i] = at
			continue
		}
		to[i] = n.scratch(4) // nobody reads it
	}
	return quantizeRange(n, n.In[0], to[0], to[1], to[2])
}
