package autodiff

// cumulateRules cover running sums and products along an axis.
var cumulateRules = []Rule{
	{Op: "CumSum", Inputs: []int{0}, Grad: func(c *Backward) {
		a := attrs{"exclusive": c.Int("exclusive", 0), "reverse": 1 - c.Int("reverse", 0)}
		c.Set(0, c.with("CumSum", a, c.D(0), c.X(1)))
	}},
}
