package reference

// expandOperators repeat elements along axes.
var expandOperators = []operator{
	{"Expand", func(c *evaluation) []*Tensor {
		return one(c.x(0).spread(broadcast(c.x(0).Shape, c.list(1))))
	}},
	{"Tile", func(c *evaluation) []*Tensor {
		x := c.x(0)
		shape := c.list(1)
		for k := range shape {
			shape[k] *= x.Shape[k]
		}
		return one(x.moved(shape, func(at, src []int) bool {
			for k := range src {
				src[k] = at[k] % x.Shape[k]
			}
			return true
		}))
	}},
}
