package autodiff

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// corner is a function at points where a formula of its gradient may divide by zero or
// multiply zero by infinity. Its gradients must be those of PyTorch in float64, which
// crosscheck/run corners writes to testdata/corners.json, or differ for a reason.
type corner struct {
	name    string
	in      []operand // parameters, and other operands
	op      string    // one node of the operands; "": build
	attrs   attrs
	build   func(b *builder, x []ID) ID
	opset   int64  // 0: 20
	differs string // why the gradients are not PyTorch's; "": they are
}

// at returns a list of float64 parameters.
func at(v ...float64) operand { return param(len(v)).of(v...) }

// rows returns a matrix of float64 parameters.
func rows(n int, v ...float64) operand { return param(n, len(v)/n).of(v...) }

var inf, nan = math.Inf(1), math.NaN()

// number adds a constant.
func (b *builder) number(v float64) ID {
	return b.initializer(fmt.Sprintf("c%d", len(b.m.Graph.Tensors)), &reference.Tensor{Type: graph.Float64, Shape: []int{}, F: []float64{v}})
}

// axes adds a constant list of axes.
func (b *builder) axes(v ...int64) ID {
	return b.initializer(fmt.Sprintf("axes%d", len(b.m.Graph.Tensors)), reference.Ints([]int{len(v)}, v...))
}

// do adds a node with a name of its own.
func (b *builder) do(op string, a attrs, in ...ID) ID {
	return b.op(fmt.Sprintf("t%d", len(b.m.Graph.Tensors)), op, a, in...)
}

// chosen is y where x > 0, else 0.
func (b *builder) chosen(x, y ID) ID {
	return b.do("Where", nil, b.do("Greater", nil, x, b.number(0)), y, b.number(0))
}

