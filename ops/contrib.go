package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// contrib lists operators of ONNX Runtime (com.microsoft) that its optimizers and
// quantizers put into models, except elementwise ones and attention.
var contrib = family{"com.microsoft", []Op{
	{Name: "FusedConv", Class: Product, Precision: Half, Form: Channels, Infer: convAs(0, 1, 2, channelsFirst), Cut: cutFusedConv, Inplace: overAddend, FLOPs: convFLOPs(1), Check: checkFusedConv},
	{Name: "NhwcConv", Class: Product, Precision: Half, Infer: convAs(0, 1, 2, channelsLast), FLOPs: convFLOPs(1)},
	{Name: "NhwcFusedConv", Class: Product, Precision: Half, Infer: convAs(0, 1, 2, channelsLast), Inplace: overAddend, FLOPs: convFLOPs(1)},
	{Name: "QLinearConv", Class: Product, Form: Channels, Infer: qlinearConv, Cut: cutQLinearConv, FLOPs: convFLOPs(3), Check: checkQLinearConv},
	{Name: "NhwcMaxPool", Class: Window, Infer: poolAs(channelsLast), FLOPs: poolFLOPs},
	{Name: "MaxpoolWithMask", Class: Window, Infer: poolAs(channelsFirst), FLOPs: poolFLOPs},
	{Name: "CausalConvWithState", Class: Product, Precision: Half, Infer: causalConvLayouts, FLOPs: causalConvFLOPs},
	{Name: "CropAndResize", Class: Window, Infer: cropAndResize},

	{Name: "FusedMatMul", Class: Product, Precision: Half, Form: Matrices, Applies: true, Infer: product(0, 1, 0), Cut: cutFusedMatMul, FLOPs: productFLOPs, Weights: []int{0, 1}, Kinds: []string{"product"}},
	{Name: "FusedMatMulActivation", Class: Product, Precision: Half, Infer: product(0, 1, 0), Cut: cutFusedMatMul, FLOPs: productFLOPs},
	{Name: "TransposeMatMul", Class: Product, Precision: Half, Form: Matrices, Applies: true, Infer: product(0, 1, 0), FLOPs: productFLOPs},
	{Name: "GemmFastGelu", Class: Product, Precision: Half, Infer: product(0, 1, 0), FLOPs: productFLOPs},
	{Name: "DynamicQuantizeMatMul", Class: Product, Infer: product(0, 1, 0), FLOPs: productFLOPs, Check: checkScaledProduct(-1, 2, 4)},
	{Name: "MatMulIntegerToFloat", Class: Product, Infer: product(0, 1, 2), FLOPs: productFLOPs, Check: checkScaledProduct(2, 3, 6)},
	{Name: "MatMulInteger16", Class: Product, Infer: product(0, 1, -1), FLOPs: productFLOPs},
	{Name: "FusedGemm", Class: Product, Precision: Half, Form: Matrices, Infer: fusedGemm, Cut: cutGemm, Inplace: overAddend2, FLOPs: productFLOPs},
	{Name: "QGemm", Class: Product, Infer: quantizedGemm, FLOPs: productFLOPs, Check: checkQuantizedGemm},
	{Name: "MatMulNBits", Class: Product, Precision: Half, Infer: packedProduct("N"), Cut: cutPackedProduct, FLOPs: productFLOPs},
	{Name: "MatMulBnb4", Class: Product, Precision: Half, Infer: packedProduct("N"), FLOPs: productFLOPs},
	{Name: "MatMulFpQ4", Class: Product, Precision: Half, Infer: matMulFpQ4, FLOPs: productFLOPs},
	{Name: "MatMulNBitsMlp", Class: Product, Precision: Half, Infer: packedProduct("N", "")},
	{Name: "MatMulNBitsQkv", Class: Product, Precision: Half, Infer: packedProduct("Nq", "Nkv", "Nkv", "")},
	{Name: "MoE", Class: Product, Precision: Half, Infer: mlSame},
	{Name: "QMoE", Class: Product, Precision: Half, Infer: mlSame},

	{Name: "SkipLayerNormalization", Class: Norm, Precision: Full, Infer: skipNorm(2, 3, 4), Cut: cutSkipNorm, Inplace: overSkipped, FLOPs: perElement(8), Check: checkSkipNorm, Weights: []int{2, 3, 4}, Kinds: []string{"normalization", "normalization", "bias"}, Biases: []int{2, 3, 4}},
	{Name: "SkipSimplifiedLayerNormalization", Class: Norm, Precision: Full, Infer: skipNorm(2, 3), Cut: cutSkipNorm, Inplace: overSkipped, FLOPs: perElement(6), Check: checkSkipNorm},
	{Name: "SimplifiedLayerNormalization", Class: Norm, Precision: Full, Infer: layerNorm(1), Cut: cutLayerNorm, Inplace: overFirst, FLOPs: perElement(4)},
	{Name: "EmbedLayerNormalization", Class: Norm, Precision: Full, Infer: embedNorm(2, 3, 4, 2), Weights: []int{2, 3, 4, 5, 6}, Kinds: []string{"embedding", "embedding", "embedding", "normalization"}, Biases: []int{5, 6}},
	{Name: "QEmbedLayerNormalization", Class: Norm, Infer: embedNorm(2, 3, 4, 8)},
	{Name: "GroupNorm", Class: Norm, Precision: Full, Infer: imageGroupNorm, Inplace: overFirst, FLOPs: perElement(6)},
	{Name: "SkipGroupNorm", Class: Norm, Precision: Full, Infer: imageGroupNorm, Inplace: overFirst, FLOPs: perElement(8)},
	{Name: "GatedRMSNorm", Class: Norm, Precision: Full, Infer: mlSame, Inplace: overFirst, FLOPs: perElement(6)},

	{Name: "BiasAdd", Class: Elementwise, Infer: mlSame, Inplace: overBiasAdd, FLOPs: perElement(2)},
	{Name: "BiasSoftmax", Class: Norm, Precision: Full, Infer: mlSame, Inplace: overFirst, FLOPs: perElement(5)},
	{Name: "BiasSplitGelu", Class: Other, Infer: biasSplitGelu},
	{Name: "Inverse", Class: Other, Precision: Full, Infer: inverse},
	{Name: "Trilu", Class: Move, Infer: contribTrilu, Inplace: overFirst},
	{Name: "ExpandDims", Class: View, Infer: expandDims, Views: viewOfFirst},
	{Name: "CDist", Class: Product, Precision: Full, Infer: cdist},
	{Name: "GatherBlockQuantized", Class: Move, Infer: gatherBlockQuantized},
	{Name: "RemovePadding", Class: Move, Infer: removePadding},
	{Name: "RestorePadding", Class: Move, Infer: restorePadding},
	{Name: "RelativePositionBias", Class: Other, Infer: relativePositionBias},
	{Name: "GatedRelativePositionBias", Class: Product, Infer: gatedRelativePositionBias},
	{Name: "DynamicQuantizeLSTM", Class: Product, Infer: dynamicQuantizeLSTM, FLOPs: recurrentFLOPs, Check: checkDynamicQuantizeLSTM},
	{Name: "Gelu", Class: Elementwise, Exp: 3.5, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "QuickGelu", Class: Elementwise, Exp: 1.4, Activation: true, Infer: unary, Cut: cutUnary, Inplace: overFirst, FLOPs: onePerElement},
	{Name: "FastGelu", Class: Elementwise, Beside: []int{1}, Exp: 3, Infer: inferBiased(1), Cut: cutBiased, Inplace: overFirst, FLOPs: onePerElement, Weights: []int{1}, Kinds: []string{"bias"}, Biases: []int{1}},
	{Name: "BiasGelu", Class: Elementwise, Beside: []int{1}, Exp: 3.5, Infer: inferBiased(2), Cut: cutBiased, Inplace: overFirst, FLOPs: onePerElement, Weights: []int{1}, Kinds: []string{"bias"}, Biases: []int{1}},
}}

