package gemm

import "testing"

// Few tiles give all workers about equal shares, and are no larger than those of one worker.
func TestDivide(t *testing.T) {
	for _, c := range []struct {
		m, n, k, products, workers int
		equal                      float64 // the largest share of the work, times workers, is at most this
	}{
		{128, 768, 3072, 1, 1, 1.05},
		{128, 768, 3072, 1, 2, 1.05}, // three tiles otherwise
		{128, 768, 3072, 1, 3, 1.05},
		{128, 768, 3072, 1, 8, 1.15},
		{49, 80, 960, 1, 2, 1.1}, // one
		{196, 96, 576, 1, 2, 1.2},
		{196, 96, 576, 3, 2, 1.2},
		{1, 64, 64, 1, 2, 2}, // too little work
	} {
		p := &Product{M: c.m, N: c.n, K: c.k, A: &Windows{}, B: &Packed{}}
		rows, columns := p.cut()
		p.Divide(c.workers, c.products)
		if r, n := p.cut(); r > rows || n > columns {
			t.Errorf("%+v: tiles of %d x %d, one worker has %d x %d", c, r, n, rows, columns)
		}
		covered := 0
		for tile := range p.Tiles() {
			_, _, m, n := p.Block(tile)
			covered += m * n
		}
		if covered != c.m*c.n {
			t.Errorf("%+v: tiles cover %d elements of %d", c, covered, c.m*c.n)
		}
		r, n := p.cut()
		whole := float64(c.products) * float64(c.k) * float64(c.m*c.n+8*c.m)
		if got := p.cutter().slowest(tileSize{r, n}, c.workers, c.products) * float64(c.workers) / whole; got > c.equal {
			t.Errorf("%+v: tiles of %d x %d, the largest share is %.2f of an equal one", c, r, n, got)
		}
	}
}
