package autodiff

// selectRules cover operators that select elements, or find their positions, by
// value.
var selectRules = []Rule{
	{Op: "TopK", Inputs: []int{0}, Grad: func(c *Backward) {
		a := attrs{"axis": c.Axis("axis", -1, 0)}
		c.Set(0, c.with("ScatterElements", a, c.zeros(c.X(0), c.shape(c.X(0))...), c.Y(1), c.D(0)))
	}},
	{Op: "Compress", Inputs: []int{0}, Grad: compressGrad},
	{Op: "OneHot", Inputs: none},
	{Op: "ArgMax", Inputs: none},
	{Op: "ArgMin", Inputs: none},
	{Op: "NonZero", Inputs: none},
}

// compressGrad: a Compress by a constant condition is a Gather. With any other
// condition, the shape of the result is not fixed, which the emitter refuses.
func compressGrad(c *Backward) {
	shape, condition := c.shape(c.X(0)), c.Lengths(1)
	if c.err != nil {
		return
	}
	axis, flat := 0, c.Node.Attr("axis") == nil
	along := shape
	if flat {
		along = []int64{elements(shape)}
	} else {
		axis = c.Axis("axis", 0, 0)
	}
	var places []int64
	for i, chosen := range condition {
		if chosen != 0 && int64(i) < along[axis] {
			places = append(places, int64(i))
		}
	}
	c.Set(0, c.reshape(c.gathered(c.D(0), axis, c.list(places...), along), shape))
}