var corners = slices.Concat([]corner{
	{op: "Abs", in: []operand{at(-1, 0, 1)}},
	{op: "Relu", in: []operand{at(-1, 0, 1)}},
	{op: "LeakyRelu", in: []operand{at(-1, 0, 1)}},
	{op: "ThresholdedRelu", in: []operand{at(0, 1, 2)}},
	{op: "PRelu", in: []operand{at(-1, 0, 1), at(0.25, 0.5, 0)}},
	{op: "Elu", in: []operand{at(-800, 0, 800)}},
	{op: "Selu", in: []operand{at(-800, 0, 800)}},
	{op: "Celu", in: []operand{at(-800, 0, 800)}},
	{op: "Gelu", in: []operand{at(-1e200, -40, 0, 40, 1e200)}},
	{op: "Gelu", name: "tanh", in: []operand{at(-40, 0, 40, 1e5)}, attrs: attrs{"approximate": "tanh"}},
	{op: "Gelu", name: "tanh far out", in: []operand{at(-1e200, 1e200)}, attrs: attrs{"approximate": "tanh"}, differs: "PyTorch's is 0·∞; the limits are 0 and 1"},
	{op: "Mish", in: []operand{at(-1000, -40, 0, 40, 1000)}},
	{op: "Swish", in: []operand{at(-1000, -40, 0, 40, 1000)}, opset: 24},
	{op: "HardSigmoid", in: []operand{at(-4, -3, 0, 3, 4)}, attrs: attrs{"alpha": 1.0 / 6}},
	{op: "HardSwish", in: []operand{at(-4, -3, 0, 3, 4)}},
	{op: "Softplus", in: []operand{at(-1000, 0, 20, 1000)}},
	{op: "Softsign", in: []operand{at(-1e200, 0, 1e200)}},
	{op: "Shrink", name: "hard", in: []operand{at(-0.5, 0, 0.5, 1)}},
	{op: "Shrink", name: "soft", in: []operand{at(-0.5, 0, 0.5, 1)}, attrs: attrs{"bias": 0.5}},
	{op: "Sigmoid", in: []operand{at(-1000, 0, 1000, inf)}},
	{op: "Tanh", in: []operand{at(-1000, 0, 1000, inf)}},
	{op: "Erf", in: []operand{at(-40, 0, 40, inf)}},
	{op: "Clip", in: []operand{at(-2, -1, 0, 1, 2), scalar(-1), scalar(1)}},
	{op: "Clip", name: "Relu6", in: []operand{at(-1, 0, 1, 6, 7), scalar(0), scalar(6)}},
	{op: "Clip", name: "low", in: []operand{at(-1, 0, 1), scalar(0)}},
	{op: "Clip", name: "high", in: []operand{at(-1, 0, 1), omitted, scalar(0)}},
	{op: "Clip", name: "low above high", in: []operand{at(0, 1, 2, 3), scalar(2), scalar(1)}},
	{op: "Exp", in: []operand{at(-1000, 0, 800)}},
	{op: "Log", in: []operand{at(0, 1, inf)}},
	{op: "Sqrt", in: []operand{at(0, 1, inf)}},
	{op: "Reciprocal", in: []operand{at(0, 1, inf)}},
	{op: "Asin", in: []operand{at(-1, 0, 1)}},
	{op: "Acos", in: []operand{at(-1, 0, 1)}},
	{op: "Atan", in: []operand{at(0, inf, 1e200)}},
	{op: "Asinh", in: []operand{at(0, 1e100)}},
	{op: "Acosh", in: []operand{at(1, 2)}},
	{op: "Atanh", in: []operand{at(-1, 0, 1)}},
	{op: "Tan", in: []operand{at(0, math.Pi/2)}},
	{op: "Sinh", in: []operand{at(0, 800)}},
	{op: "Cosh", in: []operand{at(0, 800)}},
	{op: "Mod", in: []operand{at(-4, 0, 2, 3), scalar(2)}, attrs: attrs{"fmod": 1}},
	{op: "Mul", in: []operand{at(0, 0, 1), at(0, 1, 0)}},
	{op: "Div", in: []operand{at(0, 1, 1), at(1, inf, 2)}},
	{op: "Div", name: "by 0", in: []operand{at(1, -1), at(0, 0)}},
	{op: "Max", in: []operand{at(0, 1, 2), at(1, 1, 1)}},
	{op: "Min", in: []operand{at(0, 1, 2), at(1, 1, 1)}},
	{op: "Pow", name: "base", in: []operand{at(0, 0, 0, 0, 1, -1, -1, -2, -2), at(0, 1, 2, 3, 0, 0, 2, 3, -1).fixed()}},
	{op: "Pow", name: "base that comes with its exponents", in: []operand{at(0, 0, 0, 0, 1, -1, -1, -2, -2), at(0, 1, 2, 3, 0, 0, 2, 3, -1).fed()}},
	{op: "Pow", name: "base and exponent", in: []operand{at(0, 0, 0, 0, 1, 1, 2), at(0, 1, 2, 1.5, 0, -1, 0)}},
	{op: "Pow", name: "exponent below 0 at base 0", in: []operand{at(0), at(-1)}},
	{op: "Pow", name: "exponent 0.5 at base 0", in: []operand{at(0), at(0.5)}},
	{op: "Pow", name: "exponents of bases below 0", in: []operand{at(-1, -2, -2), at(2, 3, 0)}, differs: "PyTorch's exponents have log(-1), no number; a negative base has no power beside a whole exponent, and 0 changes none"},
	{op: "ReduceMax", in: []operand{rows(2, 1, 1, 0, -inf, -inf, -inf), list(1)}},
	{op: "ReduceMin", in: []operand{rows(2, 0, 0, 1, 2, 2, 2), list(1)}},
	{op: "ReduceProd", in: []operand{rows(3, 0, 2, 3, 0, 0, 3, 1, 2, -3), list(1)}},
	{op: "ReduceProd", name: "all axes", in: []operand{rows(2, 4, 2, 3, 0)}, attrs: attrs{"keepdims": 0}},
	{op: "ReduceL1", in: []operand{rows(2, 0, 0, 0, 1), list(1)}},
	{op: "ReduceL2", in: []operand{rows(2, 0, 0, 0, 3), list(1)}},
	{op: "ReduceLogSum", in: []operand{rows(2, 0, 1, 0, 0), list(1)}},
	{op: "ReduceLogSumExp", in: []operand{rows(2, -inf, 1, 1000, -1000), list(1)}},
	{op: "ReduceSumSquare", in: []operand{rows(2, 0, 0, 0, 1), list(1)}},
	{op: "LpNormalization", in: []operand{rows(2, 0, 0, 3, 4)}, attrs: attrs{"axis": 1}, differs: "PyTorch divides a row of zeros by 1e-12, and its gradient, too; the operator has no such term, and makes 0 of it"},
	{op: "LpNormalization", name: "p=1", in: []operand{rows(2, 0, 0, 0, 4)}, attrs: attrs{"axis": 1, "p": 1}, differs: "as for p=2"},
	{op: "CumProd", in: []operand{at(2, 0, 3, 0, 5), number(0)}, opset: 26},
	{op: "CumSum", in: []operand{at(0, 1e300, 1), number(0)}},
	{op: "Softmax", in: []operand{rows(3, -1000, 0, 1000, -inf, 0, 1, 1, 1, 1)}, attrs: attrs{"axis": 1}},
	{op: "LogSoftmax", in: []operand{rows(2, -1000, 0, 1000, 1, 1, 1)}, attrs: attrs{"axis": 1}},
	{op: "LogSoftmax", name: "of -∞", in: []operand{at(-inf, 0, 1)}, attrs: attrs{"axis": 0}},
	{op: "SoftmaxCrossEntropyLoss", in: []operand{rows(2, -inf, 0, 1, 1000, 0, -1000), indices([]int{2}, 1, 0)}},
	{op: "SoftmaxCrossEntropyLoss", name: "at -∞", in: []operand{rows(1, -inf, 0, 1), indices([]int{1}, 0)}},
	{op: "SoftmaxCrossEntropyLoss", name: "ignored labels", in: []operand{rows(3, 1, 2, 3, 3, 2, 1, 0, 0, 1), indices([]int{3}, 1, -100, 0)}, attrs: attrs{"ignore_index": -100}},
	{op: "SoftmaxCrossEntropyLoss", name: "ignored labels and weights", in: []operand{rows(3, 1, 2, 3, 3, 2, 1, 0, 0, 1), indices([]int{3}, 1, -100, 0), at(0.5, 2, 1).fixed()}, attrs: attrs{"ignore_index": -100}},
	{op: "SoftmaxCrossEntropyLoss", name: "all labels ignored", in: []operand{rows(2, 1, 2, 3, 3, 2, 1), indices([]int{2}, -100, -100)}, attrs: attrs{"ignore_index": -100}},
	{op: "SoftmaxCrossEntropyLoss", name: "all labels ignored, sum", in: []operand{rows(2, 1, 2, 3, 3, 2, 1), indices([]int{2}, -100, -100)}, attrs: attrs{"ignore_index": -100, "reduction": "sum"}},
	{op: "NegativeLogLikelihoodLoss", name: "all labels ignored", in: []operand{rows(2, 1, 2, 3, 3, 2, 1), indices([]int{2}, -100, -100)}, attrs: attrs{"ignore_index": -100}},
	{op: "BatchNormalization", in: []operand{rows(3, 1, 0, 1, 1, 1, 0), at(1, 2), at(0, 1), at(0, 0).fixed(), at(1, 1).fixed()}},
	{op: "LayerNormalization", in: []operand{rows(2, 1, 1, 1, 0, 0, 0), at(1, 2, 3), at(0, 0, 0)}},
	{op: "InstanceNormalization", in: []operand{param(1, 2, 3).of(1, 1, 1, 0, 0, 0), at(1, 2), at(0, 0)}},
	{op: "GroupNormalization", in: []operand{param(1, 2, 3).of(1, 1, 1, 1, 1, 1), at(1, 2), at(0, 0)}, attrs: attrs{"num_groups": 1}, opset: 21},
	{op: "RMSNormalization", in: []operand{rows(2, 0, 0, 0, 1, 1, 1), at(1, 2, 3)}, opset: 23},
	{op: "LRN", in: []operand{param(1, 3, 2).of(0, 0, 0, 1, 1, 0)}, attrs: attrs{"size": 3}},
	{op: "MaxPool", in: []operand{param(1, 1, 4).of(1, 1, 2, 2)}, attrs: attrs{"kernel_shape": []int64{2}, "strides": []int64{2}}},
	{op: "GlobalMaxPool", in: []operand{param(1, 2, 3).of(1, 1, 0, 2, 2, 2)}},
	{op: "LpPool", in: []operand{param(1, 1, 4).of(0, 0, 3, 4)}, attrs: attrs{"kernel_shape": []int64{2}, "strides": []int64{2}}},
	{op: "GlobalLpPool", in: []operand{param(1, 2, 2).of(0, 0, 3, 4)}},
	{op: "Where", in: []operand{flags([]int{3}, 1, 0, 1), at(1, nan, inf), at(nan, 2, 3)}},
	{op: "Sum", in: []operand{at(0, inf), at(1, 1)}},
	{op: "Mean", in: []operand{at(0, inf), at(1, 1)}},
	{op: "Neg", in: []operand{at(0, inf)}},
	{op: "Sin", in: []operand{at(0, 1e15)}},
	{op: "Cos", in: []operand{at(0, 1e15)}},
	{op: "ReduceSum", in: []operand{rows(2, 0, inf, 1, 1), list(1)}},
	{op: "ReduceMean", in: []operand{rows(2, 0, inf, 1, 1), list(1)}},
	{op: "ScatterElements", name: "max, ties", in: []operand{at(1, 2, 3), indices([]int{4}, 0, 0, 1, 2), at(1, 1, 2, 0)}, attrs: attrs{"reduction": "max"}},
	{op: "ScatterElements", name: "mul by 0", in: []operand{at(0, 2, 3), indices([]int{4}, 0, 1, 1, 2), at(2, 0, 3, 0)}, attrs: attrs{"reduction": "mul"}},
	{op: "MeanVarianceNormalization", in: []operand{rows(2, 1, 1, 3, 5)}, attrs: attrs{"axes": []int64{1}}},
	{op: "Det", in: []operand{rows(2, 1, 2, 2, 4)}, differs: "PyTorch multiplies the inverse by the determinant, which is 0; the gradient is the matrix of cofactors"},
}, gridCorners(), composedCorners)

