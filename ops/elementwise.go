package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// elementwise is the operators whose output element depends on the elements of
// the inputs at the same place, under numpy's broadcasting.
var elementwise = family{"", []Op{
	{Name: "Add", Infer: broadcastBinary, Fold: foldInts(arith(addChecked, func(a, b float64) float64 { return a + b })), Inplace: overAny, FLOPs: onePerElement},
	{Name: "Relu", Infer: sameAsFirst, Inplace: overAny, FLOPs: onePerElement},
}}

// sameAsFirst: output 0 has the type of input 0.
func sameAsFirst(c *Call) error {
	if err := c.Need(1); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	return nil
}

// broadcastBinary: two inputs of one element type, broadcast.
func broadcastBinary(c *Call) error {
	if err := c.Need(2); err != nil {
		return err
	}
	return broadcastTo(c, c.In[0].Elem, 0, 1)
}

// broadcastTo sets output 0 to elem and the broadcast shape of the inputs.
func broadcastTo(c *Call, elem graph.DType, inputs ...int) error {
	shape, ranked, err := c.BroadcastArgs(inputs...)
	if err != nil {
		return err
	}
	if !ranked {
		c.SetUnranked(0, elem)
		return nil
	}
	c.Set(0, elem, shape)
	return nil
}

// overAny: output 0 may be written over any input of its own shape and element
// size. A bounded shape is equal at run time only when there is no second
// input that could broadcast.
func overAny(c *Call) []graph.Alias {
	var pairs []graph.Alias
	for i := range c.In {
		if c.fits(0, i) && (c.Out[0].Exact() || len(c.In) == 1) {
			pairs = append(pairs, graph.Alias{Out: 0, In: i})
		}
	}
	return pairs
}

// fits reports whether output o and input i have equal shapes and element sizes.
func (c *Call) fits(o, i int) bool {
	if o >= len(c.Out) || !c.Out[o].Present || !c.Has(i) {
		return false
	}
	a, b := c.Out[o].Type, c.In[i].Type
	if a.Kind != graph.KindTensor || b.Kind != graph.KindTensor || !a.Ranked || !b.Ranked ||
		a.Elem.Bits() != b.Elem.Bits() || a.Elem.Bits() == 0 || len(a.Shape) != len(b.Shape) {
		return false
	}
	for k, d := range a.Shape {
		if d != b.Shape[k] || d == graph.Unknown {
			return false
		}
	}
	return true
}

// onePerElement is one operation for each element of output 0.
func onePerElement(c *Call) int64 {
	n, _ := c.Out[0].Elements()
	return n
}

// foldInts folds an elementwise operator over integers and reals.
func foldInts(f func(c *Call, in []Scalar) Scalar) func(c *Call) {
	return func(c *Call) { foldBroadcast(c, func(in []Scalar) Scalar { return f(c, in) }) }
}

// arith lifts a pair of functions, one for integers and one for reals, to
// elements. A sum or product of bounded elements is bounded.
func arith(onInts func(a, b int64) (int64, bool), onReals func(a, b float64) float64) func(c *Call, in []Scalar) Scalar {
	return func(c *Call, in []Scalar) Scalar {
		a, b := in[0], in[1]
		switch {
		case a.State == Hidden || b.State == Hidden:
			return Scalar{State: Hidden}
		case c.In[0].Elem.Floating():
			if !allKnown(in) {
				return Scalar{State: Hidden}
			}
			return Scalar{F: onReals(a.F, b.F)}
		}
		v, ok := onInts(a.I, b.I)
		switch {
		case !ok:
			return Scalar{State: Hidden}
		case allKnown(in):
			return Scalar{I: v}
		case a.I < 0 || b.I < 0:
			return Scalar{State: Hidden}
		}
		return Scalar{I: v, State: Bounded}
	}
}
