package autodiff

// expandRules cover operators that repeat elements along axes. The gradient is
// the sum over the copies.
var expandRules = []Rule{
	{Op: "Expand", Inputs: []int{0}, Forwards: true, Grad: func(c *Backward) { c.setUnbroadcast(0, c.D(0)) }},
	{Op: "Tile", Inputs: []int{0}, Grad: tileGrad},
}

// tileGrad sums over the copies.
func tileGrad(c *Backward) {
	shape := c.shape(c.X(0))
	repeats := c.Lengths(1)
	if c.err != nil {
		return
	}
	var split, over []int64
	for i, n := range shape {
		if repeats[i] != 1 {
			over = append(over, int64(len(split)))
			split = append(split, repeats[i])
		}
		split = append(split, n)
	}
	c.Set(0, c.sum(c.reshape(c.D(0), split), over, false))
}
