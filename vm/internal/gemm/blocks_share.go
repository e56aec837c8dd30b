package gemm

// blockShare is how Blocks are cut for a number of workers.
type blockShare struct {
	workers int
	tall    int // rows of the result in a part; in a flat image, pixels
	across  int // parts into which the channels of the result are cut
}

// Parts is the number of parts for a number of workers. The results do not depend on it.
func (b *Blocks) Parts(workers int) int {
	if b.share.workers != workers {
		b.share = b.divide(workers)
	}
	return b.partsOf(b.share)
}

// shared returns the cut for workers: that of the last Parts, if it was for as many.
func (b *Blocks) shared(workers int) (tall, across int) {
	s := b.share
	if s.workers != workers {
		s = b.divide(workers)
	}
	return s.tall, s.across
}

// long is the number of rows of the result; in a flat image, pixels.
func (b *Blocks) long() int {
	if b.flat {
		return b.Out[1]
	}
	return b.front().Out * b.Out[0]
}

func (b *Blocks) partsOf(s blockShare) int {
	return b.Images * b.Groups * cuts(b.long(), s.tall) * s.across * max(b.taps(), 1)
}

// divide cuts images that have few parts, so that the workers have about equal shares. No part
// gets larger. The parts of a worker follow each other, but who has done its own takes from
// others: more parts are better shared, and copy more rows and read the weights more often.
func (b *Blocks) divide(workers int) blockShare {
	const (
		each      = 4       // parts for a worker: more are shared well enough
		leastWork = 1 << 17 // multiplications: about two microseconds
		gain      = 0.98
	)
	s := blockShare{workers: workers, tall: b.tall, across: 1}
	parts := b.partsOf(s)
	if workers == 1 || parts >= each*workers {
		return s
	}
	best, least := s, b.slowest(s)
	strips, long := cuts(b.Columns, levels[chosen].columns), b.long()
	for down := cuts(long, b.tall); down <= long; down++ {
		s.tall = cuts(long, down)
		if cuts(long, s.tall) != down || b.even(s.tall) != s.tall {
			continue
		}
		for s.across = 1; s.across <= strips; s.across++ {
			n := b.partsOf(s)
			if n > each*workers && s.across > 1 {
				break
			}
			if n > parts && b.pixelsOf(s)*b.Depth()*b.Columns/s.across < leastWork {
				break
			}
			if work := b.slowest(s); work < gain*least {
				best, least = s, work
			}
		}
		if s.across = 1; b.partsOf(s) > each*workers {
			break
		}
	}
	return best
}

// pixelsOf is the number of pixels of the result in a part.
func (b *Blocks) pixelsOf(s blockShare) int {
	if b.flat {
		return s.tall
	}
	return s.tall * b.Out[1]
}

// slowest is the work of the worker that has most of it, in about the time of a multiplication of
// BlockLen channels.
func (b *Blocks) slowest(s blockShare) float64 {
	parts, down, long := b.partsOf(s), cuts(b.long(), s.tall), b.long()
	strips, taps := cuts(b.Columns, levels[chosen].columns), max(b.taps(), 1)
	most := 0.0
	for w := range s.workers {
		sum := 0.0
		for part := parts * w / s.workers; part < parts*(w+1)/s.workers; part++ {
			piece, place := part/taps%s.across, part/taps/s.across%down*s.tall
			wide := (piece+1)*strips/s.across - piece*strips/s.across
			sum += b.workOf(min(s.tall, long-place), wide)
		}
		most = max(most, sum)
	}
	return most
}

// workOf is the work of a part: rows, or pixels, and strips of the weights.
func (b *Blocks) workOf(rows, strips int) float64 {
	const (
		start  = 2000 // to begin
		copied = 2    // a pixel of a block
	)
	lines, pixels, read := rows, b.Out[1], 0
	if b.flat {
		lines, pixels, read = 1, rows, rows
	} else {
		read = b.planesOf(rows) * b.highOf(rows) * b.reach()
	}
	work := float64(start + strips*b.Depth()*lines*lineWork(pixels))
	if b.apart {
		work += float64(copied * read * b.Channels / BlockLen)
	}
	return work
}

// blockStrip is the most pixels of a strip.
func blockStrip() int {
	if chosen == avx2 {
		return blockStripAVX2
	}
	return blockStripPixels
}

// lineWork is the work of a line of pixels for one depth and a strip of weights.
func lineWork(pixels int) int {
	const (
		vectors = 2
		weights = 1 // to read them
		waits   = 4 // at least: a sum waits for the one before
	)
	even := evenly(pixels, blockStrip(), 1)
	whole, rest := pixels/even, pixels%even
	work := whole * (max(vectors*even, waits) + weights)
	if rest > 0 {
		work += max(vectors*rest, waits) + weights
	}
	return work
}
