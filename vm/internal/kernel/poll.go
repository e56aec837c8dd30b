package kernel

import (
	"iter"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// A run can be stopped within some milliseconds: work.Pool.For looks before each
// part, and what takes long in one part, or outside of parts, polls by itself.

// poll panics with work.ErrStopped where the run is to end.
func (c *Invocation) poll() {
	if c.Runtime.Stopping() {
		panic(work.ErrStopped)
	}
}

// often is a mask: loops with short rounds poll in those whose number has none of
// its bits.
const often = 1<<12 - 1

// meter polls each time that much work has been done. It is for loops whose
// rounds are of very different lengths.
type meter struct {
	c    *Invocation
	done int
}

// add counts n elements that are moved or computed.
func (m *meter) add(n int) {
	if m.done += n; m.done >= work.PollEvery {
		m.poll()
	}
}

// poll stays a call, so that add is inlined.
//
//go:noinline
func (m *meter) poll() {
	m.done = 0
	m.c.poll()
}

// next counts the first elements of [from, to), and gives the end of those that
// may be done at once.
func (m *meter) next(from, to int) int {
	to = min(to, from+work.PollEvery)
	m.add(to - from)
	return to
}

// pieces yields pieces [from, to) of n elements, and polls before each. The
// compiler inlines it, so the loop over a piece keeps its sums in registers; a
// function that took the body as a closure made rows of LayerNormalization five
// times slower.
func (c *Invocation) pieces(n int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < n; from += work.PollEvery {
			c.poll()
			if !yield(from, min(from+work.PollEvery, n)) {
				return
			}
		}
	}
}

// clear makes all bytes 0.
func (c *Invocation) clear(b []byte) {
	for i, j := range c.pieces(len(b)) {
		clear(b[i:j])
	}
}

// sumOf is simd.Sum, with polls in a long row.
func sumOf(c *Invocation, x []float32) float64 {
	const most = 1 << 20
	sum := 0.0
	for ; len(x) > most; x = x[most:] {
		sum += simd.Sum(x[:most])
		c.poll()
	}
	return sum + simd.Sum(x)
}

// squaresOf is simd.Squares, with polls in a long row.
func squaresOf(c *Invocation, x []float32, mean float64) float64 {
	const most = 1 << 20
	sum := 0.0
	for ; len(x) > most; x = x[most:] {
		sum += simd.Squares(x[:most], mean)
		c.poll()
	}
	return sum + simd.Squares(x, mean)
}

// copyAll is copy, with polls if there is much to copy.
func copyAll[T any](c *Invocation, d, s []T) {
	n := min(len(d), len(s))
	if n <= work.PollEvery {
		copy(d, s)
		return
	}
	for i, j := range c.pieces(n) {
		copy(d[i:j], s[i:j])
	}
}

// fillAll is fill, with polls where there is much to fill.
func fillAll[T any](c *Invocation, d []T, v T) {
	if len(d) <= work.PollEvery {
		fill(d, v)
		return
	}
	for i, j := range c.pieces(len(d)) {
		fill(d[i:j], v)
	}
}
