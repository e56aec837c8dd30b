package reference

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// convGradientOperators are gradients of convolutions.
var convGradientOperators = []operator{
	{graph.ConvWeightGrad, convWeightGrad},
}

// convWeightGrad adds, for each weight, the products of the elements that it meets with the
// gradients of the results to which it contributes them.
func convWeightGrad(c *evaluation) []*Tensor {
	x, d := c.x(0), c.x(1)
	group, in, out := c.int("group", 1), x.Shape[2:], d.Shape[2:]
	kernel := c.ints("kernel_shape", nil)
	w := c.window(in, kernel)
	images, channels, m := x.Shape[0], x.Shape[1], d.Shape[1]
	part, taps := channels/group, size(kernel)
	dw := zeros(x.Type, slices.Concat([]int{m, part}, kernel))
	mass := make([]float64, len(dw.F))
	parallel(m*part, func(plane int) {
		o, ch := plane/part, plane%part
		sums := terms{dw.F[plane*taps:][:taps], mass[plane*taps:][:taps]}
		for n := range images {
			v := d.F[(n*m+o)*size(out):]
			image := x.F[(n*channels+o/(m/group)*part+ch)*size(in):]
			tap := 0
			each(kernel, func(e []int) {
				w.slide(in, out, e, func(to, from, n, step int) { sums.dot(tap, v[to:], image[from:], step, n) })
				tap++
			})
		}
	})
	c.sums(0, mass, images*size(out))
	return one(dw)
}
