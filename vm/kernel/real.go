package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// formatOf is how gemm reads a dtype.
func formatOf(d graph.DType) gemm.Format {
	switch d {
	case graph.Float16:
		return gemm.Float16
	case graph.BFloat16:
		return gemm.BFloat16
	}
	return gemm.Float32
}

// reals is a list of products, all cut alike, whose results are output 0. Sums
// are float32; those of 16-bit outputs are rounded tile by tile.
type reals struct {
	c       *Call
	list    []gemm.Product
	out     []int            // the first element of each product's result
	arrange func(*work.Pool) // finds the operands before a run
	finish  *Finish          // what is done with each element once it is complete; may be nil
}

// run makes the kernel. Product i takes its bias, of the output's type, from
// element i % groups · step on, where groups are those that the bias has.
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
	for i := range p.list {
		p.list[i].Act, p.list[i].Low, p.list[i].High = act, low, high
	}
	each := p.c.Each(p.list[0].ScratchBytes())
	tiles := p.list[0].Tiles()
	var pool *work.Pool
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
			v.Tile(tile, element[float32](out, p.out[i]), from(i), pool.Each(worker, each))
			if more {
				row, column, m, n := v.Block(tile)
				if v.Across {
					row, column, m, n = column, row, n, m
				}
				if n == v.Stride {
					m, n = 1, m*n
				}
				for r := range m {
					p.finish.Row(span[float32](element[float32](out, p.out[i]+(row+r)*v.Stride+column), n))
				}
			}
		}
		return func(w *work.Pool) error {
			pool = w
			if bias != nil {
				terms = bias.At
			}
			p.arrange(w)
			w.For(len(p.list)*tiles, part)
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
		sums := pool.Each(worker, block)
		v.TileAt(tile, sums, n, from(i), pool.Each(worker, each))
		for r := range m {
			simd.Round(span[uint16](element[uint16](out, p.out[i]+(row+r)*v.Stride+column), n),
				span[float32](unsafe.Add(sums, 4*r*n), n), narrowType(out.Type))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		if bias != nil {
			terms = w.Shared(wide)
			simd.Widen(span[float32](terms, bias.Len()), data[uint16](bias), narrowType(bias.Type))
		}
		p.arrange(w)
		w.For(len(p.list)*tiles, part)
		return nil
	}, nil
}
