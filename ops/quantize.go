package ops

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// quantizers lists the operators that convert between reals and their quantized
// form.
var quantizers = family{"", []Op{
	{Name: "QuantizeLinear", Class: Other, Infer: inferQuantize, Cut: cutQuantizer, Inplace: overFirst, Quantizes: true},
	{Name: "DequantizeLinear", Class: Other, Infer: inferDequantize, Cut: cutQuantizer, Inplace: overFirst, FLOPs: onePerElement, OnWeights: true, Dequantizes: true},
	{Name: "DynamicQuantizeLinear", Class: Other, Infer: inferDynamicQuantize},
}}

// contribQuantizers lists ONNX Runtime's quantizers, and its operators on quantized
// tensors: each tensor is followed by a scale and a zero point.
var contribQuantizers = family{"com.microsoft", []Op{
	{Name: "QuantizeLinear", Class: Other, Infer: inferQuantize, Cut: cutQuantizer, Inplace: overFirst, Quantizes: true},
	{Name: "DequantizeLinear", Class: Other, Infer: inferDequantize, Cut: cutQuantizer, Inplace: overFirst, FLOPs: onePerElement, Dequantizes: true},
	{Name: "QLinearAdd", Class: Elementwise, Infer: inferQLinearBinary, Cut: cutQLinearBinary, Inplace: overQLinearBinary, Check: oneOfEach(1, 2, 4, 5, 6, 7)},
	{Name: "QLinearMul", Class: Elementwise, Infer: inferQLinearBinary, Cut: cutQLinearBinary, Inplace: overQLinearBinary, Check: oneOfEach(1, 2, 4, 5, 6, 7)},
	{Name: "QLinearSigmoid", Class: Elementwise, Infer: inferQLinearUnary, Cut: cutUnary, Inplace: overFirst, Check: oneOfEach(1, 2, 3, 4)},
	{Name: "QLinearLeakyRelu", Class: Elementwise, Infer: inferQLinearUnary, Cut: cutUnary, Inplace: overFirst, Check: oneOfEach(1, 2, 3, 4)},
	{Name: "QLinearSoftmax", Class: Norm, Infer: inferQLinearSoftmax, Inplace: overFirst, Check: oneOfEach(1, 2, 3, 4)},
	{Name: "QLinearWhere", Class: Elementwise, Infer: inferQLinearWhere, Inplace: overQLinearBranches, Check: oneOfEach(2, 3, 5, 6, 7, 8)},
	{Name: "QLinearConcat", Class: Move, Infer: inferQLinearConcat, Check: checkQLinearConcat},
	{Name: "QLinearAveragePool", Class: Window, Infer: inferQLinearPool, Cut: cutQLinearPool, Check: oneOfEach(1, 2, 3, 4)},
	{Name: "QLinearGlobalAveragePool", Class: Window, Infer: inferQLinearGlobalPool, Cut: cutQLinearGlobalPool, Check: oneOfEach(1, 2, 3, 4)},
}}

// inferQuantize: the output type is that of the zero point, else output_dtype
// (opset 21 on), else uint8.
func inferQuantize(c *Call) error {
	if err := c.takes(2, 3); err != nil {
		return err
	}
	if err := checkScales(c); err != nil {
		return err
	}
	stated, err := c.outputDtype(21)
	if err != nil {
		return err
	}
	elem := c.Arg(2).Elem
	switch {
	case elem == graph.Undefined && c.Has(2):
		elem = stated // nothing is known of the zero point
	case elem != graph.Undefined && stated != graph.Undefined && elem != stated:
		return c.Errf("output_dtype is %v, expected %v as the zero point, input 2%s", stated, elem, c.inputName(2))
	case elem == graph.Undefined && stated != graph.Undefined:
		elem = stated
	case elem == graph.Undefined:
		elem = graph.Uint8
	}
	c.setLike(0, 0, elem)
	return nil
}

// inferDequantize: the output type is output_dtype (opset 23 on), else that of
// the scale, which is float32 before opset 19.
func inferDequantize(c *Call) error {
	if err := c.takes(2, 3); err != nil {
		return err
	}
	if err := c.sameElem(0, 2); err != nil {
		return err
	}
	if err := checkScales(c); err != nil {
		return err
	}
	elem, err := c.outputDtype(23)
	if err != nil {
		return err
	}
	if elem == graph.Undefined {
		elem = c.In[1].Elem
	}
	c.setLike(0, 0, elem)
	return nil
}

// outputDtype is the attribute of that name, which the operator has since the
// given opset; 0 means the default.
func (c *Call) outputDtype(since int64) (graph.DType, error) {
	if c.before(since) || c.Int("output_dtype", 0) == 0 {
		return graph.Undefined, nil
	}
	return c.elemAttr("output_dtype", graph.Undefined)
}

