package autodiff

import "github.com/onnxmem/onnxmem/graph"

// concatRules cover operators that join tensors along an axis, or split one into
// parts.
var concatRules = []Rule{
	{Op: "Concat", TakesConstants: true, Grad: concatGrad},
	{Op: "Split", Inputs: []int{0}, Forwards: true, Grad: splitGrad},
}

// concatGrad splits the gradient into parts and skips those that nothing needs.
func concatGrad(c *Backward) {
	axis := c.Axis("axis", 0, 0)
	sizes := make([]int64, len(c.Node.Inputs))
	all := true
	for i := range sizes {
		shape := c.shape(c.X(i))
		if c.err != nil {
			return
		}
		sizes[i] = shape[axis]
		all = all && c.Needs(i)
	}
	if all && len(sizes) > 1 {
		for i, part := range c.emit("Split", attrs{"axis": axis}, len(sizes), c.D(0), c.list(sizes...)) {
			c.Set(i, part)
		}
		return
	}
	at := int64(0)
	for i, n := range sizes {
		if c.Needs(i) {
			c.Set(i, c.slice(c.D(0), []int64{int64(axis)}, []int64{at}, []int64{at + n}))
		}
		at += n
	}
}

// splitGrad joins the gradients of the parts; a part on which nothing depends
// contributes zeros.
func splitGrad(c *Backward) {
	axis := c.Axis("axis", 0, 0)
	var parts []ID
	for k, y := range c.Node.Outputs {
		d := c.D(k)
		if d == graph.None && y != graph.None {
			d = c.zeros(c.X(0), c.shape(y)...)
		} else if y == graph.None {
			c.Failf("output %d is left out: expected all parts", k)
			return
		}
		parts = append(parts, d)
	}
	c.Set(0, c.with("Concat", attrs{"axis": axis}, parts...))
}
