package kernel

import (
	"errors"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// randoms lists the operators that draw numbers. Each number depends only on the seed and
// on the index of the element, as with dropout.
var randoms = family{"", []Kernel{
	{Name: "Bernoulli", Make: makeBernoulli},
	{Name: "Multinomial", Make: makeMultinomial},
	{Name: "RandomNormal", Make: makeRandomNormal},
	{Name: "RandomNormalLike", Make: makeRandomNormal},
	{Name: "RandomUniform", Make: makeRandomUniform},
	{Name: "RandomUniformLike", Make: makeRandomUniform},
}}

// seeds returns a function that gives the seed of a run: that of the node, if it has one,
// so that the node may run again; else another one for each run, also of a loop's body.
func (c *Invocation) seeds() func() uint64 {
	if a := c.Node.Attr("seed"); a != nil {
		seed := uint64(math.Float32bits(a.Float))
		return func() uint64 { return seed }
	}
	last, again := uint64(0), uint64(0)
	return func() uint64 {
		seed := c.Runtime.Seed()
		if again++; seed != last {
			last, again = seed, 0
		}
		return seed + again*0xd1b54a32d192ed03
	}
}

// makeRandomUniform draws numbers from [low, high).
func makeRandomUniform(c *Invocation) (Run, error) {
	low, high := float64(c.Float("low", 0)), float64(c.Float("high", 1))
	return drawn(c, func(seed uint64, i int) float64 { return low + (high-low)*uniform(seed, i) })
}

// makeRandomNormal draws numbers of a normal distribution, by Box and Muller's method (1958).
func makeRandomNormal(c *Invocation) (Run, error) {
	mean, scale := float64(c.Float("mean", 0)), float64(c.Float("scale", 1))
	return drawn(c, func(seed uint64, i int) float64 {
		length := math.Sqrt(-2 * math.Log(1-uniform(seed, 2*i)))
		return mean + scale*length*math.Cos(2*math.Pi*uniform(seed, 2*i+1))
	})
}

// makeBernoulli draws 1 with the probability that the input gives, else 0.
func makeBernoulli(c *Invocation) (Run, error) {
	p, err := reals64(c.In[0])
	if err != nil {
		return nil, err
	}
	return drawn(c, func(seed uint64, i int) float64 {
		if uniform(seed, i) < p(i) {
			return 1
		}
		return 0
	})
}

// reals64 returns a function that reads element i.
func reals64(t *Tensor) (func(i int) float64, error) {
	switch t.Type {
	case graph.Float32:
		return func(i int) float64 { return float64(data[float32](t)[i]) }, nil
	case graph.Float64:
		return func(i int) float64 { return data[float64](t)[i] }, nil
	}
	return nil, unsupported(t.Type)
}

// drawn fills output 0 with the numbers of a sequence.
func drawn(c *Invocation, number func(seed uint64, i int) float64) (Run, error) {
	out := c.Out[0]
	var set func(i int, v float64)
	switch out.Type {
	case graph.Float32:
		set = func(i int, v float64) { data[float32](out)[i] = float32(v) }
	case graph.Float64:
		set = func(i int, v float64) { data[float64](out)[i] = v }
	case graph.Bool:
		set = func(i int, v float64) { data[uint8](out)[i] = uint8(v) }
	default:
		whole, ok := form.IntWriter(out.Type)
		if !ok {
			return nil, unsupported(out.Type)
		}
		set = func(i int, v float64) { whole(out.At, i, int64(v)) }
	}
	seeds, seed, n := c.seeds(), uint64(0), out.Len()
	part := func(p, _ int) {
		for i := p * grain; i < min((p+1)*grain, n); i++ {
			set(i, number(seed, i))
		}
	}
	return func(w *work.Pool) error {
		seed = seeds()
		w.For(cuts(n, grain), part)
		return nil
	}, nil
}

// makeMultinomial draws classes: input 0 holds the logarithms of their weights, a row for
// each batch.
func makeMultinomial(c *Invocation) (Run, error) {
	in, out := c.In[0], c.Out[0]
	logs, err := reals64(in)
	if err != nil {
		return nil, err
	}
	set, ok := form.IntWriter(out.Type)
	if !ok {
		return nil, unsupported(out.Type)
	}
	classes, samples := in.Shape[1], out.Shape[1]
	if classes == 0 && out.Len() > 0 {
		return nil, errors.New("no classes to draw from")
	}
	seeds, sums := c.seeds(), tableOf[float64](c, classes)
	return func(*work.Pool) error {
		seed := seeds()
		m := c.Meter()
		for b := range in.Shape[0] {
			most, total := math.Inf(-1), 0.0
			for k := range classes {
				most = max(most, logs(b*classes+k))
			}
			for k := range classes {
				total += math.Exp(logs(b*classes+k) - most)
				sums[k] = total
			}
			m.Add(2 * classes)
			for s := range samples {
				i := b*samples + s
				left := uniform(seed, i) * total
				// The first class whose sum is above what is drawn; NaN counts as the last one.
				low, high := 0, classes-1
				for low < high {
					if mid := (low + high) / 2; sums[mid] > left {
						high = mid
					} else {
						low = mid + 1
					}
				}
				set(out.At, i, int64(low))
				m.Add(1)
			}
		}
		return nil
	}, nil
}