// overAddend: a convolution may overwrite the tensor that is added to it.
func overAddend(c *Call) []graph.Alias { return overInput(c, 0, 3) }

// checkFusedConv: the tensor that is added has the shape of the result.
func checkFusedConv(c *Call) error {
	if err := c.sameElem(0, 1, 2, 3); err != nil {
		return err
	}
	return c.WantShape(3, "the shape of the result", c.Out[0].Shape...)
}

// overAddend2: a matrix product may overwrite the tensor that is added to it.
func overAddend2(c *Call) []graph.Alias { return overInput(c, 0, 2) }

// overInput: output o may overwrite each of the inputs that has exactly its shape.
func overInput(c *Call, o int, inputs ...int) []graph.Alias {
	var pairs []graph.Alias
	for _, i := range inputs {
		if c.sameShapeAndSize(o, i) && c.Out[o].Exact() {
			pairs = append(pairs, graph.Alias{Out: o, In: i})
		}
	}
	return pairs
}

func overBiasAdd(c *Call) []graph.Alias { return overInput(c, 0, 0, 2) }

// overSkipped: the result, and the sum of input and skip, may overwrite either of
// them.
func overSkipped(c *Call) []graph.Alias {
	return append(overInput(c, 0, 0, 1), overInput(c, 3, 0, 1)...)
}

