package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
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
	added   *Tensor // float32, of output 0's shape, added before finish; may be nil
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
	if p.added != nil {
		return p.runAdding(bias, step, groups)
	}
	act, low, high, more := p.finish.epilogue()
	for i := range p.list {
		p.list[i].Act, p.list[i].Low, p.list[i].High = act, low, high
	}
	each := p.c.Each(p.list[0].ScratchBytes())
	tiles, size := p.list[0].Tiles(), mul(p.list[0].M, p.list[0].N)
	var pool *work.Pool
	first := 0               // the first product that the list describes
	var terms unsafe.Pointer // the bias in float32
	from := func(i int) unsafe.Pointer {
		if bias == nil {
			return nil
		}
		return unsafe.Add(terms, 4*(i%groups*step))
	}
	if !isHalf(out) {
		part := func(part, worker int) {
			i, tile := part/tiles, part%tiles
			v := &p.list[i]
			v.Tile(tile, element[float32](out, (first+i)*size), from(first+i), pool.Each(worker, each))
			if more {
				row, column, m, n := v.Block(tile)
				if v.Across {
					row, column, m, n = column, row, n, m
				}
				if n == v.Stride {
					m, n = 1, m*n
				}
				for r := range m {
					d := span[float32](element[float32](out, (first+i)*size+(row+r)*v.Stride+column), n)
					for from, to := range p.c.pieces(n) {
						p.finish.Row(d[from:to])
					}
				}
			}
		}
		return func(w *work.Pool) error {
			pool = w
			if bias != nil {
				terms = bias.At
			}
			p.forAll(w, &first, tiles, part)
			return nil
		}, nil
	}
	block, wide := p.c.Each(4*p.list[0].BlockLen()), 0
	if bias != nil {
		wide = p.c.Shared(4 * bias.Len())
	}
	part := func(part, worker int) {
		i, tile := part/tiles, part%tiles
		v := &p.list[i]
		row, column, m, n := v.Block(tile)
		if v.Across {
			row, column, m, n = column, row, n, m
		}
		sums := pool.Each(worker, block)
		v.TileAt(tile, sums, n, from(first+i), pool.Each(worker, each))
		for r := range m {
			simd.Round(span[uint16](element[uint16](out, (first+i)*size+(row+r)*v.Stride+column), n),
				span[float32](unsafe.Add(sums, 4*r*n), n), narrowType(out.Type))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		if bias != nil {
			terms = w.Shared(wide)
			simd.Widen(span[float32](terms, bias.Len()), data[uint16](bias), narrowType(bias.Type))
		}
		p.forAll(w, &first, tiles, part)
		return nil
	}, nil
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

// runAdding makes the kernel that adds a tensor to the products. Each tile is computed in
// scratch, since the output may overwrite that tensor.
func (p *reals) runAdding(bias *Tensor, step, groups int) (Run, error) {
	out := p.c.Out[0]
	each, block := p.c.Each(p.list[0].ScratchBytes()), p.c.Each(4*p.list[0].BlockLen())
	tiles, size := p.list[0].Tiles(), mul(p.list[0].M, p.list[0].N)
	var pool *work.Pool
	first := 0
	part := func(part, worker int) {
		i, tile := part/tiles, part%tiles
		v := &p.list[i]
		row, column, m, n := v.Block(tile)
		var terms unsafe.Pointer
		if bias != nil {
			terms = element[float32](bias, (first+i)%groups*step)
		}
		sums := pool.Each(worker, block)
		v.TileAt(tile, sums, n, terms, pool.Each(worker, each))
		for r := range m {
			at := (first+i)*size + (row+r)*v.Stride + column
			for from, to := range p.c.pieces(n) {
				d := span[float32](element[float32](out, at+from), to-from)
				simd.Add(d, span[float32](unsafe.Add(sums, 4*(r*n+from)), to-from), span[float32](element[float32](p.added, at+from), to-from))
				if p.finish != nil {
					p.finish.Row(d)
				}
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		p.forAll(w, &first, tiles, part)
		return nil
	}, nil
}
