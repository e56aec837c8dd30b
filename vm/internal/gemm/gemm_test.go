package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// eachLevel runs a test with every set of micro-kernels of this machine.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	before := Level()
	t.Cleanup(func() { _ = Use(before) })
	for _, l := range Levels() {
		t.Run(l, func(t *testing.T) {
			if err := Use(l); err != nil {
				t.Fatal(err)
			}
			f(t)
		})
	}
}

func at[T any](list []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(list)) }

// floats returns numbers in [-1, 1), followed by a margin that must not be touched.
func floats(r *rand.Rand, n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = 2*r.Float32() - 1
	}
	return list
}

// scratch is initially full of NaN, which must not reach a result.
var scratch = func() []float32 {
	list := make([]float32, ScratchBytes/4)
	for i := range list {
		list[i] = float32(math.NaN())
	}
	return list
}()

// run computes a product, with its tiles in random order.
func run(p *Product, c, bias []float32, r *rand.Rand) {
	for _, tile := range r.Perm(p.Tiles()) {
		p.Tile(tile, at(c), at(bias), at(scratch))
	}
}

// naive returns the product in float64, and the sums of the absolute values of its terms,
// to which the error is relative.
func naive(p *Product, a, b func(i, k int) float64, c, bias []float32) (want, size []float64) {
	want, size = make([]float64, p.M*p.N), make([]float64, p.M*p.N)
	for i := range p.M {
		for j := range p.N {
			var sum, abs float64
			for k := range p.K {
				v := a(i, k) * b(j, k)
				sum, abs = sum+v, abs+math.Abs(v)
			}
			sum, abs = float64(p.Alpha)*sum, math.Abs(float64(p.Alpha))*abs
			if p.Beta != 0 {
				v := float64(p.Beta) * float64(c[i*p.Stride+j])
				sum, abs = sum+v, abs+math.Abs(v)
			}
			if p.RowBias {
				sum, abs = sum+float64(bias[i]), abs+1
			}
			if p.ColBias {
				sum, abs = sum+float64(bias[j]), abs+1
			}
			switch p.Act {
			case Relu:
				sum = max(sum, 0)
			case Clip:
				sum = min(max(sum, float64(p.Low)), float64(p.High))
			}
			want[i*p.N+j], size[i*p.N+j] = sum, abs
		}
	}
	return want, size
}

// compare fails if rounding does not explain the difference of got and want.
func compare(t *testing.T, p *Product, got []float32, want, size []float64) {
	t.Helper()
	tolerance := 6e-8 * (3 + math.Sqrt(float64(p.K)))
	for i := range p.M {
		for j := range p.N {
			g, w, s := float64(got[i*p.Stride+j]), want[i*p.N+j], size[i*p.N+j]
			if math.IsNaN(g) != math.IsNaN(w) || math.Abs(g-w) > tolerance*s+1e-44 {
				t.Fatalf("%d x %d x %d, element (%d, %d): got %v, want %v (terms of %.3g)", p.M, p.N, p.K, i, j, g, w, s)
			}
		}
	}
}

