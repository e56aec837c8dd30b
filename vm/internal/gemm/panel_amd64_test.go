package gemm

import (
	"math/rand/v2"
	"testing"
)

// bothWays runs f without and with prefetches of the next strips, on any maker's processor.
func bothWays(t *testing.T, f func() []float32) {
	t.Helper()
	if best() != avx512 {
		t.Skip("needs AVX-512")
	}
	defer func(was bool) { intel = was }(intel)
	intel = false
	want := f()
	intel = true
	same(t, "with strips prefetched", f(), want)
}

// A product whose strips of B are prefetched is the same bits.
func TestStripsPrefetched(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, size := range [][3]int{{48, 64, 300}, {131, 200, 515}, {245, 33, 6}, {40, 96, 1}} {
		m, n, k := size[0], size[1], size[2]
		a, b := floats(r, m*k), floats(r, k*n)
		right := PackB(at(make([]float32, PackedBBytes(n, k)/4)), &Dense{At: at(b), Len: n, Step: 1, Deep: n}, n, k, nil)
		p := &Product{M: m, N: n, K: k, A: &Dense{At: at(a), Len: m, Step: k, Deep: 1}, B: &right, Alpha: 1, Stride: n}
		bothWays(t, func() []float32 {
			c := make([]float32, m*n)
			run(p, c, nil, r)
			return c
		})
	}
}

// A convolution whose next weights are prefetched is the same bits.
func TestBlocksPrefetched(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	one, three, in := [2]int{1, 1}, [2]int{3, 3}, [2]int{9, 17}
	for _, b := range []Blocks{
		{Channels: 3 * BlockLen, Columns: 5 * BlockLen, Kernel: three, Pad: one, Bias: true},
		{Channels: 2 * BlockLen, Columns: 3*BlockLen + HalfLen, Kernel: three, Pad: one, Spread: true},
		{Channels: 37, Columns: 3 * BlockLen, Kernel: three, Pad: one, Thin: true},
		{Channels: 300, Columns: 2*BlockLen + HalfLen, Kernel: one, Thin: true, Bias: true},
		{Channels: 20*BlockLen + HalfLen, Columns: 4*BlockLen + HalfLen, Kernel: one, Act: Relu},
	} {
		b.Images, b.Groups, b.In, b.Out, b.Stride, b.Dilation = 1, 1, in, in, one, one
		c := newBlockCase(r, b)
		for workers := 1; workers < 3; workers++ {
			bothWays(t, func() []float32 { return c.run(workers, false, true) })
		}
	}
}
