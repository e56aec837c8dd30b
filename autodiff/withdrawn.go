package autodiff

// withdrawnRules cover operators of early versions of ONNX that are no longer part of it.
var withdrawnRules = []Rule{
	{Op: "Affine", Grad: func(c *Backward) { c.Set(0, c.times(c.D(0), c.Float("alpha", 1))) }},
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
