package reference

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// signalOperators are transforms of signals, and the weights of windows and
// filters.
var signalOperators = []operator{
	{"DFT", dft},
	{"STFT", stft},
	{"HannWindow", cosines(0.5, 0.5, 0)},
	{"HammingWindow", cosines(25.0/46, 21.0/46, 0)},
	{"BlackmanWindow", cosines(0.42, 0.5, 0.08)},
	{"MelWeightMatrix", melWeights},
}

// fourier returns n sums of x·exp(∓2πijk/n) over j, and the sum of the magnitudes. Numbers
// beyond the last count as 0.
func fourier(x []complex128, n int, sign float64) (y []complex128, mass float64) {
	y = make([]complex128, n)
	for k := range y {
		for j, v := range x[:min(n, len(x))] {
			y[k] += v * cmplx.Rect(1, sign*2*math.Pi*float64(j*k%n)/float64(n))
		}
	}
	for _, v := range x[:min(n, len(x))] {
		mass += cmplx.Abs(v)
	}
	return y, mass
}

// parts returns a number of a tensor whose last axis holds real and imaginary parts.
func (x *Tensor) parts(at []int, parts int) complex128 {
	i := index(x.Shape, at)
	if parts == 1 {
		return complex(x.real(i), 0)
	}
	return complex(x.real(i), x.real(i+1))
}

func dft(c *evaluation) []*Tensor {
	x := c.x(0)
	rank := len(x.Shape)
	axis := wrapAxis(c.int("axis", 1), rank)
	if c.version >= 20 {
		axis = rank - 2
		if list := c.list(2); len(list) > 0 {
			axis = wrapAxis(list[0], rank)
		}
	}
	inverse, half, parts := c.int("inverse", 0) != 0, c.int("onesided", 0) != 0, x.Shape[rank-1]
	n := x.Shape[axis]
	if inverse && half {
		n = 2 * (n - 1)
	}
	if list := c.list(1); len(list) > 0 {
		n = list[0]
	}
	shape := slices.Clone(x.Shape)
	shape[axis], shape[rank-1] = n, 2
	if half && !inverse {
		shape[axis] = n/2 + 1
	}
	if half && inverse {
		shape[rank-1] = 1
	}
	y := zeros(x.Type, shape)
	mass := make([]float64, len(y.F))
	lines := slices.Clone(shape)
	lines[axis], lines[rank-1] = 1, 1
	each(lines, func(at []int) {
		at = slices.Clone(at)
		var list []complex128
		for k := range x.Shape[axis] {
			at[axis] = k
			list = append(list, x.parts(at, parts))
		}
		sign, scale := -1.0, 1.0
		if inverse {
			sign, scale = 1, 1/float64(n)
		}
		if inverse && half {
			whole := make([]complex128, n)
			for k := range whole {
				switch {
				case k < len(list) && k <= n/2:
					whole[k] = list[k]
				case n-k < len(list):
					whole[k] = cmplx.Conj(list[n-k])
				}
			}
			list = whole
		}
		sums, all := fourier(list, n, sign)
		for k := range shape[axis] {
			at[axis] = k
			i := index(shape, at)
			y.F[i], mass[i] = real(sums[k])*scale, all*scale
			if shape[rank-1] == 2 {
				y.F[i+1], mass[i+1] = imag(sums[k])*scale, all*scale
			}
		}
	})
	c.sums(0, mass, n)
	return one(y)
}

func stft(c *evaluation) []*Tensor {
	x, step, window := c.x(0), c.list(1)[0], c.x(2)
	length, parts := x.Shape[1], 1
	if len(x.Shape) == 3 {
		parts = x.Shape[2]
	}
	x = x.shaped(x.Shape[0], length, parts)
	n := length
	if window != nil {
		n = len(window.F)
	}
	if list := c.list(3); len(list) > 0 {
		n = list[0]
	}
	bins := n
	if c.int("onesided", 1) != 0 {
		bins = n/2 + 1
	}
	shape := []int{x.Shape[0], (length-n)/step + 1, bins, 2}
	y := zeros(x.Type, shape)
	mass := make([]float64, len(y.F))
	each(shape[:2], func(at []int) {
		list := make([]complex128, n)
		for j := range list {
			v := x.parts([]int{at[0], at[1]*step + j, 0}, parts)
			if window != nil {
				// A product of complex numbers would make NaN of infinity times no imaginary part.
				re, im := real(v)*window.F[j], 0.0
				if parts == 2 {
					im = imag(v) * window.F[j]
				}
				v = complex(re, im)
			}
			list[j] = v
		}
		sums, all := fourier(list, n, -1)
		for k := range bins {
			i := index(shape, []int{at[0], at[1], k, 0})
			y.F[i], y.F[i+1] = real(sums[k]), imag(sums[k])
			mass[i], mass[i+1] = all, all
		}
	})
	c.sums(0, mass, n)
	return one(y)
}

// cosines returns constant - once·cos(x) + twice·cos(2x) over a period.
func cosines(constant, once, twice float64) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		n := int(c.x(0).real(0))
		period := float64(n)
		if c.int("periodic", 1) == 0 {
			period--
		}
		y := zeros(graph.DType(c.int("output_datatype", int(graph.Float32))), []int{n})
		for i := range n {
			x := 2 * math.Pi * float64(i) / period
			y.set(i, constant-once*math.Cos(x)+twice*math.Cos(2*x))
		}
		c.massOf(0, y, func(float64) float64 { return 1 })
		return one(y)
	}
}

// melWeights returns triangles at the bins of a spectrum; their corners are evenly spaced
// on the mel scale.
func melWeights(c *evaluation) []*Tensor {
	bands, length, rate := int(c.x(0).real(0)), c.x(1).real(0), c.x(2).real(0)
	mel := func(hertz float64) float64 { return 2595 * math.Log10(1+hertz/700) }
	low, high := mel(c.x(3).real(0)), mel(c.x(4).real(0))
	bins := int(math.Floor(length/2)) + 1
	corners := make([]int, bands+2)
	for i := range corners {
		at := low + float64(i)*(high-low)/float64(bands+2)
		hertz := 700 * (math.Pow(10, at/2595) - 1)
		corners[i] = int(math.Floor((length + 1) * hertz / rate))
	}
	y := zeros(graph.DType(c.int("output_datatype", int(graph.Float32))), []int{bins, bands})
	for band := range bands {
		left, centre, right := corners[band], corners[band+1], corners[band+2]
		for j := left; j < centre; j++ {
			y.set(j*bands+band, float64(j-left)/float64(centre-left))
		}
		y.set(centre*bands+band, 1)
		for j := centre + 1; j < right; j++ {
			y.set(j*bands+band, float64(right-j)/float64(right-centre))
		}
	}
	return one(y)
}
