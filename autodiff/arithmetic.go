package autodiff

import "github.com/onnxmem/onnxmem/graph"

// Arithmetic with broadcasting: a gradient is summed over the axes along which
// its input was repeated.
var arithmeticRules = []Rule{
	{Op: "Add", Grad: func(c *Call) { c.setUnbroadcast(0, c.D(0)); c.setUnbroadcast(1, c.D(0)) }},
	{Op: "Sub", Grad: subGrad},
	{Op: "Mul", Grad: mulGrad},
	{Op: "Div", Grad: divGrad},
	{Op: "Pow", Grad: powGrad},
	{Op: "Max", Grad: extremeGrad},
	{Op: "Min", Grad: extremeGrad},
	{Op: "Sum", Grad: func(c *Call) {
		for i := range c.Node.Inputs {
			c.setUnbroadcast(i, c.D(0))
		}
	}},
	{Op: "Mean", Grad: func(c *Call) {
		d := c.times(c.D(0), 1/float64(len(c.Node.Inputs)))
		for i := range c.Node.Inputs {
			c.setUnbroadcast(i, d)
		}
	}},
	{Op: "Where", Inputs: []int{1, 2}, Grad: whereGrad},
	{Op: "Mod", Inputs: []int{0}, Grad: func(c *Call) { c.setUnbroadcast(0, c.D(0)) }},
}

// given reports whether an optional input is there.
func (c *Call) given(t ID) bool { return t != graph.None }

// setUnbroadcast sets the gradient of input i to d, summed to its shape.
func (c *Call) setUnbroadcast(i int, d ID) {
	if c.Needs(i) {
		c.Set(i, c.unbroadcast(d, c.X(i)))
	}
}

func subGrad(c *Call) {
	c.setUnbroadcast(0, c.D(0))
	if c.Needs(1) { // sum first: there may be less to negate
		c.Set(1, c.op("Neg", c.unbroadcast(c.D(0), c.X(1))))
	}
}

func mulGrad(c *Call) {
	for i := range 2 {
		if c.Needs(i) {
			c.setUnbroadcast(i, c.mul(c.D(0), c.X(1-i)))
		}
	}
}

// divGrad reads the quotient instead of the dividend, which may die.
func divGrad(c *Call) {
	q := c.div(c.D(0), c.X(1))
	c.setUnbroadcast(0, q)
	if c.Needs(1) {
		c.Set(1, c.op("Neg", c.unbroadcast(c.mul(q, c.Y(0)), c.X(1))))
	}
}

// powGrad knows constant exponents.
func powGrad(c *Call) {
	a, b := c.X(0), c.X(1)
	if c.Needs(0) {
		exponent, known := c.values[b].Floats()
		if list, ok := c.ints(b); ok && !c.typeOf(b).Elem.Floating() {
			exponent, known = nil, true
			for _, v := range list {
				exponent = append(exponent, float64(v))
			}
		}
		switch {
		case known && len(exponent) == 1 && exponent[0] == 2:
			c.setUnbroadcast(0, c.mul(c.times(c.D(0), 2), a))
		case known && len(exponent) == 1 && exponent[0] == 3:
			c.setUnbroadcast(0, c.mul(c.times(c.D(0), 3), c.mul(a, a)))
		case known && len(exponent) == 1:
			c.setUnbroadcast(0, c.mul(c.times(c.D(0), exponent[0]), c.op("Pow", a, c.scalar(a, exponent[0]-1))))
		default:
			e := c.castLike(b, a)
			less := c.sub(e, c.scalar(e, 1))
			c.setUnbroadcast(0, c.mul(c.mul(c.D(0), e), c.op("Pow", a, less)))
		}
	}
	if c.Needs(1) {
		c.setUnbroadcast(1, c.castLike(c.mul(c.mul(c.D(0), c.Y(0)), c.op("Log", a)), b))
	}
}

// extremeGrad shares the gradient out equally among equal extremes.
func extremeGrad(c *Call) {
	if len(c.Node.Inputs) == 1 {
		c.Set(0, c.D(0))
		return
	}
	var masks []ID
	count := ID(graph.None)
	for _, x := range c.Node.Inputs {
		m := c.castLike(c.op("Equal", x, c.Y(0)), c.D(0))
		masks = append(masks, m)
		if count == graph.None {
			count = m
		} else {
			count = c.add(count, m)
		}
	}
	share := c.div(c.D(0), count)
	for i, m := range masks {
		if c.Needs(i) {
			c.setUnbroadcast(i, c.mul(share, m))
		}
	}
}

func whereGrad(c *Call) {
	zero := c.scalar(c.D(0), 0)
	if c.Needs(1) {
		c.setUnbroadcast(1, c.where(c.X(0), c.D(0), zero))
	}
	if c.Needs(2) {
		c.setUnbroadcast(2, c.where(c.X(0), zero, c.D(0)))
	}
}
