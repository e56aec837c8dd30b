package units

import "math"

// Add adds two sizes, neither of which is negative. A sum that overflows stays at the
// largest one.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Mul multiplies two sizes, neither of which is negative. A product that overflows stays
// at the largest one.
func Mul(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
