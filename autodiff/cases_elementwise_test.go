package autodiff

import "github.com/onnxmem/onnxmem/graph"

// smooth returns a case of an operator with one input.
func smooth(op string, x operand) ruleCase { return ruleCase{op: op, in: []operand{x}} }

// flat returns a case of an operator that passes no gradient.
func flat(op string, x operand) ruleCase { return ruleCase{op: op, in: []operand{x}, zero: true} }

// fourSides has elements on all sides of the kinks of the activations.
var fourSides = param(2, 5).of(-4.2, -2.6, -1.2, -0.7, -0.3, 0.4, 0.9, 1.3, 2.7, 4.6)

var elementwiseCases = []ruleCase{
	{op: "Relu", in: []operand{fourSides}, opsets: []int64{7, 13, 14, 18, 21}},
	{op: "Sigmoid", in: []operand{fourSides}, opsets: []int64{7, 13, 21}},
	{op: "Tanh", in: []operand{fourSides}, opsets: []int64{7, 13, 21}},
	smooth("Exp", fourSides),
	smooth("Tan", param(2, 3)),
	smooth("Reciprocal", fourSides),
	smooth("Abs", fourSides),
	smooth("Sin", fourSides),
	smooth("Cos", fourSides),
	smooth("Sinh", fourSides),
	smooth("Cosh", fourSides),
	smooth("Asin", param(2, 3)),
	smooth("Acos", param(2, 3)),
	smooth("Atan", fourSides),
	smooth("Asinh", fourSides),
	smooth("Acosh", param(2, 3).in(1.2, 3)),
	smooth("Atanh", param(2, 3)),
	smooth("Softplus", fourSides),
	smooth("Erf", fourSides),
	smooth("Mish", fourSides),
	{op: "Gelu", in: []operand{fourSides}, opsets: []int64{20, 21}},
	{op: "Gelu", name: "tanh", in: []operand{fourSides}, attrs: attrs{"approximate": "tanh"}, opsets: []int64{20}},
	{op: "Swish", in: []operand{fourSides}, opsets: []int64{24}},
	{op: "Swish", name: "alpha", in: []operand{fourSides}, attrs: attrs{"alpha": 1.5}, opsets: []int64{24}},
	smooth("Log", param(2, 3).in(0.3, 3)),
	smooth("Sqrt", param(2, 3).in(0.3, 3)),
	smooth("Neg", fourSides),
	smooth("Softsign", fourSides),
	{op: "Identity", in: []operand{fourSides}, opsets: []int64{7, 18}},
	{op: "Cast", name: "to float32", in: []operand{fourSides}, attrs: attrs{"to": graph.Float32}, opsets: []int64{9, 13, 18, 21}},
	{op: "Cast", name: "from float32", in: []operand{fourSides.as(graph.Float32)}, attrs: attrs{"to": graph.Float64}},
	{op: "CastLike", in: []operand{fourSides, param(1).as(graph.Float32).fixed()}},
	smooth("LeakyRelu", fourSides),
	{op: "LeakyRelu", name: "negative slope", in: []operand{fourSides}, attrs: attrs{"alpha": -0.5}},
	smooth("ThresholdedRelu", fourSides),
	{op: "ThresholdedRelu", name: "alpha", in: []operand{fourSides}, attrs: attrs{"alpha": 0.5}},
	smooth("Elu", fourSides),
	{op: "Elu", name: "alpha", in: []operand{fourSides}, attrs: attrs{"alpha": 0.5}},
	{op: "Elu", name: "negative alpha", in: []operand{fourSides}, attrs: attrs{"alpha": -0.5}},
	smooth("Selu", fourSides),
	{op: "Selu", name: "constants", in: []operand{fourSides}, attrs: attrs{"alpha": 0.5, "gamma": 1.5}},
	{op: "Selu", name: "negative", in: []operand{fourSides}, attrs: attrs{"alpha": -0.5, "gamma": 1.5}},
	{op: "Selu", name: "both negative", in: []operand{fourSides}, attrs: attrs{"alpha": -0.5, "gamma": -1.5}},
	smooth("Celu", fourSides),
	{op: "Celu", name: "alpha", in: []operand{fourSides}, attrs: attrs{"alpha": 0.5}},
	smooth("HardSigmoid", fourSides),
	{op: "HardSigmoid", name: "constants", in: []operand{fourSides}, attrs: attrs{"alpha": 0.25, "beta": 0.25}},
	smooth("HardSwish", fourSides),
	smooth("Shrink", fourSides),
	{op: "Shrink", name: "constants", in: []operand{fourSides}, attrs: attrs{"lambd": 1.0, "bias": 0.5}},
	{op: "PRelu", name: "slope of each channel", in: []operand{param(2, 3, 2), param(3, 1)}, opsets: []int64{7, 9, 16, 18}},
	{op: "PRelu", name: "one slope", in: []operand{param(2, 3), param(1)}},
	{op: "PRelu", name: "full slope", in: []operand{param(2, 3), param(2, 3)}},
	{op: "PRelu", name: "x alone", in: []operand{param(2, 3), param(3).fixed()}},
	{op: "Clip", in: []operand{fourSides, scalar(-1), scalar(2)}, opsets: []int64{11, 12, 13, 18}},
	{op: "Clip", name: "bounds are attributes", in: []operand{fourSides}, attrs: attrs{"min": -1.0, "max": 2.0}, opsets: []int64{7, 10}},
	{op: "Clip", name: "low is an attribute", in: []operand{fourSides}, attrs: attrs{"min": -1.0}, opsets: []int64{7}},
	{op: "Clip", name: "high is an attribute", in: []operand{fourSides}, attrs: attrs{"max": 1.0}, opsets: []int64{7}},
	{op: "Clip", name: "low alone", in: []operand{fourSides, scalar(-1)}},
	{op: "Clip", name: "high alone", in: []operand{fourSides, omitted, scalar(2)}},
	{op: "Clip", name: "no bounds", in: []operand{fourSides}, opsets: []int64{7, 18}},
	{op: "Dropout", name: "ratio is an attribute", in: []operand{param(4, 8)}, attrs: attrs{"ratio": 0.25}, opsets: []int64{7, 10}, training: true},
	{op: "Dropout", name: "default ratio", in: []operand{param(4, 8)}, opsets: []int64{7, 10, 12, 13, 18, 22}, training: true},
	{op: "Dropout", name: "ratio is an input", in: []operand{param(4, 8), scalar(0.25)}, opsets: []int64{12, 13, 18}, training: true},
	{op: "Dropout", name: "mask was there", in: []operand{param(4, 8), scalar(0.25)}, outputs: 2, use: []int{0}, training: true},
	{op: "Dropout", name: "ratio of float32", in: []operand{param(4, 8).as(graph.Float32), scalar(0.25).as(graph.Float32)}, training: true},

	flat("Hardmax", param(2, 3)),
	flat("EyeLike", param(3, 3)),
	flat("Bernoulli", param(2, 3).in(0.2, 0.8)),
	flat("Multinomial", param(2, 3)),
	flat("RandomUniformLike", param(2, 3)),
	flat("RandomNormalLike", param(2, 3)),
	flat("Floor", fourSides),
	flat("Ceil", fourSides),
	flat("Round", fourSides),
	flat("Sign", fourSides),
	flat("Shape", fourSides),
	flat("Size", fourSides),
	{op: "ConstantOfShape", in: []operand{list(2, 3)}, zero: true},
}

// scalar returns a constant float64 scalar.
func scalar(v float64) operand {
	return operand{shape: []int{}, reals: []float64{v}, elem: graph.Float64, known: true}
}
