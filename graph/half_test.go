package graph

import "testing"

// TestHalves: every float16 and bfloat16 is the same after printing.
func TestHalves(t *testing.T) {
	for _, d := range []DType{Float16, BFloat16} {
		for bits := range uint64(1 << 16) {
			text := numberString(bits, d)
			if got, ok := parseReal(text, d); !ok || got != bits {
				t.Fatalf("%v %#x is printed as %s, which is %#x, %t", d, bits, text, got, ok)
			}
		}
	}
}