// gridCorners sample at the centres and at the edges of the border's elements.
func gridCorners() []corner {
	var list []corner
	grid := param(1, 1, 7, 2).of(-1, -1, 1, 1, 0, 0, -0.5, 0.5, 0.5, -0.5, -2, 0.25, 2, 1.5)
	for _, padding := range []string{"zeros", "border"} {
		for corners := range 2 {
			list = append(list, corner{
				op: "GridSample", name: fmt.Sprintf("%s, align_corners=%d", padding, corners),
				in:    []operand{param(1, 1, 2, 2).of(1, 2, 3, 5), grid},
				attrs: attrs{"mode": "linear", "padding_mode": padding, "align_corners": corners},
			})
		}
	}
	return list
}

var composedCorners = []corner{
	{name: "log of sigmoid", in: []operand{at(-700, -40, 0, 40, 1000)}, build: func(b *builder, x []ID) ID { return b.do("Log", nil, b.do("Sigmoid", nil, x[0])) }},
	{name: "log of softmax", in: []operand{at(-700, 0, 1)}, build: func(b *builder, x []ID) ID { return b.do("Log", nil, b.do("Softmax", nil, x[0])) }},
	{name: "normalize", in: []operand{rows(2, 0, 0, 3, 4)}, build: func(b *builder, x []ID) ID {
		n := b.do("Clip", nil, b.do("ReduceL2", nil, x[0], b.axes(1)), b.number(1e-12))
		return b.do("Div", nil, x[0], n)
	}},
	{name: "normalize as PyTorch exports it", in: []operand{rows(2, 0, 0, 3, 4)}, build: func(b *builder, x []ID) ID {
		last := b.do("Constant", attrs{"value": dataOf(reference.Ints([]int{1}, -1))})
		least := b.do("Constant", attrs{"value": dataOf(reals([]int{}, 1e-12))})
		n := b.do("Clip", nil, b.do("ReduceL2", attrs{"keepdims": 1}, x[0], last), least, graph.None)
		return b.do("Div", nil, x[0], b.do("Expand", nil, n, b.do("Shape", nil, x[0])))
	}},
	{name: "normalize by a maximum", in: []operand{rows(2, 0, 0, 3, 4)}, build: func(b *builder, x []ID) ID {
		n := b.do("Max", nil, b.do("ReduceL2", nil, x[0], b.axes(1)), b.number(1e-12))
		return b.do("Div", nil, x[0], n)
	}},
	{name: "distance of equal pairs", in: []operand{rows(2, 1, 2, 3, 4), rows(2, 1, 2, 0, 0)}, build: func(b *builder, x []ID) ID {
		return b.do("ReduceL2", nil, b.do("Sub", nil, x[0], x[1]), b.axes(1))
	}},
	{name: "root of a sum of squares", in: []operand{rows(2, 0, 0, 3, 4)}, build: func(b *builder, x []ID) ID {
		return b.do("Sqrt", nil, b.do("ReduceSum", nil, b.do("Mul", nil, x[0], x[0]), b.axes(1)))
	}},
	{name: "root of a sum of powers", in: []operand{rows(2, 0, 0, 3, 4)}, build: func(b *builder, x []ID) ID {
		return b.do("Pow", nil, b.do("ReduceSum", nil, b.do("Pow", nil, x[0], b.number(2)), b.axes(1)), b.number(0.5))
	}},
	{name: "3-norm", in: []operand{rows(2, 0, 0, 3, -4)}, build: func(b *builder, x []ID) ID {
		return b.do("Pow", nil, b.do("ReduceSum", nil, b.do("Pow", nil, b.do("Abs", nil, x[0]), b.number(3)), b.axes(1)), b.number(1.0/3))
	}},
	{name: "magnitude of two parts", in: []operand{at(0, 3), at(0, 4)}, build: func(b *builder, x []ID) ID {
		return b.do("Sqrt", nil, b.do("Add", nil, b.do("Mul", nil, x[0], x[0]), b.do("Pow", nil, x[1], b.number(2))))
	}},
	{name: "deviation", in: []operand{rows(2, 1, 1, 3, 5)}, build: func(b *builder, x []ID) ID {
		d := b.do("Sub", nil, x[0], b.do("ReduceMean", nil, x[0], b.axes(1)))
		return b.do("Sqrt", nil, b.do("ReduceMean", nil, b.do("Mul", nil, d, d), b.axes(1)))
	}},
	{name: "root of a clamped number", in: []operand{at(-1, 0, 4)}, build: func(b *builder, x []ID) ID {
		return b.do("Sqrt", nil, b.do("Relu", nil, x[0]))
	}},
	{name: "cosine similarity", in: []operand{rows(2, 0, 0, 3, 4), rows(2, 1, 2, 4, 3)}, build: func(b *builder, x []ID) ID {
		norm := func(t ID) ID {
			return b.do("Max", nil, b.do("ReduceL2", nil, t, b.axes(1)), b.number(1e-8))
		}
		dot := b.do("ReduceSum", nil, b.do("Mul", nil, x[0], x[1]), b.axes(1))
		return b.do("Div", nil, dot, b.do("Mul", nil, norm(x[0]), norm(x[1])))
	}},
	{name: "atan2", in: []operand{at(1, -1, 0, 2, -2), at(0, 0, 1, 1, -1)}, build: func(b *builder, x []ID) ID {
		return b.do("Atan", nil, b.do("Div", nil, x[0], x[1]))
	}},
	{name: "softmax of single operators", in: []operand{rows(2, -1000, 0, 1000, 1, 1, 1)}, build: func(b *builder, x []ID) ID {
		e := b.do("Exp", nil, b.do("Sub", nil, x[0], b.do("ReduceMax", nil, x[0], b.axes(1))))
		return b.do("Div", nil, e, b.do("ReduceSum", nil, e, b.axes(1)))
	}},
	{name: "power of a constant exponent 0", in: []operand{at(0, 1, -2)}, build: func(b *builder, x []ID) ID { return b.do("Pow", nil, x[0], b.number(0)) }},
	{name: "power of a constant exponent 1", in: []operand{at(0, 1, -2)}, build: func(b *builder, x []ID) ID { return b.do("Pow", nil, x[0], b.number(1)) }},
	{name: "power of a constant exponent 1.5", in: []operand{at(0, 1, 4)}, build: func(b *builder, x []ID) ID { return b.do("Pow", nil, x[0], b.number(1.5)) }},
	{name: "power of a constant exponent -1", in: []operand{at(1, -2, inf)}, build: func(b *builder, x []ID) ID { return b.do("Pow", nil, x[0], b.number(-1)) }},
	{name: "CDist of equal rows", in: []operand{rows(2, 1, 2, 3, 4), rows(2, 1, 2, 0, 0)}, build: func(b *builder, x []ID) ID {
		return b.node("com.microsoft", "CDist", attrs{"metric": "euclidean"}, x, "distances")[0]
	}},
	{name: "FastGelu", in: []operand{at(-40, 0, 40)}, build: func(b *builder, x []ID) ID { return b.node("com.microsoft", "FastGelu", nil, x, "gelu")[0] }},
	{name: "QuickGelu", in: []operand{at(-1000, 0, 1000)}, build: func(b *builder, x []ID) ID {
		return b.node("com.microsoft", "QuickGelu", attrs{"alpha": 1.0}, x, "gelu")[0]
	}},
	{name: "TopK of equal elements", differs: "the operator takes the first of equal elements, PyTorch's function some of them", in: []operand{at(1, 1, 1, 0)}, build: func(b *builder, x []ID) ID {
		return b.node("", "TopK", nil, []ID{x[0], b.axes(2)}, "top", "")[0]
	}},

	// What the loss leaves out: PyTorch's gradients are no numbers.
	{name: "log where it is chosen", differs: leftOut, in: []operand{at(0, -1, 2)}, build: func(b *builder, x []ID) ID { return b.chosen(x[0], b.do("Log", nil, x[0])) }},
	{name: "x·log(x) where it is chosen", differs: leftOut, in: []operand{at(0, -1, 2)}, build: func(b *builder, x []ID) ID {
		return b.chosen(x[0], b.do("Mul", nil, x[0], b.do("Log", nil, x[0])))
	}},
	{name: "root where it is chosen", differs: leftOut, in: []operand{at(0, -1, 4)}, build: func(b *builder, x []ID) ID { return b.chosen(x[0], b.do("Sqrt", nil, x[0])) }},
	{name: "quotient where it is chosen", differs: leftOut, in: []operand{at(0, 1, 2), at(0, 0, 4)}, build: func(b *builder, x []ID) ID {
		return b.chosen(x[1], b.do("Div", nil, x[0], x[1]))
	}},
	{name: "reciprocal where it is chosen", differs: leftOut, in: []operand{at(0, 4)}, build: func(b *builder, x []ID) ID { return b.chosen(x[0], b.do("Reciprocal", nil, x[0])) }},
	{name: "power where it is chosen", differs: leftOut, in: []operand{at(0, -1, 4)}, build: func(b *builder, x []ID) ID {
		return b.chosen(x[0], b.do("Pow", nil, x[0], b.number(-0.5)))
	}},
	{name: "exponential where it is chosen", differs: leftOut, in: []operand{at(-1000, 2)}, build: func(b *builder, x []ID) ID {
		return b.chosen(x[0], b.do("Exp", nil, b.do("Neg", nil, x[0])))
	}},
	{name: "sine of a logarithm where it is chosen", differs: leftOut, in: []operand{at(0, -1, 2)}, build: func(b *builder, x []ID) ID {
		return b.chosen(x[0], b.do("Sin", nil, b.do("Log", nil, x[0])))
	}},
	{name: "arc cosine of what is clamped", in: []operand{at(2, 0.5)}, build: func(b *builder, x []ID) ID {
		return b.do("Acos", nil, b.do("Clip", nil, x[0], b.number(-1), b.number(1)))
	}},
	{name: "log that is clamped", differs: leftOut, in: []operand{at(0, 2)}, build: func(b *builder, x []ID) ID {
		return b.do("Clip", nil, b.do("Log", nil, x[0]), b.number(-100))
	}},
	{name: "slice of a logarithm", differs: leftOut, in: []operand{at(0, 2)}, build: func(b *builder, x []ID) ID {
		return b.do("Slice", nil, b.do("Log", nil, x[0]), b.axes(1), b.axes(2))
	}},
	{name: "logarithm of a sum of exponentials of -∞ where it is chosen", differs: leftOut, in: []operand{rows(2, -inf, -inf, 0, 1)}, build: func(b *builder, x []ID) ID {
		y := b.do("ReduceLogSumExp", nil, x[0], b.axes(1))
		return b.do("Where", nil, b.do("IsInf", nil, y), b.number(0), y)
	}},
}

