package ops

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// activations are the activation functions of neural networks. Those that occur
// in shape arithmetic are folded.
var activations = family{"", []Op{
	{Name: "Relu", Class: Elementwise, Activation: true, Infer: unary, Cut: cutUnary, Fold: foldUnary(reluInt, reluReal), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "LeakyRelu", Class: Elementwise, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "ThresholdedRelu", Class: Elementwise, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Elu", Class: Elementwise, Exp: 5, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Celu", Class: Elementwise, Exp: 7, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Selu", Class: Elementwise, Exp: 5, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Gelu", Class: Elementwise, Exp: 3.5, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement, Check: checkGelu},
	{Name: "Mish", Class: Elementwise, Exp: 3, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Swish", Class: Elementwise, Exp: 1.4, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Sigmoid", Class: Elementwise, Exp: 1.4, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "HardSigmoid", Class: Elementwise, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "HardSwish", Class: Elementwise, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Tanh", Class: Elementwise, Exp: 2.2, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Softplus", Class: Elementwise, Precision: Full, Exp: 7, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Softsign", Class: Elementwise, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Shrink", Class: Elementwise, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "PRelu", Class: Elementwise, Precision: Half, Infer: inferPRelu, Cut: cutBroadcast, Inplace: overFirstOrEqual, FLOPs: onePerElement, Weights: []int{1}, Kinds: []string{"activation"}, Biases: []int{1}},
	{Name: "SwiGLU", Class: Elementwise, Infer: inferSwiGLU, Inplace: overFirstOrEqual, FLOPs: onePerElement},
	{Name: "Clip", Class: Elementwise, Activation: true, Infer: inferClip, Cut: cutUnary, Fold: foldClip, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "Dropout", Class: Draw, Infer: inferDropout, Cut: cutDropout, Fold: foldDropout, Views: viewOfDropout, Inplace: overFirst, FLOPs: onePerElement, Optional: afterFirst, Seeded: true},
}}

func checkGelu(c *Call) error {
	_, err := c.OneOf("approximate", "none", "none", "tanh")
	return err
}

func reluInt(a int64) (int64, bool) { return max(a, 0), true }
func reluReal(a float64) float64    { return max(a, 0) }

// overFirstOrEqual is the Inplace of an operator with two inputs whose output
// always has the shape of the first.
func overFirstOrEqual(c *Call) []graph.Alias {
	pairs := overFirst(c)
	if c.sameShapeAndSize(0, 1) && c.Out[0].Exact() {
		pairs = append(pairs, graph.Alias{Out: 0, In: 1})
	}
	return pairs
}

