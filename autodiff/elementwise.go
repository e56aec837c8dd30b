package autodiff

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// elementwiseRules cover arithmetic. With broadcasting, a gradient is summed over
// the axes along which its input was repeated. A rule keeps alive only those
// tensors of the forward graph that its formula reads.
var elementwiseRules = []Rule{
	{Op: "Exp", Grad: byResult(func(_ *Backward, y ID) ID { return y })},
	{Op: "Tan", Grad: byResult(func(c *Backward, y ID) ID { return c.plus(c.mul(y, y), 1) })},
	{Op: "Reciprocal", Grad: byResult(func(c *Backward, y ID) ID { return c.op("Neg", c.mul(y, y)) })},
	{Op: "Abs", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Sign", x) })},
	{Op: "Sin", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Cos", x) })},
	{Op: "Cos", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Neg", c.op("Sin", x)) })},
	{Op: "Sinh", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Cosh", x) })},
	{Op: "Cosh", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Sinh", x) })},
	{Op: "Asin", Grad: byInput(func(c *Backward, x ID) ID {
		return c.op("Reciprocal", c.op("Sqrt", c.sub(c.scalar(x, 1), c.mul(x, x))))
	})},
	{Op: "Acos", Grad: byInput(func(c *Backward, x ID) ID {
		return c.op("Neg", c.op("Reciprocal", c.op("Sqrt", c.sub(c.scalar(x, 1), c.mul(x, x)))))
	})},
	{Op: "Atan", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.plus(c.mul(x, x), 1)) })},
	{Op: "Asinh", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.op("Sqrt", c.plus(c.mul(x, x), 1))) })},
	{Op: "Acosh", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.op("Sqrt", c.plus(c.mul(x, x), -1))) })},
	{Op: "Atanh", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Reciprocal", c.sub(c.scalar(x, 1), c.mul(x, x))) })},
	{Op: "Erf", Fused: true, Grad: byInput(func(c *Backward, x ID) ID {
		return c.times(c.op("Exp", c.op("Neg", c.mul(x, x))), 2/math.Sqrt(math.Pi))
	})},
	{Op: "Log", Grad: func(c *Backward) { c.Set(0, c.div(c.D(0), c.X(0))) }},
	{Op: "Sqrt", Grad: func(c *Backward) { c.Set(0, c.div(c.times(c.D(0), 0.5), c.Y(0))) }},
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
	return func(c *Backward) { c.Set(0, c.mul(c.D(0), slope(c, c.Y(0)))) }
}

// byInput is a gradient whose slope follows from the input.
func byInput(slope func(c *Backward, x ID) ID) func(*Backward) {
	return func(c *Backward) { c.Set(0, c.mul(c.D(0), slope(c, c.X(0)))) }
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
			c.setUnbroadcast(i, c.mul(c.D(0), c.X(1-i)))
		}
	}
}

// divGrad reads the quotient instead of the dividend, which can then be freed.
func divGrad(c *Backward) {
	q := c.div(c.D(0), c.X(1))
	c.setUnbroadcast(0, q)
	if c.Needs(1) {
		c.Set(1, c.op("Neg", c.unbroadcast(c.mul(q, c.Y(0)), c.X(1))))
	}
}

// powGrad treats constant exponents separately.
func powGrad(c *Backward) {
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
