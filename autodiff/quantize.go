package autodiff

// quantizeRules and contribQuantizeRules cover the conversion of quantized numbers to
// reals: the gradient is that of the scale.
var (
	quantizeRules        = []Rule{{Op: "DequantizeLinear", Inputs: []int{1}, Grad: dequantizeGrad}}
	contribQuantizeRules = []Rule{{Op: "DequantizeLinear", Inputs: []int{1}, Grad: dequantizeGrad}}
)

// dequantizeGrad: the result is (x - zero point) · scale, so the gradient of a scale is the
// sum of d · x over the elements that it scales, less the zero point times the sum of d.
func dequantizeGrad(c *Backward) {
	x, scale, d := c.shape(c.X(0)), c.shape(c.X(1)), c.D(0)
	if c.err != nil {
		return
	}
	block := c.Int("block_size", 0)
	axis := 0
	if len(scale) > 0 && len(x) > 0 {
		axis = c.Axis("axis", 1, 0)
	}
	if c.err != nil {
		return
	}
	total := func(t ID) ID {
		switch {
		case block > 0 && len(scale) == len(x):
			blocks := scale[axis]
			if blocks < 1 || block > x[axis] || exceeds(x[axis]-1, blocks-1, block) {
				c.Failf("%d scales of blocks of %d: expected them to cover %d elements", blocks, block, x[axis])
				return t
			}
			t = c.resized(t, axis, blocks*block)
			t = c.reshape(t, concat(x[:axis], []int64{blocks, block}, x[axis+1:]))
			return c.sum(t, []int64{int64(axis + 1)}, false)
		case elements(scale) == 1:
			return c.reshape(c.sum(t, axes(0, len(x)), false), scale)
		}
		return c.sum(t, concat(axes(0, axis), axes(axis+1, len(x)-axis-1)), false)
	}
	sum := total(c.mul(d, c.castTo(c.X(0), c.typeOf(d).Elem)))
	if zero := c.X(2); c.present(zero) {
		sum = c.sub(sum, c.mul(total(d), c.castTo(zero, c.typeOf(d).Elem)))
	}
	c.Set(1, c.castLike(c.reshape(sum, scale), c.X(1)))
}
