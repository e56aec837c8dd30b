package reference

// concatOperators join tensors along an axis, or split one into parts.
var concatOperators = []operator{
	{"Concat", func(c *evaluation) []*Tensor {
		return one(concat(c.axis("axis", 0, len(c.x(0).Shape)), c.in...))
	}},
	{"Split", split},
}

// concat joins tensors along an axis.
func concat(axis int, parts ...*Tensor) *Tensor {
	shape := append([]int{}, parts[0].Shape...)
	shape[axis] = 0
	for _, p := range parts {
		shape[axis] += p.Shape[axis]
	}
	y := zeros(parts[0].Type, shape)
	start := 0
	for _, p := range parts {
		i := 0
		each(p.Shape, func(at []int) {
			at[axis] += start
			y.copy(index(shape, at), p, i)
			at[axis] -= start
			i++
		})
		start += p.Shape[axis]
	}
	return y
}

// part returns the elements [start, start+n) along an axis.
func (x *Tensor) part(axis, start, n int) *Tensor {
	shape := append([]int{}, x.Shape...)
	shape[axis] = n
	return x.moved(shape, func(at, src []int) bool {
		copy(src, at)
		src[axis] += start
		return true
	})
}

// split splits into equal parts by default; the last one may be smaller.
func split(c *evaluation) []*Tensor {
	x := c.x(0)
	axis := c.axis("axis", 0, len(x.Shape))
	sizes := c.listOr("split", 1, 13)
	if sizes == nil {
		n := c.int("num_outputs", c.outputs)
		if c.version >= 18 != c.has("num_outputs") {
			fail("num_outputs: expected from opset 18 on where the parts are not stated")
		}
		chunk := (x.Shape[axis] + n - 1) / n
		for left := x.Shape[axis]; len(sizes) < n; left -= chunk {
			sizes = append(sizes, max(min(chunk, left), 0))
		}
	}
	var out []*Tensor
	start := 0
	for _, n := range sizes {
		out = append(out, x.part(axis, start, n))
		start += n
	}
	return out
}
