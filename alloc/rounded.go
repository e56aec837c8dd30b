package alloc

import (
	"fmt"
	"math"
)

// Rounded returns the problem with all sizes rounded up to multiples of n bytes
// and all offsets at such, beside what each alignment already asks for. It fails
// if n is below 1 or a figure passes an int64. The buffers of p stay.
func (p Problem) Rounded(n int64) (Problem, error) {
	if n < 1 {
		return p, fmt.Errorf("alignment: expected 1 or more bytes, found %d", n)
	}
	q := Problem{Buffers: make([]Buffer, len(p.Buffers)), Alignment: multiple(max(1, p.Alignment), n)}
	if q.Alignment == 0 {
		return p, fmt.Errorf("alignment: %d and %d have no common multiple below 2^63", p.Alignment, n)
	}
	for i, b := range p.Buffers {
		if b.Align > 0 {
			align := multiple(b.Align, n)
			if align == 0 || b.Size > math.MaxInt64-n {
				return p, fmt.Errorf("%s: %d bytes aligned to %d: rounded up to %d they pass %d", p.name(i), b.Size, b.Align, n, math.MaxInt64)
			}
			b.Align, b.Size = align, roundUp(b.Size, n)
		}
		q.Buffers[i] = b
	}
	return q, q.Validate()
}

// multiple returns the least common multiple, or 0 if it passes an int64.
func multiple(a, b int64) int64 {
	a /= gcd(a, b)
	if a > math.MaxInt64/b {
		return 0
	}
	return a * b
}