const leftOut = "the loss does not read the element; PyTorch multiplies that 0 by an infinite slope"

// title is the name of a corner in the table.
func (c *corner) title() string {
	if c.op == "" || c.name == "" {
		return c.op + c.name
	}
	return c.op + ": " + c.name
}

// model builds the function; the loss is the sum of its elements, each times a weight.
func (c *corner) model(t *testing.T) *builder {
	t.Helper()
	opset := c.opset
	if opset == 0 {
		opset = 20
	}
	b := newBuilder(c.title(), opset)
	var x []ID
	for i, o := range c.in {
		switch v := b.value(o); {
		case o.absent:
			x = append(x, graph.None)
		case o.param:
			x = append(x, b.initializer(fmt.Sprintf("p%d", i), v))
		case o.known:
			x = append(x, b.initializer(fmt.Sprintf("k%d", i), v))
		default:
			x = append(x, b.input(fmt.Sprintf("x%d", i), v))
		}
	}
	build := c.build
	if build == nil {
		build = func(b *builder, x []ID) ID { return b.do(c.op, c.attrs, x...) }
	}
	y := build(b, x)
	b.m.Graph.Link()
	name := b.m.Graph.Tensors[y].Name
	made, err := reference.Eval(b.m, b.feeds, name)
	if err != nil {
		t.Fatal(err)
	}
	w := &reference.Tensor{Type: graph.Float64, Shape: made[name].Shape}
	for i := range made[name].F {
		w.F = append(w.F, []float64{1, -0.5, 2, -1.25, 0.75}[i%5])
	}
	weighted := b.op("weighted", "Mul", nil, y, b.initializer("weights", w))
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, weighted))
	return b
}

