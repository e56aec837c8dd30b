package autodiff

import (
	"gorgonia.org/gorgonia"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// castRules cover operators that change the element type, or nothing.
var castRules = []Rule{
	{Op: "Identity", Forwards: true, Grad: func(c *Backward) { c.Set(0, c.D(0)) }},
	{Op: "Cast", Forwards: true, Grad: castGrad},
	{Op: "CastLike", Inputs: []int{0}, Grad: func(c *Backward) { c.Set(0, c.castLike(c.D(0), c.X(0))) }},
}

// castGrad converts the gradient back, or computes it in the wider type at once.
func castGrad(c *Backward) {
	if d := c.wideProduct(); d != graph.None {
		c.Set(0, d)
		return
	}
	c.Set(0, c.castLike(c.D(0), c.X(0)))
}

// shortBatch is the largest number of rows of a batch for which the gradient of a matrix is computed in
// float32. Up to about so many, a product takes the time in which its result is written.
const shortBatch = 64

// wideProduct computes a gradient that a product of 16-bit operands made, or a convolution, in float32
// from these operands widened, if they have few rows and less elements than the gradient. Otherwise the
// gradient would be there twice while it is widened: in 16 bits and in 32, half as much again
// as a step in float32 needs for the largest matrix of a network. It is rounded once less. Gradients that
// wait for each other stay in 16 bits, in which all of them take half as much. One of
// float16 stays: it overflows where PyTorch's does, and the same steps are skipped.
func (c *Backward) wideProduct() ID {
	n, from := c.makers[c.D(0)], c.typeOf(c.X(0)).Elem
	if n == nil || !c.saves(savingCast) || c.waiting || from != graph.Float32 {
		return graph.None
	}
	rows := c.summedRows(n)
	if rows == 0 || rows > shortBatch {
		return graph.None
	}
	a, b := n.Inputs[0], n.Inputs[1]
	if c.typeOf(a).Elem != graph.BFloat16 || elements(c.shape(a))+elements(c.shape(b)) > elements(c.shape(c.D(0))) {
		return graph.None
	}
	return c.emitIn(n.Domain, n.Op, attrsOf(n), 1, c.castTo(a, from), c.castTo(b, from))[0]
}

// summedRows is the number of rows over which a node sums that makes the gradient of a matrix, or of
// the weights of a convolution, from two operands; 0 for other nodes.
func (c *Backward) summedRows(n *graph.Node) int64 {
	convolution := n.Domain == fusedDomain && n.Op == graph.ConvWeightGrad
	if len(n.Inputs) != 2 || !convolution && (n.Domain != "" || n.Op != "Gemm") {
		return 0
	}
	a, b := c.shape(n.Inputs[0]), c.shape(n.Inputs[1])
	switch t := n.Attr("transA"); {
	case c.err != nil:
		return 0
	case convolution: // the places of the result, in all images
		return elements(b) / b[1]
	case t != nil && t.Int != 0:
		return a[0]
	}
	return a[1]
}

// attrsOf lists the attributes of a node.
func attrsOf(n *graph.Node) attrs {
	at := attrs{}
	for _, x := range n.Attrs {
		switch x.Type {
		case graph.AttrFloat:
			at[x.Name] = float64(x.Float)
		case graph.AttrInts:
			at[x.Name] = x.Ints
		case graph.AttrTensor:
			at[x.Name] = x.Tensor
		case graph.AttrString:
			at[x.Name] = x.String
		default:
			at[x.Name] = x.Int
		}
	}
	return at
}

// widenedAgain is a copy of a tensor that a Cast made of one of 16 bits, by a Cast of the
// backward pass, or the tensor if none did. The copy has the same bits. It lives while one
// node's gradient is computed, and what is kept for it has half of its bytes; a kernel of PyTorch
// keeps the same, since it widens within.
func (c *Backward) widenedAgain(t ID) ID {
	n := c.forwardMakers[t]
	if n == nil || !c.saves(savingCast) || !ops.Casts(n) {
		return t
	}
	from, to := c.typeOf(n.Inputs[0]).Elem, c.typeOf(t).Elem
	if !is16Bits(from) || is16Bits(to) || !to.Floating() {
		return t
	}
	wide, made := c.wide[t]
	if !made {
		if c.wide == nil {
			c.wide = map[ID]ID{}
		}
		wide = c.castTo(n.Inputs[0], to)
		c.wide[t] = wide
	}
	return wide
}

// is16Bits reports whether a type is a floating-point type of 16 bits.
func is16Bits(d graph.DType) bool { return d == graph.Float16 || d == graph.BFloat16 }

// widenTerms widens the terms of the gradient of a copy that a Cast made in 16 bits for several
// nodes, so that they are added in float32: under autocast each node narrows an activation for
// itself, and gradients meet in its own type. A parameter is narrowed once.
func (t *tape) widenTerms(made *gorgonia.Node, values []ID) {
	o, ok := made.Op().(*operator)
	if !ok || o.kind != whole || !ops.Casts(o.node) || t.forwardMakers[o.node.Inputs[0]] == nil {
		return
	}
	from := t.typeOf(o.node.Inputs[0]).Elem
	if from != graph.Float32 || !is16Bits(t.typeOf(o.node.Outputs[0]).Elem) {
		return
	}
	for i := range values {
		values[i] = t.castTo(values[i], from)
	}
}
