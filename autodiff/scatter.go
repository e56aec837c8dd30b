package autodiff

// scatterRules cover operators that replace elements at positions given by an
// input, or combine them with what is there. The gradient is a gather.
var scatterRules = []Rule{
	{Op: "ScatterElements", Inputs: []int{0, 2}, Grad: func(c *Backward) {
		axis := c.Axis("axis", 0, 0)
		c.scatterGrad(
			func(t ID) ID { return c.with("GatherElements", attrs{"axis": axis}, t, c.X(1)) },
			func(t, updates ID, a attrs) ID {
				a["axis"] = axis
				return c.with("ScatterElements", a, t, c.X(1), updates)
			})
	}},
	{Op: "ScatterND", Inputs: []int{0, 2}, Grad: func(c *Backward) {
		c.scatterGrad(
			func(t ID) ID { return c.op("GatherND", t, c.X(1)) },
			func(t, updates ID, a attrs) ID { return c.with("ScatterND", a, t, c.X(1), updates) })
	}},
	{Op: "TensorScatter", Inputs: []int{0, 1}, Grad: tensorScatterGrad},
}

// scatterGrad emits the gradient of a scatter. gather reads a tensor at the positions,
// scatter writes there.
func (c *Backward) scatterGrad(gather func(t ID) ID, scatter func(t, updates ID, a attrs) ID) {
	d := c.D(0)
	switch reduction := c.Str("reduction", "none"); reduction {
	case "none":
		if c.Needs(2) {
			c.Set(2, gather(d))
		}
		if c.Needs(0) {
			c.Set(0, scatter(d, c.zeros(d, c.shape(c.X(2))...), attrs{}))
		}
	case "add":
		if c.Needs(2) {
			c.Set(2, gather(d))
		}
		c.Set(0, d)
	case "mul":
		c.scatterMulGrad(gather, func(t, updates ID, reduction string) ID {
			return scatter(t, updates, attrs{"reduction": reduction})
		})
	case "max", "min":
		c.scatterMaxGrad(gather, func(t, updates ID, reduction string) ID {
			return scatter(t, updates, attrs{"reduction": reduction})
		})
	default:
		c.Failf("reduction %q has no gradient rule: expected none, add, mul, max or min", reduction)
	}
}

// scatterMulGrad: an element is multiplied by updates, so its gradient is that of the
// result times all of these; the gradient of an update is that of the result times all
// other factors. That product is the result divided by the update, unless the update is
// the only 0 among the factors.
func (c *Backward) scatterMulGrad(gather func(t ID) ID, scatter func(t, updates ID, reduction string) ID) {
	d, x, u := c.D(0), c.X(0), c.X(2)
	if c.Needs(0) {
		ones := c.expand(c.scalar(d, 1), c.shape(x))
		c.Set(0, c.mul(d, scatter(ones, u, "mul")))
	}
	if !c.Needs(2) {
		return
	}
	zero, one := c.scalar(u, 0), c.scalar(u, 1)
	isZero := c.op("Equal", u, zero)
	zeros := gather(scatter(c.zeros(u, c.shape(x)...), c.castLike(isZero, u), "add"))
	only := c.op("And", isZero, c.op("Equal", zeros, one))
	without := gather(c.mul(d, scatter(x, c.where(only, one, u), "mul")))
	divided := c.div(gather(c.mul(d, c.Y(0))), c.where(isZero, one, u))
	c.Set(2, c.where(only, without, divided))
}

// scatterMaxGrad passes the gradient to the element or the updates that are the
// result. Ties share it equally, as in PyTorch's scatter_reduce.
func (c *Backward) scatterMaxGrad(gather func(t ID) ID, scatter func(t, updates ID, reduction string) ID) {
	d, y := c.D(0), c.Y(0)
	kept := c.castLike(c.op("Equal", c.X(0), y), d)
	won := c.castLike(c.op("Equal", c.X(2), gather(y)), d)
	share := c.div(d, scatter(kept, won, "add"))
	if c.Needs(2) {
		c.Set(2, c.mul(won, gather(share)))
	}
	if c.Needs(0) {
		c.Set(0, c.mul(kept, share))
	}
}

// tensorScatterGrad: what was overwritten has no gradient; the gradient of an update
// lies where the update was written.
func tensorScatterGrad(c *Backward) {
	axis, shape, update := c.Axis("axis", -2, 0), c.shape(c.X(0)), c.shape(c.X(1))
	if c.err != nil {
		return
	}
	if c.Needs(0) {
		a := attrs{"axis": axis, "mode": c.Str("mode", "linear")}
		c.Set(0, c.with("TensorScatter", a, c.D(0), c.zeros(c.D(0), update...), c.X(2)))
	}
	if !c.Needs(1) {
		return
	}
	places := c.numbered(update[axis])
	if c.err != nil {
		return
	}
	at := c.reshape(c.list(places...), []int64{1, update[axis]})
	if c.present(c.X(2)) {
		at = c.add(c.reshape(c.X(2), []int64{shape[0], 1}), at)
		if c.Str("mode", "linear") == "circular" {
			at = c.op("Mod", at, c.index(shape[axis]))
		}
	}
	at = c.reshape(c.expand(at, []int64{shape[0], update[axis]}), []int64{shape[0], update[axis], 1})
	front := concat([]int64{0, int64(axis)}, axes(1, axis-1), axes(axis+1, len(shape)-axis-1))
	back := concat([]int64{0}, axes(2, axis-1), []int64{1}, axes(axis+1, len(shape)-axis-1))
	rows := c.with("GatherND", attrs{"batch_dims": 1}, c.transpose(c.D(0), front...), at)
	c.Set(1, c.transpose(rows, back...))
}
