package simd

import "testing"

// Machines without AVX-512 convert eight numbers at a time.
func TestQuantizeEight(t *testing.T) {
	defer func(n int) { wide = n }(wide)
	wide = 8
	quantizes(t)
}
