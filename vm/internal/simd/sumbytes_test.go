package simd

import "testing"

func TestSumsOfBytes(t *testing.T) {
	x := make([]byte, 256*70)
	for i := range x {
		x[i] = 255
		if i%5 == 0 {
			x[i] = byte(i * 7)
		}
	}
	value := func(b byte, signed bool) uint64 {
		if signed {
			return uint64(int(int8(b)) + 128)
		}
		return uint64(b)
	}
	for _, signed := range []bool{false, true} {
		for _, n := range []int{0, 1, 7, 8, 13, 1024, 1031, 2048, 5000} {
			want := uint64(0)
			for _, b := range x[:n] {
				want += value(b, signed)
			}
			if got := SumBytes(x[:n], signed); got != want {
				t.Errorf("sum of %d bytes, signed %v: %d, expected %d", n, signed, got, want)
			}
		}
		for _, columns := range []int{1, 8, 15, 16, 31, 64} {
			for _, rows := range []int{1, 3, MostRows} {
				const step = 70
				sums, want := make([]uint64, columns), make([]uint64, columns)
				for k := range want {
					sums[k], want[k] = uint64(k), uint64(k)
					for r := range rows {
						want[k] += value(x[r*step+k], signed)
					}
				}
				AddColumns(sums, x[:(rows-1)*step+columns], rows, step, signed)
				for k := range want {
					if sums[k] != want[k] {
						t.Errorf("column %d of %d, %d rows, signed %v: %d, expected %d", k, columns, rows, signed, sums[k], want[k])
					}
				}
			}
		}
	}
}
