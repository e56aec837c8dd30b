package ops

import "github.com/onnxmem/onnxmem/graph"

// integers lists the matrix products and convolutions of 8-bit integers.
var integers = family{"", []Op{
	{Name: "MatMulInteger", Class: Product, Form: Matrices, Infer: inferMatMulInteger, Cut: cutIntegerProduct(0, 1, []int{2}, []int{3}), FLOPs: flopsMatMul(1), Check: checkMatMulInteger},
	{Name: "QLinearMatMul", Class: Product, Form: Matrices, Infer: inferQLinearMatMul, Cut: cutIntegerProduct(0, 3, []int{1, 2}, []int{4, 5}), FLOPs: flopsMatMul(3), Check: checkQLinearMatMul},
	{Name: "ConvInteger", Class: Product, Form: Channels, Infer: convInteger, Cut: cutConv(0, 1, channelsFirst, 3), FLOPs: convFLOPs(1), Check: checkConvInteger},
	{Name: "QLinearConv", Class: Product, Form: Channels, Infer: qlinearConv, Cut: cutQLinearConv, FLOPs: convFLOPs(3), Check: checkQLinearConv},
}}

func inferMatMulInteger(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	return matMul(c, 0, 1, graph.Int32)
}

// inferQLinearMatMul: inputs 0 to 2 are a, its scale and zero point, 3 to 5 those
// of b, 6 and 7 the scale and zero point of the output, whose element type is
// that of input 7.
func inferQLinearMatMul(c *Call) error {
	if err := c.Tensors(8); err != nil {
		return err
	}
	return matMul(c, 0, 3, c.In[7].Elem)
}

// convInteger covers ConvInteger: the sums are int32.
func convInteger(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	return convShape(c, graph.Int32, 0, 1, -1, channelsFirst)
}

// qlinearConv has the element type of the output's zero point.
func qlinearConv(c *Call) error {
	if err := c.Tensors(8); err != nil {
		return err
	}
	return convShape(c, c.In[7].Elem, 0, 3, 8, qlinearLayout(c))
}

// cutQLinearConv: as Conv. Weights that are quantized per output channel have a scale and
// a zero point for each, inputs 4 and 5.
func cutQLinearConv(c *Call, axis int) *Cut {
	return cutConv(0, 3, qlinearLayout(c), 4, 5, 8)(c, axis)
}

// qlinearLayout is the layout of QLinearConv's images. That of ONNX has no attribute for it.
func qlinearLayout(c *Call) imageLayout {
	if c.Node.Domain == "" {
		return channelsFirst
	}
	return quantLayout(c)
}

// checkMatMulInteger: the zero point of A, input 2, has one element or one per
// row; that of B, input 3, one or one per column.
func checkMatMulInteger(c *Call) error {
	if err := c.needPerLine(2, 0, 2, "row"); err != nil {
		return err
	}
	return c.needPerLine(3, 1, 1, "column")
}

// checkQLinearMatMul: scales and zero points as in checkMatMulInteger; those of
// the output have one element.
func checkQLinearMatMul(c *Call) error {
	for i := 1; i < 3; i++ {
		if err := c.needPerLine(i, 0, 2, "row"); err != nil {
			return err
		}
		if err := c.needPerLine(3+i, 3, 1, "column"); err != nil {
			return err
		}
		if err := c.needOneElement(5+i, "scale or zero point of the output"); err != nil {
			return err
		}
	}
	return nil
}

// checkConvInteger: the zero point of the image has one element, that of the
// weights one, or one per output channel.
func checkConvInteger(c *Call) error {
	if err := c.needOneElement(2, "zero point of the image"); err != nil {
		return err
	}
	return c.needOneElementOr(3, c.DimOf(1, 0), "output channel")
}

// checkQLinearConv: the same for scales and zero points; those of the output have
// one element.
func checkQLinearConv(c *Call) error {
	for _, i := range []int{1, 2, 6, 7} {
		if err := c.needOneElement(i, "scale or zero point"); err != nil {
			return err
		}
	}
	for i := 4; i < 6; i++ {
		if err := c.needOneElementOr(i, c.DimOf(3, 0), "output channel"); err != nil {
			return err
		}
	}
	return nil
}
