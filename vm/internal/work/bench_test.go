package work

import (
	"fmt"
	"testing"
)

// BenchmarkFor runs kernels of two to sixteen parts, one after the other.
func BenchmarkFor(b *testing.B) {
	for _, workers := range []int{1, 2} {
		for _, n := range []int{1000, 10000, 100000} {
			b.Run(fmt.Sprintf("%d workers, %d steps", workers, n), func(b *testing.B) {
				p := New(workers)
				defer p.Close()
				var sums [64]int
				part := func(part, worker int) {
					s := part
					for i := range n {
						s = s*31 + i
					}
					sums[32*worker] += s
				}
				for b.Loop() {
					p.For(4, part)
				}
			})
		}
	}
}