// skipNorm returns the Infer of a layer normalisation of input + skip + bias; the
// inputs from 2 on have one element per element of the last axis.
func skipNorm(vectors ...int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(3); err != nil {
			return err
		}
		a := c.In[0]
		if err := c.WantRank(0, 2, 3); err != nil {
			return err
		}
		if err := c.needBroadcast(1, 0); err != nil {
			return err
		}
		for _, i := range vectors {
			if err := c.WantShape(i, "one per element of the last axis of input 0", c.DimOf(0, -1)); err != nil {
				return err
			}
		}
		c.SetType(0, a.Type)
		c.SetType(3, a.Type)
		for k := 1; k < 3; k++ {
			if a.Ranked {
				c.Set(k, graph.Float32, with(a.Shape, len(a.Shape)-1, 1))
			} else {
				c.SetUnranked(k, graph.Float32)
			}
		}
		return nil
	}
}

// checkSkipNorm: the added tensor has the shape of the input, or of its last axes, as in
// ONNX Runtime.
func checkSkipNorm(c *Call) error {
	x, skip := c.In[0].Shape, c.In[1].Shape
	for len(skip) > 1 && skip[0] == 1 {
		skip = skip[1:]
	}
	if k := len(x) - len(skip); k < 0 || len(skip) == 0 || !slices.Equal(x[k:], skip) {
		return c.BadInput(1, "the shape of the last axes of input 0 %s", graph.ShapeString(x))
	}
	return nil
}

// embedNorm returns the Infer of the normalised sum of word, position and segment
// embeddings (2-D, at those inputs) of ids [batch sequence]. The result has the
// element type of input elem; the second output is the mask's index.
func embedNorm(word, position, segment, elem int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Need(1); err != nil {
			return err
		}
		for _, i := range []int{word, position, elem} {
			if !c.Has(i) {
				return c.Errf("input %d is missing", i)
			}
		}
		if err := c.Tensors(1); err != nil {
			return err
		}
		if err := c.WantRank(0, 2); err != nil {
			return err
		}
		hidden := c.DimOf(word, 1)
		for _, i := range []int{word, position, segment} {
			if err := c.WantShape(i, "a vector of the hidden size per entry", graph.Unknown, hidden); err != nil {
				return err
			}
		}
		batch, seq := c.DimOf(0, 0), c.DimOf(0, 1)
		c.Set(0, c.In[elem].Elem, []graph.Dim{batch, seq, hidden})
		c.Set(1, graph.Int32, []graph.Dim{batch})
		c.Set(2, c.In[elem].Elem, []graph.Dim{batch, seq, hidden})
		return nil
	}
}

// imageGroupNorm covers GroupNorm and SkipGroupNorm; by default channels are the
// last axis.
func imageGroupNorm(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	if err := c.MinRank(0, 3); err != nil {
		return err
	}
	groups, err := c.Positive("groups", 0)
	if err != nil {
		return err
	}
	channels := c.DimOf(0, -1)
	if c.Int("channels_last", 1) == 0 {
		channels = c.DimOf(0, 1)
	}
	if channels.Exact() && int64(channels)%groups != 0 {
		return c.BadInput(0, "a multiple of groups %d as channels", groups)
	}
	for i := 1; i < 3; i++ {
		if err := c.WantShape(i, "one element per channel of input 0", channels); err != nil {
			return err
		}
	}
	c.SetType(0, c.In[0].Type)
	c.SetType(1, c.In[0].Type)
	return nil
}

