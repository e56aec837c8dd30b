package reference

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// Random operators draw from a generator seeded by the node's name, so they draw the
// same numbers each time.
var randomOperators = []operator{
	{"Bernoulli", func(c *evaluation) []*Tensor {
		x := c.x(0)
		y := zeros(graph.DType(c.int("dtype", int(x.Type))), x.Shape)
		next := c.draws()
		for i := range size(x.Shape) {
			if next() < x.real(i) {
				y.set(i, 1)
			}
		}
		return one(y)
	}},
	{"Multinomial", func(c *evaluation) []*Tensor {
		x, n := c.x(0), c.int("sample_size", 1)
		y := zeros(graph.DType(c.int("dtype", int(graph.Int32))), []int{x.Shape[0], n})
		next := c.draws()
		for b := range x.Shape[0] {
			row := x.F[b*x.Shape[1] : (b+1)*x.Shape[1]]
			for k := range n {
				left := next() * sumOf(row, math.Exp)
				class := 0
				for ; class < len(row)-1 && left >= math.Exp(row[class]); class++ {
					left -= math.Exp(row[class])
				}
				y.I[b*n+k] = int64(class)
			}
		}
		return one(y)
	}},
	{"RandomUniform", func(c *evaluation) []*Tensor {
		low, high := c.float("low", 0), c.float("high", 1)
		next := c.draws()
		return one(c.shaped().each(func(float64) float64 { return low + (high-low)*next() }))
	}},
	{"RandomNormal", func(c *evaluation) []*Tensor {
		mean, scale := c.float("mean", 0), c.float("scale", 1)
		next := c.draws()
		return one(c.shaped().each(func(float64) float64 { return mean + scale*normal(next) }))
	}},
	{"RandomUniformLike", func(c *evaluation) []*Tensor {
		low, high := c.float("low", 0), c.float("high", 1)
		next := c.draws()
		return one(c.like().each(func(float64) float64 { return low + (high-low)*next() }))
	}},
	{"RandomNormalLike", func(c *evaluation) []*Tensor {
		mean, scale := c.float("mean", 0), c.float("scale", 1)
		next := c.draws()
		return one(c.like().each(func(float64) float64 { return mean + scale*normal(next) }))
	}},
}

// normal draws from the standard normal distribution (Box & Muller 1958).
func normal(next func() float64) float64 {
	return math.Sqrt(-2*math.Log(1-next())) * math.Cos(2*math.Pi*next())
}

// shaped returns zeros with the shape and the type that the attributes give.
func (c *evaluation) shaped() *Tensor {
	shape := []int{}
	for _, n := range c.Attr("shape").Ints {
		shape = append(shape, int(n))
	}
	return zeros(graph.DType(c.int("dtype", int(graph.Float32))), shape)
}

// like returns zeros with the shape of input 0, and with its type unless dtype is set.
func (c *evaluation) like() *Tensor {
	return zeros(graph.DType(c.int("dtype", int(c.x(0).Type))), c.x(0).Shape)
}

// draws returns a generator of numbers in [0, 1). Nodes with the same seed get the same
// numbers; without a seed, each node gets its own.
func (c *evaluation) draws() func() float64 {
	if c.alone {
		panic(fault{ErrRandom})
	}
	key := c.Name
	if a := c.Attr("seed"); a != nil {
		key = fmt.Sprint("seed ", a.Int, a.Float)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	state := h.Sum64() | 1
	return func() float64 { // Knuth's linear congruential generator
		state = state*6364136223846793005 + 1442695040888963407
		return float64(state>>11) / (1 << 53)
	}
}
