package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// formatOf returns gemm's format of a dtype.
func formatOf(d graph.DType) gemm.Format {
	switch d {
	case graph.Float16:
		return gemm.Float16
	case graph.BFloat16:
		return gemm.BFloat16
	}
	return gemm.Float32
}

// atOnce is the number of products of a batch that are described at the same time. A
// larger batch reuses the memory of their descriptions.
const atOnce = 1 << 14

// reals is a batch of products of the same shape, whose results are output 0, one after
// the other. The sums are float32, and are rounded tile by tile for 16-bit outputs.
type reals struct {
	c     *Invocation
	total int            // of products
	list  []gemm.Product // at most atOnce of them
	// arrange sets the operands of products [first, first+n) in the first n of the list.
	arrange func(w *work.Pool, first, n int)
	finish  *Finish // applied to each complete element; may be nil
	added   *Tensor // of output 0's shape, and added before finish; may be nil. Only in float32
	images  int     // in each product, side by side; 0: one
}

// run makes the kernel. The bias, of the output's type, holds groups of step elements;
// product i takes group i modulo their number.
func (p *reals) run(bias *Tensor, step int) (Run, error) {
	out := p.c.Out[0]
	if len(p.list) == 0 || out.Len() == 0 {
		return func(*work.Pool) error { return nil }, nil
	}
	groups := 1
	if bias != nil && step > 0 {
		groups = bias.Len() / step
	}
	act, low, high, more := p.finish.epilogue()
	if p.added != nil { // to complete sums, aside: the output may overwrite it
		act, more = gemm.None, p.finish != nil
	}
	divide(p.list, p.c.Workers, p.total)
	for i := range p.list {
		p.list[i].Act, p.list[i].Low, p.list[i].High = act, low, high
	}
	if p.images > 1 {
		return p.runTogether(bias, more), nil
	}
	each := p.c.Each(p.list[0].ScratchBytes())
	tiles, size := p.list[0].Tiles(), mul(p.list[0].M, p.list[0].N)
	if !isHalf(out) {
		t := &tiling{reals: p, out: out, bias: bias, groups: groups, step: step, each: each, tiles: tiles, size: size, more: more}
		if p.added != nil {
			t.aside = p.c.Each(4 * p.list[0].BlockLen())
		}
		return t.run(), nil
	}
	var pool *work.Pool
	first := 0 // the first product that the list describes
	block, terms := p.c.Each(4*p.list[0].BlockLen()), newTerms(p.c, bias)
	part := func(part, worker int) {
		i, tile := part/tiles, part%tiles
		v := &p.list[i]
		at, m, n, stride := tileLines(v, tile)
		sums := pool.Each(worker, block)
		if v.Beta != 0 {
			for r := range m {
				simd.Widen(span[float32](unsafe.Add(sums, 4*r*n), n), span[uint16](element[uint16](out, (first+i)*size+at+r*stride), n), narrowType(out.Type))
			}
		}
		v.TileAt(tile, sums, lineStep(v, n), terms.at((first+i)%groups*step), pool.Each(worker, each))
		for r := range m {
			simd.Round(span[uint16](element[uint16](out, (first+i)*size+at+r*stride), n),
				span[float32](unsafe.Add(sums, 4*r*n), n), narrowType(out.Type))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		terms.prepare(w)
		p.forAll(w, &first, tiles, part)
		return nil
	}, nil
}

// terms is a bias in float32, widened in scratch if it has 16 bits.
type terms struct {
	bias *Tensor // nil: none
	wide int     // where it is widened
	from unsafe.Pointer
}

func newTerms(c *Invocation, bias *Tensor) *terms {
	t := &terms{bias: bias}
	if bias != nil && isHalf(bias) {
		t.wide = c.Shared(4 * bias.Len())
	}
	return t
}

// prepare widens the bias, at each run.
func (t *terms) prepare(w *work.Pool) {
	switch {
	case t.bias == nil:
	case isHalf(t.bias):
		t.from = w.Shared(t.wide)
		simd.Widen(span[float32](t.from, t.bias.Len()), data[uint16](t.bias), narrowType(t.bias.Type))
	default:
		t.from = t.bias.At
	}
}

// at is the address of an element of the bias; nil: there is none.
func (t *terms) at(i int) unsafe.Pointer {
	if t.bias == nil {
		return nil
	}
	return unsafe.Add(t.from, 4*i)
}

// tiling runs a batch of products of float32. A model may have thousands, so all that they keep
// is in one piece.
type tiling struct {
	*reals
	out, bias    *Tensor // the bias has groups of step elements; nil: none
	groups, step int
	each, aside  int // scratch of a worker: of a product, and for a tile to which something is added
	tiles, size  int // of a product: its tiles and its elements
	more         bool

	pool  *work.Pool
	first int // the first product that the list describes
	part  func(part, worker int)
}

// run makes the kernel.
func (t *tiling) run() Run {
	t.part = func(part, worker int) { t.tile(part, worker) }
	return func(w *work.Pool) error {
		t.pool = w
		t.forAll(w, &t.first, t.tiles, t.part)
		return nil
	}
}

// terms is the bias of product i; nil: it has none.
func (t *tiling) terms(i int) unsafe.Pointer {
	if t.bias == nil {
		return nil
	}
	return unsafe.Add(t.bias.At, 4*(i%t.groups*t.step))
}

// tile computes one tile of one product.
func (t *tiling) tile(part, worker int) {
	p, out := t.reals, t.out
	i, tile := part/t.tiles, part%t.tiles
	v := &p.list[i]
	if p.added == nil {
		v.Tile(tile, element[float32](out, (t.first+i)*t.size), t.terms(t.first+i), t.pool.Each(worker, t.each))
	}
	if !t.more && p.added == nil {
		return
	}
	at, m, n, stride := tileLines(v, tile)
	var sums unsafe.Pointer
	if p.added != nil {
		sums = t.pool.Each(worker, t.aside)
		v.TileAt(tile, sums, lineStep(v, n), t.terms(t.first+i), t.pool.Each(worker, t.each))
	}
	if n == stride {
		m, n = 1, m*n
	}
	if at, n := tailLine(v, tile); n > 0 && t.more { // nothing is added there
		d := span[float32](element[float32](out, (t.first+i)*t.size+at), n)
		for from, to := range p.c.Pieces(n) {
			p.finish.Row(d[from:to])
		}
	}
	for r := range m {
		place := (t.first+i)*t.size + at + r*stride
		d := span[float32](element[float32](out, place), n)
		if p.added != nil {
			simd.Add(d, span[float32](unsafe.Add(sums, 4*r*n), n), span[float32](element[float32](p.added, place), n))
		}
		if t.more {
			for from, to := range p.c.Pieces(n) {
				p.finish.Row(d[from:to])
			}
		}
	}
}

// tileLines returns where a tile lies in a product's output: the first element, the number of
// its lines, of channels or of blocks of them, their length and their distance.
func tileLines(p *gemm.Product, tile int) (at, lines, length, stride int) {
	row, column, m, n := p.Block(tile)
	if p.Across {
		row, column, m, n = column, row, n, m
	}
	if p.Blocked {
		return row*p.Stride + column*BlockLen, m / BlockLen, n * BlockLen, p.Stride * BlockLen
	}
	return row*p.Stride + column, m, n, p.Stride
}

// tailLine returns where the last half of a block of a tile lies, and its length; 0: it has none.
func tailLine(p *gemm.Product, tile int) (at, length int) {
	row, column, m, n := p.Block(tile)
	if p.Across {
		row, column, m, n = column, row, n, m
	}
	if !p.Blocked || m%BlockLen == 0 {
		return 0, 0
	}
	return (row+m/BlockLen*BlockLen)*p.Stride + column*gemm.HalfLen, n * gemm.HalfLen
}

// lineStep is the distance of a tile's lines of the given length, as TileAt takes it, if they
// lie one after the other.
func lineStep(p *gemm.Product, length int) int {
	if p.Blocked {
		return length / BlockLen
	}
	return length
}

// runTogether makes the kernel of products with several images. A tile is computed in scratch,
// and copied image by image. more says whether finish is applied to its rows.
func (p *reals) runTogether(bias *Tensor, more bool) Run {
	out, q := p.c.Out[0], &p.list[0]
	each, block := p.c.Each(q.ScratchBytes()), p.c.Each(4*q.BlockLen())
	tiles, channels, places := q.Tiles(), q.M, q.N/p.images
	if q.Across {
		channels, places = q.N, q.M/p.images
	}
	var pool *work.Pool
	first, terms := 0, newTerms(p.c, bias)
	part := func(part, worker int) {
		i, tile := part/tiles, part%tiles
		v := &p.list[i]
		row, column, m, n := v.Block(tile)
		if v.Across {
			row, column, m, n = column, row, n, m
		}
		sums := pool.Each(worker, block)
		// pieces calls f for each row of the tile in each image.
		pieces := func(f func(line []float32, at int)) {
			for r := range m {
				line := span[float32](unsafe.Add(sums, 4*r*n), n)
				for at := 0; at < n; {
					image, place := (column+at)/places, (column+at)%places
					length := min(places-place, n-at)
					f(line[at:at+length], (((first+i)*p.images+image)*channels+row+r)*places+place)
					at += length
				}
			}
		}
		v.TileAt(tile, sums, n, terms.at(0), pool.Each(worker, each))
		if p.added != nil {
			pieces(func(line []float32, at int) {
				simd.Add(line, line, span[float32](element[float32](p.added, at), len(line)))
			})
		}
		if more {
			p.finish.Row(span[float32](sums, m*n))
		}
		if isHalf(out) {
			pieces(func(line []float32, at int) {
				simd.Round(span[uint16](element[uint16](out, at), len(line)), line, narrowType(out.Type))
			})
			return
		}
		pieces(func(line []float32, at int) { copy(span[float32](element[float32](out, at), len(line)), line) })
	}
	return func(w *work.Pool) error {
		pool = w
		terms.prepare(w)
		p.forAll(w, &first, tiles, part)
		return nil
	}
}

// imagesTogether returns how many images of an ungrouped convolution are columns of one
// product, a divisor of their number. Small images fill strips badly, and each reads all
// weights: two of 7 x 7 take 7 strips of 16 columns, one takes 4.
func imagesTogether(images, group, places int, v *form.Window) int {
	if group != 1 || v.In[0] != 1 || v.Out[0] != 1 || v.Kernel[0] != 1 || v.Pad[0] != 0 {
		return 1
	}
	for n := min(images, mostPlaces/max(places, 1)); n > 1; n-- {
		if images%n == 0 {
			return n
		}
	}
	return 1
}

const mostPlaces = 240 // of images in one product

// sideBySide makes images, with apart elements from one to the next, the places of the first
// axis of one. A window of several axes may have a stride along the first, of which an image
// has one place: there is none from image to image.
func sideBySide(m *gemm.Image, images, apart int) {
	m.Volume, m.Plane = m.In[1]*m.In[2], apart
	m.In[0], m.Out[0], m.Stride[0] = images, images, 1
}

// forAll arranges one batch of products after the other and computes all tiles of each.
// first is the first product of the batch under way.
func (p *reals) forAll(w *work.Pool, first *int, tiles int, part func(part, worker int)) {
	for *first = 0; *first < p.total; *first += len(p.list) {
		n := min(len(p.list), p.total-*first)
		p.arrange(w, *first, n)
		w.For(n*tiles, part)
	}
}

// divide cuts products of one size for the workers; total is their number with those that a list
// describes again and again.
func divide(list []gemm.Product, workers, total int) {
	if len(list) == 0 {
		return
	}
	list[0].Divide(workers, total)
	for i := range list {
		list[i].CutLike(&list[0])
	}
}
