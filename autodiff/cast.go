package autodiff

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// castRules cover operators that change the element type, or nothing.
var castRules = []Rule{
	{Op: "Identity", Forwards: true, Grad: func(c *Backward) { c.Set(0, c.D(0)) }},
	{Op: "Cast", Forwards: true, Grad: func(c *Backward) { c.Set(0, c.castLike(c.D(0), c.X(0))) }},
	{Op: "CastLike", Inputs: []int{0}, Grad: func(c *Backward) { c.Set(0, c.castLike(c.D(0), c.X(0))) }},
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
