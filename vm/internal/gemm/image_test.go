package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// window is a convolution of one group of an image.
type window struct {
	channels                              int
	in, kernel, stride, dilation, pad, to [3]int // to: padding after the image
}

func (w *window) out() (out [3]int) {
	for a := range out {
		out[a] = (w.in[a]+w.pad[a]+w.to[a]-w.dilation[a]*(w.kernel[a]-1)-1)/w.stride[a] + 1
	}
	return out
}

func (w *window) image(x []float32) *Image {
	return &Image{
		At: at(x), Channels: w.channels, In: w.in, Out: w.out(), Kernel: w.kernel,
		Stride: w.stride, Dilation: w.dilation, Pad: w.pad,
	}
}

// seen is an element of the im2col matrix.
func (w *window) seen(x []float32, j, k int) float64 {
	if i, inside := w.place(j, k); inside {
		return float64(x[i])
	}
	return 0
}

// place is the index in the image of an element of the im2col matrix.
func (w *window) place(j, k int) (i int, inside bool) {
	out, taps := w.out(), w.kernel[0]*w.kernel[1]*w.kernel[2]
	tap := [3]int{k % taps / w.kernel[2] / w.kernel[1], k % taps / w.kernel[2] % w.kernel[1], k % w.kernel[2]}
	o := [3]int{j / out[2] / out[1], j / out[2] % out[1], j % out[2]}
	i = k / taps
	for a := range o {
		p := o[a]*w.stride[a] - w.pad[a] + tap[a]*w.dilation[a]
		if p < 0 || p >= w.in[a] {
			return 0, false
		}
		i = i*w.in[a] + p
	}
	return i, true
}

func line(n int) [3]int   { return [3]int{1, 1, n} }
func square(n int) [3]int { return [3]int{1, n, n} }
func pads(n int) [3]int   { return [3]int{0, n, n} }
func cube(n int) [3]int   { return [3]int{n, n, n} }
func ones() [3]int        { return [3]int{1, 1, 1} }
func flat(c, n, k, s, p int) window {
	return window{c, square(n), square(k), square(s), ones(), pads(p), pads(p)}
}

var windows = []window{
	flat(3, 7, 1, 1, 0), flat(5, 7, 3, 1, 1), flat(64, 14, 3, 1, 1), flat(3, 37, 7, 2, 3), flat(4, 14, 3, 2, 1),
	flat(2, 15, 1, 2, 0), flat(3, 23, 11, 4, 2), flat(9, 4, 3, 1, 1), flat(2, 3, 5, 1, 4), flat(1, 2, 2, 1, 0), flat(300, 9, 1, 1, 0),
	flat(3, 32, 3, 2, 1), flat(3, 64, 7, 2, 3), flat(70, 34, 3, 1, 0), flat(2, 33, 8, 1, 4), flat(40, 17, 1, 1, 0),
	flat(30, 32, 3, 1, 1),
	{29, [3]int{1, 16, 128}, square(3), ones(), ones(), pads(1), pads(1)},
	{30, square(20), square(3), ones(), [3]int{1, 12, 12}, pads(12), pads(12)},
	{5, square(33), square(3), ones(), [3]int{1, 24, 24}, pads(24), pads(24)},
	{270, square(12), square(3), ones(), [3]int{1, 36, 36}, pads(36), pads(36)},
	{3, square(9), [3]int{1, 5, 3}, ones(), ones(), [3]int{0, 4, 1}, [3]int{0, 1, 1}},
	{2, [3]int{1, 9, 21}, [3]int{1, 3, 2}, [3]int{1, 1, 2}, [3]int{1, 2, 3}, [3]int{0, 1, 2}, [3]int{0, 0, 1}},
	{3, line(40), line(5), line(1), line(2), [3]int{0, 0, 4}, [3]int{0, 0, 4}},
	{3, line(41), line(3), line(2), line(1), [3]int{0, 0, 9}, [3]int{0, 0, 3}},
	{2, [3]int{5, 6, 9}, [3]int{3, 2, 3}, [3]int{2, 1, 1}, [3]int{1, 2, 1}, [3]int{1, 1, 1}, [3]int{0, 1, 1}},
	{2, [3]int{4, 5, 8}, [3]int{2, 3, 3}, [3]int{1, 2, 2}, [3]int{1, 1, 1}, [3]int{1, 0, 2}, [3]int{1, 1, 1}},
	// Planes as large as the image's; the kernel as large as the image, as for gradients of weights.
	{3, [3]int{4, 9, 10}, cube(3), ones(), ones(), ones(), ones()},
	{20, [3]int{5, 2, 3}, cube(3), ones(), ones(), ones(), ones()},
	{12, [3]int{6, 7, 7}, [3]int{2, 3, 5}, ones(), [3]int{2, 1, 1}, [3]int{2, 0, 2}, [3]int{0, 2, 2}},
	{3, [3]int{3, 7, 6}, [3]int{3, 7, 6}, ones(), ones(), ones(), ones()},
	{4, [3]int{4, 3, 18}, [3]int{2, 3, 18}, ones(), ones(), [3]int{2, 1, 3}, [3]int{1, 2, 4}},
	{3, square(11), square(11), ones(), ones(), pads(2), pads(1)},
}

