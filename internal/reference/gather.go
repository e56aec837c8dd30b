package reference

import "slices"

// gatherOperators read elements at positions that an input gives.
var gatherOperators = []operator{
	{"Gather", func(c *evaluation) []*Tensor {
		x, index := c.x(0), c.x(1)
		axis := c.axis("axis", 0, len(x.Shape))
		k := len(index.Shape)
		shape := slices.Concat(x.Shape[:axis], index.Shape, x.Shape[axis+1:])
		return one(x.moved(shape, func(at, src []int) bool {
			copy(src[:axis], at[:axis])
			src[axis] = index.place(at[axis:axis+k], x.Shape[axis])
			copy(src[axis+1:], at[axis+k:])
			return true
		}))
	}},
	{"GatherElements", func(c *evaluation) []*Tensor {
		x, index := c.x(0), c.x(1)
		axis := c.axis("axis", 0, len(x.Shape))
		return one(x.moved(index.Shape, func(at, src []int) bool {
			copy(src, at)
			src[axis] = index.place(at, x.Shape[axis])
			return true
		}))
	}},
	{"GatherND", func(c *evaluation) []*Tensor {
		x, index := c.x(0), c.x(1)
		batch, last := c.int("batch_dims", 0), len(index.Shape)-1
		n := index.Shape[last]
		shape := slices.Concat(index.Shape[:last], x.Shape[batch+n:])
		return one(x.moved(shape, func(at, src []int) bool {
			copy(src[:batch], at[:batch])
			where := append(append([]int{}, at[:last]...), 0)
			for k := range n {
				where[last] = k
				src[batch+k] = index.place(where, x.Shape[batch+k])
			}
			copy(src[batch+n:], at[last:])
			return true
		}))
	}},
	{"ReverseSequence", func(c *evaluation) []*Tensor {
		x, lengths := c.x(0), c.list(1)
		batch, time := c.int("batch_axis", 1), c.int("time_axis", 0)
		return one(x.moved(x.Shape, func(at, src []int) bool {
			copy(src, at)
			if n := lengths[at[batch]]; at[time] < n {
				src[time] = n - 1 - at[time]
			}
			return true
		}))
	}},
}

// place returns the index at a position of the indices; a negative one counts from the
// end.
func (x *Tensor) place(at []int, n int) int {
	i := int(x.I[index(x.Shape, at)])
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		fail("index %d of %d", i, n)
	}
	return i
}