// checkScales compares the scale (input 1) and the zero point (input 2) with the
// tensor: they have one element, one per position on an axis, or one per block of
// block_size positions on it.
func checkScales(c *Call) error {
	x, scale, zero := c.In[0], c.In[1], c.Arg(2)
	if scale.Ranked && zero.Present && zero.Ranked && !(isOne(scale.Shape) && isOne(zero.Shape)) &&
		!slices.EqualFunc(scale.Shape, zero.Shape, SameDim) {
		return c.BadInput(2, "%s as the scale", graph.ShapeString(scale.Shape))
	}
	block := int64(0)
	if !c.before(21) {
		block = c.Int("block_size", 0)
	}
	if block < 0 {
		return c.Errf("block_size is %d, expected at least 0", block)
	}
	if !x.Ranked || !scale.Ranked || mayBeOne(scale.Shape) && (block == 0 || len(scale.Shape) < 2) {
		return nil
	}
	at := c.Int("axis", 1)
	if len(x.Shape) == 1 && block == 0 {
		at = 0
	}
	axis, err := attr.Axis("axis", at, len(x.Shape))
	if err != nil {
		return err
	}
	want := []graph.Dim{x.Shape[axis]}
	if block > 0 {
		want = slices.Clone(x.Shape)
		want[axis] = Mono(x.Shape[axis], func(n int64) int64 { return blocks(n, block) })
	}
	if !slices.EqualFunc(scale.Shape, want, SameDim) {
		return c.BadInput(1, "one scale or %s, to match axis %d of input 0 %s", graph.ShapeString(want), axis, graph.ShapeString(x.Shape))
	}
	return nil
}

// needOneElementOr fails unless input i, if present, has one element or is a list of n,
// one for each what.
func (c *Call) needOneElementOr(i int, n graph.Dim, what string) error {
	if a := c.Arg(i); !a.Present || !a.Ranked || isOne(a.Shape) || len(a.Shape) == 1 && !differ(a.Shape[0], n) {
		return nil
	}
	return c.BadInput(i, "one element or [%v]: one for each %s", n, what)
}

// needPerLine fails unless input i, if present, has one element, or one for each
// row (end 2) or column (end 1) of the matrices of input of. Those are a list or,
// with the axes of that input, a list for each of its matrices.
func (c *Call) needPerLine(i, of, end int, what string) error {
	a, x := c.Arg(i), c.In[of]
	if !a.Present || !a.Ranked || !x.Ranked || isOne(a.Shape) {
		return nil
	}
	if len(x.Shape) < 2 { // a vector is a single row, or column
		return c.BadInput(i, "one element")
	}
	lines := slices.Clone(x.Shape)
	lines[len(lines)-3+end] = 1
	n := lines[len(lines)-end]
	if len(a.Shape) == 1 && !differ(a.Shape[0], n) || len(a.Shape) == len(lines) && !slices.ContainsFunc(indices(lines), func(k int) bool { return differ(a.Shape[k], lines[k]) }) {
		return nil
	}
	return c.BadInput(i, "one element, [%v] or %s: one for each %s of input %d", n, graph.ShapeString(lines), what, of)
}

// blocks is n/size rounded up.
func blocks(n, size int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n-1)/size + 1
}

// inferDynamicQuantize: the quantized tensor, its scale and its zero point.
func inferDynamicQuantize(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	c.setLike(0, 0, graph.Uint8)
	c.Set(1, graph.Float32, nil)
	c.Set(2, graph.Uint8, nil)
	return nil
}

// inferQLinearBinary: A, its scale and zero point, the same for B, then those of
// the output. A and B are broadcast.
func inferQLinearBinary(c *Call) error {
	if err := c.takesPresent(8, 0, 1, 3, 4, 6); err != nil {
		return err
	}
	if err := c.sameElem(0, 2, 3, 5, 7); err != nil {
		return err
	}
	return broadcastTo(c, c.In[0].Elem, 0, 3)
}

// takesPresent fails unless those inputs are present and the node has at most
// most inputs.
func (c *Call) takesPresent(most int, inputs ...int) error {
	for _, i := range inputs {
		if !c.Has(i) {
			return c.Errf("input %d is missing", i)
		}
	}
	return c.takes(0, most)
}

