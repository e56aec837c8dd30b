package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// signalOperators are transforms of signals, and the weights of windows and
// filters.
var signalOperators = []operator{
	{"HannWindow", cosines(0.5, 0.5, 0)},
	{"HammingWindow", cosines(25.0/46, 21.0/46, 0)},
	{"BlackmanWindow", cosines(0.42, 0.5, 0.08)},
	{"MelWeightMatrix", melWeights},
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
