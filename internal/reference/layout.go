package reference

import "slices"

// layoutOperators change the shape or the order of elements.
var layoutOperators = []operator{
	{"Reshape", reshape},
	{"Flatten", func(c *evaluation) []*Tensor {
		x := c.x(0)
		a := c.axis("axis", 1, len(x.Shape))
		return one(x.shaped(size(x.Shape[:a]), size(x.Shape[a:])))
	}},
	{"Squeeze", func(c *evaluation) []*Tensor {
		x, axes := c.x(0), c.listOr("axes", 1, 13)
		var shape []int
		for k, n := range x.Shape {
			if axes == nil && n == 1 || slices.Contains(axes, k) || slices.Contains(axes, k-len(x.Shape)) {
				continue
			}
			shape = append(shape, n)
		}
		return one(x.shaped(shape...))
	}},
	{"Unsqueeze", func(c *evaluation) []*Tensor {
		x, axes := c.x(0), c.listOr("axes", 1, 13)
		rank := len(x.Shape) + len(axes)
		var shape []int
		from := 0
		for k := range rank {
			if slices.Contains(axes, k) || slices.Contains(axes, k-rank) {
				shape = append(shape, 1)
				continue
			}
			shape = append(shape, x.Shape[from])
			from++
		}
		return one(x.shaped(shape...))
	}},
	{"Transpose", func(c *evaluation) []*Tensor {
		perm := make([]int, len(c.x(0).Shape))
		for k := range perm {
			perm[k] = len(perm) - 1 - k
		}
		perm = slices.Clone(c.ints("perm", perm))
		for k, p := range perm {
			if p < 0 { // counted from the end
				perm[k] += len(perm)
			}
		}
		return one(c.x(0).permuted(perm...))
	}},
	{"SpaceToDepth", func(c *evaluation) []*Tensor {
		x, b := c.x(0), c.int("blocksize", 1)
		n, ch, h, w := x.Shape[0], x.Shape[1], x.Shape[2]/b, x.Shape[3]/b
		perm := []int{0, 3, 5, 1, 2, 4}
		if c.str("mode", "DCR") == "CRD" {
			perm = []int{0, 1, 3, 5, 2, 4}
		}
		y := x.shaped(n, ch, h, b, w, b).permuted(perm...)
		return one(y.shaped(n, ch*b*b, h, w))
	}},
	{"DepthToSpace", func(c *evaluation) []*Tensor {
		x, b := c.x(0), c.int("blocksize", 1)
		n, ch, h, w := x.Shape[0], x.Shape[1]/(b*b), x.Shape[2], x.Shape[3]
		var y *Tensor
		if c.str("mode", "DCR") == "DCR" {
			y = x.shaped(n, b, b, ch, h, w).permuted(0, 3, 4, 1, 5, 2)
		} else {
			y = x.shaped(n, ch, b, b, h, w).permuted(0, 1, 4, 2, 5, 3)
		}
		return one(y.shaped(n, ch, h*b, w*b))
	}},
}

// reshape changes the shape: 0 keeps a length (unless allowzero is set), and -1 follows
// from the other lengths.
func reshape(c *evaluation) []*Tensor {
	x, shape := c.x(0), c.list(1)
	rest := -1
	for k, n := range shape {
		switch {
		case n == 0 && c.int("allowzero", 0) == 0:
			shape[k] = x.Shape[k]
		case n < 0:
			rest = k
		}
	}
	if rest >= 0 {
		shape[rest] = 1
		shape[rest] = size(x.Shape) / size(shape)
	}
	return one(x.shaped(shape...))
}
