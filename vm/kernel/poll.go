package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// A run can be stopped within some milliseconds: work.Pool.For looks before each
// part, and what takes long in one part, or outside of parts, polls by itself.

// poll panics with work.ErrStopped where the run is to end.
func (c *Call) poll() {
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
	c    *Call
	done int
}

// add counts n elements that are moved or computed.
func (m *meter) add(n int) {
	if m.done += n; m.done >= work.PollEvery {
		m.poll()
	}
}

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

// steps calls body for pieces [from, to) of n elements, and polls before each.
func (c *Call) steps(n int, body func(from, to int)) {
	for from := 0; from < n; from += work.PollEvery {
		c.poll()
		body(from, min(from+work.PollEvery, n))
	}
}

// copy copies bytes, and polls where they are many.
func (c *Call) copy(to, from []byte) {
	if len(from) <= work.PollEvery {
		copy(to, from)
		return
	}
	c.steps(min(len(to), len(from)), func(i, j int) { copy(to[i:j], from[i:j]) })
}

// clear makes all bytes 0.
func (c *Call) clear(b []byte) { c.steps(len(b), func(i, j int) { clear(b[i:j]) }) }

// sumOf is simd.Sum, with polls in a long row.
func sumOf(c *Call, x []float32) float64 {
	const most = 1 << 20
	sum := 0.0
	for ; len(x) > most; x = x[most:] {
		sum += simd.Sum(x[:most])
		c.poll()
	}
	return sum + simd.Sum(x)
}

// fillAll is fill, with polls.
func fillAll[T any](c *Call, d []T, v T) {
	c.steps(len(d), func(i, j int) { fill(d[i:j], v) })
}
