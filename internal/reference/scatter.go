package reference

import "math"

var scatterOperators = []operator{
	{"ScatterElements", scatterElements},
	{"Scatter", func(c *call) []*Tensor {
		if c.version >= 16 {
			fail("replaced by ScatterElements")
		}
		return scatterElements(c)
	}},
	{"ScatterND", func(c *call) []*Tensor {
		x, index, updates := c.x(0), c.x(1), c.x(2)
		y := x.clone()
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
			y.combine(c.str("reduction", "none"), indexOf(x, target), updates, i)
			i++
		})
		return one(y)
	}},
}

func indexOf(x *Tensor, at []int) int { return index(x.Shape, at) }

func scatterElements(c *call) []*Tensor {
	x, index, updates := c.x(0), c.x(1), c.x(2)
	axis := c.axis("axis", 0, len(x.Shape))
	y := x.clone()
	i := 0
	each(index.Shape, func(at []int) {
		target := append([]int{}, at...)
		target[axis] = index.place(at, x.Shape[axis])
		y.combine(c.str("reduction", "none"), indexOf(x, target), updates, i)
		i++
	})
	return one(y)
}

// combine brings element i of u into element j.
func (y *Tensor) combine(reduction string, j int, u *Tensor, i int) {
	switch reduction {
	case "none":
		y.copy(j, u, i)
	case "add":
		if isFloat(y.Type) {
			y.F[j] += u.F[i]
		} else {
			y.I[j] += u.I[i]
		}
	case "mul":
		y.set(j, y.real(j)*u.real(i))
	case "max":
		y.set(j, math.Max(y.real(j), u.real(i)))
	case "min":
		y.set(j, math.Min(y.real(j), u.real(i)))
	default:
		fail("reduction %q", reduction)
	}
}
