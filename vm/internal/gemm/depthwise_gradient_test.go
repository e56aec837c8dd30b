package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// planes are windows on a single channel.
func planes() []window {
	list := append([]window{
		flat(1, 112, 3, 1, 1), flat(1, 57, 3, 2, 1), flat(1, 28, 5, 2, 2), flat(1, 30, 7, 1, 3), flat(1, 17, 3, 1, 9),
		flat(1, 7, 3, 1, 1), flat(1, 14, 3, 2, 1), flat(1, 16, 3, 2, 0), flat(1, 28, 2, 3, 0),
	}, windows...)
	for i := range list {
		list[i].channels = 1
	}
	return list
}

// guarded runs f with scratch of so many bytes, full of NaN, and a result of n numbers. It
// fails if f writes beyond either.
func guarded(t *testing.T, n, bytes int, f func(to, scratch unsafe.Pointer)) []float32 {
	t.Helper()
	to, scratch := make([]float32, n+8), make([]float32, bytes/4+8)
	for i := range scratch {
		scratch[i] = float32(math.NaN())
	}
	for i := range 8 {
		to[n+i], scratch[bytes/4+i] = 7, 7
	}
	f(at(to), at(scratch))
	for i := range 8 {
		if to[n+i] != 7 || scratch[bytes/4+i] != 7 {
			t.Fatal("written beyond the end")
		}
	}
	clear(scratch)
	again := make([]float32, n+8)
	f(at(again), at(scratch))
	same(t, "with other numbers in the scratch before", again[:n], to[:n])
	return to[:n]
}

// TestDepthwiseGradients computes the gradients of a channel's weights and of its image,
// for all kinds of windows.
func TestDepthwiseGradients(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(21, 22))
		for _, w := range planes() {
			d := Depthwise{In: w.in, Out: w.out(), Kernel: w.kernel, Stride: w.stride, Dilation: w.dilation, Pad: w.pad}
			n, outputs, taps := w.in[0]*w.in[1]*w.in[2], d.Out[0]*d.Out[1]*d.Out[2], w.kernel[0]*w.kernel[1]*w.kernel[2]
			x, y, weights, bias := floats(r, n), floats(r, outputs), floats(r, taps), floats(r, 1)
			image, sizes := make([]float64, n), make([]float64, n)
			taken, terms := make([]float64, taps), make([]float64, taps)
			for i := range image {
				image[i], sizes[i] = float64(bias[0]), 1
			}
			for j, v := range y {
				for tap := range taps {
					if i, inside := w.place(j, tap); inside {
						a, b := float64(v)*float64(x[i]), float64(v)*float64(weights[tap])
						taken[tap], terms[tap] = taken[tap]+a, terms[tap]+math.Abs(a)
						image[i], sizes[i] = image[i]+b, sizes[i]+math.Abs(b)
					}
				}
			}
			name := fmt.Sprintf("%+v", w)
			if bytes := d.WeightsBytes(); bytes > 0 {
				t.Run(name+"/weights", func(t *testing.T) {
					got := guarded(t, taps, bytes, func(to, scratch unsafe.Pointer) { d.Weights(to, at(x), at(y), scratch) })
					compare(t, &Product{M: 1, N: taps, K: outputs, Stride: taps}, got, taken, terms)
				})
			}
			if bytes := d.ImageBytes(); bytes > 0 {
				t.Run(name+"/image", func(t *testing.T) {
					got := guarded(t, n, bytes, func(to, scratch unsafe.Pointer) { d.Image(to, at(y), at(weights), bias[0], scratch) })
					compare(t, &Product{M: 1, N: n, K: taps, Stride: n}, got, image, sizes)
				})
			}
		}
	})
}

// TestPlaces finds the first of the largest elements, or the last NaN.
func TestPlaces(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(23, 24))
		for _, w := range planes() {
			d := Depthwise{In: w.in, Out: w.out(), Kernel: w.kernel, Stride: w.stride, Dilation: w.dilation, Pad: w.pad, Largest: true}
			bytes, outputs, taps := d.PlacesBytes(), d.Out[0]*d.Out[1]*d.Out[2], w.kernel[0]*w.kernel[1]*w.kernel[2]
			if bytes == 0 {
				continue
			}
			x := floats(r, w.in[0]*w.in[1]*w.in[2])
			for i := range x {
				switch r.IntN(4) {
				case 0:
					x[i] = float32(math.NaN())
				case 1, 2:
					x[i] = float32(math.Inf(-1))
				default:
					x[i] = float32(math.Round(float64(x[i])))
				}
			}
			places := slices.Repeat([]int64{-7}, outputs+1)
			got := guarded(t, outputs, bytes, func(to, scratch unsafe.Pointer) { d.Places(to, places[:outputs], 1000, at(x), scratch) })
			for j := range outputs {
				best, place := float32(math.Inf(-1)), -1
				for tap := range taps {
					if i, inside := w.place(j, tap); inside && (place < 0 || x[i] > best || x[i] != x[i]) {
						best, place = x[i], i
					}
				}
				if place < 0 {
					continue // the window reads padding alone
				}
				if got[j] != best && (got[j] == got[j] || best == best) || places[j] != int64(1000+place) {
					t.Fatalf("window %+v, element %d: got %v at %d, want %v at %d", w, j, got[j], places[j]-1000, best, place)
				}
			}
			if places[outputs] != -7 {
				t.Fatal("written beyond the end")
			}
		}
	})
}
