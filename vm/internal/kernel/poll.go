package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// A run can be stopped within some milliseconds: work.Pool.For looks before each
// part, and what takes long in one part, or outside of parts, polls by itself.

// sumOf is simd.Sum, with polls in a long row.
func sumOf(c *Invocation, x []float32) float64 {
	const most = 1 << 20
	sum := 0.0
	for ; len(x) > most; x = x[most:] {
		sum += simd.Sum(x[:most])
		c.Poll()
	}
	return sum + simd.Sum(x)
}

// squaresOf is simd.Squares, with polls in a long row.
func squaresOf(c *Invocation, x []float32, mean float64) float64 {
	const most = 1 << 20
	sum := 0.0
	for ; len(x) > most; x = x[most:] {
		sum += simd.Squares(x[:most], mean)
		c.Poll()
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
	for i, j := range c.Pieces(n) {
		copy(d[i:j], s[i:j])
	}
}

// fillAll is fill, with polls where there is much to fill.
func fillAll[T any](c *Invocation, d []T, v T) {
	if len(d) <= work.PollEvery {
		fill(d, v)
		return
	}
	for i, j := range c.Pieces(len(d)) {
		fill(d[i:j], v)
	}
}
