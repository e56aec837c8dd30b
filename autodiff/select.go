package autodiff

// selectRules cover operators that select elements, or find their positions, by
// value.
var selectRules = []Rule{
	{Op: "TopK", Inputs: []int{0}, Grad: func(c *Backward) {
		a := attrs{"axis": c.Axis("axis", -1, 0)}
		c.Set(0, c.with("ScatterElements", a, c.zeros(c.X(0), c.shape(c.X(0))...), c.Y(1), c.D(0)))
	}},
	{Op: "OneHot", Inputs: none},
	{Op: "ArgMax", Inputs: none},
	{Op: "ArgMin", Inputs: none},
	{Op: "NonZero", Inputs: none},
}