// TestConvolution multiplies weights with images, for all kinds of windows.
func TestConvolution(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		for _, w := range windows {
			out := w.out()
			p := Product{M: 10, N: out[0] * out[1] * out[2], K: w.channels * w.kernel[0] * w.kernel[1] * w.kernel[2], Alpha: 1, RowBias: true}
			p.Stride = p.N
			name := fmt.Sprintf("%+v", w)
			x, weights, bias := floats(r, w.channels*w.in[0]*w.in[1]*w.in[2]), floats(r, p.M*p.K), floats(r, p.M)
			got := make([]float32, p.M*p.N)
			p.A, p.B = &Dense{At: at(weights), Len: p.M, Step: p.K, Deep: 1}, w.image(x)
			run(&p, got, bias, r)
			want, size := naive(&p,
				func(i, k int) float64 { return float64(weights[i*p.K+k]) },
				func(j, k int) float64 { return w.seen(x, j, k) }, nil, bias)
			t.Run(name, func(t *testing.T) { compare(t, &p, got, want, size) })
			t.Run(name+"/packed", func(t *testing.T) {
				a, q, again := PackA(at(make([]float32, PackedABytes(p.M, p.K)/4+1)), p.A, p.M, p.K, nil), p, make([]float32, p.M*p.N)
				q.A = &a
				run(&q, again, bias, r)
				same(t, "packed", again, got)
			})
			if taps := w.kernel[1] * w.kernel[2]; w.in[0] == 1 && w.kernel[0] == 1 {
				t.Run(name+"/spread", func(t *testing.T) {
					image := w.image(x)
					image.Spread = true
					spread := p
					spread.A, spread.B = &Dense{At: at(weights), Len: p.M, Step: p.K, Deep: w.channels, Taps: taps}, image
					got := make([]float32, p.M*p.N)
					run(&spread, got, bias, r)
					compare(t, &spread, got, want, size)
					packed, again := PackA(at(make([]float32, PackedABytes(p.M, p.K)/4+1)), spread.A, p.M, p.K, nil), make([]float32, p.M*p.N)
					spread.A = &packed
					run(&spread, again, bias, r)
					same(t, "packed", again, got)
				})
			}
			t.Run(name+"/windows", func(t *testing.T) { sameWindows(t, &p, &w, x, weights, bias, want, size, r) })
			if p.N <= mostAcross {
				t.Run(name+"/across", func(t *testing.T) { sameAcross(t, &p, &w, x, got, bias, r) })
			}
		}
	})
}

// sameAcross checks that a transposed product (Product.Across) has the same bits.
func sameAcross(t *testing.T, p *Product, w *window, x, want, bias []float32, r *rand.Rand) {
	b := PackB(at(make([]float32, PackedBBytes(p.M, p.K)/4+1)), p.A, p.M, p.K, nil)
	q := &Product{M: p.N, N: p.M, K: p.K, Alpha: 1, ColBias: true, Stride: p.N, B: &b, Across: true}
	images := []Operand{w.image(x)}
	if w.kernel == ones() && w.stride == ones() && w.pad == [3]int{} && w.to == w.pad {
		images = append(images, &Dense{At: at(x), Len: p.N, Step: 1, Deep: p.N})
	}
	for _, q.A = range images {
		room, got := make([]float32, q.ScratchBytes()/4+1), make([]float32, p.M*p.N+1)
		beyond := float32(7)
		room[len(room)-1], got[p.M*p.N] = beyond, beyond
		for _, tile := range r.Perm(q.Tiles()) {
			q.Tile(tile, at(got), at(bias), at(room))
		}
		same(t, fmt.Sprintf("%T", q.A), got, want)
		if got[p.M*p.N] != beyond || room[len(room)-1] != beyond {
			t.Errorf("%T: written beyond the end", q.A)
		}
	}
}

