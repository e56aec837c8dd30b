package gemm

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkMaker runs products and convolutions with the micro-kernels of Intel's processors and those
// of others, by turns, with weights that are in the last cache or in memory.
func BenchmarkMaker(b *testing.B) {
	if best() != avx512 {
		b.Skip("needs AVX-512")
	}
	const copies = 8 // of the weights
	r := rand.New(rand.NewPCG(9, 10))
	scratch := at(make([]float32, 1<<20))
	each := func(name string, multiplications int, f func(copy int)) {
		for _, on := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/intel=%v", name, on), func(b *testing.B) {
				defer func(was bool) { intel = was }(intel)
				intel = on
				for i := 0; b.Loop(); i++ {
					f(i % copies)
				}
				b.ReportMetric(float64(multiplications)*float64(b.N)/1e9/b.Elapsed().Seconds(), "multiplications/ns")
			})
		}
	}
	for _, size := range [][3]int{{128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}} {
		m, n, k := size[0], size[1], size[2]
		name := fmt.Sprintf("%dx%dx%d", m, n, k)
		a, from, c := floats(r, m*k), floats(r, k*n), make([]float32, m*n)
		var packed [copies]Packed
		for i := range packed {
			packed[i] = PackB(at(make([]float32, PackedBBytes(n, k)/4)), &Dense{At: at(from), Len: n, Step: 1, Deep: n}, n, k, nil)
		}
		each("float32/"+name, m*n*k, func(i int) {
			p := &Product{M: m, N: n, K: k, A: &Dense{At: at(a), Len: m, Step: k, Deep: 1}, B: &packed[i], Alpha: 1, Stride: n}
			for tile := range p.Tiles() {
				p.Tile(tile, at(c), nil, scratch)
			}
		})
		if !Quads() {
			continue
		}
		right := &Bytes{At: at(from), Len: n, Step: 1, Deep: n, Signed: true, Zeros: []int16{0}}
		var quads [copies]*QuadColumns
		for i := range quads {
			to := at(make([]float32, QuadColumnsBytes(n, k)/4))
			PackQuadColumns(to, right, n, k, nil)
			quads[i] = QuadColumnsAt(to, right, n, k)
		}
		each("bytes/"+name, m*n*k, func(i int) {
			p := &Integer{M: m, N: n, K: k, A: &Bytes{At: at(a), Len: m, Step: k, Deep: 1, Zeros: []int16{3}}, B: quads[i]}
			for tile := range p.Tiles() {
				_, j, _, _ := p.Block(tile)
				p.Tile(tile, at(c[j:]), n, scratch)
			}
		})
	}
	one := [2]int{1, 1}
	for _, side := range []int{28, 32, 56} {
		in := [2]int{side, side}
		c := newBlockCase(r, Blocks{Images: 1, Groups: 1, Channels: 224, Columns: 128, In: in, Out: in, Kernel: one, Stride: one, Dilation: one, Thin: true})
		p := c.Blocks
		p.Plan()
		places := BlockPlaces{X: at(c.x), Out: at(c.added), Bias: at(c.bias)}
		weights := &Packed{At: at(c.packed[0]), K: 224}
		each(fmt.Sprintf("planes/224x%dx%d", side, side), 224*128*side*side, func(int) {
			for part := range p.Parts(1) {
				p.Part(part, 1, &places, func(int) Operand { return weights }, scratch)
			}
		})
	}
}
