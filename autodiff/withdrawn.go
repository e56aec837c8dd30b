package autodiff

// withdrawnRules cover operators of early versions of ONNX that are no longer part of it.
var withdrawnRules = []Rule{
	{Op: "Affine", Grad: func(c *Backward) { c.Set(0, c.times(c.D(0), c.Float("alpha", 1))) }},
	{Op: "Scale", Grad: func(c *Backward) { c.Set(0, c.times(c.D(0), c.Float("scale", 1))) }},
	{Op: "ScaledTanh", Fused: true, Grad: byResult(scaledTanhSlope)},
	{Op: "ParametricSoftplus", Fused: true, Grad: byInput(func(c *Backward, x ID) ID {
		alpha, beta := c.Float("alpha", 1), c.Float("beta", 1)
		return c.times(c.op("Sigmoid", c.times(x, beta)), alpha*beta)
	})},
	{Op: "ImageScaler", Grad: func(c *Backward) { c.Set(0, c.times(c.D(0), c.Float("scale", 1))) }},
	{Op: "Crop", Grad: func(c *Backward) {
		x, y, border := c.shape(c.X(0)), c.shape(c.D(0)), c.List("border", filled(0, 4))
		if c.err != nil {
			return
		}
		left, top := border[0], border[1]
		c.Set(0, c.op("Pad", c.D(0), c.list(0, 0, top, left, 0, 0, x[2]-y[2]-top, x[3]-y[3]-left)))
	}},
}

// scaledTanhSlope is alpha·beta·(1 - tanh²(beta·x)) = alpha·beta - y²·beta/alpha.
func scaledTanhSlope(c *Backward, y ID) ID {
	alpha, beta := c.Float("alpha", 1), c.Float("beta", 1)
	if alpha == 0 {
		return c.times(y, 0)
	}
	return c.sub(c.scalar(y, alpha*beta), c.times(c.mul(y, y), beta/alpha))
}
