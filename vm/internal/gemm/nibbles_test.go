package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// nibbleCase is a product with random columns.
type nibbleCase struct {
	Nibbles
	a, scales      []float32
	numbers, zeros []byte // zeros may be nil
}

func newNibbleCase(r *rand.Rand, p Nibbles, zeros bool) *nibbleCase {
	bytes := func(n int) []byte {
		list := make([]byte, n)
		for i := range list {
			list[i] = byte(r.Uint32())
		}
		return list
	}
	c := &nibbleCase{Nibbles: p, a: floats(r, p.M*p.K), scales: floats(r, p.N*p.blocks()), numbers: bytes(p.N * p.deep() / 2)}
	if zeros {
		c.zeros = bytes(p.N * cuts(p.blocks(), 2))
	}
	return c
}

// of computes rows [from, to).
func (c *nibbleCase) of(from, to int, bias []float32) []float32 {
	p := c.Nibbles
	p.M = to - from
	b := PackedNibbles{Numbers: at(make([]byte, p.NumbersBytes()+1)), Scales: at(make([]byte, p.ScalesBytes()+1))}
	p.PackNumbers(b.Numbers, c.numbers, nil)
	p.PackScales(b.Scales, c.scales)
	if c.zeros != nil {
		b.Zeros = at(make([]byte, p.ZerosBytes()+1))
		p.PackZeros(b.Zeros, c.zeros)
	}
	rows := at(make([]uint32, p.RowsBytes()/4+1))
	for g := range p.Groups() {
		p.Lay(g, c.a[from*p.K:to*p.K], rows)
	}
	own := at(make([]float32, p.ScratchBytes()/4))
	out := make([]float32, p.M*p.N+1)
	out[p.M*p.N] = 7
	for part := range p.Parts() {
		p.Part(part, b, rows, at(out), p.N, bias, own, nil)
	}
	if out[p.M*p.N] != 7 {
		panic("a part wrote beyond its last row")
	}
	return out[:p.M*p.N]
}

// want returns an element by its definition, and the largest sum of absolute products.
func (c *nibbleCase) want(i, j int) (sum, mass float64) {
	var largest float32 // of a block
	for k := range c.K {
		block := k / c.Block
		zero := 8.0
		if c.zeros != nil {
			zero = float64(c.zeros[j*cuts(c.blocks(), 2)+block/2] >> (4 * (block % 2)) & 15)
		}
		number := float64(c.numbers[(j*c.deep()+k)/2] >> (4 * (k % 2)) & 15)
		x := c.a[i*c.K+k]
		if c.Whole {
			if k%c.Block == 0 {
				largest = 0
				for _, y := range c.a[i*c.K+k : i*c.K+min(k+c.Block, c.K)] {
					largest = max(largest, y, -y)
				}
			}
			scale := largest / 127
			x = float32(math.RoundToEven(float64(x/scale))) * scale
		}
		term := float64(x) * (number - zero) * float64(c.scales[j*c.blocks()+block])
		sum, mass = sum+term, mass+math.Abs(term)
	}
	return sum, mass
}

func TestNibbles(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range []Nibbles{
		{M: 1, N: 1, K: 1, Block: 16},
		{M: 3, N: 70, K: 100, Block: 16},
		{M: 15, N: 65, K: 96, Block: 32},
		{M: 2, N: 130, K: 130, Block: 128},
		{M: 4, N: 31, K: 64, Block: 64},
		{M: 25, N: 17, K: 33, Block: 16},
		{M: 31, N: 81, K: 600, Block: 512},
		{M: 253, N: 33, K: 270, Block: 16},
		{M: 3, N: 5, K: 0, Block: 32},
	} {
		for _, whole := range []bool{false, true} {
			p.Whole = whole
			for _, zeros := range []bool{false, true} {
				c := newNibbleCase(r, p, zeros)
				bias := floats(r, p.N)[:p.N]
				name := fmt.Sprintf("%dx%dx%d,block=%d,whole=%v,zeros=%v", p.M, p.N, p.K, p.Block, whole, zeros)
				t.Run(name, func(t *testing.T) { c.check(t, bias) })
			}
		}
	}
}

