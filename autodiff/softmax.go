package autodiff

// softmaxRules cover operators that turn the elements along an axis into weights.
var softmaxRules = []Rule{
	{Op: "Softmax", Fused: true, Grad: func(c *Backward) {
		t := c.mul(c.D(0), c.Y(0))
		over := []int64{int64(c.Axis("axis", -1, 0))}
		c.Set(0, c.sub(t, c.mul(c.Y(0), c.sum(t, over, true))))
	}},
	{Op: "LogSoftmax", Fused: true, Grad: func(c *Backward) {
		over := []int64{int64(c.Axis("axis", -1, 0))}
		c.Set(0, c.sub(c.D(0), c.mul(c.op("Exp", c.Y(0)), c.sum(c.D(0), over, true))))
	}},
	{Op: "Hardmax", Inputs: none},
}
