package autodiff

// castRules cover operators that change the element type, or nothing.
var castRules = []Rule{
	{Op: "Identity", Forwards: true, Grad: func(c *Backward) { c.Set(0, c.D(0)) }},
	{Op: "Cast", Forwards: true, Grad: func(c *Backward) { c.Set(0, c.castLike(c.D(0), c.X(0))) }},
	{Op: "CastLike", Inputs: []int{0}, Grad: func(c *Backward) { c.Set(0, c.castLike(c.D(0), c.X(0))) }},
}
