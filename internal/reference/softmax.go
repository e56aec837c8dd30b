package reference

import "math"

var softmaxOperators = []operator{
	{"Softmax", softmax(func(v, lse float64) float64 { return math.Exp(v - lse) })},
	{"LogSoftmax", softmax(func(v, lse float64) float64 { return v - lse })},
	{"Hardmax", func(c *call) []*Tensor {
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
		return one(y.shaped(x.Shape...))
	}},
}

// softmax goes along one axis; up to opset 12 along all from that axis on.
func softmax(f func(v, lse float64) float64) func(*call) []*Tensor {
	return func(c *call) []*Tensor {
		x := c.x(0)
		if c.version < 13 {
			a := c.axis("axis", 1, len(x.Shape))
			flat := x.shaped(size(x.Shape[:a]), size(x.Shape[a:]))
			return one(flat.alongAxis(1, f).shaped(x.Shape...))
		}
		return one(x.alongAxis(c.axis("axis", -1, len(x.Shape)), f))
	}
}

// alongAxis gives each element what f makes of it and of the logarithm of the
// sum of exponentials of its line.
func (x *Tensor) alongAxis(axis int, f func(v, lse float64) float64) *Tensor {
	y := zeros(x.Type, x.Shape)
	rows(x.Shape, axis, func(line []int, _ int) {
		v := make([]float64, len(line))
		for k, i := range line {
			v[k] = x.F[i]
		}
		lse := logSumExp(v)
		for _, i := range line {
			y.F[i] = f(x.F[i], lse)
		}
	})
	return y
}