// sameWindows multiplies the windows of two images, as rows, with the weights; the second
// image is the first.
func sameWindows(t *testing.T, p *Product, w *window, x, weights, bias []float32, want, size []float64, r *rand.Rand) {
	image := w.image(x)
	rows := &Windows{At: image.At, Rows: 2 * p.N, Channel: w.in[0] * w.in[1] * w.in[2], In: w.in, Out: image.Out, Kernel: w.kernel, Stride: w.stride, Dilation: w.dilation, Pad: w.pad}
	q := &Product{M: 2 * p.N, N: p.M, K: p.K, Alpha: 1, A: rows, B: &Dense{At: at(weights), Len: p.M, Step: p.K, Deep: 1}, ColBias: true, Stride: p.M}
	got := make([]float32, q.M*q.N)
	run(q, got, bias, r)
	for image := range 2 {
		turned := make([]float32, p.M*p.N)
		for j := range p.N {
			for i := range p.M {
				turned[i*p.N+j] = got[(image*p.N+j)*q.N+i]
			}
		}
		compare(t, p, turned, want, size)
	}
	packed, again := PackA(at(make([]float32, PackedABytes(q.M, q.K)/4+1)), rows, q.M, q.K, nil), make([]float32, q.M*q.N)
	q.A = &packed
	run(q, again, bias, r)
	same(t, "packed", again, got)
}

// BenchmarkConvolution runs the convolutions of ResNet-50.
func BenchmarkConvolution(b *testing.B) {
	before := Level()
	b.Cleanup(func() { _ = Use(before) })
	r := rand.New(rand.NewPCG(13, 14))
	for _, l := range Levels() {
		for _, c := range []struct {
			m int
			w window
		}{
			{64, flat(3, 224, 7, 2, 3)},
			{64, flat(64, 56, 1, 1, 0)},
			{64, flat(64, 56, 3, 1, 1)},
			{256, flat(64, 56, 1, 1, 0)},
			{64, flat(256, 56, 1, 1, 0)},
			{128, flat(256, 56, 1, 1, 0)},
			{128, flat(128, 56, 3, 2, 1)},
			{512, flat(256, 56, 1, 2, 0)},
			{512, flat(128, 28, 1, 1, 0)},
			{128, flat(512, 28, 1, 1, 0)},
			{128, flat(128, 28, 3, 1, 1)},
			{256, flat(512, 28, 1, 1, 0)},
			{256, flat(256, 28, 3, 2, 1)},
			{1024, flat(512, 28, 1, 2, 0)},
			{1024, flat(256, 14, 1, 1, 0)},
			{256, flat(1024, 14, 1, 1, 0)},
			{256, flat(256, 14, 3, 1, 1)},
			{512, flat(1024, 14, 1, 1, 0)},
			{512, flat(512, 14, 3, 2, 1)},
			{2048, flat(1024, 14, 1, 2, 0)},
			{2048, flat(512, 7, 1, 1, 0)},
			{512, flat(2048, 7, 1, 1, 0)},
			{512, flat(512, 7, 3, 1, 1)},
			{32, flat(64, 256, 3, 1, 1)}, // U-Net's
			{64, flat(128, 128, 3, 1, 1)},
			{128, flat(256, 64, 3, 1, 1)},
		} {
			b.Run(fmt.Sprintf("level=%s/in=%dx%d/out=%d/kernel=%d/stride=%d", l, c.w.channels, c.w.in[2], c.m, c.w.kernel[2], c.w.stride[2]), func(b *testing.B) {
				_ = Use(l)
				k, out := c.w.channels*c.w.kernel[1]*c.w.kernel[2], c.w.out()
				n := out[1] * out[2]
				x, weights, y := floats(r, c.w.channels*c.w.in[1]*c.w.in[2]), floats(r, c.m*k), make([]float32, c.m*n)
				a := PackA(at(make([]float32, PackedABytes(c.m, k)/4)), &Dense{At: at(weights), Len: c.m, Step: k, Deep: 1}, c.m, k, nil)
				p := &Product{M: c.m, N: n, K: k, Alpha: 1, Stride: n, A: &a, B: c.w.image(x)}
				rate(b, c.m*n*k, func() {
					for tile := range p.Tiles() {
						p.Tile(tile, at(y), nil, at(scratch))
					}
				})
			})
		}
	}
}

// TestLargest finds the largest element under the kernel, for all kinds of windows. Padding
// counts as less than all numbers; some images have elements that are NaN or infinite.
func TestLargest(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(19, 20))
		for k, w := range append([]window{flat(1, 112, 3, 2, 1), flat(1, 56, 3, 1, 1), flat(1, 28, 2, 2, 0), flat(1, 30, 5, 3, 2), flat(1, 17, 3, 1, 9)}, windows...) {
			w.channels = 1
			d := Depthwise{In: w.in, Out: w.out(), Kernel: w.kernel, Stride: w.stride, Dilation: w.dilation, Pad: w.pad, Largest: true}
			bytes, n, taps := d.ScratchBytes(), d.Out[0]*d.Out[1]*d.Out[2], w.kernel[0]*w.kernel[1]*w.kernel[2]
			if bytes == 0 {
				continue // without vectors
			}
			x := floats(r, w.in[0]*w.in[1]*w.in[2])
			for i := range x {
				x[i] -= 2 // all below 0, as padding must not be
				if k%2 == 0 && r.IntN(30) == 0 {
					x[i] = []float32{float32(math.NaN()), float32(math.Inf(-1)), float32(math.Inf(1))}[r.IntN(3)]
				}
			}
			got, scratch := floats(r, n+8), floats(r, bytes/4+8)
			beyond, margin := slices.Clone(scratch[bytes/4:]), slices.Clone(got[n:])
			d.Plane(at(got), at(x), nil, 0, at(scratch))
			for j, v := range got[:n] {
				want := math.Inf(-1)
				for tap := range taps {
					if i, inside := w.place(j, tap); inside {
						want = max(want, float64(x[i]))
					}
				}
				if float64(v) != want && (v == v || want == want) {
					t.Fatalf("window %v, element %d: got %v, want %v", w, j, v, want)
				}
			}
			inPlace(t, d, w, x, nil, 0, got[:n])
			same(t, "beyond the end", got[n:], margin)
			same(t, "beyond the scratch", scratch[bytes/4:], beyond)
		}
	})
}