// inferPRelu: the slope is broadcast to the input, never the other way; before
// opset 7 it has one element or one per channel.
func inferPRelu(c *Call) error {
	if err := c.takes(2, 2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	x, slope := c.In[0], c.In[1]
	c.setLike(0, 0, x.Elem)
	if !x.Ranked || !slope.Ranked {
		return nil
	}
	if c.before(7) {
		if n := countOf(slope.Shape); n.Exact() && n != 1 && len(x.Shape) > 1 && !SameDim(n, x.Shape[1]) {
			return c.BadInput(1, "one slope or %v, one for each channel of input 0 %s", x.Shape[1], graph.ShapeString(x.Shape))
		}
		return nil
	}
	shape, _, ok := Broadcast(x.Shape, slope.Shape)
	if ok && len(shape) == len(x.Shape) {
		for k, d := range shape {
			ok = ok && SameDim(d, x.Shape[k])
		}
	}
	if !ok || len(shape) != len(x.Shape) {
		return c.BadInput(1, "one that broadcasts to input 0 %s", graph.ShapeString(x.Shape))
	}
	return nil
}

// inferSwiGLU: gate and value have one shape; nothing is broadcast.
func inferSwiGLU(c *Call) error {
	if err := c.takes(2, 2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	a, b := c.In[0], c.In[1]
	c.setLike(0, 0, a.Elem)
	if !a.Ranked || !b.Ranked {
		return nil
	}
	if len(a.Shape) != len(b.Shape) {
		return c.BadInput(1, "%s as input 0", graph.ShapeString(a.Shape))
	}
	shape := make([]graph.Dim, len(a.Shape))
	for k, d := range a.Shape {
		if !SameDim(d, b.Shape[k]) {
			return c.BadInput(1, "%s as input 0", graph.ShapeString(a.Shape))
		}
		shape[k] = TakeDim(d, b.Shape[k])
	}
	c.Set(0, a.Elem, shape)
	return nil
}

// inferClip: before opset 11 the bounds are attributes.
func inferClip(c *Call) error {
	most := 3
	if c.before(11) {
		most = 1
	}
	if err := c.takes(1, most); err != nil {
		return err
	}
	if err := c.sameElem(0, 1, 2); err != nil {
		return err
	}
	for i := 1; i < len(c.In); i++ {
		if err := c.needOneElement(i, "limit"); err != nil {
			return err
		}
	}
	c.setLike(0, 0, c.In[0].Elem)
	return nil
}

// needOneElement fails if input i is there and is known not to have one element.
func (c *Call) needOneElement(i int, what string) error {
	a := c.Arg(i)
	if n := countOf(a.Shape); a.Ranked && n.Exact() && n != 1 {
		return c.BadInput(i, "one element, the %s", what)
	}
	return nil
}

// foldClip computes min(max, max(input, min)), which is monotone in input. The
// result is bounded even if nothing is known of an integer input.
func foldClip(c *Call) {
	elem := c.In[0].Elem
	lower, hasLower := clipLimit(c, 1, "min")
	upper, hasUpper := clipLimit(c, 2, "max")
	bound := hiddenScalar
	if !elem.Floating() && hasLower && hasUpper && lower.State == Known && lower.I >= 0 && upper.State != Hidden && upper.least() >= 0 {
		bound = intRange(elem, min(lower.I, upper.least()), upper.I)
	}
	shape, ok := c.outShape(0)
	v := c.In[0].Value
	if !ok || v == nil && bound.State == Hidden || v != nil && count(shape) != int64(len(v.Elems)) {
		return
	}
	out := &Value{Shape: shape, Elems: make([]Scalar, count(shape))}
	for k := range out.Elems {
		s := hiddenScalar
		if v != nil {
			s = v.Elems[k]
		}
		if s.State == Hidden {
			out.Elems[k] = bound
			continue
		}
		if hasLower {
			s = combine(elem, s, lower, maxInts, math.Max)
		}
		if hasUpper {
			s = combine(elem, s, upper, minInts, math.Min)
		}
		out.Elems[k] = s
	}
	c.SetValue(0, out)
}

// clipLimit is one limit of Clip, hidden when its value is not known.
func clipLimit(c *Call, input int, attr string) (limit Scalar, stated bool) {
	if c.before(11) {
		a := c.Node.Attr(attr)
		if a == nil {
			return Scalar{}, false
		}
		return castScalar(graph.Float32, c.In[0].Elem, Scalar{F: float64(a.Float)}), true
	}
	if !c.Has(input) {
		return Scalar{}, false
	}
	if v := c.In[input].Value; v != nil && len(v.Elems) == 1 {
		return v.Elems[0], true
	}
	return hiddenScalar, true
}

// inferDropout: the mask has the type of the data before opset 10, then bool. The
// node is in training mode if is_test is 0 before opset 7, and by the input
// training_mode from opset 12 on.
func inferDropout(c *Call) error {
	most := 3
	if c.before(12) {
		most = 1
	}
	if err := c.takes(1, most); err != nil {
		return err
	}
	if err := c.needOneElement(1, "ratio"); err != nil {
		return err
	}
	if err := c.needOneElement(2, "training mode"); err != nil {
		return err
	}
	if err := c.needElem(2, graph.Bool); err != nil {
		return err
	}
	c.setLike(0, 0, c.In[0].Elem)
	mask := graph.Bool
	if c.before(10) {
		mask = c.In[0].Elem
	}
	c.setLike(1, 0, mask)
	if c.inf != nil { // not when a kernel is checked: sessions share the node
		c.Node.Semantics.Random = !dropsNothing(c)
	}
	return nil
}

// dropsNothing reports whether a Dropout is known to be in inference mode.
func dropsNothing(c *Call) bool {
	switch {
	case c.before(7):
		return c.Int("is_test", 0) != 0
	case !c.Has(2):
		return true
	}
	train, known := c.In[2].Value.Int()
	return known && train == 0
}

func foldDropout(c *Call) {
	if dropsNothing(c) {
		c.SetValue(0, c.In[0].Value)
	}
}

func viewOfDropout(c *Call) []graph.Alias {
	if dropsNothing(c) {
		return []graph.Alias{{Out: 0, In: 0}}
	}
	return nil
}

// cutDropout: in inference, it changes nothing.
func cutDropout(c *Call, axis int) *Cut {
	if !dropsNothing(c) {
		return nil
	}
	return c.same(axis)
}
