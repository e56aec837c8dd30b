package autodiff

// compareRules cover operators that compare, combine truth values and bits, or
// choose between two inputs.
var compareRules = []Rule{
	{Op: "Where", Inputs: []int{1, 2}, Grad: whereGrad},
}

func whereGrad(c *Backward) {
	zero := c.scalar(c.D(0), 0)
	if c.Needs(1) {
		c.setUnbroadcast(1, c.where(c.X(0), c.D(0), zero))
	}
	if c.Needs(2) {
		c.setUnbroadcast(2, c.where(c.X(0), zero, c.D(0)))
	}
}
