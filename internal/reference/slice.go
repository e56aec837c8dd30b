package reference

// sliceOperators take a part of a tensor, possibly with steps.
var sliceOperators = []operator{
	{"Slice", sliceOf},
}

// sliceOf returns a slice; starts and ends are clamped to the axis, and steps may be
// negative.
func sliceOf(c *evaluation) []*Tensor {
	x := c.x(0)
	starts, ends := c.listOr("starts", 1, 10), c.listOr("ends", 2, 10)
	axes, steps := c.listOr("axes", 3, 10), c.list(4)
	shape := append([]int{}, x.Shape...)
	first, stride := make([]int, len(shape)), filled(1, len(shape))
	for k := range starts {
		axis, step := k, 1
		if axes != nil {
			axis = wrapAxis(axes[k], len(shape))
		}
		if steps != nil {
			step = steps[k]
		}
		n := x.Shape[axis]
		clamp := func(v, low, high int) int {
			if v < 0 {
				v += n
			}
			return min(max(v, low), high)
		}
		var start, end, count int
		if step > 0 {
			start, end = clamp(starts[k], 0, n), clamp(ends[k], 0, n)
			count = (end - start + step - 1) / step
		} else {
			start, end = clamp(starts[k], 0, n-1), clamp(ends[k], -1, n-1)
			count = (start - end - step - 1) / -step
		}
		shape[axis], first[axis], stride[axis] = max(count, 0), start, step
	}
	return one(x.moved(shape, func(at, src []int) bool {
		for k, p := range at {
			src[k] = first[k] + p*stride[k]
		}
		return true
	}))
}