// TestProduct multiplies matrices of all shapes around the block sizes, transposed or not,
// packed or not, with every epilogue.
func TestProduct(t *testing.T) {
	var sizes [][3]int
	for m := 1; m <= 13; m++ {
		for n := 1; n <= 33; n += 1 + m%3 {
			sizes = append(sizes, [3]int{m, n, 1 + (m*n)%7})
		}
	}
	sizes = append(sizes, [][3]int{
		{0, 5, 3},
		{5, 0, 3},
		{3, 4, 0},
		{1, 1, 1},
		{1, 1000, 300},
		{1000, 1, 300},
		{25, 49, 257},
		{241, 17, 256},
		{479, 33, 9},
		{64, 784, 147},
		{130, 515, 260},
		{7, 65, 1025},
		{13, 48, 512},
		{250, 130, 513},
	}...)
	epilogues := []Product{
		{Alpha: 1},
		{Alpha: 1, RowBias: true, Act: Relu},
		{Alpha: 1, ColBias: true, Act: Clip, Low: -0.5, High: 0.25},
		{Alpha: -0.5, Beta: 1, RowBias: true},
		{Alpha: 2, Beta: 0.25, ColBias: true, Act: Relu},
	}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for s, size := range sizes {
			m, n, k := size[0], size[1], size[2]
			a, b := floats(r, m*k), floats(r, n*k)
			bias := floats(r, max(m, n))
			for e, p := range epilogues {
				if m*n*k > 1<<20 && e != s%len(epilogues) {
					continue // the sum is what takes the time, and the small sizes have them all
				}
				p.M, p.N, p.K, p.Stride = m, n, k, n+s%3
				ways := (s + e) % 4
				da, db := Dense{At: at(a), Len: m, Step: k, Deep: 1}, Dense{At: at(b), Len: n, Step: 1, Deep: n}
				if ways&1 != 0 {
					da.Step, da.Deep = 1, m
				}
				if ways&2 != 0 {
					db.Step, db.Deep = k, 1
				}
				before := floats(r, m*p.Stride+8)
				want, scale := naive(&p,
					func(i, k int) float64 { return float64(a[i*da.Step+k*da.Deep]) },
					func(j, k int) float64 { return float64(b[j*db.Step+k*db.Deep]) }, before, bias)
				got := append([]float32{}, before...)
				p.A, p.B = &da, &db
				run(&p, got, bias, r)
				compare(t, &p, got, want, scale)
				for i, v := range got {
					if row, col := i/p.Stride, i%p.Stride; (row >= m || col >= n) && v != before[i] {
						t.Fatalf("%d x %d x %d: element %d beyond C was written", m, n, k, i)
					}
				}
				pa, pb := PackA(at(make([]float32, PackedABytes(m, k)/4+1)), &da, m, k, nil), PackB(at(make([]float32, PackedBBytes(n, k)/4+1)), &db, n, k, nil)
				p.A, p.B = &pa, &pb
				packed := append([]float32{}, before...)
				run(&p, packed, bias, r)
				same(t, fmt.Sprintf("%d x %d x %d packed", m, n, k), packed, got)
				whole := append([]float32{}, before...)
				p.Whole(at(whole), at(bias), at(scratch))
				same(t, fmt.Sprintf("%d x %d x %d in one part", m, n, k), whole, got)
			}
		}
	})
}

// same fails unless two lists have the same bits.
func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, expected the same bits as %v", what, i, got[i], want[i])
		}
	}
}

