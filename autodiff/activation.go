package autodiff

import "math"

// activationRules are the activation functions of neural networks.
var activationRules = []Rule{
	{Op: "Relu", Grad: reluGrad},
	{Op: "LeakyRelu", Fused: true, Grad: leakyReluGrad},
	{Op: "ThresholdedRelu", Grad: func(c *Backward) {
		c.Set(0, c.where(c.op("Greater", c.X(0), c.scalar(c.X(0), c.Float("alpha", 1))), c.D(0), c.scalar(c.D(0), 0)))
	}},
	{Op: "Elu", Fused: true, Grad: func(c *Backward) {
		alpha := c.Float("alpha", 1)
		c.Set(0, c.where(c.positive(c.byTest(alpha)), c.D(0), c.mul(c.D(0), c.plus(c.Y(0), alpha))))
	}},
	{Op: "Celu", Fused: true, Grad: func(c *Backward) {
		slope := c.op("Exp", c.times(c.X(0), 1/c.Float("alpha", 1)))
		c.Set(0, c.where(c.positive(c.X(0)), c.D(0), c.mul(c.D(0), slope)))
	}},
	{Op: "Selu", Fused: true, Grad: func(c *Backward) {
		alpha, gamma := c.Float("alpha", 1.67326319217681884765625), c.Float("gamma", 1.05070102214813232421875)
		c.Set(0, c.where(c.positive(c.byTest(min(alpha, gamma))), c.times(c.D(0), gamma), c.mul(c.D(0), c.plus(c.Y(0), alpha*gamma))))
	}},
	{Op: "Gelu", Fused: true, Grad: byInput(func(c *Backward, x ID) ID { return geluSlope(c, x, c.Str("approximate", "none") == "tanh") })},
	{Op: "Mish", Fused: true, Grad: byInput(mishSlope)},
	{Op: "Swish", Fused: true, Grad: func(c *Backward) { sigmoidLinearGrad(c, 1) }},
	{Op: "Sigmoid", Fused: true, Grad: byResult(func(c *Backward, y ID) ID { return c.mul(y, c.sub(c.scalar(y, 1), y)) })},
	{Op: "HardSigmoid", Fused: true, Grad: func(c *Backward) {
		y := c.Y(0)
		within := c.op("And", c.positive(y), c.op("Less", y, c.scalar(y, 1)))
		c.Set(0, c.where(within, c.times(c.D(0), c.Float("alpha", 0.2)), c.scalar(c.D(0), 0)))
	}},
	{Op: "HardSwish", Fused: true, Grad: func(c *Backward) {
		x := c.X(0)
		slope := c.plus(c.times(x, 1.0/3), 0.5)
		above := c.where(c.op("GreaterOrEqual", x, c.scalar(x, 3)), c.D(0), c.mul(c.D(0), slope))
		c.Set(0, c.where(c.op("LessOrEqual", x, c.scalar(x, -3)), c.scalar(x, 0), above))
	}},
	{Op: "Tanh", Fused: true, Grad: byResult(func(c *Backward, y ID) ID { return c.sub(c.scalar(y, 1), c.mul(y, y)) })},
	{Op: "Softplus", Grad: byInput(func(c *Backward, x ID) ID { return c.op("Sigmoid", x) })},
	{Op: "Softsign", Fused: true, Grad: func(c *Backward) {
		s := c.plus(c.op("Abs", c.X(0)), 1)
		c.Set(0, c.div(c.D(0), c.mul(s, s)))
	}},
	{Op: "Shrink", Grad: func(c *Backward) {
		within := c.op("LessOrEqual", c.op("Abs", c.X(0)), c.scalar(c.X(0), c.Float("lambd", 0.5)))
		c.Set(0, c.where(within, c.scalar(c.D(0), 0), c.D(0)))
	}},
	{Op: "PRelu", Fused: true, Grad: preluGrad},
	{Op: "Clip", Inputs: []int{0}, Fused: true, Grad: clipGrad},
	{Op: "Dropout", Inputs: []int{0}, Suffixes: []string{1: ".mask"}, Grad: dropoutGrad},
}

// activationExpansions are activations that few runtimes know.
var activationExpansions = expansionsOf("", map[string]func(*Backward) []ID{
	"SwiGLU": func(c *Backward) []ID {
		gate := c.mul(c.X(0), c.op("Sigmoid", c.times(c.X(0), c.Float("alpha", 1))))
		return []ID{c.mul(gate, c.X(1))}
	},
})

// positive is t > 0.
func (c *Backward) positive(t ID) ID { return c.op("Greater", t, c.scalar(t, 0)) }

// byTest is a tensor whose sign says which branch was taken: the output if the
// slope below zero is positive, so that the input need not be kept as well.
func (c *Backward) byTest(slope float64) ID {
	if slope > 0 {
		return c.Y(0)
	}
	return c.X(0)
}

// leakyReluGrad is d where x > 0, else alpha·d.
func leakyReluGrad(c *Backward) {
	alpha := c.Float("alpha", 0.01)
	c.Set(0, c.where(c.positive(c.byTest(alpha)), c.D(0), c.times(c.D(0), alpha)))
}

// preluGrad: the slope broadcasts.
func preluGrad(c *Backward) {
	positive := c.positive(c.X(0))
	if c.Needs(0) {
		c.Set(0, c.where(positive, c.D(0), c.mul(c.D(0), c.X(1))))
	}
	if c.Needs(1) {
		c.Set(1, c.unbroadcast(c.where(positive, c.scalar(c.D(0), 0), c.mul(c.D(0), c.X(0))), c.X(1)))
	}
}

