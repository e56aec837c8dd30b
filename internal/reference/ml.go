package reference

import "slices"

// mlOperators are those of ai.onnx.ml.
var mlOperators = []operator{
	{"ArrayFeatureExtractor", func(c *evaluation) []*Tensor {
		x, list := c.x(0), c.x(1)
		if len(x.Shape) == 1 {
			x = x.shaped(1, x.Shape[0])
		}
		last := len(x.Shape) - 1
		shape := slices.Clone(x.Shape)
		shape[last] = len(list.I)
		from := make([]int, 0, size(shape))
		each(shape, func(at []int) {
			p := slices.Clone(at)
			p[last] = int(list.I[at[last]])
			from = append(from, index(x.Shape, p))
		})
		return one(x.pick(shape, from))
	}},
}
