package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
)

// reduceRules cover reductions. The reduced axes are restored in the gradient and
// the result, with length 1, and broadcast.
var reduceRules = []Rule{
	{Op: "ReduceSum", Inputs: []int{0}, Grad: reduceGrad(func(_ *Backward, r reduced) ID { return r.d })},
	{Op: "ReduceMean", Inputs: []int{0}, Grad: reduceGrad(func(c *Backward, r reduced) ID { return c.times(r.d, 1/float64(r.count)) })},
	{Op: "ReduceMax", Inputs: []int{0}, Grad: reduceGrad(reduceExtreme)},
	{Op: "ReduceMin", Inputs: []int{0}, Grad: reduceGrad(reduceExtreme)},
	{Op: "ReduceProd", Inputs: []int{0}, Grad: reduceGrad(prodGrad)},
	{Op: "ReduceL1", Inputs: []int{0}, Grad: reduceGrad(func(c *Backward, r reduced) ID { return c.mul(r.d, c.op("Sign", c.X(0))) })},
	{Op: "ReduceL2", Inputs: []int{0}, Grad: reduceGrad(normGrad)},
	{Op: "ReduceSumSquare", Inputs: []int{0}, Grad: reduceGrad(func(c *Backward, r reduced) ID { return c.mul(c.times(r.d, 2), c.X(0)) })},
	{Op: "ReduceLogSumExp", Inputs: []int{0}, Grad: reduceGrad(logSumExpGrad)},
	{Op: "ReduceLogSum", Inputs: []int{0}, Grad: reduceGrad(func(c *Backward, r reduced) ID { return c.zeroStays(r.d, c.div(r.d, c.op("Exp", r.y()))) })},
}

// reduced is a reduction: its gradient with the reduced axes restored, and the
// number of elements per result.
type reduced struct {
	d     ID
	y     func() ID // the result, likewise; calling it keeps the result alive
	axes  []int64
	count int64
}

// reduceGrad broadcasts the result of f to the shape of the input.
func reduceGrad(f func(c *Backward, r reduced) ID) func(*Backward) {
	return func(c *Backward) {
		shape := c.shape(c.X(0))
		over := axes(0, len(shape))
		if c.present(c.X(1)) {
			over = c.AxisSet(1, 0)
		}
		if len(over) == 0 && c.X(1) != graph.None && c.Int("noop_with_empty_axes", 0) == 0 {
			over = axes(0, len(shape))
		}
		if c.err != nil {
			return
		}
		kept := append([]int64(nil), shape...)
		r := reduced{axes: over, count: 1}
		for _, a := range over {
			r.count *= shape[a]
			kept[a] = 1
		}
		if c.X(1) == graph.None && c.Int("noop_with_empty_axes", 0) != 0 || len(over) == 0 {
			r.axes, r.count, kept = nil, 1, shape
		}
		r.d = c.reshape(c.D(0), kept)
		r.y = func() ID { return c.reshape(c.Y(0), kept) }
		c.Set(0, c.expand(f(c, r), shape))
	}
}

// reduceExtreme distributes the gradient equally among equal extremes.
func reduceExtreme(c *Backward, r reduced) ID {
	m := c.castLike(c.op("Equal", c.X(0), r.y()), r.d)
	return c.mul(m, c.div(r.d, c.sum(m, r.axes, true)))
}

// prodGrad is d times the product of the other elements. That is the product of all that
// are not 0, divided by the element if it is one of them; but 0 if another element is 0.
func prodGrad(c *Backward, r reduced) ID {
	x := c.X(0)
	if len(r.axes) == 0 {
		return r.d
	}
	zero := c.op("Equal", x, c.scalar(x, 0))
	one := c.castLike(zero, x)
	rest := c.where(zero, c.scalar(x, 1), x)
	product := c.mul(r.d, c.reduce("ReduceProd", rest, r.axes, true))
	alone := c.op("Equal", one, c.sum(one, r.axes, true)) // as many zeros as the element is one
	return c.where(alone, c.div(product, rest), c.scalar(x, 0))
}

// normGrad is x·d/y, but 0 for a row of zeros, as PyTorch's.
func normGrad(c *Backward, r reduced) ID {
	y := r.y()
	share := c.div(r.d, y)
	return c.mul(c.X(0), c.where(c.op("Equal", y, c.scalar(y, 0)), c.scalar(share, 0), share))
}

// logSumExpGrad is d times the softmax of x. Where all elements are -∞, the result is, too.
func logSumExpGrad(c *Backward, r reduced) ID {
	x, y := c.X(0), r.y()
	slope := c.op("Exp", c.sub(x, y))
	t := c.mul(r.d, slope)
	if c.err != nil {
		return graph.None
	}
	return c.zeroStays(c.expand(r.d, c.shape(t)), t)
}