// sigmoidLinearGrad is the gradient of y = x·s, s = sigmoid(alpha·x): d·(s +
// alpha·y·(1-s)). Written as d·s·(1 + alpha·x·q), q = 1-s = sigmoid(-alpha·x), it
// does not read y and needs two buffers beside d instead of three: one of them
// overwrites x, which is not read after q.
func sigmoidLinearGrad(c *Backward, otherwise float64) {
	alpha := c.Float("alpha", otherwise)
	if c.saves(savingInPlace) {
		q := c.op("Sigmoid", c.times(c.X(0), -alpha))
		z := c.X(0)
		if alpha != 1 {
			z = c.times(z, alpha)
		}
		slope := c.mul(c.plus(c.mul(z, q), 1), c.sub(c.scalar(q, 1), q))
		c.Set(0, c.mul(c.D(0), slope))
		return
	}
	s := c.op("Sigmoid", c.times(c.X(0), alpha))
	rest := c.mul(c.times(c.Y(0), alpha), c.sub(c.scalar(s, 1), s))
	c.Set(0, c.mul(c.D(0), c.add(s, rest)))
}

// mishSlope is t + x·sigmoid(x)·(1-t²), t = tanh(softplus(x)).
func mishSlope(c *Backward, x ID) ID {
	t := c.op("Tanh", c.op("Softplus", x))
	rest := c.mul(c.mul(x, c.op("Sigmoid", x)), c.sub(c.scalar(t, 1), c.mul(t, t)))
	return c.add(t, rest)
}

// geluSlope is the derivative of x·Φ(x), or of its approximation by tanh.
func geluSlope(c *Backward, x ID, tanh bool) ID {
	if !tanh {
		cdf := c.times(c.plus(c.op("Erf", c.times(x, 1/math.Sqrt2)), 1), 0.5)
		pdf := c.times(c.op("Exp", c.times(c.mul(x, x), -0.5)), 1/math.Sqrt(2*math.Pi))
		return c.add(cdf, c.mul(x, pdf))
	}
	k := math.Sqrt(2 / math.Pi)
	// Beyond 10, t is ±1 and 1-t² is 0: the limit keeps its other factor finite.
	square := c.op("Min", c.mul(x, x), c.scalar(x, 100))
	t := c.op("Tanh", c.mul(c.times(x, k), c.plus(c.times(square, 0.044715), 1)))
	inner := c.times(c.plus(c.times(square, 3*0.044715), 1), k)
	rest := c.mul(c.mul(x, c.sub(c.scalar(t, 1), c.mul(t, t))), inner)
	return c.times(c.add(c.plus(t, 1), rest), 0.5)
}

// reluGrad passes the gradient where the result is not 0. A bool takes a quarter
// of the bytes that a float factor would take while both are live.
func reluGrad(c *Backward) {
	if c.saves(savingMask) {
		c.Set(0, c.throughRelu(c.Y(0)))
		return
	}
	c.Set(0, c.mul(c.D(0), c.op("Sign", c.Y(0))))
}

// throughRelu is d where the result y of a Relu is not 0.
func (c *Backward) throughRelu(y ID) ID {
	return c.where(c.positive(y), c.D(0), c.scalar(c.D(0), 0))
}

// clipGrad passes the gradient of elements between the bounds, both excluded, as PyTorch
// does. The result says which these are, and it is often kept anyway.
func clipGrad(c *Backward) {
	d, low, high := c.D(0), c.X(1), c.X(2)
	zero := c.scalar(d, 0)
	var within []ID
	if c.isZero(low) {
		within = append(within, c.positive(c.Y(0)))
	} else if c.present(low) {
		within = append(within, c.op("Greater", c.Y(0), low))
	}
	if c.present(high) {
		within = append(within, c.op("Less", c.Y(0), high))
	}
	if len(within) == 2 && c.saves(savingMask) {
		within = []ID{c.op("And", within...)}
	}
	for _, w := range within {
		d = c.where(w, d, zero)
	}
	c.Set(0, d)
}

// dropoutGrad needs the mask; in inference mode Dropout is the identity.
func dropoutGrad(c *Backward) {
	training, known := c.ints(c.X(2))
	switch {
	case !c.present(c.X(2)) || known && training[0] == 0:
		c.Set(0, c.D(0))
		return
	case !known:
		c.Failf("input 2 (training_mode) depends on data: expected a constant")
		return
	}
	ratio := 0.5
	if c.present(c.X(1)) {
		v, ok := c.values[c.X(1)].Floats()
		if !ok {
			c.Failf("input 1 (ratio) depends on data: expected a constant")
			return
		}
		ratio = v[0]
	}
	if ratio >= 1 {
		c.Set(0, c.times(c.D(0), 0))
		return
	}
	mask := c.Y(1)
	if seed := c.Node.Attr("seed"); seed != nil && c.saves(savingDropout) {
		mask = c.repeatedDropout(seed.Int)
	}
	c.Set(0, c.where(mask, c.times(c.D(0), 1/(1-ratio)), c.scalar(c.D(0), 0)))
}

// repeatedDropout recomputes the mask of a Dropout with a seed by a second Dropout
// with that seed, applied to the gradient, which has the shape of the input. ONNX
// Runtime's optimizer removes a Dropout whose mask nobody reads, even in training
// mode: so the ratio of the second is made to depend on one element of the
// first's output.
func (c *Backward) repeatedDropout(seed int64) ID {
	one := c.op("Gather", c.reshape(c.Y(1), []int64{elements(c.shape(c.D(0)))}), c.index(0))
	r := c.X(1)
	if !c.present(r) {
		r = c.number(0.5)
	}
	return c.emit("Dropout", attrs{"seed": seed}, 2, c.D(0), c.where(one, r, r), c.X(2))[1]
}