// inPlace computes a plane with a table, if it can have one, and expects the same bits.
func inPlace(t *testing.T, d Depthwise, w window, x, weights []float32, bias float32, want []float32) {
	t.Helper()
	n := d.TableLen()
	if n == 0 {
		return
	}
	d.UseTable(make([]int32, n))
	got := make([]float32, len(want)+8)
	for i := range got {
		got[i] = 7
	}
	d.Plane(at(got), at(x), at(weights), bias, nil)
	for i, v := range want {
		if math.Float32bits(got[i]) != math.Float32bits(v) {
			t.Fatalf("window %v, element %d: got %v in place, want %v", w, i, got[i], v)
		}
	}
	same(t, "beyond the end", got[len(want):], []float32{7, 7, 7, 7, 7, 7, 7, 7})
}

// TestDepthwise convolves one channel with all kinds of windows.
func TestDepthwise(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, w := range append([]window{flat(1, 112, 3, 1, 1), flat(1, 57, 3, 2, 1), flat(1, 28, 5, 2, 2), flat(1, 30, 7, 1, 3), flat(1, 17, 3, 1, 9), flat(1, 7, 3, 1, 1), flat(1, 14, 5, 1, 2), flat(1, 14, 3, 2, 1), flat(1, 15, 5, 2, 2), flat(1, 16, 3, 2, 0), flat(1, 5, 3, 2, 1), flat(1, 2, 3, 2, 1), flat(1, 4, 3, 1, 1), flat(1, 33, 3, 2, 1), {1, square(40), square(3), square(2), square(2), pads(2), pads(2)}}, windows...) {
			w.channels = 1
			out := w.out()
			d := Depthwise{In: w.in, Out: out, Kernel: w.kernel, Stride: w.stride, Dilation: w.dilation, Pad: w.pad}
			bytes := d.ScratchBytes()
			if Level() == plain.String() {
				if bytes != 0 {
					t.Fatal("claimed without vectors")
				}
				continue
			}
			p := Product{M: 1, N: out[0] * out[1] * out[2], K: w.kernel[0] * w.kernel[1] * w.kernel[2], Alpha: 1, RowBias: true}
			p.Stride = p.N
			x, weights, bias := floats(r, w.in[0]*w.in[1]*w.in[2]), floats(r, p.K), floats(r, 1)
			want, size := naive(&p,
				func(_, k int) float64 { return float64(weights[k]) },
				func(j, k int) float64 { return w.seen(x, j, k) }, nil, bias)
			got, scratch := floats(r, p.N+8), floats(r, bytes/4+8)
			beyond := append([]float32{}, scratch[bytes/4:]...)
			margin := append([]float32{}, got[p.N:]...)
			d.Plane(at(got), at(x), at(weights), bias[0], at(scratch))
			compare(t, &p, got, want, size)
			inPlace(t, d, w, x, weights, bias[0], got[:p.N])
			if d.Divide() { // the same bits
				want := slices.Clone(got[:p.N])
				clear(got[:p.N])
				for i := range scratch[:bytes/4] {
					scratch[i] = float32(math.NaN())
				}
				d.Plane(at(got), at(x), at(weights), bias[0], at(scratch))
				same(t, "divided", got[:p.N], want)
			}
			same(t, "beyond the end", got[p.N:], margin)
			same(t, "beyond the scratch", scratch[bytes/4:], beyond)
			d.Act, d.Low, d.High = Clip, -0.25, 0.5
			for i, v := range got[:p.N] {
				want[i] = float64(min(max(v, -0.25), 0.5))
			}
			d.Plane(at(got), at(x), at(weights), bias[0], at(scratch))
			for i, v := range got[:p.N] {
				if float64(v) != want[i] {
					t.Fatalf("element %d, clipped: got %v, want %v", i, v, want[i])
				}
			}
		}
	})
}