// oneOfEach returns the Check of an operator whose scales and zero points, at those
// inputs, have one element each.
func oneOfEach(inputs ...int) func(c *Call) error {
	return func(c *Call) error {
		for _, i := range inputs {
			if err := c.needOneElement(i, "scale or zero point"); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkQLinearConcat: the parts have the type of the output, and all scales are of
// float32.
func checkQLinearConcat(c *Call) error {
	for i := range c.In {
		if !c.Has(i) {
			return c.Errf("input %d is missing", i)
		}
		switch {
		case i%3 == 0:
			if err := c.needElem(i, graph.Float32); err != nil {
				return err
			}
		default:
			if err := c.sameElem(1, i); err != nil {
				return err
			}
		}
		if i%3 != 2 {
			if err := c.needOneElement(i, "scale or zero point"); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutQuantizer: any axis. Scales and zero points are cut if they belong to its positions;
// those of blocks are not, since the ends of a block would have to be kept.
func cutQuantizer(c *Call, axis int) *Cut {
	cut := c.same(axis)
	if isOne(c.In[1].Shape) {
		return cut
	}
	if !c.before(21) && c.Int("block_size", 0) > 0 {
		return nil
	}
	along := 0
	if len(c.In[0].Shape) > 1 {
		if along = c.axisAttr(1, len(c.In[0].Shape)); along < 0 {
			return nil
		}
	}
	for i := 1; i < 3 && along == axis; i++ {
		if c.Has(i) && !isOne(c.In[i].Shape) {
			cut.In[i] = Same(0, c.length(i, 0))
		}
	}
	return cut
}

// cutQLinearBinary: A and B as in an elementwise operator.
func cutQLinearBinary(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	for _, i := range []int{0, 3} {
		cut.In[i] = c.broadcastRows(i, axis, len(c.Out[0].Shape))
	}
	return cut
}

func cutQLinearPool(c *Call, axis int) *Cut { return cutPool(quantLayout(c))(c, axis) }

func cutQLinearGlobalPool(c *Call, axis int) *Cut { return cutGlobalPool(quantLayout(c))(c, axis) }

func overQLinearBinary(c *Call) []graph.Alias { return overInputs(c, 0, 3) }

// inferQLinearUnary: X, its scale and zero point, those of the output.
func inferQLinearUnary(c *Call) error {
	if err := c.takesPresent(5, 0, 1, 3); err != nil {
		return err
	}
	if err := c.sameElem(0, 2, 4); err != nil {
		return err
	}
	c.setLike(0, 0, c.In[0].Elem)
	return nil
}

func inferQLinearSoftmax(c *Call) error {
	if err := inferQLinearUnary(c); err != nil {
		return err
	}
	if t := c.In[0].Type; t.Ranked {
		_, err := attr.Axis("axis", c.Int("axis", -1), max(len(t.Shape), 1))
		return err
	}
	return nil
}

// inferQLinearWhere: the condition, X with scale and zero point, Y with both,
// those of the output.
func inferQLinearWhere(c *Call) error {
	if err := c.takes(9, 9); err != nil {
		return err
	}
	if err := c.needElem(0, graph.Bool); err != nil {
		return err
	}
	if err := c.sameElem(1, 3, 4, 6, 8); err != nil {
		return err
	}
	return broadcastTo(c, c.In[1].Elem, 0, 1, 4)
}

func overQLinearBranches(c *Call) []graph.Alias { return overInputs(c, 1, 4) }

// inferQLinearConcat: the output's scale and zero point, then three inputs for
// each part.
func inferQLinearConcat(c *Call) error {
	if err := c.takes(5, math.MaxInt); err != nil {
		return err
	}
	if len(c.In)%3 != 2 {
		return c.Errf("%d inputs, expected 2 and then 3 for each part", len(c.In))
	}
	if !c.HasAttr("axis") {
		return c.Errf("axis is missing")
	}
	elem := c.In[1].Elem
	var shape []graph.Dim
	axis := 0
	for i := 2; i < len(c.In); i += 3 {
		part := c.Arg(i)
		if !part.Ranked {
			c.SetUnranked(0, elem)
			return nil
		}
		if shape == nil {
			var err error
			if axis, err = attr.Axis("axis", c.Int("axis", 0), len(part.Shape)); err != nil {
				return err
			}
			shape = slices.Clone(part.Shape)
			continue
		}
		if len(part.Shape) != len(shape) {
			return c.BadInput(i, "rank %d as input 2", len(shape))
		}
		for k, d := range part.Shape {
			switch {
			case k == axis:
				shape[k] = AddDims(shape[k], d)
			case !SameDim(shape[k], d):
				return c.BadInput(i, "%v along axis %d as the inputs before it", shape[k], k)
			default:
				shape[k] = TakeDim(shape[k], d)
			}
		}
	}
	c.Set(0, elem, shape)
	return nil
}

// quantLayout says which axis holds the channels.
func quantLayout(c *Call) imageLayout {
	if c.Int("channels_last", 0) != 0 {
		return channelsLast
	}
	return channelsFirst
}

// inferQLinearPool is AveragePool with the inputs of inferQLinearUnary.
func inferQLinearPool(c *Call) error {
	if err := inferQLinearUnary(c); err != nil {
		return err
	}
	return poolAs(quantLayout(c))(c)
}

func inferQLinearGlobalPool(c *Call) error {
	if err := inferQLinearUnary(c); err != nil {
		return err
	}
	t := c.In[0].Type
	if !t.Ranked {
		return nil
	}
	if len(t.Shape) < 3 {
		return c.BadInput(0, "at least rank 3")
	}
	l := quantLayout(c)
	channels, spatial := l.split(t.Shape)
	c.Set(0, t.Elem, l.join(t.Shape[0], channels, slices.Repeat([]graph.Dim{1}, len(spatial))))
	return nil
}
