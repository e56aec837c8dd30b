package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// contribRules cover operators of com.microsoft, which ONNX Runtime makes when it
// fuses others.
var contribRules = []Rule{
	{Op: "Gelu", Fused: true, Grad: byInput(func(c *Backward, x ID) ID { return geluSlope(c, x, false) })},
	{Op: "BiasGelu", Fused: true, Grad: func(c *Backward) { biasedGeluGrad(c, false) }},
	{Op: "FastGelu", Fused: true, Grad: func(c *Backward) { biasedGeluGrad(c, true) }},
	{Op: "QuickGelu", Fused: true, Grad: func(c *Backward) { sigmoidLinearGrad(c, 1.702) }},
	{Op: "FusedMatMul", Grad: fusedMatMulGrad},
	{Op: "TransposeMatMul", Grad: fusedMatMulGrad},
	{Op: "CDist", Grad: cdistGrad},
	{Op: "CropAndResize", Inputs: []int{0}, Grad: cropAndResizeGrad},
	{Op: "MatMulNBits", Inputs: []int{0, 5}, Grad: packedProductGrad},
	{Op: "SimplifiedLayerNormalization", Fused: true, Grad: rmsNormGrad},
	{Op: "Inverse", Grad: func(c *Backward) {
		y := c.swapLast(c.Y(0))
		c.Set(0, c.op("Neg", c.op("MatMul", c.op("MatMul", y, c.D(0)), y)))
	}},
}

// contribExpansions are expanded before differentiation.
var contribExpansions = expansionsOf("com.microsoft", map[string]func(*Backward) []ID{
	"SkipLayerNormalization":           func(c *Backward) []ID { return expandSkipNorm(c, false) },
	"SkipSimplifiedLayerNormalization": func(c *Backward) []ID { return expandSkipNorm(c, true) },
	"EmbedLayerNormalization":          expandEmbedNorm,
	"BiasAdd":                          func(c *Backward) []ID { return []ID{c.add(c.add(c.X(0), c.X(1)), c.X(2))} },
	"BiasSoftmax":                      expandBiasSoftmax,
	"FusedConv":                        expandFusedConv,
	"FusedGemm":                        expandFusedGemm,
	"GemmFastGelu":                     expandGemmFastGelu,
	"Attention":                        expandProjectedAttention,
	"MultiHeadAttention":               expandMultiHeadAttention,
	"RotaryEmbedding":                  expandContribRotary,
})

// biasedGeluGrad is the gradient of Gelu of a sum with a bias, which is optional
// for FastGelu.
func biasedGeluGrad(c *Backward, tanh bool) {
	x := c.X(0)
	if c.present(c.X(1)) {
		x = c.add(x, c.X(1))
	}
	d := c.mul(c.D(0), geluSlope(c, x, tanh))
	c.setUnbroadcast(0, d)
	c.setUnbroadcast(1, d)
}

// fusedMatMulGrad is the gradient of MatMul with a factor. FusedMatMul can
// transpose its operands, so the gradient needs no Transpose, except for an operand
// whose first axis stands before the batch.
func fusedMatMulGrad(c *Backward) {
	x, moveA := c.batchFirst(0, "transBatchA")
	y, moveB := c.batchFirst(1, "transBatchB")
	a, b := c.shape(x), c.shape(y)
	if c.err != nil {
		return
	}
	if len(a) < 2 || len(b) < 2 {
		c.Failf("operands of shapes %v and %v: expected matrices", a, b)
		return
	}
	ta, tb := int(c.Int("transA", 0)), int(c.Int("transB", 0))
	alpha := c.Float("alpha", 1)
	product := func(x, y ID, transX, transY int) ID {
		return c.emitIn(c.Node.Domain, c.Node.Op, attrs{"alpha": alpha, "transA": transX, "transB": transY}, 1, x, y)[0]
	}
	// set sets the gradient of input i, which was read as t.
	set := func(i int, t, d ID, move []int64) {
		d = c.unbroadcast(d, t)
		if move != nil {
			d = c.transpose(d, move...)
		}
		c.Set(i, d)
	}
	if c.Needs(0) {
		if ta == 0 {
			set(0, x, product(c.D(0), y, 0, 1-tb), moveA)
		} else {
			set(0, x, product(y, c.D(0), tb, 1), moveA)
		}
	}
	if !c.Needs(1) {
		return
	}
	rows, d := x, c.D(0)
	if len(b) == 2 && ta == 0 { // fold the batch into rows
		rows = c.reshape(rows, []int64{elements(a[:len(a)-1]), a[len(a)-1]})
		n := c.shape(d)
		d = c.reshape(d, []int64{elements(n[:len(n)-1]), n[len(n)-1]})
	}
	if tb == 0 {
		set(1, y, product(rows, d, 1-ta, 0), moveB)
	} else {
		set(1, y, product(d, rows, 1, ta), moveB)
	}
}

