package gpu

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// quantizers lists the conversions between reals and their quantized form. There is one
// scale for all elements, or one for each position along an axis.
var quantizers = []Row{
	{Name: "QuantizeLinear", Element: quantize},
	{Name: "DequantizeLinear", Element: dequantize},
}

// dynamicQuantizers lists those that choose the scale by the elements.
var dynamicQuantizers = []Row{{Name: "DynamicQuantizeLinear", Make: makeDynamicQuantize}}

// contribQuantizers lists the operators of ONNX Runtime on quantized tensors.
var contribQuantizers = []Row{
	{Name: "QLinearAdd", Element: quantizedBinary("Add")},
	{Name: "QLinearMul", Element: quantizedBinary("Mul")},
	{Name: "QLinearWhere", Element: quantizedWhere},
	{Name: "QLinearSigmoid", Make: func(n *Node) error { return n.lookUp(lookSigmoid, 0) }},
	{Name: "QLinearLeakyRelu", Make: func(n *Node) error { return n.lookUp(lookLeaky, float64(n.Float("alpha", 0.01))) }},
	{Name: "QLinearConcat", Make: makeQLinearConcat},
	{Name: "QLinearSoftmax", Make: makeQLinearSoftmax},
	{Name: "QLinearAveragePool", Make: makeQLinearAveragePool},
	{Name: "QLinearGlobalAveragePool", Make: makeQLinearGlobalAveragePool},
}

// quantize divides by the scale, rounds ties to even, adds the zero point and saturates.
func quantize(n *Node, e *expression) error {
	x, y := n.In[0], n.Out[0]
	if err := quantizedTypes(x, y); err != nil {
		return err
	}
	if err := needTypes(x.Type, n.In[1]); err != nil {
		return err
	}
	args, err := scaled(n, e, y.Type)
	if err != nil {
		return err
	}
	return e.set(y, call("quantized<"+cType[y.Type]+">", args...))
}

// dequantize subtracts the zero point, and multiplies by the scale.
func dequantize(n *Node, e *expression) error {
	x, y := n.In[0], n.Out[0]
	if err := needTypes(y.Type, n.In[1]); err != nil {
		return err
	}
	if x.Type != graph.Int32 || y.Type != graph.Float32 {
		if err := quantizedTypes(y, x); err != nil {
			return err
		}
	}
	args, err := scaled(n, e, x.Type)
	if err != nil {
		return err
	}
	return e.set(y, call("dequantized", args...))
}

// quantizedTypes refuses dtypes between which the device does not convert with the host's
// bits, which are those of float64: the 16-bit types need a float32.
func quantizedTypes(real, whole *form.Tensor) error {
	wide := whole.Type == graph.Int16 || whole.Type == graph.Uint16
	narrow := whole.Type == graph.Int8 || whole.Type == graph.Uint8
	if real.Type == graph.Float32 && (wide || narrow) || (real.Type == graph.Float16 || real.Type == graph.BFloat16) && narrow {
		return nil
	}
	return unsupportedf("dtypes %v and %v", real.Type, whole.Type)
}

// scaled returns the elements of input 0, of the scale and of the zero point, which is a
// number of dtype d.
func scaled(n *Node, e *expression, d graph.DType) ([]string, error) {
	axis, blocks, err := n.ScaleAxis()
	if err != nil {
		return nil, err
	}
	if blocks {
		return nil, unsupportedf("scales of blocks")
	}
	x := n.In[0]
	v, err := e.value(x)
	if err != nil {
		return nil, err
	}
	args := []string{v}
	for _, t := range []*form.Tensor{n.In[1], n.Input(2)} {
		if t == nil {
			args = append(args, literal(0, d))
			continue
		}
		if t != n.In[1] {
			if err := needTypes(d, t); err != nil {
				return nil, err
			}
		}
		var shape []int // of one element, if there is one for all
		switch {
		case t.Len() == 1:
		case axis >= 0 && t.Len() == x.Shape[axis]:
			shape = append([]int{t.Len()}, slices.Repeat([]int{1}, len(x.Shape)-axis-1)...)
		default:
			return nil, unsupportedf("a scale or a zero point of shape %v for axis %d of %v", t.Shape, axis, x.Shape)
		}
		v, err := e.valueAs(t, shape)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return args, nil
}
