package ops

import "github.com/onnxmem/onnxmem/graph"

// runtimeTraining lists operators of the training steps that ONNX Runtime's own tools make:
// gradients, which have the shapes of what they are gradients of, losses and updates. Such a step
// can be planned; it is made already, so these have no kernels and no gradients.
var runtimeTraining = family{"com.microsoft", []Op{
	{Name: "SoftmaxCrossEntropyLossInternal", Class: Reduce, Infer: internalLoss},
	{Name: "SoftmaxCrossEntropyLossInternalGrad", Class: Norm, Infer: gradientOfLoss},
	{Name: "SoftmaxCrossEntropyLossGrad", Class: Norm, Infer: gradientOfLoss},
	{Name: "SoftmaxCrossEntropy", Class: Reduce, Infer: internalLoss},
	{Name: "SoftmaxCrossEntropyGrad", Class: Norm, Infer: gradientOfLoss},
	{Name: "SparseSoftmaxCrossEntropy", Class: Reduce, Infer: internalLoss},
	{Name: "SparseSoftmaxCrossEntropyGrad", Class: Norm, Infer: gradientOfLoss},

	{Name: "ReluGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: onePerElement},
	{Name: "GeluGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: perElement(4)},
	{Name: "FastGeluGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: perElement(4)},
	{Name: "QuickGeluGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: perElement(4)},
	{Name: "BiasGeluGrad_dX", Class: Elementwise, Infer: likeInputs(0), FLOPs: perElement(4)},
	{Name: "BiasFastGeluGrad_dX", Class: Elementwise, Infer: likeInputs(0), FLOPs: perElement(4)},
	{Name: "SigmoidGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: perElement(3)},
	{Name: "TanhGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: perElement(3)},
	{Name: "LeakyReluGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: onePerElement},
	{Name: "AbsGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: onePerElement},
	{Name: "SoftmaxGrad", Class: Norm, Infer: likeInputs(0), FLOPs: perElement(3)},
	{Name: "SoftmaxGrad_13", Class: Norm, Infer: likeInputs(0), FLOPs: perElement(3)},
	{Name: "LogSoftmaxGrad", Class: Norm, Infer: likeInputs(0), FLOPs: perElement(3)},
	{Name: "LogSoftmaxGrad_13", Class: Norm, Infer: likeInputs(0), FLOPs: perElement(3)},
	{Name: "DropoutGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: onePerElement},
	{Name: "FakeQuantGrad", Class: Elementwise, Infer: likeInputs(0), FLOPs: onePerElement},
	{Name: "MinMaxGrad", Class: Other, Infer: likeInputs(1), FLOPs: onePerElement},
	{Name: "ResizeGrad", Class: Window, Infer: likeInputs(1)},
	{Name: "ConcatTraining", Class: Move, Infer: concatWithLengths},
	{Name: "SplitTraining", Class: Move, Infer: inferSplit},
	{Name: "BatchNormInternal", Class: Norm, Infer: likeInputs(0, 3, 4, 3, 4), FLOPs: perElement(6)},
	{Name: "Scale", Class: Elementwise, Infer: likeInputs(0), FLOPs: onePerElement},
	{Name: "DivGrad", Class: Other, Infer: likeInputs(1, 2)},
	{Name: "ConvGrad", Class: Product, Infer: gradientOfConv(0)},
	{Name: "ConvTransposeGrad", Class: Product, Infer: gradientOfConv(1)},
	{Name: "BatchNormalizationGrad", Class: Norm, Infer: likeInputs(1, 2, 2), FLOPs: perElement(8)},
	{Name: "LayerNormalizationGrad", Class: Norm, Infer: likeInputs(1, 2, 2), FLOPs: perElement(8)},
	{Name: "SimplifiedLayerNormalizationGrad", Class: Norm, Infer: likeInputs(1, 2), FLOPs: perElement(6)},
	{Name: "InvertibleLayerNormalizationGrad", Class: Norm, Infer: likeInputs(1, 2, 3), FLOPs: perElement(8)},
	{Name: "GatherGrad", Class: Scatter, Infer: ofStatedShape(0, 2)},
	{Name: "GatherNDGrad", Class: Scatter, Infer: ofStatedShape(0, 2)},
	{Name: "GatherElementsGrad", Class: Scatter, Infer: ofStatedShape(1, 0)},
	{Name: "SliceGrad", Class: Scatter, Infer: ofStatedShape(1, 0)},
	{Name: "BroadcastGradientArgs", Class: Other, Infer: broadcastAxes},
	{Name: "ReduceSumTraining", Class: Reduce, Infer: inferReduce, FLOPs: perElement(1)},
	{Name: "ReduceAllL2", Class: Reduce, Infer: func(c *Call) error { return oneElement(c, graph.Float32) }},

	{Name: "InPlaceAccumulator", Class: Elementwise, Infer: likeInputs(0), Inplace: overFirst, FLOPs: onePerElement},
	{Name: "InPlaceAccumulatorV2", Class: Other, Infer: flagAnd(0), Inplace: overAccumulated, FLOPs: onePerElement},
	{Name: "ZeroGradient", Class: Elementwise, Infer: likeInputs(0), Inplace: overFirst},
	{Name: "InplaceClipGradNorm", Class: Other, Infer: likeInputs(0)},
	{Name: "AdamWOptimizer", Class: Other, Infer: flagAnd(2, 4, 5)},
	{Name: "SGDOptimizerV2", Class: Other, Infer: flagAnd(1)},
	{Name: "IsAllFinite", Class: Reduce, Infer: func(c *Call) error { return oneElement(c, graph.Bool) }},
}}

// likeInputs: output k has the type of the input that is named for it.
func likeInputs(inputs ...int) func(c *Call) error {
	return func(c *Call) error {
		for k, i := range inputs {
			if !c.Has(i) {
				return c.Errf("input %d is missing: expected that of which output %d is the gradient or the new value", i, k)
			}
			c.SetType(k, c.In[i].Type)
		}
		return nil
	}
}

// flagAnd is likeInputs behind output 0, which says whether there was an update.
func flagAnd(inputs ...int) func(c *Call) error {
	return func(c *Call) error {
		c.Set(0, graph.Bool, []graph.Dim{1})
		for k, i := range inputs {
			if !c.Has(i) {
				return c.Errf("input %d is missing: expected that of which output %d is the new value", i, k+1)
			}
			c.SetType(k+1, c.In[i].Type)
		}
		return nil
	}
}

// overAccumulated: the sum may overwrite the old one.
func overAccumulated(c *Call) []graph.Alias { return overInput(c, 1, 0) }

// oneElement: output 0 is a number.
func oneElement(c *Call, elem graph.DType) error {
	c.Set(0, elem, nil)
	return nil
}

// concatWithLengths is Concat, with the length of each operand as a second result.
func concatWithLengths(c *Call) error {
	if err := inferConcat(c); err != nil {
		return err
	}
	c.Set(1, graph.Int64, []graph.Dim{graph.Dim(len(c.In))})
	return nil
}

// internalLoss: scores, labels, and perhaps weights and the label that does not count, give the
// loss, of the shape of the labels if it is not reduced, and the logarithms of the probabilities.
func internalLoss(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	elem := c.In[0].Elem
	if to := c.Int("output_type", 0); to > 0 {
		elem = graph.DType(to)
	}
	switch {
	case c.Str("reduction", "mean") != "none":
		c.Set(0, elem, nil)
	case c.In[1].Ranked:
		c.Set(0, elem, c.In[1].Shape)
	default:
		c.SetUnranked(0, elem)
	}
	return setAs(c, 1, 0, elem)
}

// setAs gives output k the shape of input i, and an element type.
func setAs(c *Call, k, i int, elem graph.DType) error {
	t := c.In[i].Type
	t.Kind, t.Elem = graph.KindTensor, elem
	c.SetType(k, t)
	return nil
}

// gradientOfLoss: the gradient of the loss and the logarithms of the probabilities give the
// gradient of the scores.
func gradientOfLoss(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	elem := c.In[0].Elem
	if to := c.Int("output_type", 0); to > 0 {
		elem = graph.DType(to)
	}
	return setAs(c, 0, 1, elem)
}

// gradientOfConv: the gradients of image, weights and bias. The bias has an element for each
// length of that axis of the weights: times the groups, if it is not the first one.
func gradientOfConv(axis int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(3); err != nil {
			return err
		}
		c.SetType(0, c.In[1].Type)
		c.SetType(1, c.In[2].Type)
		n := c.DimOf(2, axis)
		if axis > 0 {
			n = MulDims(n, graph.Dim(max(1, c.Int("group", 1))))
		}
		c.Set(2, c.In[2].Elem, []graph.Dim{n})
		return nil
	}
}

// ofStatedShape: input shape lists the lengths of output 0, whose elements are those of an input.
func ofStatedShape(shape, elem int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(max(shape, elem) + 1); err != nil {
			return err
		}
		list, err := c.list("", shape)
		if err != nil {
			return err
		}
		if !list.counted {
			c.SetUnranked(0, c.In[elem].Elem)
			return nil
		}
		dims := make([]graph.Dim, len(list.elems))
		for i, e := range list.elems {
			if e.State == Known && e.I < 0 {
				return c.BadInput(shape, "lengths of 0 or more")
			}
			dims[i] = e.Dim()
		}
		c.Set(0, c.In[elem].Elem, dims)
		return nil
	}
}

// broadcastAxes: the axes along which gradients of two operands are added up, no more than the
// longer of their shapes, inputs 0 and 1, has.
func broadcastAxes(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	n := c.DimOf(0, 0)
	if m := c.DimOf(1, 0); !n.Exact() || !m.Exact() {
		n = graph.Unknown
	} else {
		n = upTo(max(n, m))
	}
	for k := range 2 {
		c.Set(k, graph.Int64, []graph.Dim{n})
	}
	return nil
}

// trainingSignatures are the signatures of these operators, by ONNX Runtime's documentation.
const trainingSignatures = `
com.microsoft SoftmaxCrossEntropyLossInternal
  1 T I T? int64? > U U
  T bfloat16 float16 float32 float64
  I int32 int64
  U bfloat16 float16 float32 float64
  : reduction=string ignore_index=int output_type=int
com.microsoft SoftmaxCrossEntropyLossInternalGrad
  1 T U I U? int64? V? > V
  T bfloat16 float16 float32 float64
  U bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
  I int32 int64
  : reduction=string ignore_index=int output_type=int
com.microsoft SoftmaxCrossEntropyLossGrad
  1 T T I T? T? > T
  T bfloat16 float16 float32 float64
  I int32 int64
  : reduction=string ignore_index=int
com.microsoft SoftmaxCrossEntropy
  1 T T > T T
  T bfloat16 float16 float32 float64
  : reduction=string
com.microsoft SoftmaxCrossEntropyGrad
  1 T T T > T
  T bfloat16 float16 float32 float64
  : reduction=string
com.microsoft SparseSoftmaxCrossEntropy
  1 T I T? > T T
  T bfloat16 float16 float32 float64
  I int32 int64
  : reduction=string
com.microsoft SparseSoftmaxCrossEntropyGrad
  1 T T I T? > T
  T bfloat16 float16 float32 float64
  I int32 int64
  : reduction=string
com.microsoft ReluGrad
  1 T T > T
  T bfloat16 float16 float32 float64
com.microsoft GeluGrad
  1 T T > T
  T bfloat16 float16 float32 float64
com.microsoft FastGeluGrad
  1 T T > T
  T bfloat16 float16 float32 float64
com.microsoft QuickGeluGrad
  1 T T > T
  T bfloat16 float16 float32 float64
  : alpha=float
com.microsoft BiasGeluGrad_dX
  1 T T T > T
  T bfloat16 float16 float32 float64
com.microsoft BiasFastGeluGrad_dX
  1 T T T > T
  T bfloat16 float16 float32 float64
com.microsoft SigmoidGrad
  1 T T > T
  T bfloat16 float16 float32 float64
com.microsoft TanhGrad
  1 T T > T
  T bfloat16 float16 float32 float64
com.microsoft LeakyReluGrad
  1 T T > T
  T bfloat16 float16 float32 float64
  : alpha=float
com.microsoft AbsGrad
  1 T T > T
  T bfloat16 float16 float32 float64
com.microsoft SoftmaxGrad
  1 T T > T
  T bfloat16 float16 float32 float64
  : axis=int
com.microsoft SoftmaxGrad_13
  1 T T > T
  T bfloat16 float16 float32 float64
  : axis=int
com.microsoft LogSoftmaxGrad
  1 T T > T
  T bfloat16 float16 float32 float64
  : axis=int
com.microsoft LogSoftmaxGrad_13
  1 T T > T
  T bfloat16 float16 float32 float64
  : axis=int
com.microsoft DropoutGrad
  1 T bool V? bool? > T
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
com.microsoft FakeQuantGrad
  1 T bool > T
  T float32
com.microsoft MinMaxGrad
  1 T T T > T
  T bfloat16 float16 float32 float64
com.microsoft ResizeGrad
  1 T T T? float32? > T
  T float16 float32 float64
  : mode=string coordinate_transformation_mode=string
com.microsoft DivGrad
  1 T T T > T? T?
  T bfloat16 float16 float32 float64
com.microsoft ConcatTraining
  1 T* > T int64?
  T bfloat16 bool float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8
  : axis=int
com.microsoft SplitTraining
  1 T int64 > T*
  T bfloat16 bool float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8
  : axis=int
com.microsoft BatchNormInternal
  1 T V V U U > T U? U? U? U?
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
  U bfloat16 float16 float32 float64
  : epsilon=float momentum=float training_mode=int
com.microsoft Scale
  1 T V > T
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64 int32 int64
  : scale_down=int
com.microsoft ConvGrad
  1 T T T > T? T? T?
  T bfloat16 float16 float32 float64
  : auto_pad=string dilations=ints group=int kernel_shape=ints pads=ints strides=ints
com.microsoft ConvTransposeGrad
  1 T T T > T? T? T?
  T bfloat16 float16 float32 float64
  : auto_pad=string dilations=ints group=int kernel_shape=ints output_padding=ints output_shape=ints pads=ints strides=ints
com.microsoft BatchNormalizationGrad
  1 T T V U U > T V V
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
  U bfloat16 float16 float32 float64
  : epsilon=float
com.microsoft LayerNormalizationGrad
  1 V T V U U > T V V
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
  U float32 float64
  : axis=int
com.microsoft SimplifiedLayerNormalizationGrad
  1 V T V U > T V
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
  U float32 float64
  : axis=int
com.microsoft InvertibleLayerNormalizationGrad
  1 V V V V U > T V V
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
  U float32 float64
  : axis=int
com.microsoft GatherGrad
  1 int64 I T > T
  T bfloat16 float16 float32 float64
  I int32 int64
  : axis=int
com.microsoft GatherNDGrad
  1 int64 I T > T
  T bfloat16 float16 float32 float64
  I int32 int64
  : batch_dims=int
com.microsoft GatherElementsGrad
  1 T int64 I > T
  T bfloat16 float16 float32 float64
  I int32 int64
  : axis=int
com.microsoft SliceGrad
  1 T int64 I I I? I? > T
  T bfloat16 float16 float32 float64
  I int32 int64
com.microsoft BroadcastGradientArgs
  1 int64 int64 > int64? int64?
com.microsoft ReduceSumTraining
  1 T int64 > T
  T bfloat16 float16 float32 float64 int32 int64
  : keepdims=int noop_with_empty_axes=int
com.microsoft ReduceAllL2
  1 T~ > V
  T bfloat16 float16 float32 float64
  V bfloat16 float16 float32 float64
com.microsoft InPlaceAccumulator
  1 T V bool? > T
  T bfloat16 float16 float32
  V bfloat16 float16 float32
com.microsoft InPlaceAccumulatorV2
  1 T T bool? > bool T?
  T bfloat16 float16 float32
com.microsoft ZeroGradient
  1 T V > T
  T bfloat16 float16 float32
  V bfloat16 float16 float32 bool
com.microsoft InplaceClipGradNorm
  1 any > any
  : max_norm=float norm_type=string
com.microsoft AdamWOptimizer
  1 float32 int64 any any any any bool? > bool any? any? any?
  : adam_mode=int alpha=float beta=float correct_bias=int epsilon=float weight_decay=float
com.microsoft SGDOptimizerV2
  1 float32 any any bool? > bool any?
com.microsoft IsAllFinite
  1 T~ > bool
  T bfloat16 float16 float32 float64
  : isinf_only=int isnan_only=int
`
