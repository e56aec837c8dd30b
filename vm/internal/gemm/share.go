package gemm

// tileSize is the size of the tiles of a product; the last ones are smaller.
type tileSize struct{ rows, columns int }

// Divide cuts a product that has few tiles for a number of workers, so that they have about
// equal shares. The product is one of several of its size, whose tiles follow each other. No
// tile gets larger, and the results are the same bits.
func (p *Product) Divide(workers, products int) {
	const (
		most      = 4 // tiles for a worker: more are shared well enough
		leastRows = 24
		leastWork = 1 << 18 // multiplications: about five microseconds
		gain      = 0.97
	)
	p.share = tileSize{}
	if p.M < 1 || p.N < 1 || p.K < 1 || workers < 2 || products < 1 {
		return
	}
	var first tileSize
	first.rows, first.columns = p.cut()
	down, across := cuts(p.M, first.rows), cuts(p.N, first.columns)
	if products*down*across >= most*workers {
		return
	}
	least := gain * p.slowest(first, workers, products)
	for d := down; products*d*across <= most*workers; d++ {
		for a := across; products*d*a <= most*workers; a++ {
			size := tileSize{min(first.rows, evenly(p.M, cuts(p.M, d), p.rowUnit())), min(first.columns, evenly(p.N, cuts(p.N, a), widest))}
			small := size.rows < leastRows && d > down || size.columns < 2*widest && a > across
			if small || size.rows*size.columns*p.K < leastWork {
				break
			}
			if work := p.slowest(size, workers, products); work < least {
				least, p.share = work, size
			}
		}
	}
}

// CutLike cuts a product as q, one of the same size, is cut, whose operands may be read otherwise.
func (p *Product) CutLike(q *Product) { p.share.rows, p.share.columns = q.cut() }

// slowest is the work of the worker that has most of it, in multiplications.
func (p *Product) slowest(size tileSize, workers, products int) float64 {
	const packing = 8 // an element that is packed, in multiplications
	var left, right int
	if !p.readsA() {
		left = packing
	}
	if !p.readsB() {
		right = packing
	}
	down := cuts(p.M, size.rows)
	tiles := down * cuts(p.N, size.columns)
	most := 0
	for w := range workers {
		sum := 0
		for t := products * tiles * w / workers; t < products*tiles*(w+1)/workers; t++ {
			m := min(size.rows, p.M-t%tiles%down*size.rows)
			n := min(size.columns, p.N-t%tiles/down*size.columns)
			sum += m*n + left*m + right*n
		}
		most = max(most, sum)
	}
	return float64(most) * float64(p.K)
}
