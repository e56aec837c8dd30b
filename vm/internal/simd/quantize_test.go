package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// want computes the byte of a real in float64 by the definition: round, add, saturate.
func (b Byte) want(units float64) byte {
	low, high := 0.0, 255.0
	if b.Signed {
		low, high = -128, 127
	}
	if math.IsNaN(units) {
		units = math.Inf(-1)
	}
	return byte(int32(min(max(math.RoundToEven(units)+float64(b.Zero), low), high)))
}

func TestQuantize(t *testing.T) { quantizes(t) }

// quantizes compares the conversions with their definition.
func quantizes(t *testing.T) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	odd := []float32{
		0, 0.5, -0.5, 1.5, 2.5, -2.5, 127.5, 128.5, 255.5, -128.5, 1e30, -1e30, 1e-45,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), float32(math.Copysign(0, -1)), 2147483648, -2147483904,
	}
	for _, to := range []Byte{{false, 0}, {false, 255}, {false, 128}, {true, 0}, {true, -128}, {true, 127}, {true, 5}} {
		for n := range 40 {
			scale := []float32{1, 0.25, 3.7e-3}[n%3]
			src, sums := make([]float32, n), make([]int32, n)
			for i := range src {
				src[i] = odd[r.IntN(len(odd))] * scale
				if r.IntN(2) == 0 {
					src[i] = float32(r.NormFloat64()) * 100 * scale
				}
				sums[i] = int32(r.Uint32()) >> r.IntN(31)
			}
			got := make([]byte, n+1)
			Quantize(got, src, scale, to)
			for i, x := range src {
				if w := to.want(float64(x / scale)); got[i] != w {
					t.Errorf("%v/%v to %+v: got %d, want %d", x, scale, to, got[i], w)
				}
			}
			bias := int32(r.IntN(200) - 100)
			Requantize(got, sums, bias, scale, to)
			for i, x := range sums {
				if w := to.want(float64(float32(x+bias) * scale)); got[i] != w {
					t.Errorf("(%v+%d)·%v to %+v: got %d, want %d", x, bias, scale, to, got[i], w)
				}
			}
			if got[n] != 0 {
				t.Fatal("a byte beyond the end was written")
			}
			columns := min(n, 1+r.IntN(25))
			rows, biases, scales := n/max(columns, 1), make([]int32, columns), make([]float32, columns)
			for i := range biases {
				biases[i], scales[i] = int32(r.IntN(200)-100), r.Float32()
			}
			block := make([]byte, rows*(columns+2)+1)
			RequantizeColumns(block, sums, biases, scales, rows, columns+2, columns, to)
			for i, b := range block {
				row, j := i/(columns+2), i%(columns+2)
				var w byte
				if row < rows && j < columns {
					w = to.want(float64(float32(sums[row*columns+j]+biases[j]) * scales[j]))
				}
				if b != w {
					t.Errorf("row %d of %d columns to %+v: column %d: got %d, want %d", row, columns, to, j, b, w)
				}
			}
			for i := range got {
				got[i] = byte(r.Uint32())
			}
			back := make([]float32, n+1)
			Dequantize(back, got[:n], scale, to)
			for i, x := range got[:n] {
				v := int32(x)
				if to.Signed {
					v = int32(int8(x))
				}
				if w := float32(v-to.Zero) * scale; back[i] != w {
					t.Errorf("%d of %+v times %v: got %v, want %v", v, to, scale, back[i], w)
				}
			}
			if back[n] != 0 {
				t.Fatal("a number beyond the end was written")
			}
		}
	}
}
