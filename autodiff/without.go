package autodiff

import "github.com/onnxmem/onnxmem/graph"

// Reasons why an operator has no gradient.
const (
	noReals     = "no floating-point number goes in, or none comes out"
	quantized   = "it computes with quantized or packed numbers: train the model from which it was made"
	collections = "sequences, optionals and maps have none, though tensors read out of a sequence of known items do"
	ownLayout   = "it is made for ONNX Runtime's blocked images: train the model from which it was made"
	inStep      = "it is part of a training step, or of a planned file"
	cached      = "it is made for inference with caches or packed tokens: export the model for training"
	notYet      = "there is no rule yet"
)

// without lists the operators that have neither a rule nor an expansion, and why. A test
// holds it against the operators of package ops.
var without = []struct {
	domain, reason string
	ops            []string
}{
	{"", noReals, []string{
		"And", "Or", "Xor", "Not", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot",
		"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN",
		"Constant", "RandomNormal", "RandomUniform", "BlackmanWindow", "HammingWindow", "HannWindow",
		"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "NonMaxSuppression",
		"ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
	}},
	{"", quantized, []string{"DynamicQuantizeLinear", "QuantizeLinear"}},
	{"", "it reads the bits of its input as another type", []string{"BitCast"}},
	{"", "the length of its result depends on its inputs, which must be constants in a training step", []string{"Range", "Unique"}},
	{"", collections, []string{
		"Optional", "OptionalGetElement", "OptionalHasElement", "SequenceConstruct", "SequenceEmpty",
		"SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
	}},
	{"com.microsoft", noReals, []string{
		"MatMulInteger16", "NhwcMaxPool", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
		"QLinearMul", "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere", "QuantizeLinear", "Tokenizer",
	}},
	{"com.microsoft", quantized, []string{
		"DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "GatherBlockQuantized", "MatMulBnb4", "MatMulFpQ4", "MatMulIntegerToFloat",
		"MatMulNBitsMlp", "MatMulNBitsQkv", "QAttention", "QEmbedLayerNormalization", "QGemm", "QMoE",
	}},
	{"com.microsoft", cached, []string{
		"DecoderMaskedMultiHeadAttention", "DecoderMaskedSelfAttention", "PackedAttention", "PackedMultiHeadAttention", "RemovePadding", "RestorePadding", "SparseAttention",
	}},
	{"com.microsoft", notYet, []string{"GatedRelativePositionBias", "LongformerAttention", "MaxpoolWithMask", "RelativePositionBias"}},
	{"com.microsoft", inStep, []string{
		"AbsGrad", "AdamWOptimizer", "BatchNormalizationGrad", "BiasFastGeluGrad_dX", "BiasGeluGrad_dX", "BroadcastGradientArgs", "ConvGrad",
		"ConvTransposeGrad", "DivGrad", "DropoutGrad", "FakeQuantGrad", "FastGeluGrad", "GatherElementsGrad", "GatherGrad", "GatherNDGrad", "GeluGrad",
		"InPlaceAccumulator", "InPlaceAccumulatorV2", "InplaceClipGradNorm", "InvertibleLayerNormalizationGrad", "IsAllFinite", "LayerNormalizationGrad",
		"LeakyReluGrad", "LogSoftmaxGrad", "LogSoftmaxGrad_13", "MinMaxGrad", "QuickGeluGrad", "ReduceAllL2", "ReduceSumTraining", "ReluGrad",
		"ResizeGrad", "SGDOptimizerV2", "Scale", "ConcatTraining", "SplitTraining", "BatchNormInternal", "SigmoidGrad", "SimplifiedLayerNormalizationGrad", "SliceGrad", "SoftmaxCrossEntropy", "SoftmaxCrossEntropyGrad",
		"SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternal", "SoftmaxCrossEntropyLossInternalGrad", "SoftmaxGrad", "SoftmaxGrad_13",
		"SparseSoftmaxCrossEntropy", "SparseSoftmaxCrossEntropyGrad", "TanhGrad", "ZeroGradient",
	}},
	{"com.microsoft.nchwc", ownLayout, []string{
		"AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput", "Upsample",
	}},
	{"ai.onnx.ml", collections, []string{"CastMap", "DictVectorizer", "ZipMap"}},
	{"ai.onnx.ml", noReals, []string{"CategoryMapper"}},
	{"ai.onnx.ml", notYet, []string{"LinearClassifier", "SVMClassifier", "SVMRegressor"}},
	{"ai.onnx.preview", notYet, []string{"FlexAttention"}},
	{"ai.onnx.preview.training", inStep, []string{"Adagrad", "Adam", "Gradient", "Momentum"}},
	{graph.SwapDomain, inStep, []string{"ConvWeightGrad", "FlashAttentionGrad", "PutRows", "SwapIn", "SwapOut"}},
}

// whyWithout is the reason why an operator has no gradient; "" for one that the table does
// not list.
func whyWithout(domain, op string) string {
	for _, w := range without {
		if w.domain == domain {
			for _, name := range w.ops {
				if name == op {
					return w.reason
				}
			}
		}
	}
	return ""
}