// 16-bit operands give the same result as the same numbers in float32, transposed or not,
// packed or not.
func TestHalfOperands(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 9))
		for s, size := range [][3]int{{1, 1, 1}, {7, 33, 40}, {25, 49, 257}, {241, 17, 300}, {13, 100, 513}} {
			m, n, k := size[0], size[1], size[2]
			for ways := range 8 {
				format := []Format{Float16, BFloat16}[ways>>2]
				half := func(n int) (list []float32, narrow []uint16) {
					list, narrow = floats(r, n), make([]uint16, n)
					simd.Round(narrow, list, format.narrow())
					simd.Widen(list, narrow, format.narrow())
					return list, narrow
				}
				a, halfA := half(m * k)
				b, halfB := half(n * k)
				da, db := Dense{At: at(a), Len: m, Step: k, Deep: 1}, Dense{At: at(b), Len: n, Step: 1, Deep: n}
				if ways&1 != 0 {
					da.Step, da.Deep = 1, m
				}
				if ways&2 != 0 {
					db.Step, db.Deep = k, 1
				}
				p := Product{M: m, N: n, K: k, Alpha: 1, Stride: n, A: &da, B: &db}
				want, got := make([]float32, m*n), make([]float32, m*n)
				run(&p, want, nil, r)
				na, nb := da, db
				na.At, na.Format, nb.At, nb.Format = at(halfA), format, at(halfB), format
				p.A, p.B = &na, &nb
				run(&p, got, nil, r)
				same(t, fmt.Sprintf("size %d, way %d", s, ways), got, want)
				pb := PackB(at(make([]float32, PackedBBytes(n, k)/4)), &nb, n, k, nil)
				p.B = &pb
				run(&p, got, nil, r)
				same(t, fmt.Sprintf("size %d, way %d, packed", s, ways), got, want)
				narrowA := PackNarrow(at(make([]uint16, PackedABytes(m, k)/4)), &na, m, k, false, nil)
				narrowB := PackNarrow(at(make([]uint16, PackedBBytes(n, k)/4)), &nb, n, k, true, nil)
				p.A, p.B = &narrowA, &narrowB
				run(&p, got, nil, r)
				same(t, fmt.Sprintf("size %d, way %d, packed in 16 bits", s, ways), got, want)
				if da.Step == 1 && m <= mostAcross {
					across := Product{M: m, N: n, K: k, Alpha: 1, Stride: m, A: &na, B: &narrowB, Across: true}
					room, turned := make([]float32, across.ScratchBytes()/4), make([]float32, m*n)
					for tile := range across.Tiles() {
						across.Tile(tile, at(turned), nil, at(room))
					}
					for i := range want {
						got[i] = turned[i%n*m+i/n]
					}
					same(t, fmt.Sprintf("size %d, way %d, across", s, ways), got, want)
				}
			}
		}
	})
}

// The order of the terms depends only on K: a part of a product has the same bits as in the
// whole, and both sets of assembly give the same bits.
func TestBitsDoNotDependOnCuts(t *testing.T) {
	const m, n, k = 251, 131, 700
	r := rand.New(rand.NewPCG(3, 4))
	a, b := floats(r, m*k), floats(r, n*k)
	var first []float32
	eachLevel(t, func(t *testing.T) {
		whole := make([]float32, m*n)
		run(&Product{
			M: m, N: n, K: k, Alpha: 1, Stride: n,
			A: &Dense{At: at(a), Len: m, Step: k, Deep: 1}, B: &Dense{At: at(b), Len: n, Step: 1, Deep: n},
		}, whole, nil, r)
		part := make([]float32, m*n)
		for i := 0; i < m; {
			rows := min(1+r.IntN(40), m-i)
			for j := 0; j < n; {
				columns := min(1+r.IntN(50), n-j)
				run(&Product{
					M: rows, N: columns, K: k, Alpha: 1, Stride: n,
					A: &Dense{At: at(a[i*k:]), Len: rows, Step: k, Deep: 1}, B: &Dense{At: at(b[j:]), Len: columns, Step: 1, Deep: n},
				}, part[i*n+j:], nil, r)
				j += columns
			}
			i += rows
		}
		same(t, "in parts", part, whole)
		if Level() != plain.String() {
			if first != nil {
				same(t, "beside avx2", whole, first)
			}
			first = whole
		}
	})
}

