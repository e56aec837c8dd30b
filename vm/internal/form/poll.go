package form

import (
	"iter"

	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// Poll panics with work.ErrStopped where the run is to end.
func (c *Call) Poll() {
	if c.Runtime.Stopping() {
		panic(work.ErrStopped)
	}
}

// Often is a mask: loops with short rounds poll in those whose number has none of
// its bits.
const Often = 1<<12 - 1

// Meter polls each time that much work has been done. It is for loops whose
// rounds are of very different lengths.
type Meter struct {
	c    *Call
	done int
}

// Meter returns a meter of the invocation's run.
func (c *Call) Meter() Meter { return Meter{c: c} }

// Add counts n elements that are moved or computed.
func (m *Meter) Add(n int) {
	if m.done += n; m.done >= work.PollEvery {
		m.Poll()
	}
}

// Poll stays a call, so that Add is inlined.
//
//go:noinline
func (m *Meter) Poll() {
	m.done = 0
	m.c.Poll()
}

// Next counts the first elements of [from, to), and gives the end of those that
// may be done at once.
func (m *Meter) Next(from, to int) int {
	to = min(to, from+work.PollEvery)
	m.Add(to - from)
	return to
}

// Pieces yields pieces [from, to) of n elements, and polls before each. The
// compiler inlines it, so the loop over a piece keeps its sums in registers; a
// function that took the body as a closure made rows of LayerNormalization five
// times slower.
func (c *Call) Pieces(n int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < n; from += work.PollEvery {
			c.Poll()
			if !yield(from, min(from+work.PollEvery, n)) {
				return
			}
		}
	}
}

// Clear makes all bytes 0.
func (c *Call) Clear(b []byte) {
	for i, j := range c.Pieces(len(b)) {
		clear(b[i:j])
	}
}
