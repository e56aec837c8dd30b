package autodiff

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// elementwiseRules cover arithmetic. With broadcasting, a gradient is summed over
// the axes along which its input was repeated. A rule keeps alive only those
// tensors of the forward graph that its formula reads.
var elementwiseRules = []Rule{
	{Op: "Exp", Grad: func(c *Backward) {
		t := c.mul(c.D(0), c.Y(0))
		if !c.belowMaximum(c.X(0)) {
			t = c.zeroStays(c.D(0), t)
		}
		c.Set(0, t)
	}},
	{Op: "Tan", Grad: byResult(func(c *Backward, y ID) ID { return c.plus(c.mul(y, y), 1) })},
	{Op: "Reciprocal", Grad: func(c *Backward) {
		y := c.Y(0)
		c.Set(0, c.apart(c.X(0), c.D(0), c.mul(c.D(0), c.op("Neg", c.mul(y, y)))))
	}},
	{Op: "Abs", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Sign", x) })},
	{Op: "Sin", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Cos", x) })},
	{Op: "Cos", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Neg", c.op("Sin", x)) })},
	{Op: "Sinh", Grad: steep(func(c *Backward, x ID) ID { return c.op("Cosh", x) })},
	{Op: "Cosh", Grad: steep(func(c *Backward, x ID) ID { return c.op("Sinh", x) })},
	{Op: "Asin", Grad: steep(func(c *Backward, x ID) ID {
		return c.op("Reciprocal", c.op("Sqrt", c.sub(c.scalar(x, 1), c.mul(x, x))))
	})},
	{Op: "Acos", Grad: steep(func(c *Backward, x ID) ID {
		return c.op("Neg", c.op("Reciprocal", c.op("Sqrt", c.sub(c.scalar(x, 1), c.mul(x, x)))))
	})},
	{Op: "Atan", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.plus(c.mul(x, x), 1)) })},
	{Op: "Asinh", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.op("Sqrt", c.plus(c.mul(x, x), 1))) })},
	{Op: "Acosh", Grad: steep(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.op("Sqrt", c.plus(c.mul(x, x), -1))) })},
	{Op: "Atanh", Grad: steep(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.sub(c.scalar(x, 1), c.mul(x, x))) })},
	{Op: "Erf", Fused: true, Grad: byInput(func(c *Backward, x ID) ID {
		return c.times(c.op("Exp", c.op("Neg", c.mul(x, x))), 2/math.Sqrt(math.Pi))
	})},
	{Op: "Log", Grad: func(c *Backward) { c.Set(0, c.apart(c.X(0), c.D(0), c.div(c.D(0), c.X(0)))) }},
	{Op: "Sqrt", Grad: func(c *Backward) { c.Set(0, c.rootGrad(c.div(c.times(c.D(0), 0.5), c.Y(0)))) }},
	{Op: "Neg", Grad: func(c *Backward) { c.Set(0, c.op("Neg", c.D(0))) }},

	{Op: "Add", TakesConstants: true, Grad: func(c *Backward) { c.setUnbroadcast(0, c.D(0)); c.setUnbroadcast(1, c.D(0)) }},
	{Op: "Sub", Grad: subGrad},
	{Op: "Mul", TakesConstants: true, Grad: mulGrad},
	{Op: "Div", Grad: divGrad},
	{Op: "Mod", Inputs: []int{0}, Grad: func(c *Backward) { c.setUnbroadcast(0, c.D(0)) }},
	{Op: "Pow", Grad: powGrad},
	{Op: "Sum", Grad: func(c *Backward) {
		for i := range c.Node.Inputs {
			c.setUnbroadcast(i, c.D(0))
		}
	}},
	{Op: "Mean", Grad: func(c *Backward) {
		d := c.times(c.D(0), 1/float64(len(c.Node.Inputs)))
		for i := range c.Node.Inputs {
			c.setUnbroadcast(i, d)
		}
	}},
	{Op: "Min", Grad: extremeGrad},
	{Op: "Max", Grad: extremeGrad},
	{Op: "Floor", Inputs: none},
	{Op: "Ceil", Inputs: none},
	{Op: "Round", Inputs: none},
	{Op: "Sign", Inputs: none},
}

// byResult is a gradient whose slope follows from the output alone.
func byResult(slope func(c *Backward, y ID) ID) func(*Backward) {
	return func(c *Backward) { c.Set(0, c.sloped(c.D(0), slope(c, c.Y(0)), c.X(0))) }
}

// byInput is a gradient whose slope follows from the input.
func byInput(slope func(c *Backward, x ID) ID) func(*Backward) {
	return func(c *Backward) { c.Set(0, c.sloped(c.D(0), slope(c, c.X(0)), c.X(0))) }
}

// steep is byInput with a slope that may be infinite where the input is finite.
func steep(slope func(c *Backward, x ID) ID) func(*Backward) {
	return func(c *Backward) { c.Set(0, c.zeroStays(c.D(0), c.mul(c.D(0), slope(c, c.X(0))))) }
}