// batchFirst returns operand i of FusedMatMul with the axes of the batch in front, and
// the permutation that leads back; nil if the named attribute does not move them.
func (c *Backward) batchFirst(i int, name string) (t ID, back []int64) {
	rank := c.rank(c.X(i))
	if c.Int(name, 0) == 0 || rank < 3 {
		return c.X(i), nil
	}
	perm := make([]int64, rank)
	back = make([]int64, rank)
	for k := range rank - 2 {
		perm[k] = int64(k + 1)
	}
	perm[rank-2], perm[rank-1] = 0, int64(rank-1)
	for k, p := range perm {
		back[p] = int64(k)
	}
	return c.transpose(c.X(i), perm...), back
}

// expandSkipNorm: a sum, then a normalisation. Inputs: input skip gamma (beta)
// bias. Outputs: Y, mean, inverse deviation, sum.
func expandSkipNorm(c *Backward, simplified bool) []ID {
	bias := 4
	if simplified {
		bias = 3
	}
	sum := c.add(c.X(0), c.X(1))
	if b := c.X(bias); c.present(b) {
		sum = c.add(sum, b)
	}
	a := attrs{"axis": -1, "epsilon": c.Float("epsilon", 1e-12)}
	if simplified {
		return []ID{c.rootMeanSquareNorm(sum, c.X(2)), graph.None, graph.None, sum}
	}
	outputs := 1 // the mean and the inverse deviation only if they are used
	if len(c.Node.Outputs) > 1 {
		outputs = 3
	}
	out := slices.Clone(c.emit("LayerNormalization", a, outputs, sum, c.X(2), c.X(3)))
	for len(out) < 3 {
		out = append(out, graph.None)
	}
	return append(out, sum)
}

// rootMeanSquareNorm normalises over the last axis. Before opset 23 no operator
// does this in every runtime.
func (c *Backward) rootMeanSquareNorm(t, scale ID) ID {
	epsilon := c.Float("epsilon", 1e-12)
	if c.version >= 23 {
		return c.with("RMSNormalization", attrs{"axis": -1, "epsilon": epsilon}, t, scale)
	}
	square := c.reduce("ReduceMean", c.mul(t, t), []int64{-1}, true)
	return c.mul(c.div(t, c.op("Sqrt", c.plus(square, epsilon))), scale)
}

