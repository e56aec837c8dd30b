package gpu

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// withdrawn lists operators of early versions of ONNX that are no longer part of it.
var withdrawn = []Row{
	{Name: "Affine", Element: affine},
	{Name: "Scale", Element: formula("scale * x", number{"scale", 1})},
	{Name: "ScaledTanh", Element: formula("alpha * Tanh(beta * x)", number{"alpha", 1}, number{"beta", 1})},
	{Name: "ParametricSoftplus", Element: formula("alpha * Softplus(beta * x)", number{"alpha", 1}, number{"beta", 1})},
	{Name: "ImageScaler", Element: scaleImage},
	{Name: "Crop", Make: moving(form.CropMoves)},
}

// affine computes alpha · x + beta.
func affine(n *Node, e *expression) error {
	args, err := arguments(n, e, n.In, n.Out[0].Type, isReal)
	if err != nil {
		return err
	}
	alpha, beta := literal(float64(n.Float("alpha", 1)), graph.Float64), literal(float64(n.Float("beta", 0)), graph.Float64)
	return e.set(n.Out[0], fmt.Sprintf("(Compute<%s>)(%s * %s + %s)", cType[n.Out[0].Type], alpha, args[0], beta))
}

// mostBiases bounds the channels of an ImageScaler, whose biases stand in its kernel.
const mostBiases = 16

// scaleImage computes scale · x + bias, with a bias for each channel.
func scaleImage(n *Node, e *expression) error {
	x, y := n.In[0], n.Out[0]
	var bias []float32
	if a := n.Node.Attr("bias"); a != nil {
		bias = a.Floats
	}
	if len(x.Shape) != 4 || len(bias) == 0 || len(bias) > mostBiases || len(bias) != x.Shape[1] || y.Type == graph.Float64 {
		return unsupportedf("%d biases for %v of %v", len(bias), x.Type, x.Shape)
	}
	args, err := arguments(n, e, n.In, y.Type, isReal)
	if err != nil {
		return err
	}
	i, err := e.index()
	if err != nil {
		return err
	}
	channel := fmt.Sprintf("%s / %du %% %du", i, count(x.Shape[2:]), len(bias))
	plus := literal(float64(bias[0]), graph.Float32)
	for c, v := range bias[1:] {
		plus = fmt.Sprintf("(%s == %d ? %s : %s)", channel, c+1, literal(float64(v), graph.Float32), plus)
	}
	return e.set(y, fmt.Sprintf("%s * %s + %s", literal(float64(n.Float("scale", 1)), graph.Float32), args[0], plus))
}