func biasSplitGelu(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.MinRank(0, 1); err != nil {
		return err
	}
	a := c.In[0]
	if !a.Ranked {
		c.SetUnranked(0, a.Elem)
		return nil
	}
	half, ok := DivDim(a.Shape[len(a.Shape)-1], 2)
	if !ok {
		return c.BadInput(0, "an even length along the last axis")
	}
	c.Set(0, a.Elem, with(a.Shape, len(a.Shape)-1, half))
	return nil
}

func inverse(c *Call) error {
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	if differ(c.DimOf(0, -1), c.DimOf(0, -2)) {
		return c.BadInput(0, "square matrices")
	}
	return mlSame(c)
}

func contribTrilu(c *Call) error {
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	return mlSame(c)
}

// expandDims covers ExpandDims: Unsqueeze by one axis, an input.
func expandDims(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	a := c.In[0]
	if !a.Ranked {
		c.SetUnranked(0, a.Elem)
		return nil
	}
	axis, known := c.In[1].Value.Int()
	if !known {
		c.Set(0, a.Elem, unknowns(len(a.Shape)+1))
		return nil
	}
	k, err := attr.Axis("axis", axis, len(a.Shape)+1)
	if err != nil {
		return err
	}
	c.Set(0, a.Elem, slices.Insert(slices.Clone(a.Shape), k, 1))
	return nil
}

// cdist covers CDist: the distance of each row of A to each row of B.
func cdist(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	for i := range 2 {
		if err := c.WantShape(i, "rows of equal length", graph.Unknown, c.DimOf(0, 1)); err != nil {
			return err
		}
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(0, 0), c.DimOf(1, 0)})
	return nil
}

// gatherBlockQuantized covers GatherBlockQuantized: Gather followed by
// DequantizeLinear. uint8 data hold 8/bits elements per byte of the last axis.
func gatherBlockQuantized(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	elem := c.In[2].Elem
	if err := c.MinRank(0, 1); err != nil {
		return err
	}
	data, indices := c.In[0], c.In[1]
	if !data.Ranked || !indices.Ranked {
		c.SetUnranked(0, elem)
		return nil
	}
	rank := len(data.Shape)
	axis, err := attr.Axis("gather_axis", c.Int("gather_axis", 0), rank)
	if err != nil {
		return err
	}
	shape := slices.Clone(data.Shape)
	if bits := c.Int("bits", 4); data.Elem == graph.Uint8 {
		if bits != 2 && bits != 4 && bits != 8 {
			return c.Errf("bits is %d, expected 2, 4 or 8", bits)
		}
		shape[rank-1] = MulDims(shape[rank-1], graph.Dim(8/bits))
	}
	c.Set(0, elem, slices.Concat(shape[:axis], indices.Shape, shape[axis+1:]))
	return nil
}

// removePadding packs the tokens of a batch; the output has at most all of them.
func removePadding(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.WantRank(0, 3); err != nil {
		return err
	}
	batch, seq := c.DimOf(0, 0), c.DimOf(0, 1)
	c.Set(0, c.In[0].Elem, []graph.Dim{boundOf(MulDims(batch, seq)), c.DimOf(0, 2)})
	c.Set(1, graph.Int32, []graph.Dim{batch, seq})
	c.Set(2, graph.Int32, []graph.Dim{AddDims(batch, 1)})
	c.Set(3, graph.Int32, []graph.Dim{1})
	return nil
}

func restorePadding(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	for i := range 2 {
		if err := c.WantRank(i, 2); err != nil {
			return err
		}
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(1, 0), c.DimOf(1, 1), c.DimOf(0, 1)})
	return nil
}

// relativePositionBias covers RelativePositionBias: a table [buckets heads]
// and two lengths, which are values.
func relativePositionBias(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	if err := c.WantRank(0, 2); err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{1, c.DimOf(0, 1), c.LengthOf(1, 0), c.LengthOf(2, 0)})
	return nil
}

func gatedRelativePositionBias(c *Call) error {
	if err := c.Tensors(6); err != nil {
		return err
	}
	count, err := c.Positive("num_heads", 0)
	if err != nil {
		return err
	}
	if err := c.WantShape(2, "1, num_heads, sequence, sequence", 1, graph.Dim(count), graph.Unknown, graph.Unknown); err != nil {
		return err
	}
	batch := c.DimOf(0, 0)
	if c.In[0].Rank() != 3 {
		batch = c.DimOf(6, 0)
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{batch, graph.Dim(count), c.DimOf(2, 2), c.DimOf(2, 3)})
	return nil
}

