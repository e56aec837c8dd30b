package reference

import (
	"math"
	"slices"
)

// cumulateOperators compute running sums and products along an axis.
var cumulateOperators = []operator{
	{"CumSum", cumulate(0, func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b })},
	{"CumProd", cumulate(1, func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b })},
}

// cumulate combines each element with all elements before it, or after it.
func cumulate(start int64, f func(a, b float64) float64, g func(a, b int64) int64) func(*evaluation) []*Tensor {
	return func(c *evaluation) []*Tensor {
		x := c.x(0)
		axis := wrapAxis(int(c.x(1).I[0]), len(x.Shape))
		exclusive, reverse := c.int("exclusive", 0) != 0, c.int("reverse", 0) != 0
		y, mass := zeros(x.Type, x.Shape), make([]float64, len(x.F))
		rows(x.Shape, axis, func(line []int, _ int) {
			if reverse {
				slices.Reverse(line)
			}
			real, sum, whole := float64(start), float64(start), start
			for _, i := range line {
				if exclusive {
					y.put(i, real, whole)
				}
				if isFloat(x.Type) {
					if exclusive {
						mass[i] = sum
					}
					real = f(real, x.F[i])
					sum = f(sum, math.Abs(x.F[i]))
					if !exclusive {
						mass[i] = sum
					}
				} else {
					whole = g(whole, x.I[i])
				}
				if !exclusive {
					y.put(i, real, whole)
				}
			}
		})
		c.sums(0, mass, x.Shape[axis])
		return one(y)
	}
}

// put sets element i to real or to whole, as its type requires.
func (x *Tensor) put(i int, real float64, whole int64) {
	if isFloat(x.Type) {
		x.F[i] = real
	} else {
		x.I[i] = whole
	}
}
