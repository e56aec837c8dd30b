package kernel

import (
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// NormGradient is the gradient of a BatchNormalization in training, which a step has as
// some twenty nodes. It goes channel by channel, so that the image and the gradient come
// from memory once, and rounds wherever the nodes do: its bits are theirs. The nodes are of
// float32. The image and the gradients may have 16 bits, with Casts between. If not all can be
// done at one step, Measure comes first, and Write later.
type NormGradient struct {
	X, D, Scale *Tensor // the image, the gradient of the result, the scale
	Out         *Tensor // the gradient of the image, which may overwrite X or D
	// Mask, if not nil, says where D counts; elsewhere Otherwise stands for it. All is done at
	// one step then, and Out must not overwrite X if D is of float32, whose masked planes it holds.
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

// normRun is the work of a kernel on one channel after the other.
type normRun struct {
	*NormGradient
	normPlanes
	c              *Invocation
	x, d, out      wideRoom
	measure, write bool
	pool           *work.Pool
}

// wideRoom is where a worker has planes of a tensor of 16 bits in float32.
type wideRoom struct {
	off  int // in a worker's scratch; below 0: the tensor is of float32
	kept int // the planes of a channel that have places of their own there
}

// mostKept is the number of elements of a channel up to which all its planes stay in float32
// beside those of the gradient, in the second-level cache. Those of more are widened again.
const mostKept = 1 << 15

func (g *NormGradient) make(c *Invocation, measure, write bool) Run {
	r := &normRun{NormGradient: g, normPlanes: g.planes(), c: c, measure: measure, write: write}
	room := func(t *Tensor) wideRoom {
		if !isHalf(t) {
			return wideRoom{off: -1}
		}
		kept := 1
		if r.images*r.n <= mostKept {
			kept = r.images
		}
		return wideRoom{c.Each(mul(4, kept, r.n)), kept}
	}
	r.x, r.d, r.out = room(g.X), room(g.D), wideRoom{off: -1}
	if write && isHalf(g.Out) {
		r.out = wideRoom{c.Each(mul(4, r.n)), 1}
	}
	return func(w *work.Pool) error {
		r.pool = w
		w.For(r.channels, r.channel)
		return nil
	}
}

func (r *normRun) channel(ch, worker int) {
	if r.measure {
		r.measures(ch, worker)
	}
	if r.write {
		r.writes(ch, worker)
	}
}

// plane returns a plane in float32. first is set if it has not been read since the last channel,
// or another plane may lie in its place.
func (r *normRun) plane(t *Tensor, at wideRoom, image, ch, worker int, first bool) []float32 {
	if at.off < 0 {
		return r.at(t, image, ch)
	}
	wide := span[float32](r.pool.Each(worker, at.off+4*(image%at.kept)*r.n), r.n)
	if first || at.kept < r.images {
		from := span[uint16](element[uint16](t, (image*r.channels+ch)*r.n), r.n)
		for i, j := range r.c.Pieces(r.n) {
			simd.Widen(wide[i:j], from[i:j], narrowType(t.Type))
		}
	}
	return wide
}

// gradient returns a plane of the gradient, with what stands for it where it does not count: in
// the worker's room, or where the result will be.
func (r *normRun) gradient(image, ch, worker int, first bool) []float32 {
	g := r.NormGradient
	switch {
	case g.Mask == nil:
		return r.plane(g.D, r.d, image, ch, worker, first)
	case r.d.off < 0:
		if first {
			r.choose(r.at(g.Out, image, ch), r.at(g.D, image, ch), image, ch)
		}
		return r.at(g.Out, image, ch)
	}
	d := r.plane(g.D, r.d, image, ch, worker, first)
	if first || r.d.kept < r.images {
		r.choose(d, d, image, ch)
	}
	return d
}

func (r *normRun) measures(ch, worker int) {
	g, c := r.NormGradient, r.c
	sum, squares := 0.0, 0.0
	for i := range r.images {
		sum += sumOf(c, r.plane(g.X, r.x, i, ch, worker, true))
	}
	by := simd.NormGradient{Mean: float32(sum / float64(r.images*r.n))}
	for i := range r.images {
		squares += squaresAroundOf(c, r.plane(g.X, r.x, i, ch, worker, false), by.Mean)
	}
	by.Inverse = 1 / float32(math.Sqrt(float64(float32(float32(squares)*g.Part)+g.Epsilon)))
	by.Factor = data[float32](g.Scale)[ch] * by.Inverse
	sum = 0
	products := 0.0
	for i := range r.images {
		s, product := normSumsOf(c, r.gradient(i, ch, worker, true), r.plane(g.X, r.x, i, ch, worker, false), by.Mean, by.Inverse)
		sum, products = sum+s, products+product
	}
	g.Sums()[ch], g.Products()[ch] = float32(sum), float32(products)
	by.Shift, by.Slope = float32(sum)*g.Part, float32(products)*g.Part
	g.numbers()[ch] = by
}

// choose writes a masked plane of the gradient.
func (r *normRun) choose(to, from []float32, image, ch int) {
	otherwise := [1]float32{r.Otherwise}
	mask := span[uint8](element[uint8](r.Mask, (image*r.channels+ch)*r.n), r.n)
	for i, j := range r.c.Pieces(r.n) {
		simd.ChooseReals(to[i:j], mask[i:j], from[i:j], otherwise[:])
	}
}

func (r *normRun) writes(ch, worker int) {
	g, by := r.NormGradient, &r.numbers()[ch]
	for image := range r.images {
		d, x := r.gradient(image, ch, worker, !r.measure), r.plane(g.X, r.x, image, ch, worker, !r.measure)
		if r.out.off < 0 {
			to := r.at(g.Out, image, ch)
			for i, j := range r.c.Pieces(r.n) {
				by.Write(to[i:j], d[i:j], x[i:j])
			}
			continue
		}
		wide := span[float32](r.pool.Each(worker, r.out.off), r.n)
		to := span[uint16](element[uint16](g.Out, (image*r.channels+ch)*r.n), r.n)
		for i, j := range r.c.Pieces(r.n) {
			by.Write(wide[i:j], d[i:j], x[i:j])
			simd.Round(to[i:j], wide[i:j], narrowType(g.Out.Type))
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