// extended is a float64 that JSON holds, as a string if it is not finite.
type extended float64

func (x extended) MarshalJSON() ([]byte, error) {
	if v := float64(x); math.IsNaN(v) || math.IsInf(v, 0) {
		return json.Marshal(fmt.Sprint(v))
	}
	return json.Marshal(float64(x))
}

func (x *extended) UnmarshalJSON(text []byte) error {
	var v float64
	err := json.Unmarshal(text, &v)
	if err != nil {
		var s string
		if err = json.Unmarshal(text, &s); err == nil {
			_, err = fmt.Sscan(s, &v)
		}
	}
	*x = extended(v)
	return err
}

// recorded is a corner with its gradients.
type recorded struct {
	Title     string                `json:"title"`
	Op        string                `json:"op,omitempty"`
	Attrs     map[string]any        `json:"attrs,omitempty"`
	Inputs    [][]extended          `json:"inputs"`
	Shapes    [][]int               `json:"shapes"`
	Weights   []extended            `json:"weights,omitempty"`
	Shape     []int                 `json:"shape,omitempty"`
	Loss      extended              `json:"loss"`
	Gradients map[string][]extended `json:"gradients"`
	Differs   string                `json:"differs,omitempty"`
}

func extendedList(v []float64) []extended {
	out := make([]extended, len(v))
	for i, x := range v {
		out[i] = extended(x)
	}
	return out
}