// expandEmbedNorm: the sum of three embeddings, then a normalisation. Inputs:
// input_ids segment_ids word position segment gamma beta mask position_ids.
// Outputs: Y, mask_index, sum.
func expandEmbedNorm(c *Backward) []ID {
	ids := c.shape(c.X(0))
	if c.err != nil {
		return nil
	}
	at := c.X(3)
	if c.present(c.X(8)) {
		at = c.op("Gather", at, c.X(8))
	} else {
		at = c.slice(at, []int64{0}, []int64{0}, []int64{ids[1]})
	}
	sum := c.add(c.op("Gather", c.X(2), c.X(0)), at)
	if c.present(c.X(1)) && c.present(c.X(4)) {
		sum = c.add(sum, c.op("Gather", c.X(4), c.X(1)))
	}
	y := c.with("LayerNormalization", attrs{"axis": -1, "epsilon": c.Float("epsilon", 1e-12)}, sum, c.X(5), c.X(6))
	index := c.expand(c.reals(graph.Int32, nil, []float64{0}), ids[:1])
	if c.present(c.X(7)) {
		ones := c.op("Equal", c.X(7), c.reals(graph.Int32, nil, []float64{1}))
		index = c.sum(c.castTo(ones, graph.Int32), []int64{1}, false)
	}
	return []ID{y, index, sum}
}

// expandBiasSoftmax supports the softmax over the last axis only.
func expandBiasSoftmax(c *Backward) []ID {
	if c.Axis("axis", 1, 0) != c.rank(c.X(0))-1 || c.rank(c.X(0)) != c.rank(c.X(1)) {
		c.Failf("axis %d: expected the last axis, and a bias of as many axes", c.Int("axis", 1))
		return nil
	}
	return []ID{c.with("Softmax", attrs{"axis": -1}, c.add(c.X(0), c.X(1)))}
}

// expandFusedConv: convolution, an addend, an activation.
func expandFusedConv(c *Backward) []ID {
	a := attrs{}
	for _, name := range []string{"dilations", "kernel_shape", "pads", "strides"} {
		if at := c.Node.Attr(name); at != nil {
			a[name] = at.Ints
		}
	}
	a["group"], a["auto_pad"] = c.Int("group", 1), c.Str("auto_pad", "NOTSET")
	y := c.with("Conv", a, c.X(0), c.X(1), c.X(2))
	if c.present(c.X(3)) {
		y = c.add(y, c.X(3))
	}
	var params []float32
	if at := c.Node.Attr("activation_params"); at != nil {
		params = at.Floats
	}
	return []ID{c.fusedActivation(y, c.Str("activation", ""), func(i int, otherwise float64) float64 {
		if i < len(params) {
			return float64(params[i])
		}
		return otherwise
	})}
}

// expandFusedGemm: Gemm and an activation.
func expandFusedGemm(c *Backward) []ID {
	a := attrs{"alpha": c.Float("alpha", 1), "beta": c.Float("beta", 1), "transA": c.Int("transA", 0), "transB": c.Int("transB", 0)}
	return []ID{c.fusedActivation(c.with("Gemm", a, c.X(0), c.X(1), c.X(2)), c.Str("activation", ""), func(i int, otherwise float64) float64 {
		return c.Float([]string{"activation_alpha", "activation_beta"}[i], otherwise)
	})}
}

// expandGemmFastGelu: a product, then FastGelu with the bias.
func expandGemmFastGelu(c *Backward) []ID {
	return c.emitIn("com.microsoft", "FastGelu", nil, 1, c.op("MatMul", c.X(0), c.X(1)), c.X(2))
}

// fusedActivation applies an activation that ONNX Runtime fuses into a product;
// param returns its parameters by index: alpha and beta, or the bounds of Clip.
func (c *Backward) fusedActivation(t ID, name string, param func(i int, otherwise float64) float64) ID {
	switch name {
	case "":
		return t
	case "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish":
		return c.op(name, t)
	case "LeakyRelu":
		return c.with(name, attrs{"alpha": param(0, 0.01)}, t)
	case "Elu", "ThresholdedRelu":
		return c.with(name, attrs{"alpha": param(0, 1)}, t)
	case "HardSigmoid":
		return c.with(name, attrs{"alpha": param(0, 0.2), "beta": param(1, 0.5)}, t)
	case "Clip":
		most := -lowest(c.typeOf(t).Elem)
		return c.op(name, t, c.scalar(t, param(0, -most)), c.scalar(t, param(1, most)))
	}
	c.Failf("activation %q has no gradient rule", name)
	return graph.None
}
