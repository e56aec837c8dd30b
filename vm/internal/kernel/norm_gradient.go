package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// NormGradient is the gradient of a BatchNormalization in training, which a step has as
// some twenty nodes. It goes channel by channel, so that the image and the gradient come
// from memory once, and rounds wherever the nodes do: its bits are theirs. All tensors are
// of float32. If not all can be done at one step, Measure comes first, and Write later.
type NormGradient struct {
	X, D, Scale *Tensor // the image, the gradient of the result, the scale
	Out         *Tensor // the gradient of the image, which may overwrite X or D
	// Mask, if not nil, says where D counts; elsewhere Otherwise stands for it. Out must
	// not overwrite X then, and all is done at one step.
	Mask      *Tensor
	Otherwise float32
	Epsilon   float32
	// Part is 1 over the number of elements of a channel, as the nodes have it that divide the
	// sums of squares, of D, and of products.
	Part float32
	// Table has NormGradientBytes for each channel.
	Table unsafe.Pointer
}

// NormGradientBytes is the size of a table for each channel: the sum of D, the sum of the
// products of D with the normalized image, and the numbers of the channel.
const NormGradientBytes = 8 + int(unsafe.Sizeof(simd.NormGradient{}))

// Sums lists the sum of D for each channel, Products that of the products of D with the
// normalized image.
func (g *NormGradient) Sums() []float32 { return span[float32](g.Table, g.X.Shape[1]) }

// Products is described at Sums.
func (g *NormGradient) Products() []float32 {
	return span[float32](unsafe.Add(g.Table, 4*g.X.Shape[1]), g.X.Shape[1])
}

func (g *NormGradient) numbers() []simd.NormGradient {
	return span[simd.NormGradient](unsafe.Add(g.Table, 8*g.X.Shape[1]), g.X.Shape[1])
}

// normPlanes are the planes of a channel.
type normPlanes struct {
	images, channels, n int
}

func (p *normPlanes) at(t *Tensor, image, channel int) []float32 {
	return span[float32](element[float32](t, (image*p.channels+channel)*p.n), p.n)
}

func (g *NormGradient) planes() normPlanes {
	return normPlanes{g.X.Shape[0], g.X.Shape[1], count(g.X.Shape[2:])}
}

// Whole returns the function that computes the gradient in the place of node c.
func (g *NormGradient) Whole(c *Invocation) Run { return g.make(c, true, true) }

// Measure returns the function that computes the sums and numbers of all channels.
func (g *NormGradient) Measure(c *Invocation) Run { return g.make(c, true, false) }

// Write returns the function that writes the gradient of the image, later.
func (g *NormGradient) Write(c *Invocation) Run { return g.make(c, false, true) }

func (g *NormGradient) make(c *Invocation, measure, write bool) Run {
	part := func(ch, _ int) {
		if measure {
			g.measure(c, ch)
		}
		if write {
			g.write(c, ch)
		}
	}
	return func(w *work.Pool) error {
		w.For(g.X.Shape[1], part)
		return nil
	}
}

func (g *NormGradient) measure(c *Invocation, ch int) {
	p := g.planes()
	sum, squares := 0.0, 0.0
	for i := range p.images {
		sum += sumOf(c, p.at(g.X, i, ch))
	}
	by := simd.NormGradient{Mean: float32(sum / float64(p.images*p.n))}
	for i := range p.images {
		squares += squaresAroundOf(c, p.at(g.X, i, ch), by.Mean)
	}
	by.Inverse = 1 / float32(math.Sqrt(float64(float32(float32(squares)*g.Part)+g.Epsilon)))
	by.Factor = data[float32](g.Scale)[ch] * by.Inverse
	d := g.D
	if g.Mask != nil {
		d = g.Out
		for i := range p.images {
			g.choose(c, (i*p.channels+ch)*p.n, p.n)
		}
	}
	sum = 0
	products := 0.0
	for i := range p.images {
		s, product := normSumsOf(c, p.at(d, i, ch), p.at(g.X, i, ch), by.Mean, by.Inverse)
		sum, products = sum+s, products+product
	}
	g.Sums()[ch], g.Products()[ch] = float32(sum), float32(products)
	by.Shift, by.Slope = float32(sum)*g.Part, float32(products)*g.Part
	g.numbers()[ch] = by
}

// choose writes the masked gradient to where the result will be.
func (g *NormGradient) choose(c *Invocation, at, n int) {
	otherwise := [1]uint32{math.Float32bits(g.Otherwise)}
	to, from := span[uint32](element[uint32](g.Out, at), n), span[uint32](element[uint32](g.D, at), n)
	mask := span[uint8](element[uint8](g.Mask, at), n)
	for i, j := range c.Pieces(n) {
		simd.Choose(to[i:j], mask[i:j], from[i:j], otherwise[:])
	}
}

func (g *NormGradient) write(c *Invocation, ch int) {
	p, by, d := g.planes(), &g.numbers()[ch], g.D
	if g.Mask != nil {
		d = g.Out
	}
	for i := range p.images {
		to, from, x := p.at(g.Out, i, ch), p.at(d, i, ch), p.at(g.X, i, ch)
		for i, j := range c.Pieces(p.n) {
			by.Write(to[i:j], from[i:j], x[i:j])
		}
	}
}

// squaresAroundOf is simd.SquaresAround, with polls as squaresOf has.
func squaresAroundOf(c *Invocation, x []float32, mean float32) float64 {
	const most = 1 << 20
	sum := 0.0
	for ; len(x) > most; x = x[most:] {
		sum += simd.SquaresAround(x[:most], mean)
		c.Poll()
	}
	return sum + simd.SquaresAround(x, mean)
}

// normSumsOf is simd.NormSums, with polls as sumOf has.
func normSumsOf(c *Invocation, d, x []float32, mean, inverse float32) (sum, product float64) {
	const most = 1 << 20
	for ; len(x) > most; d, x = d[most:], x[most:] {
		s, p := simd.NormSums(d[:most], x[:most], mean, inverse)
		sum, product = sum+s, product+p
		c.Poll()
	}
	s, p := simd.NormSums(d, x, mean, inverse)
	return sum + s, product + p
}