// sloped is d·slope, where the slope at x may be no number if x may be.
func (c *Backward) sloped(d, slope, x ID) ID {
	t := c.mul(d, slope)
	if c.wild(x) {
		t = c.zeroStays(d, t)
	}
	return t
}

// apart is t, d times a slope that is infinite only where x is 0, or a place of another
// sign.
func (c *Backward) apart(x, d, t ID) ID {
	if c.signOf(x) == positive && !c.wild(x) {
		return t
	}
	return c.zeroStays(d, t)
}

// rootGrad is the gradient t of a root, whose slope is infinite at 0.
func (c *Backward) rootGrad(t ID) ID {
	if c.flatAtZero(c.X(0)) {
		y := c.Y(0)
		return c.where(c.op("Equal", y, c.scalar(y, 0)), c.scalar(t, 0), t)
	}
	return c.apart(c.X(0), c.D(0), t)
}

func subGrad(c *Backward) {
	c.setUnbroadcast(0, c.D(0))
	if c.Needs(1) { // sum first: the result may be smaller
		c.Set(1, c.op("Neg", c.unbroadcast(c.D(0), c.X(1))))
	}
}

func mulGrad(c *Backward) {
	for i := range 2 {
		if c.Needs(i) {
			c.setUnbroadcast(i, c.sloped(c.D(0), c.X(1-i), c.X(1-i)))
		}
	}
}

// divGrad reads the quotient instead of the dividend, which can then be freed.
func divGrad(c *Backward) {
	q := c.div(c.D(0), c.X(1))
	finite := c.isNumberAt(c.X(1), func(v float64) bool { return v != 0 })
	if !finite {
		q = c.apart(c.X(1), c.D(0), q)
	}
	c.setUnbroadcast(0, q)
	if c.Needs(1) {
		t := c.mul(q, c.Y(0))
		if !finite && (c.signOf(c.X(1)) != positive || c.wild(c.X(0)) || c.wild(c.X(1))) {
			t = c.zeroStays(q, t)
		}
		c.Set(1, c.op("Neg", c.unbroadcast(t, c.X(1))))
	}
}

// powGrad treats constant exponents separately. An exponent of 0 makes the result 1
// everywhere, also at the base 0.
func powGrad(c *Backward) {
	if c.Needs(0) {
		c.setUnbroadcast(0, c.powBaseGrad())
	}
	if c.Needs(1) {
		c.setUnbroadcast(1, c.castLike(c.powExponentGrad(), c.X(1)))
	}
}

// powBaseGrad is d·e·a^(e-1), before the sum over the axes along which a was repeated.
func (c *Backward) powBaseGrad() ID {
	a, b, d := c.X(0), c.X(1), c.D(0)
	exponents, known := c.values[b].Floats()
	if list, ok := c.ints(b); ok && !c.typeOf(b).Elem.Floating() {
		exponents, known = nil, true
		for _, v := range list {
			exponents = append(exponents, float64(v))
		}
	}
	if known && len(exponents) == 1 {
		e := exponents[0]
		if e == 0 {
			return c.zeros(d, c.shape(d)...)
		}
		scaled, power := c.times(d, e), a // times a^(e-1)
		switch e {
		case 2:
		case 3:
			power = c.mul(a, a)
		default:
			power = c.op("Pow", a, c.scalar(a, e-1))
		}
		switch t := c.mul(scaled, power); {
		case e < 0:
			return c.apart(a, d, t)
		case e < 1:
			return c.rootGrad(t)
		case c.wild(a):
			return c.zeroStays(d, t)
		default:
			return t
		}
	}
	e := c.castLike(b, a)
	t := c.mul(c.mul(d, e), c.op("Pow", a, c.sub(e, c.scalar(e, 1))))
	if !known || slices.Contains(exponents, 0) {
		t = c.where(c.op("Equal", e, c.scalar(e, 0)), c.scalar(t, 0), t)
	}
	return c.apart(a, d, t)
}

// powExponentGrad is d·y·log(a), but 0 at the base 0, where the result is 0 for all
// exponents above 0, and for bases below 0, whose exponents have no neighbours.
func (c *Backward) powExponentGrad() ID {
	a, d := c.X(0), c.D(0)
	t := c.mul(c.mul(d, c.Y(0)), c.op("Log", a))
	if c.signOf(a) == positive {
		return t
	}
	zero := c.scalar(a, 0)
	e := c.castLike(c.X(1), a)
	flat := c.op("And", c.op("Equal", a, zero), c.op("GreaterOrEqual", e, c.scalar(e, 0)))
	flat = c.op("Or", flat, c.op("Less", a, zero))
	return c.zeroStays(d, c.where(flat, c.scalar(t, 0), t))
}

// extremeGrad distributes the gradient equally among equal extremes.
func extremeGrad(c *Backward) {
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
