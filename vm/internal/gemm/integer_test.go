package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// draw returns n random bytes, in which extreme values are more frequent.
func draw(r *rand.Rand, n int) []byte {
	list := make([]byte, n)
	for i := range list {
		list[i] = byte(r.Uint32())
		if r.IntN(3) == 0 {
			list[i] = []byte{0, 1, 0x7f, 0x80, 0x81, 0xff}[r.IntN(6)]
		}
	}
	return list
}

func number(b byte, signed bool) int32 {
	if signed {
		return int32(int8(b))
	}
	return int32(b)
}

// zeroPoints returns one or n random zero points.
func zeroPoints(r *rand.Rand, n int, signed bool) []int16 {
	list := make([]int16, 1+(n-1)*r.IntN(2))
	for i := range list {
		list[i] = int16(number(byte(r.Uint32()), signed))
	}
	return list
}

var integerScratch = make([]byte, IntegerScratchBytes)

func runInteger(p *Integer, c []int32, stride int, r *rand.Rand) {
	for i := range integerScratch {
		integerScratch[i] = byte(i)
	}
	for _, tile := range r.Perm(p.Tiles()) {
		i, j, _, _ := p.Block(tile)
		p.Tile(tile, unsafe.Pointer(&c[i*stride+j]), stride, at(integerScratch))
	}
}

// TestInteger: every product is exact, for all types and zero points, with transposed and
// packed operands.
func TestInteger(t *testing.T) {
	sizes := [][3]int{{1, 1, 1}, {1, 1000, 301}, {300, 1, 17}, {25, 49, 513}, {241, 17, 256}, {7, 65, 1025}, {13, 48, 511}, {64, 130, 2048}}
	for m := 1; m <= 13; m++ {
		for n := 1; n <= 33; n += 1 + m%3 {
			sizes = append(sizes, [3]int{m, n, 1 + (m*n)%37})
		}
	}
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for s, size := range sizes {
			m, n, k := size[0], size[1], size[2]
			a, b := draw(r, m*k), draw(r, n*k)
			da := Bytes{At: at(a), Len: m, Step: k, Deep: 1, Signed: s&1 != 0}
			db := Bytes{At: at(b), Len: n, Step: 1, Deep: n, Signed: s&2 != 0}
			if s&4 != 0 {
				da.Step, da.Deep = 1, m
			}
			if s&8 != 0 {
				db.Step, db.Deep = k, 1
			}
			da.Zeros, db.Zeros = zeroPoints(r, m, da.Signed), zeroPoints(r, n, db.Signed)
			stride := n + s%3
			want := make([]int32, m*stride)
			for i := range m {
				for j := range n {
					for d := range k {
						want[i*stride+j] += (number(a[i*da.Step+d*da.Deep], da.Signed) - int32(da.Zeros[i%len(da.Zeros)])) *
							(number(b[j*db.Step+d*db.Deep], db.Signed) - int32(db.Zeros[j%len(db.Zeros)]))
					}
				}
			}
			check := func(what string, p *Integer) {
				t.Helper()
				got := make([]int32, m*stride+1)
				runInteger(p, got, stride, r)
				for i, w := range append(want, 0) {
					if got[i] != w {
						t.Fatalf("%d x %d x %d %s: element %d is %d, expected %d", m, n, k, what, i, got[i], w)
					}
				}
			}
			p := &Integer{M: m, N: n, K: k, A: &da, B: &db}
			check("as it lies", p)
			pa := PackRows(at(make([]byte, PackedRowsBytes(m, k))), &da, m, k, nil)
			pb := PackColumns(at(make([]byte, PackedColumnsBytes(n, k))), &db, n, k, nil)
			p.A, p.B = &pa, &pb
			check("packed", p)
			if !Quads() {
				continue
			}
			if len(da.Zeros) == 1 && len(db.Zeros) == 1 {
				dst := at(make([]byte, QuadColumnsBytes(n, k)))
				PackQuadColumns(dst, &db, n, k, nil)
				p.A, p.B = &da, QuadColumnsAt(dst, &db, n, k)
				check("columns of quads", p)
			}
			if CanQuadRows(&da) != (len(da.Zeros) == 1 && da.Zeros[0] == da.unsign()) {
				t.Fatalf("rows with zero points %v, signed %v: quads %v", da.Zeros, da.Signed, CanQuadRows(&da))
			}
			da.Zeros = []int16{da.unsign()}
			dst := at(make([]byte, QuadRowsBytes(m, k)))
			PackQuadRows(dst, &da, m, k, nil)
			db.Zeros = db.Zeros[:1]
			for i := range m {
				for j := range n {
					sum := int32(0)
					for d := range k {
						sum += (number(a[i*da.Step+d*da.Deep], da.Signed) - int32(da.Zeros[0])) * (number(b[j*db.Step+d*db.Deep], db.Signed) - int32(db.Zeros[0]))
					}
					want[i*stride+j] = sum
				}
			}
			p.A, p.B = QuadRowsAt(dst, m, k), &db
			check("rows of quads", p)
			if p.Narrows() != (k > 0 && k <= 4*mostDepth) {
				t.Fatalf("rows of depth %d: narrows %v", k, p.Narrows())
			}
			if p.Narrows() {
				checkBytes(t, p, want, stride, r)
			}
		}
	})
}

