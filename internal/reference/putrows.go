package reference

import "github.com/onnxmem/onnxmem/graph"

// putOperators write rows into a tensor.
var putOperators = []operator{
	{graph.PutRows, func(c *evaluation) []*Tensor {
		base, part, at := c.x(0), c.x(1), c.list(2)[0]
		axis := c.axis("axis", 0, len(base.Shape))
		behind := at + part.Shape[axis]
		return one(concat(axis, base.part(axis, 0, at), part, base.part(axis, behind, base.Shape[axis]-behind)))
	}},
}
