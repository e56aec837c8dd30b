package ops

import "github.com/onnxmem/onnxmem/graph"

// withdrawn lists operators that were experimental in early versions of ONNX and are no
// longer part of it. Converters of Core ML and Keras models wrote them, and ONNX Runtime
// still runs them in models up to opset 9.
var withdrawn = family{"", []Op{
	{Name: "Affine", Class: Elementwise, Infer: unary, Inplace: overFirst, FLOPs: perElement(2)},
	{Name: "Crop", Class: Move, Infer: inferCrop, Views: viewIfSameShape},
	{Name: "Scale", Class: Elementwise, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "ScaledTanh", Class: Elementwise, Exp: 2.2, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: perElement(3), Check: checkAlphaBeta},
	{Name: "ParametricSoftplus", Class: Elementwise, Exp: 7, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: perElement(3), Check: checkAlphaBeta},
	{Name: "ImageScaler", Class: Other, Infer: inferImageScaler, Inplace: overFirst, FLOPs: perElement(2)},
}}

// checkAlphaBeta: the attributes alpha and beta have no defaults.
func checkAlphaBeta(c *Call) error {
	for _, name := range []string{"alpha", "beta"} {
		if !c.HasAttr(name) {
			return c.Errf("attribute %s is missing: expected alpha and beta", name)
		}
	}
	return nil
}

// inferImageScaler: one bias for each channel.
func inferImageScaler(c *Call) error {
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	bias := 0
	if a := c.Node.Attr("bias"); a != nil {
		bias = len(a.Floats)
	}
	if n := c.DimOf(0, 1); n.Exact() && n != graph.Dim(bias) {
		return c.Errf("bias has %d numbers, expected one for each of %v channels", bias, n)
	}
	return unary(c)
}

// inferCrop: border is what is cut off at the left, top, right and bottom of an image. With
// scale, the result has that height and width.
func inferCrop(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	in, border, scale := c.In[0], c.Ints("border"), c.Ints("scale")
	if len(border) != 4 {
		return c.Errf("border has %d elements, expected 4: left, top, right, bottom", len(border))
	}
	if len(scale) != 0 && len(scale) != 2 {
		return c.Errf("scale has %d elements, expected 2: height and width", len(scale))
	}
	for _, n := range append(append([]int64{}, border...), scale...) {
		if n < 0 {
			return c.Errf("border %v and scale %v: expected no negative number", border, scale)
		}
	}
	if !in.Ranked {
		c.SetUnranked(0, in.Elem)
		return nil
	}
	shape := append([]graph.Dim{}, in.Shape...)
	for k := range 2 {
		axis, begin, end := 2+k, graph.Dim(border[1-k]), graph.Dim(border[3-k])
		n := in.Shape[axis]
		if !n.Exact() {
			shape[axis] = graph.Unknown
			continue
		}
		length := n - min(begin, n) - min(end, n)
		if len(scale) == 2 {
			length = graph.Dim(scale[k])
		}
		if begin > n || length < 0 || length > n-begin {
			return c.BadInput(0, "an axis %d that is long enough for border %v and scale %v", axis, border, scale)
		}
		shape[axis] = length
	}
	c.Set(0, in.Elem, shape)
	return nil
}