// NaN and infinity propagate as in IEEE 754, denormals stay, and the activations keep NaN.
func TestSpecialNumbers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tiny := math.Float32frombits(3) // denormal
	eachLevel(t, func(t *testing.T) {
		for _, c := range []struct {
			name      string
			a, b      float32
			act       Activation
			want      float32
			low, high float32
		}{
			{"denormals are not flushed", tiny, 1, None, tiny, 0, 0},
			{"products may be denormal", 1e-30, 1e-10, None, 1e-40, 0, 0},
			{"Relu keeps denormals", tiny, 1, Relu, tiny, 0, 0},
			{"infinity", inf, 2, None, inf, 0, 0},
			{"overflow", 3e38, 10, None, inf, 0, 0},
			{"infinity times zero", inf, 0, None, nan, 0, 0},
			{"NaN", nan, 1, None, nan, 0, 0},
			{"Relu of NaN", nan, 1, Relu, nan, 0, 0},
			{"Relu of -infinity", inf, -1, Relu, 0, 0, 0},
			{"Clip of NaN", nan, 1, Clip, nan, -1, 1},
			{"Clip of infinity", inf, 1, Clip, 6, 0, 6},
			{"Relu of -0", -1e-40, 1e-40, Relu, 0, 0, 0},
		} {
			for _, n := range []int{1, 8, 9, 16, 32, 33} {
				a, b, got := []float32{c.a, c.a, c.a, c.a, c.a, c.a, c.a}, make([]float32, n), make([]float32, 7*n)
				for j := range b {
					b[j] = c.b
				}
				run(&Product{
					M: 7, N: n, K: 1, Alpha: 1, Stride: n, Act: c.act, Low: c.low, High: c.high,
					A: &Dense{At: at(a), Len: 7, Step: 1, Deep: 1}, B: &Dense{At: at(b), Len: n, Step: 1, Deep: n},
				}, got, nil, rand.New(rand.NewPCG(5, 6)))
				for i, g := range got {
					if math.Float32bits(g) != math.Float32bits(c.want) && !(g != g && c.want != c.want) {
						t.Fatalf("%s, %d columns: element %d is %v, expected %v", c.name, n, i, g, c.want)
					}
				}
			}
		}
	})
}

// Beta 0 does not read C.
func TestBetaZeroIgnoresC(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		c := []float32{float32(math.NaN())}
		one := []float32{1}
		d := Dense{At: at(one), Len: 1, Step: 1, Deep: 1}
		run(&Product{M: 1, N: 1, K: 1, Alpha: 1, Stride: 1, A: &d, B: &d}, c, nil, rand.New(rand.NewPCG(7, 8)))
		if c[0] != 1 {
			t.Fatalf("got %v, expected 1", c[0])
		}
	})
}

// rate reports the fastest run of f, because the machine may have other work.
func rate(b *testing.B, products int, f func()) {
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(2*float64(products)/1e9/best.Seconds(), "GFLOP/s")
}

// BenchmarkProduct multiplies square matrices, those of BERT-base and small ones, with one side packed
// in advance or none.
func BenchmarkProduct(b *testing.B) {
	before := Level()
	b.Cleanup(func() { _ = Use(before) })
	r := rand.New(rand.NewPCG(9, 10))
	for _, l := range Levels() {
		for _, s := range [][3]int{
			{64, 64, 64},
			{128, 128, 128},
			{256, 256, 256},
			{512, 512, 512},
			{1024, 1024, 1024},
			{128, 768, 768},
			{128, 3072, 768},
			{128, 768, 3072},
			{128, 128, 64},
			{128, 64, 128}, // BERT-base
			{1, 512, 64},
			{7, 256, 64},
			{17, 40, 64},
			{23, 256, 27}, // rows and columns that no whole tile has
		} {
			m, n, k := s[0], s[1], s[2]
			for _, packed := range []string{"none", "A", "B"} {
				b.Run(fmt.Sprintf("level=%s/size=%dx%dx%d/packed=%s", l, m, n, k, packed), func(b *testing.B) {
					_ = Use(l)
					x, y, c := floats(r, m*k), floats(r, n*k), make([]float32, m*n)
					dx, dy := Dense{At: at(x), Len: m, Step: k, Deep: 1}, Dense{At: at(y), Len: n, Step: 1, Deep: n}
					p := &Product{M: m, N: n, K: k, Alpha: 1, Stride: n, A: &dx, B: &dy}
					switch packed {
					case "A":
						pa := PackA(at(make([]float32, PackedABytes(m, k)/4)), &dx, m, k, nil)
						p.A = &pa
					case "B":
						pb := PackB(at(make([]float32, PackedBBytes(n, k)/4)), &dy, n, k, nil)
						p.B = &pb
					}
					rate(b, m*n*k, func() {
						for tile := range p.Tiles() {
							p.Tile(tile, at(c), nil, at(scratch))
						}
					})
				})
			}
		}
	}
}