// checkBytes: ByteTile rounds the sums want, with a bias and a scale for each row, and writes
// no byte beside its rows.
func checkBytes(t *testing.T, p *Integer, want []int32, stride int, r *rand.Rand) {
	t.Helper()
	biases, scales := make([]int32, p.M), make([]float32, p.M)
	for i := range biases {
		biases[i], scales[i] = int32(r.IntN(20001)-10000), r.Float32()/1000
		if r.IntN(8) == 0 { // beyond all integers, or none
			scales[i] = []float32{1e20, float32(math.Inf(1)), float32(math.NaN())}[r.IntN(3)]
		}
	}
	got := draw(r, p.M*stride+1)
	expected := slices.Clone(got)
	to := simd.Byte{Signed: r.IntN(2) == 0}
	to.Zero = number(byte(r.Uint32()), to.Signed)
	low, high := to.Span()
	for i := range p.M {
		for j := range p.N {
			units := float32(want[i*stride+j]+biases[i]) * scales[i]
			if !(units >= low) { // or NaN
				units = low
			}
			expected[i*stride+j] = byte(int32(math.RoundToEven(float64(min(units, high)))) + to.Zero)
		}
	}
	for tile := range p.Tiles() {
		i, j, m, _ := p.Block(tile)
		rows := ByteRows{To: to}
		copy(rows.Biases[:m], biases[i:])
		copy(rows.Scales[:m], scales[i:])
		p.ByteTile(tile, unsafe.Pointer(&got[i*stride+j]), stride, &rows, at(integerScratch))
	}
	for i, w := range expected {
		if got[i] != w {
			t.Fatalf("%d x %d x %d as bytes: element %d is %d, expected %d", p.M, p.N, p.K, i, got[i], w)
		}
	}
}