// dynamicQuantizeLSTM is LSTM with the weights quantized and transposed: W
// [dirs input 4·hidden], R [dirs hidden 4·hidden].
func dynamicQuantizeLSTM(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	for i := range 3 {
		if err := c.WantRank(i, 3); err != nil {
			return err
		}
	}
	dirs, _, err := recurrentSize(c)
	if err != nil {
		return err
	}
	hidden := c.DimOf(2, 1)
	if c.HasAttr("hidden_size") {
		hidden = graph.Dim(c.Int("hidden_size", 0))
	}
	gates := MulDims(hidden, 4)
	if err := c.WantShape(1, "num_directions, input, 4 × hidden", dirs, c.DimOf(0, 2), gates); err != nil {
		return err
	}
	if err := c.WantShape(2, "num_directions, hidden, 4 × hidden", dirs, hidden, gates); err != nil {
		return err
	}
	return recurrentOutputs(c, dirs, hidden, 3, []int{5, 6})
}

// checkDynamicQuantizeLSTM: scales and zero points are [directions], or [directions,
// 4·hidden]; biases and peepholes have the lengths that the kernel reads.
func checkDynamicQuantizeLSTM(c *Call) error {
	dirs, gates := c.DimOf(1, 0), c.DimOf(1, 2)
	for i := 8; i < 12; i++ {
		if c.Arg(i).Rank() == 1 {
			if err := c.WantShape(i, "one for each direction", dirs); err != nil {
				return err
			}
			continue
		}
		if err := c.WantShape(i, "one for each direction and gate", dirs, gates); err != nil {
			return err
		}
	}
	if err := c.WantShape(3, "two biases for each gate", dirs, MulDims(gates, 2)); err != nil {
		return err
	}
	hidden, _ := DivDim(gates, 4)
	return c.WantShape(7, "three peepholes for each unit", dirs, MulDims(hidden, 3))
}

func cropAndResize(c *Call) error {
	if err := c.Tensors(4); err != nil {
		return err
	}
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	if err := c.WantShape(1, "a box per region", graph.Unknown, 4); err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(1, 0), c.DimOf(0, 1), c.LengthOf(3, 0), c.LengthOf(3, 1)})
	return nil
}

// causalConvLayouts covers CausalConvWithState of com.microsoft, whose state
// holds (k-1)·dilation places, state_window times, and whose channels may be the
// last axis. The state of images with more than one axis is not documented.
func causalConvLayouts(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if err := c.MinRank(0, 3); err != nil {
		return err
	}
	dilation, err := c.Positive("dilation", 1)
	if err != nil {
		return err
	}
	elem := c.In[0].Elem
	c.SetType(0, c.In[0].Type)
	places := Mono(c.DimOf(1, 2), func(k int64) int64 { return clampMul(max(k-1, 0), dilation) })
	var state []graph.Dim
	switch a := c.In[0]; {
	case a.Ranked && c.Int("channels_last", 0) != 0:
		state = with(a.Shape, 1, places)
	case c.Int("ndim", 1) == 1 && (!a.Ranked || len(a.Shape) == 3):
		state = []graph.Dim{c.DimOf(0, 0), c.DimOf(0, 1), places}
	default:
		c.SetUnranked(1, elem)
		return nil
	}
	if w := c.Int("state_window", 0); w > 0 {
		state = append([]graph.Dim{graph.Dim(w)}, state...)
	}
	c.Set(1, elem, state)
	return nil
}

// inferBiased: the output is like input 0; input 1 holds one bias for each
// length of its last axis and may be left out when least is 1.
func inferBiased(least int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.takes(least, 2); err != nil {
			return err
		}
		if err := c.sameElem(0, 1); err != nil {
			return err
		}
		x, bias := c.In[0], c.Arg(1)
		c.setLike(0, 0, x.Elem)
		if !x.Ranked || !bias.Present || !bias.Ranked {
			return nil
		}
		if len(bias.Shape) != 1 || len(x.Shape) == 0 || !SameDim(bias.Shape[0], x.Shape[len(x.Shape)-1]) {
			return c.BadInput(1, "one bias for each place on the last axis of input 0 %s", graph.ShapeString(x.Shape))
		}
		return nil
	}
}
