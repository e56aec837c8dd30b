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

// A product of bytes by weights packs its columns for few tiles of rows, and gives two workers equal
// shares of whole strips.
func TestDivideBytes(t *testing.T) {
	for _, c := range []struct {
		m, n, k, workers int
		rows, columns    int
	}{
		{1280, 49, 320, 1, 216, 49},
		{96, 196, 576, 1, 96, 128},
		{96, 196, 576, 2, 96, 112}, // 112 and 84 columns: seven strips and six
		{64, 196, 384, 2, 72, 112},
	} {
		p := &Integer{M: c.m, N: c.n, K: c.k, A: &QuadRows{}, B: &Bytes{}}
		p.Divide(c.workers, 1)
		if rows, columns := p.like().cut(); rows != c.rows || columns != c.columns {
			t.Errorf("%+v: tiles of %d x %d", c, rows, columns)
		}
	}
}

// Few parts of images in blocks give all workers about equal shares, and are no larger than those
// of one worker.
func TestDivideBlocks(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		if chosen == plain {
			t.Skip("without micro-kernels for blocks")
		}
		for _, c := range []struct {
			channels, columns, size, kernel, workers int
			equal                                    float64 // the largest share of the work, times workers, is at most this
		}{
			{128, 32, 14, 3, 2, 1.05}, // one part otherwise
			{128, 32, 7, 3, 2, 1.2},
			{128, 32, 7, 3, 16, 3}, // a row for each of 7
			{512, 96, 14, 1, 2, 1.1},
			{256, 256, 14, 3, 2, 1.05},
			{16, 16, 7, 1, 2, 2}, // too little work
		} {
			b := &Blocks{
				Images: 1, Groups: 1, Channels: c.channels, Columns: c.columns, In: [2]int{c.size, c.size}, Out: [2]int{c.size, c.size},
				Kernel: [2]int{c.kernel, c.kernel}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Pad: [2]int{c.kernel / 2, c.kernel / 2},
			}
			b.Plan()
			b.Parts(c.workers)
			whole := b.slowest(blockShare{workers: 1, tall: b.tall, across: 1})
			if got := b.slowest(b.share) * float64(c.workers) / whole; b.share.tall > b.tall || got > c.equal {
				t.Errorf("%+v: %+v, the largest share is %.2f of an equal one", c, b.share, got)
			}
		}
	})
}