// TestByteImage: the columns of an image hold the elements that a convolution reads, with
// the zero point outside of the image.
func TestByteImage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	eachLevel(t, func(t *testing.T) {
		for i := range 120 {
			v := ByteImage{Signed: r.IntN(2) == 0, Image: Image{Channels: 1 + r.IntN(4)}}
			v.Zero = int16(number(byte(r.Uint32()), v.Signed))
			for a := range 3 {
				v.In[a], v.Kernel[a], v.Stride[a], v.Dilation[a], v.Pad[a] = 1+r.IntN(9), 1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(2), r.IntN(3)
				if a == 0 {
					v.In[a], v.Kernel[a] = 1+r.IntN(2), 1
				}
				if i%2 == 0 { // planes whose rows have as many columns as strips, or as the image
					v.Pad[0], v.Stride[a] = 0, 1+i/2%2
					v.In[0], v.In[2] = 1, []int{3, 16, 31, 32, 33, 64}[i/4%6]
				}
				v.Out[a] = max(1, (v.In[a]+2*v.Pad[a]-(v.Kernel[a]-1)*v.Dilation[a]-1)/v.Stride[a]+1)
			}
			taps := v.Kernel[0] * v.Kernel[1] * v.Kernel[2]
			m, n, k := 1+r.IntN(8), v.Out[0]*v.Out[1]*v.Out[2], v.Channels*taps
			image, weights := draw(r, v.Channels*v.In[0]*v.In[1]*v.In[2]), draw(r, m*k)
			v.At = at(image)
			got := make([]int32, m*n)
			zero := int32(7)
			rows := &Bytes{At: at(weights), Len: m, Step: k, Deep: 1, Zeros: []int16{7}}
			p := &Integer{M: m, N: n, K: k, A: rows, B: &v}
			if Quads() && r.IntN(2) == 0 {
				zero, rows.Zeros[0] = 128, 128
				dst := at(make([]byte, QuadRowsBytes(m, k)))
				PackQuadRows(dst, rows, m, k, nil)
				p.A = QuadRowsAt(dst, m, k)
			}
			runInteger(p, got, n, r)
			for i, g := range got {
				o, want := i%n, int32(0)
				for d := range k {
					tap := d % taps
					id := o/v.Out[2]/v.Out[1]*v.Stride[0] - v.Pad[0] + tap/v.Kernel[2]/v.Kernel[1]*v.Dilation[0]
					ih := o/v.Out[2]%v.Out[1]*v.Stride[1] - v.Pad[1] + tap/v.Kernel[2]%v.Kernel[1]*v.Dilation[1]
					iw := o%v.Out[2]*v.Stride[2] - v.Pad[2] + tap%v.Kernel[2]*v.Dilation[2]
					if id < 0 || id >= v.In[0] || ih < 0 || ih >= v.In[1] || iw < 0 || iw >= v.In[2] {
						continue
					}
					x := image[((d/taps*v.In[0]+id)*v.In[1]+ih)*v.In[2]+iw]
					want += (int32(weights[i/n*k+d]) - zero) * (number(x, v.Signed) - int32(v.Zero))
				}
				if g != want {
					t.Fatalf("%+v: element %d is %d, expected %d", v, i, g, want)
				}
			}
		}
	})
}

// BenchmarkInteger multiplies the matrices of BERT-base, with B packed in advance.
func BenchmarkInteger(b *testing.B) {
	before := Level()
	b.Cleanup(func() { _ = Use(before) })
	r := rand.New(rand.NewPCG(5, 6))
	for _, l := range Levels() {
		for _, s := range [][3]int{{512, 512, 512}, {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {7, 256, 64}, {23, 40, 27}} {
			m, n, k := s[0], s[1], s[2]
			b.Run(fmt.Sprintf("level=%s/size=%dx%dx%d", l, m, n, k), func(b *testing.B) {
				_ = Use(l)
				x, y, c := draw(r, m*k), draw(r, n*k), make([]int32, m*n)
				dx := Bytes{At: at(x), Len: m, Step: k, Deep: 1, Zeros: []int16{3}}
				dy := Bytes{At: at(y), Len: n, Step: 1, Deep: n, Signed: true, Zeros: []int16{0}}
				pb := PackColumns(at(make([]byte, PackedColumnsBytes(n, k))), &dy, n, k, nil)
				p := &Integer{M: m, N: n, K: k, A: &dx, B: &pb}
				rate(b, m*n*k, func() {
					for tile := range p.Tiles() {
						i, j, _, _ := p.Block(tile)
						p.Tile(tile, unsafe.Pointer(&c[i*n+j]), n, at(integerScratch))
					}
				})
			})
		}
	}
}
