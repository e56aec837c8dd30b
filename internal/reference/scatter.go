package reference

import "math"

// scatterOperators replace elements at positions that an input gives.
var scatterOperators = []operator{
	{"ScatterElements", scatterElements},
	{"Scatter", func(c *evaluation) []*Tensor {
		if c.version >= 16 {
			fail("replaced by ScatterElements")
		}
		return scatterElements(c)
	}},
	{"ScatterND", func(c *evaluation) []*Tensor {
		x, index, updates := c.x(0), c.x(1), c.x(2)
		y, mass := c.scattered()
		last := len(index.Shape) - 1
		n := index.Shape[last]
		i := 0
		each(updates.Shape, func(at []int) {
			target := make([]int, len(x.Shape))
			where := append(append([]int{}, at[:last]...), 0)
			for k := range n {
				where[last] = k
				target[k] = index.place(where, x.Shape[k])
			}
			copy(target[n:], at[last:])
			y.combine(c.str("reduction", "none"), indexOf(x, target), updates, i, mass)
			i++
		})
		return one(y)
	}},
	{"TensorScatter", tensorScatter},
}

// scattered returns a copy of input 0 and, if updates are combined with it, its mass.
func (c *evaluation) scattered() (y *Tensor, mass []float64) {
	y = c.x(0).clone()
	switch c.str("reduction", "none") {
	case "add", "mul":
		mass = magnitudes(y.F)
		c.terms(0, mass)
	default:
		c.bounded(0).exact = true
	}
	return y, mass
}

// tensorScatter overwrites positions of a cache. Each element of the batch has its own
// first position.
func tensorScatter(c *evaluation) []*Tensor {
	x, updates, first := c.x(0), c.x(1), c.x(2)
	axis := c.axis("axis", -2, len(x.Shape))
	y := x.clone()
	i := 0
	each(updates.Shape, func(at []int) {
		to := append([]int{}, at...)
		if first != nil {
			to[axis] += int(first.I[at[0]])
		}
		if n := x.Shape[axis]; c.str("mode", "linear") == "circular" {
			to[axis] = (to[axis]%n + n) % n
		} else if to[axis] < 0 || to[axis] >= n {
			fail("place %d of %d", to[axis], n)
		}
		y.copy(index(x.Shape, to), updates, i)
		i++
	})
	c.bounded(0).exact = true
	return one(y)
}

func indexOf(x *Tensor, at []int) int { return index(x.Shape, at) }

func scatterElements(c *evaluation) []*Tensor {
	x, index, updates := c.x(0), c.x(1), c.x(2)
	axis := c.axis("axis", 0, len(x.Shape))
	y, mass := c.scattered()
	i := 0
	each(index.Shape, func(at []int) {
		target := append([]int{}, at...)
		target[axis] = index.place(at, x.Shape[axis])
		y.combine(c.str("reduction", "none"), indexOf(x, target), updates, i, mass)
		i++
	})
	return one(y)
}

// combine combines element i of u with element j, and adds to its mass.
func (y *Tensor) combine(reduction string, j int, u *Tensor, i int, mass []float64) {
	switch reduction {
	case "none":
		y.copy(j, u, i)
	case "add":
		if isFloat(y.Type) {
			y.F[j] += u.F[i]
			mass[j] += math.Abs(u.F[i])
		} else {
			y.I[j] += u.I[i]
		}
	case "mul":
		if isFloat(y.Type) {
			y.F[j] *= u.F[i]
			mass[j] *= math.Abs(u.F[i])
		} else {
			y.I[j] *= u.I[i]
		}
	case "max":
		if y.order(j, u, i) == -1 {
			y.copy(j, u, i)
		}
	case "min":
		if y.order(j, u, i) == 1 {
			y.copy(j, u, i)
		}
	default:
		fail("reduction %q", reduction)
	}
}
