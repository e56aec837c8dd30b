package autodiff

// scatterRules cover operators that replace elements at positions given by an
// input. The gradient is a gather.
var scatterRules = []Rule{
	{Op: "ScatterElements", Inputs: []int{0, 2}, Grad: scatterElementsGrad},
	{Op: "ScatterND", Inputs: []int{0, 2}, Grad: scatterNDGrad},
}

// adds reports whether a scatter adds; it refuses one that multiplies or
// compares.
func (c *Backward) adds() (add, ok bool) {
	switch r := c.Str("reduction", "none"); r {
	case "none":
		return false, true
	case "add":
		return true, true
	default:
		c.Failf("reduction %q has no gradient rule: expected none or add", r)
		return false, false
	}
}

func scatterElementsGrad(c *Backward) {
	add, ok := c.adds()
	if !ok {
		return
	}
	axis := c.Axis("axis", 0, 0)
	if c.Needs(2) {
		c.Set(2, c.with("GatherElements", attrs{"axis": axis}, c.D(0), c.X(1)))
	}
	if c.Needs(0) {
		d := c.D(0)
		if !add {
			d = c.with("ScatterElements", attrs{"axis": axis}, d, c.X(1), c.zeros(d, c.shape(c.X(2))...))
		}
		c.Set(0, d)
	}
}

func scatterNDGrad(c *Backward) {
	add, ok := c.adds()
	if !ok {
		return
	}
	if c.Needs(2) {
		c.Set(2, c.op("GatherND", c.D(0), c.X(1)))
	}
	if c.Needs(0) {
		d := c.D(0)
		if !add {
			d = c.op("ScatterND", d, c.X(1), c.zeros(d, c.shape(c.X(2))...))
		}
		c.Set(0, d)
	}
}
