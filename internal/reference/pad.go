package reference

// padOperators fill the border of a tensor, crop it, or keep a triangle of it.
var padOperators = []operator{
	{"Pad", pad},
	{"CenterCropPad", func(c *evaluation) []*Tensor {
		x, lengths := c.x(0), c.list(1)
		shape, before := append([]int{}, x.Shape...), make([]int, len(x.Shape))
		for k, n := range lengths {
			a := k
			if axes := c.ints("axes", nil); axes != nil {
				a = wrapAxis(axes[k], len(shape))
			}
			shape[a] = n
			if before[a] = (n - x.Shape[a]) / 2; n < x.Shape[a] {
				before[a] = -((x.Shape[a] - n) / 2)
			}
		}
		return one(x.moved(shape, func(at, src []int) bool {
			inside := true
			for k := range at {
				src[k] = at[k] - before[k]
				inside = inside && src[k] >= 0 && src[k] < x.Shape[k]
			}
			return inside
		}))
	}},
	{"Trilu", func(c *evaluation) []*Tensor {
		x, k := c.x(0), 0
		if c.x(1) != nil {
			k = int(c.x(1).I[0])
		}
		upper := c.int("upper", 1) != 0
		r := len(x.Shape)
		return one(x.moved(x.Shape, func(at, src []int) bool {
			copy(src, at)
			d := at[r-1] - at[r-2] - k
			return upper && d >= 0 || !upper && d <= 0
		}))
	}},
}

// pad pads the input; negative pads crop. Modes that refer to elements use those of the
// uncropped input.
func pad(c *evaluation) []*Tensor {
	x := c.x(0)
	mode := c.str("mode", "constant")
	pads := c.listOr("pads", 1, 11)
	axes := c.list(3)
	if axes == nil {
		for k := range x.Shape {
			axes = append(axes, k)
		}
	}
	before := make([]int, len(x.Shape))
	shape := append([]int{}, x.Shape...)
	first, kept := make([]int, len(x.Shape)), append([]int{}, x.Shape...) // what negative lengths leave
	for k, a := range axes {
		a = wrapAxis(a, len(shape))
		before[a] = pads[k]
		shape[a] += pads[k] + pads[len(axes)+k]
		first[a] = max(-pads[k], 0)
		kept[a] -= first[a] + max(-pads[len(axes)+k], 0)
	}
	inside := x.moved(shape, func(at, src []int) bool {
		for k, n := range kept {
			p := at[k] - before[k] - first[k]
			switch {
			case p >= 0 && p < n:
			case mode == "constant":
				return false
			case mode == "edge":
				p = min(max(p, 0), n-1)
			case mode == "wrap":
				p = (p%n + n) % n
			case mode == "reflect":
				for p < 0 || p >= n {
					if n == 1 {
						p = 0
						break
					}
					if p < 0 {
						p = -p
					} else {
						p = 2*(n-1) - p
					}
				}
			default:
				fail("mode %q", mode)
			}
			src[k] = first[k] + p
		}
		return true
	})
	value := zeros(x.Type, []int{1})
	if c.version < 11 {
		value.set(0, c.float("value", 0))
	} else if c.x(2) != nil {
		value.copy(0, c.x(2), 0)
	}
	if mode != "constant" {
		return one(inside)
	}
	i := 0
	each(shape, func(at []int) {
		for k, n := range kept {
			if p := at[k] - before[k] - first[k]; p < 0 || p >= n {
				inside.copy(i, value, 0)
				break
			}
		}
		i++
	})
	return one(inside)
}
