package gemm

// tileSize is the size of the tiles of a product; the last ones are smaller.
type tileSize struct{ rows, columns int }

// Divide cuts a product that has few tiles for a number of workers, so that they have about
// equal shares. The product is one of several of its size, whose tiles follow each other. No
// tile gets larger, and the results are the same bits.
func (p *Product) Divide(workers, products int) {
	p.share = tileSize{}
	p.share = p.cutter().divide(tileOf(p.cut()), workers, products)
}

func (p *Product) cutter() *cutter {
	const packing = 8
	c := &cutter{m: p.M, n: p.N, k: p.K, rowUnit: p.rowUnit(), columnUnit: widest, strip: 1}
	if !p.readsA() {
		c.left = packing
	}
	if !p.readsB() {
		c.right = packing
	}
	return c
}

func tileOf(rows, columns int) tileSize { return tileSize{rows, columns} }

// cutter is what the size of tiles depends on.
type cutter struct {
	m, n, k             int
	rowUnit, columnUnit int // what a micro-kernel computes at once
	left, right         int // packing an element of either side for a tile, in multiplications
	strip               int // columns that take as long as one of them
}

// divide returns the size of tiles, 0 if the first one is good.
func (c *cutter) divide(first tileSize, workers, products int) (share tileSize) {
	const (
		most      = 4 // tiles for a worker: more are shared well enough
		leastRows = 24
		leastWork = 1 << 18 // multiplications: about five microseconds
		gain      = 0.97
	)
	if c.m < 1 || c.n < 1 || c.k < 1 || workers < 2 || products < 1 {
		return share
	}
	down, across := cuts(c.m, first.rows), cuts(c.n, first.columns)
	if products*down*across >= most*workers {
		return share
	}
	least := gain * c.slowest(first, workers, products)
	for d := down; products*d*across <= most*workers; d++ {
		for a := across; products*d*a <= most*workers; a++ {
			size := tileSize{min(first.rows, evenly(c.m, cuts(c.m, d), c.rowUnit)), min(first.columns, evenly(c.n, cuts(c.n, a), c.columnUnit))}
			small := size.rows < leastRows && d > down || size.columns < 2*c.columnUnit && a > across
			if small || size.rows*size.columns*c.k < leastWork {
				break
			}
			if work := c.slowest(size, workers, products); work < least {
				least, share = work, size
			}
		}
	}
	return share
}

// CutLike cuts a product as q, one of the same size, is cut, whose operands may be read otherwise.
func (p *Product) CutLike(q *Product) { p.share.rows, p.share.columns = q.cut() }

// slowest is the work of the worker that has most of it, in multiplications.
func (c *cutter) slowest(size tileSize, workers, products int) float64 {
	down := cuts(c.m, size.rows)
	tiles := down * cuts(c.n, size.columns)
	most := 0
	for w := range workers {
		sum := 0
		for t := products * tiles * w / workers; t < products*tiles*(w+1)/workers; t++ {
			m := min(size.rows, c.m-t%tiles%down*size.rows)
			n := cuts(min(size.columns, c.n-t%tiles/down*size.columns), c.strip) * c.strip
			sum += m*n + c.left*m + c.right*n
		}
		most = max(most, sum)
	}
	return float64(most) * float64(c.k)
}
