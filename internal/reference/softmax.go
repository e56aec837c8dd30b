package reference

import (
	"math"
	"slices"
)

// softmaxOperators turn the elements along an axis into weights.
var softmaxOperators = []operator{
	{"Softmax", softmax(
		func(v, sum float64) float64 { return math.Exp(v) / sum },
		// The absolute rounding error of the difference is a relative error of its exponential.
		func(v, sum float64) float64 { return math.Exp(v) / sum * logMass(v, sum) },
	)},
	{"LogSoftmax", softmax(
		func(v, sum float64) float64 { return v - math.Log(sum) },
		logMass,
	)},
	{"Hardmax", func(c *evaluation) []*Tensor {
		x := c.x(0)
		axis, flat := c.axis("axis", -1, len(x.Shape)), x
		if c.version < 13 {
			a := c.axis("axis", 1, len(x.Shape))
			axis, flat = 1, x.shaped(size(x.Shape[:a]), size(x.Shape[a:]))
		}
		y := zeros(x.Type, flat.Shape)
		rows(flat.Shape, axis, func(line []int, _ int) {
			best := line[0]
			for _, i := range line {
				if x.F[i] > x.F[best] {
					best = i
				}
			}
			y.F[best] = 1
		})
		c.bounded(0).exact = true
		return one(y.shaped(x.Shape...))
	}},
}

// softmax normalises along one axis; up to opset 12, along that axis and all after it.
func softmax(f, mass func(v, sum float64) float64) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		x := c.x(0)
		axis, flat := 1, x
		if c.version < 13 {
			a := c.axis("axis", 1, len(x.Shape))
			flat = x.shaped(size(x.Shape[:a]), size(x.Shape[a:]))
		} else {
			axis = c.axis("axis", -1, len(x.Shape))
		}
		c.terms(0, flat.alongAxis(axis, mass).F)
		return one(flat.alongAxis(axis, f).shaped(x.Shape...))
	}
}

// logMass returns the mass of a logarithm of softmax.
func logMass(v, sum float64) float64 { return math.Abs(v) + 2*math.Abs(math.Log(sum)) + 1 }

// alongAxis replaces each element by f(v, sum): v is the element minus the maximum of its
// line, and sum is the sum of exp(v) over the line.
func (x *Tensor) alongAxis(axis int, f func(v, sum float64) float64) *Tensor {
	y := zeros(x.Type, x.Shape)
	n, step := x.Shape[axis], size(x.Shape[axis+1:])
	parallel(size(x.Shape[:axis])*step, func(line int) {
		v := make([]float64, n)
		first := line/step*step*n + line%step
		for k := range v {
			v[k] = x.F[first+k*step]
		}
		most := slices.Max(v)
		if math.IsInf(most, 0) {
			most = 0
		}
		for k := range v {
			v[k] -= most
		}
		sum := sumOf(v, math.Exp)
		for k := range v {
			y.F[first+k*step] = f(v[k], sum)
		}
	})
	return y
}
