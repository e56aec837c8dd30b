package units

import (
	"math"
	"testing"
)

func TestAdd(t *testing.T) {
	for _, c := range [][3]int64{{1, 2, 3}, {math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64 - 1, 1, math.MaxInt64}, {math.MaxInt64 - 1, 2, math.MaxInt64}, {1 << 62, 1 << 62, math.MaxInt64}} {
		if got := Add(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d: got %d, expected %d", c[0], c[1], got, c[2])
		}
	}
}

func TestMul(t *testing.T) {
	for _, c := range [][3]int64{{2, 3, 6}, {0, math.MaxInt64, 0}, {math.MaxInt64, 0, 0}, {math.MaxInt64, 1, math.MaxInt64}, {1 << 61, 3, 3 << 61}, {1 << 62, 2, math.MaxInt64}, {math.MaxInt64/4 + 1, 4, math.MaxInt64}, {math.MaxInt64, math.MaxInt64, math.MaxInt64}} {
		if got := Mul(c[0], c[1]); got != c[2] {
			t.Errorf("%d · %d: got %d, expected %d", c[0], c[1], got, c[2])
		}
	}
}
