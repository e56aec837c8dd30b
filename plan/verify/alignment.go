package verify

import (
	"math"
)

// maxAlignment prevents overflow when sizes are rounded up.
const maxAlignment = 1 << 30

// alignment reports whether the plan's alignment is valid.
func (v *verifier) alignment() bool {
	if a := v.Plan.Alignment; a < 1 || a > maxAlignment || a&(a-1) != 0 {
		v.Fault(CodeAlignment, "alignment: expected a power of two from 1 to %d, found %d", maxAlignment, a)
		return false
	}
	return true
}

// round rounds a size up to the plan's alignment.
func (v *verifier) round(n int64) int64 {
	a := v.Plan.Alignment
	if n > math.MaxInt64-(a-1) {
		v.sums.Overflow = true
		return math.MaxInt64 &^ (a - 1)
	}
	return (n + a - 1) &^ (a - 1)
}
