package reference

import (
	"math"
	"slices"
)

var reduceOperators = []operator{
	{"ReduceSum", reduce(sum)},
	{"ReduceMean", reduce(mean)},
	{"ReduceMax", reduce(func(v []float64) float64 {
		most := math.Inf(-1)
		for _, x := range v {
			most = math.Max(most, x)
		}
		return most
	})},
	{"ReduceMin", reduce(func(v []float64) float64 {
		least := math.Inf(1)
		for _, x := range v {
			least = math.Min(least, x)
		}
		return least
	})},
	{"ReduceProd", reduce(func(v []float64) float64 {
		p := 1.0
		for _, x := range v {
			p *= x
		}
		return p
	})},
	{"ReduceL1", reduce(func(v []float64) float64 { return sumOf(v, math.Abs) })},
	{"ReduceL2", reduce(func(v []float64) float64 { return math.Sqrt(sumOf(v, square)) })},
	{"ReduceSumSquare", reduce(func(v []float64) float64 { return sumOf(v, square) })},
	{"ReduceLogSum", reduce(func(v []float64) float64 { return math.Log(sum(v)) })},
	{"ReduceLogSumExp", reduce(func(v []float64) float64 { return logSumExp(v) })},
}

func square(v float64) float64 { return v * v }

func sumOf(v []float64, f func(float64) float64) float64 {
	t := 0.0
	for _, x := range v {
		t += f(x)
	}
	return t
}

func sum(v []float64) float64 { return sumOf(v, func(x float64) float64 { return x }) }

func mean(v []float64) float64 { return sum(v) / float64(len(v)) }

func logSumExp(v []float64) float64 {
	if len(v) == 0 {
		return math.Inf(-1)
	}
	most := slices.Max(v)
	if math.IsInf(most, -1) {
		return most
	}
	return most + math.Log(sumOf(v, func(x float64) float64 { return math.Exp(x - most) }))
}

// reduce makes one element of those along axes; without axes of all of them,
// unless noop_with_empty_axes.
func reduce(f func([]float64) float64) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		since := int64(18)
		if c.Op == "ReduceSum" {
			since = 13
		}
		x, axes := c.x(0), c.listOr("axes", 1, since)
		if len(axes) == 0 && c.int("noop_with_empty_axes", 0) != 0 {
			return one(x.each(func(v float64) float64 { return f([]float64{v}) }))
		}
		over := make([]bool, len(x.Shape))
		for k := range over {
			over[k] = len(axes) == 0
		}
		for _, a := range axes {
			over[wrapAxis(a, len(x.Shape))] = true
		}
		return one(x.reduced(over, c.int("keepdims", 1) != 0, f))
	}
}

// reduced makes one element of those along axes.
func (x *Tensor) reduced(over []bool, keep bool, f func([]float64) float64) *Tensor {
	kept, shape := slices.Clone(x.Shape), []int{}
	for k, n := range x.Shape {
		if over[k] {
			kept[k] = 1
		} else {
			shape = append(shape, n)
		}
	}
	groups := make([][]float64, size(kept))
	i := 0
	each(x.Shape, func(at []int) {
		p := slices.Clone(at)
		for k := range p {
			if over[k] {
				p[k] = 0
			}
		}
		j := index(kept, p)
		groups[j] = append(groups[j], x.real(i))
		i++
	})
	y := zeros(x.Type, kept)
	for j, g := range groups {
		y.set(j, f(g))
	}
	if !keep {
		return y.shaped(shape...)
	}
	return y
}
