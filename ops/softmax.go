package ops

import "github.com/onnxmem/onnxmem/ops/attr"

// softmaxes lists the operators that turn the elements along an axis into
// weights.
var softmaxes = family{"", []Op{
	{Name: "Softmax", Class: Norm, Precision: Full, Exp: 4, Infer: inferSoftmax, Cut: cutSoftmax, Inplace: overFirst, FLOPs: perElement(5)},
	{Name: "LogSoftmax", Class: Norm, Precision: Full, Exp: 9, Infer: inferSoftmax, Cut: cutSoftmax, Inplace: overFirst, FLOPs: perElement(5)},
	{Name: "Hardmax", Class: Norm, Infer: inferSoftmax, Cut: cutSoftmax, Inplace: overFirst, FLOPs: perElement(1)},
}}

// inferSoftmax: the output is like the input. Before opset 13 the axis, 1 by
// default, splits the shape into two parts; later the operator works along the
// axis.
func inferSoftmax(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	otherwise, most := int64(-1), 0
	if c.before(13) {
		otherwise, most = 1, 1
	}
	return alongAxis(c, c.Int("axis", otherwise), most)
}

// alongAxis sets the type of output 0 to that of input 0 and checks the axis,
// which may be up to more past the last. A scalar counts as having one axis.
func alongAxis(c *Call, axis int64, more int) error {
	in := c.In[0]
	if in.Ranked && axis != int64(len(in.Shape)-1+more) {
		if _, err := attr.Axis("axis", axis, max(len(in.Shape), 1)); err != nil {
			return err
		}
	}
	c.SetType(0, in.Type)
	return nil
}

// cutSoftmax: any axis but its own. Before opset 13, its own are all from axis on.
func cutSoftmax(c *Call, axis int) *Cut {
	if !c.before(13) {
		return cutBut(-1)(c, axis)
	}
	along := int(c.Int("axis", 1))
	if along < 0 {
		along += len(c.In[0].Shape)
	}
	if axis >= along {
		return nil
	}
	return c.same(axis)
}
