package gemm

import (
	"math"
	"testing"
	"unsafe"
)

// A product whose strips of B are prefetched is the same bits.
func TestStripsPrefetched(t *testing.T) {
	if best() != avx512 {
		t.Skip("needs AVX-512")
	}
	defer func(was bool) { prefetchesNext = was }(prefetchesNext)
	for _, size := range [][3]int{{48, 64, 300}, {131, 200, 515}, {245, 33, 6}, {40, 96, 1}} {
		m, n, k := size[0], size[1], size[2]
		a, b := make([]float32, m*k), make([]float32, k*n)
		for i := range a {
			a[i] = float32(math.Sin(float64(i)))
		}
		for i := range b {
			b[i] = float32(math.Cos(float64(3 * i)))
		}
		right := PackB(unsafe.Pointer(unsafe.SliceData(make([]float32, PackedBBytes(n, k)/4))), &Dense{At: unsafe.Pointer(&b[0]), Len: n, Step: 1, Deep: n}, n, k, nil)
		p := &Product{M: m, N: n, K: k, A: &Dense{At: unsafe.Pointer(&a[0]), Len: m, Step: k, Deep: 1}, B: &right, Alpha: 1, Stride: n}
		scratch := make([]byte, p.ScratchBytes())
		var found [2][]float32
		for i, on := range []bool{false, true} {
			prefetchesNext, found[i] = on, make([]float32, m*n)
			for tile := range p.Tiles() {
				p.Tile(tile, unsafe.Pointer(&found[i][0]), nil, unsafe.Pointer(&scratch[0]))
			}
		}
		for i, v := range found[0] {
			if math.Float32bits(v) != math.Float32bits(found[1][i]) {
				t.Fatalf("%d x %d x %d, element %d: %g with strips prefetched, %g without", m, n, k, i, found[1][i], v)
			}
		}
	}
}