// check compares each level with the definition, single rows with many, and levels with
// vectors with each other.
func (c *nibbleCase) check(t *testing.T, bias []float32) {
	var vectors []float32
	eachLevel(t, func(t *testing.T) {
		got := c.of(0, c.M, bias)
		for i := range got {
			sum, mass := c.want(i/c.N, i%c.N)
			sum += float64(bias[i%c.N])
			if d := math.Abs(float64(got[i]) - sum); !(d <= 2e-6*(mass+1)) {
				t.Fatalf("row %d, column %d: %v, want %v", i/c.N, i%c.N, got[i], sum)
			}
		}
		for i := range c.M {
			same(t, "a row alone", c.of(i, i+1, bias), got[i*c.N:][:c.N])
		}
		if Level() != plain.String() {
			if vectors != nil {
				same(t, "beside avx2", got, vectors)
			}
			vectors = got
		}
	})
}

// Columns may be packed part by part.
func TestNibblesPartByPart(t *testing.T) {
	c := newNibbleCase(rand.New(rand.NewPCG(7, 8)), Nibbles{M: 5, N: 150, K: 96, Block: 32, Whole: true}, true)
	p := c.Nibbles
	want := c.of(0, p.M, nil)
	rows := at(make([]uint32, p.RowsBytes()/4))
	for g := range p.Groups() {
		p.Lay(g, c.a, rows)
	}
	own := at(make([]float32, p.ScratchBytes()/4))
	got := make([]float32, p.M*p.N)
	for part := range p.Parts() {
		j, n := p.Columns(part)
		one := p.Of(part)
		b := PackedNibbles{at(make([]byte, one.NumbersBytes())), at(make([]byte, one.ScalesBytes())), at(make([]byte, one.ZerosBytes()))}
		one.PackNumbers(b.Numbers, c.numbers[j*p.deep()/2:], nil)
		one.PackScales(b.Scales, c.scales[j*p.blocks():])
		one.PackZeros(b.Zeros, c.zeros[j*cuts(p.blocks(), 2):])
		one.Part(0, b, rows, unsafe.Pointer(&got[j]), p.N, nil, own, nil)
		if one.N != n {
			t.Fatalf("part %d has %d columns, want %d", part, one.N, n)
		}
	}
	same(t, "part by part", got, want)
}

// NaN and infinity reach the result, and rows of zeros give zeros.
func TestNibblesSpecialNumbers(t *testing.T) {
	for _, whole := range []bool{false, true} {
		for _, x := range []float32{0, float32(math.NaN()), float32(math.Inf(1))} {
			c := newNibbleCase(rand.New(rand.NewPCG(9, 10)), Nibbles{M: 1, N: 16, K: 32, Block: 32, Whole: whole}, false)
			clear(c.a)
			c.a[5] = x
			for i := range c.numbers {
				c.numbers[i] = 0x1f
			}
			eachLevel(t, func(t *testing.T) {
				for j, y := range c.of(0, 1, nil) {
					if finite := !math.IsNaN(float64(y)) && !math.IsInf(float64(y), 0); finite != (x == 0) || x == 0 && y != 0 {
						t.Errorf("whole=%v: column %d of a row with %v is %v", whole, j, x, y)
					}
				}
			})
		}
	}
}

func BenchmarkNibbles(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, m := range []int{1, 8, 12, 64, 128} {
		for _, whole := range []bool{false, true} {
			p := Nibbles{M: m, N: 2048, K: 2048, Block: 32, Whole: whole}
			c := newNibbleCase(r, p, false)
			packed := PackedNibbles{Numbers: at(make([]byte, p.NumbersBytes())), Scales: at(make([]byte, p.ScalesBytes()))}
			p.PackNumbers(packed.Numbers, c.numbers, nil)
			p.PackScales(packed.Scales, c.scales)
			rows, out := at(make([]uint32, p.RowsBytes()/4)), make([]float32, p.M*p.N)
			own := at(make([]float32, p.ScratchBytes()/4))
			b.Run(fmt.Sprintf("rows=%d/whole=%v", m, whole), func(b *testing.B) {
				for b.Loop() {
					for g := range p.Groups() {
						p.Lay(g, c.a, rows)
					}
					for part := range p.Parts() {
						p.Part(part, packed, rows, at(out), p.N, nil, own, nil)
					}
				}
				b.ReportMetric(float64(m)*float64(p.N)*float64(p.K)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
			})
		}
	}
}