// record differentiates the function.
func (c *corner) record(t *testing.T) recorded {
	t.Helper()
	b := c.model(t)
	step, err := Train(b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`), KeepGradients: true})
	if err != nil {
		t.Fatal(err)
	}
	feeds := feedsOf(t, step, b.feeds)
	got, err := reference.Eval(step.Model, feeds, gradientsOf(step, lossName)...)
	if err != nil {
		t.Fatal(err)
	}
	r := recorded{Title: c.title(), Op: c.op, Attrs: c.attrs, Gradients: map[string][]extended{}, Differs: c.differs, Loss: extended(got[lossName].F[0])}
	for i, o := range c.in {
		var v []extended
		if x := feeds[fmt.Sprintf("p%d", i)]; x != nil {
			v = extendedList(x.F)
		} else {
			v = extendedList(o.reals)
			for _, k := range o.ints {
				v = append(v, extended(k))
			}
		}
		r.Inputs, r.Shapes = append(r.Inputs, v), append(r.Shapes, append([]int{}, o.shape...))
	}
	for _, x := range b.m.Graph.Tensors {
		if x.Name == "weights" {
			w, err := reference.FromData(x.Data)
			if err != nil {
				t.Fatal(err)
			}
			r.Weights, r.Shape = extendedList(w.F), append([]int{}, w.Shape...)
		}
	}
	for _, p := range step.Parameters {
		r.Gradients[p] = extendedList(got[p+".grad"].F)
	}
	return r
}

// TestExportCorners writes the corners, with their gradients, to the file ONNXMEM_CORNERS,
// for crosscheck/corners.py, which differentiates them by PyTorch.
func TestExportCorners(t *testing.T) {
	path := os.Getenv("ONNXMEM_CORNERS")
	if path == "" {
		t.Skip("ONNXMEM_CORNERS is not set: this test writes a file for crosscheck/corners.py")
	}
	var list []recorded
	for _, c := range corners {
		list = append(list, c.record(t))
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCorners: the gradients at corners are PyTorch's, or differ for a reason; they are
// numbers wherever the loss is finite.
func TestCorners(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "corners.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []recorded
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	torch := map[string]recorded{}
	for _, r := range list {
		torch[r.Title] = r
	}
	for _, c := range corners {
		t.Run(c.title(), func(t *testing.T) {
			got := c.record(t)
			want, there := torch[c.title()]
			if !there || fmt.Sprint(want.Inputs) != fmt.Sprint(got.Inputs) {
				t.Fatalf("testdata/corners.json has no such case: crosscheck/run corners --write")
			}
			same := true
			for p, g := range got.Gradients {
				for i, v := range g {
					v, w := float64(v), float64(want.Gradients[p][i])
					if !math.IsInf(float64(got.Loss), 0) && !math.IsNaN(float64(got.Loss)) && math.IsNaN(v) {
						t.Errorf("gradient of %s, element %d: no number, though the loss is %v", p, i, float64(got.Loss))
					}
					if !equalAtCorner(v, w) {
						same = false
						if c.differs == "" {
							t.Errorf("gradient of %s, element %d at %v: %v, PyTorch's is %v", p, i, got.Inputs, v, w)
						}
					}
				}
			}
			if c.differs != "" && same {
				t.Errorf("the gradients are PyTorch's, though a reason says that they differ: %s", c.differs)
			}
		})
	}
}

// TestCornersAreCovered: each rule of a family whose formulas may have corners has a case,
// or is linear, or gives nothing.
func TestCornersAreCovered(t *testing.T) {
	linear := []string{"Add", "Sub", "Dropout", "AveragePool", "GlobalAveragePool", "MaxUnpool", "Compress", "TopK"}
	had := map[string]bool{}
	for _, c := range corners {
		had[c.op] = true
	}
	for _, f := range [][]Rule{elementwiseRules, activationRules, compareRules, poolRules, normRules, softmaxRules, reduceRules, cumulateRules, lossRules, selectRules} {
		for _, r := range f {
			if !had[r.Op] && r.Grad != nil && !slices.Contains(linear, r.Op) && r.Op != "SimplifiedLayerNormalization" { // that of RMSNormalization
				t.Errorf("no corner of %s", r.Op)
			}
		}
	}
}

func equalAtCorner(v, w float64) bool {
	return v == w || math.IsNaN(v) && math.IsNaN(w) || math.Abs(v-w) <= 1e-7*math.Max(1, math.Abs(w)) // attributes are float32
}
