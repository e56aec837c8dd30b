package autodiff

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// TestRulesWithoutSavings: gradients are also right without the savings of memory.
func TestRulesWithoutSavings(t *testing.T) {
	some := []string{"Relu", "Swish", "Clip", "MaxPool", "MatMul", "Conv", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}
	for _, c := range allRuleCases() {
		if c.domain == "" && slices.Contains(some, c.op) {
			opset := slices.Max(append(slices.Clone(c.opsets), 7))
			if c.opsets == nil {
				opset = 18
			}
			t.Run(c.op+"/"+c.name, func(t *testing.T) { c.check(t, opset, "all") })
		}
	}
}

// savingCase is a network to which some of the leaner gradients apply.
type savingCase struct {
	name    string
	build   func(b *builder, x ID) ID // returns the result of a float64 parameter x
	shape   []int
	saved   string // tensors of the forward pass that the backward pass reads
	saving  string // its name
	without string // the same without this saving
}

var savingCases = []savingCase{
	{
		"a Relu before a MaxPool keeps nothing",
		func(b *builder, x ID) ID {
			return b.op("pool", "MaxPool", attrs{"kernel_shape": []int64{3, 3}, "strides": []int64{2, 2}, "pads": []int64{1, 1, 1, 1}}, b.op("relu", "Relu", nil, x))
		},
		[]int{2, 3, 7, 6},
		"pool pool.indices", "pool", "pool.indices relu",
	},
	{
		"a Relu before two MaxPools keeps its result",
		func(b *builder, x ID) ID {
			r := b.op("relu", "Relu", nil, x)
			a := attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{2, 2}}
			return b.op("sum", "Add", nil, b.op("one", "MaxPool", a, r), b.op("two", "MaxPool", a, r))
		},
		[]int{1, 2, 4, 4},
		"one.indices relu two.indices", "pool", "one.indices relu two.indices",
	},
	{
		"windows wider than a byte tells",
		func(b *builder, x ID) ID {
			return b.op("pool", "MaxPool", attrs{"kernel_shape": []int64{2, 2}, "strides": []int64{1, 50}}, x)
		},
		[]int{1, 1, 3, 300},
		"pool.indices", "pool", "pool.indices",
	},
	{
		"the result of Relu6 tells what passed",
		func(b *builder, x ID) ID {
			six := b.initializer("six", &reference.Tensor{Type: graph.Float64, Shape: []int{}, F: []float64{6}})
			zero := b.initializer("zero", &reference.Tensor{Type: graph.Float64, Shape: []int{}, F: []float64{0}})
			scale := b.initializer("scale", &reference.Tensor{Type: graph.Float64, Shape: []int{}, F: []float64{10}})
			return b.op("relu6", "Clip", nil, b.op("wide", "Mul", nil, x, scale), zero, six)
		},
		[]int{4, 6},
		"relu6", "mask", "relu6",
	},
	{
		"a softmax whose NaN are replaced keeps the result",
		func(b *builder, x ID) ID {
			mask := &reference.Tensor{Type: graph.Float64, Shape: []int{3, 3}, F: []float64{0, math.Inf(-1), 0, math.Inf(-1), math.Inf(-1), math.Inf(-1), 0, 0, 0}}
			zero := b.initializer("zero", &reference.Tensor{Type: graph.Float64, Shape: []int{}, F: []float64{0}})
			p := b.op("softmax", "Softmax", attrs{"axis": -1}, b.op("masked", "Add", nil, x, b.initializer("mask", mask)))
			return b.op("safe", "Where", nil, b.op("nan", "IsNaN", nil, p), zero, p)
		},
		[]int{2, 3, 3},
		"safe", "softmax", "nan softmax",
	},
	{
		"log-probabilities and their likelihood are one loss",
		func(b *builder, x ID) ID {
			labels := b.input("which", &reference.Tensor{Type: graph.Int64, Shape: []int{4}, I: []int64{2, 0, 1, 2}})
			return b.op("nll", "NegativeLogLikelihoodLoss", nil, b.op("logs", "LogSoftmax", nil, x), labels)
		},
		[]int{4, 3},
		"logs which", "cross-entropy", "logs which",
	},
	{
		"an RMS normalisation keeps its input",
		func(b *builder, x ID) ID { return rmsNorm(b, x, false) },
		[]int{3, 4},
		"x", "norm", "quotient root x",
	},
	{
		"an RMS normalisation by Reciprocal",
		func(b *builder, x ID) ID { return rmsNorm(b, x, true) },
		[]int{2, 3, 4},
		"x", "norm", "inverse quotient root x",
	},
	{
		"Dropout with a seed draws again",
		func(b *builder, x ID) ID { return b.op("drop", "Dropout", attrs{"seed": 3}, x) },
		[]int{4, 8},
		"drop.mask", "dropout", "drop.mask",
	},
}

// rmsNorm builds the RMS norm of x along the last axis from basic operators.
func rmsNorm(b *builder, x ID, inverse bool) ID {
	number := func(name string, v float64) ID {
		return b.initializer(name, &reference.Tensor{Type: graph.Float64, Shape: []int{}, F: []float64{v}})
	}
	mean := b.op("mean", "ReduceMean", nil, b.op("square", "Pow", nil, x, number("two", 2)), b.initializer("last", reference.Ints([]int{1}, -1)))
	root := b.op("root", "Sqrt", nil, b.op("sum", "Add", nil, mean, number("epsilon", 0.01)))
	q := ID(0)
	if inverse {
		q = b.op("quotient", "Mul", nil, x, b.op("inverse", "Reciprocal", nil, root))
	} else {
		q = b.op("quotient", "Div", nil, x, root)
	}
	return b.op("scaled", "Mul", nil, b.initializer("p2", b.value(operand{shape: []int{4}, elem: graph.Float64})), q)
}

// TestSavings: with each saving on and off, gradients are right, and the backward pass
// reads the expected tensors. Fully masked rows have no gradient; differences cannot
// show that, because Softmax gives NaN there.
func TestSavings(t *testing.T) {
	for _, k := range savingCases {
		t.Run(k.name, func(t *testing.T) {
			read := func(noLean ...string) string {
				b := newBuilder(k.name, 18)
				x := b.value(operand{shape: k.shape, elem: graph.Float64})
				y := k.build(b, b.op("x", "Identity", nil, b.initializer("p", x)))
				b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, y))
				step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p2?$"), KeepGradients: true, NoLean: noLean})
				if k.saving != "softmax" || noLean == nil {
					checkGradients(t, step, b.feeds, 24)
				}
				return savedBy(step, b.m.Graph)
			}
			if got := read(); got != k.saved {
				t.Errorf("the backward pass reads %q, expected %q", got, k.saved)
			}
			if got := read(k.saving); got != k.without {
				t.Errorf("without %s it reads %q, expected %q", k.saving, got, k.without)
			}
		})
	}
}

// savedBy lists the forward tensors that the gradients read, without constants and
// without the input of the objective.
func savedBy(step *Step, forward *graph.Graph) string {
	g := step.Model.Graph
	made := map[ID]bool{}
	for _, n := range g.Nodes {
		if phase, _ := n.Prop(keyPhase); phase == phaseForward {
			for _, t := range n.Outputs {
				made[t] = true
			}
		}
	}
	for _, t := range g.Inputs {
		made[t] = !strings.HasPrefix(g.Tensors[t].Name, "p") && g.Tensors[t].Name != rateName
	}
	var names []string
	for _, n := range g.Nodes {
		phase, _ := n.Prop(keyPhase)
		if of, _ := n.Prop(keyOf); phase == phaseForward || strings.HasPrefix(of, "objective") {
			continue
		}
		for _, t := range n.Inputs {
			if t != graph.None && made[t] {
				names = append(names, g.Tensors[t].Name)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}

// TestMaximaAreNarrow: the indices of a MaxPool are kept in the narrowest type that
// holds them.
func TestMaximaAreNarrow(t *testing.T) {
	for _, k := range []struct {
		shape []int
		want  graph.DType
	}{
		{[]int{1, 1, 5, 253}, graph.Uint8},
		{[]int{1, 1, 5, 255}, graph.Uint16},
		{[]int{1, 1, 65536, 2}, graph.Uint8},
		{[]int{1, 1, 2, 65537}, graph.Int32},
	} {
		b := newBuilder("narrow", 18)
		y := b.op("pool", "MaxPool", attrs{"kernel_shape": []int64{2, 2}}, b.op("x", "Identity", nil, b.initializer("p", b.value(operand{shape: k.shape, elem: graph.Float32}))))
		b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, y))
		step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p$")})
		narrow := graph.Int64
		for _, n := range step.Model.Graph.Nodes {
			if n.Op == "Cast" && strings.HasPrefix(n.Name, "pool") {
				if e := step.Model.Graph.Tensors[n.Outputs[0]].Type.Elem; e.Bits() < narrow.Bits() {
					narrow = e
				}
			}
		}
		if narrow != k.want {
			t.Errorf("%v: kept as %v, expected %v", k.shape, narrow, k.want)
		}
	}
}

// TestMaskIsDrawnAgain: for a Dropout with a seed, the step keeps only one element of
// the mask.
func TestMaskIsDrawnAgain(t *testing.T) {
	b := newBuilder("again", 18)
	y := b.op("drop", "Dropout", attrs{"seed": 3}, b.op("x", "Identity", nil, b.initializer("p", b.value(operand{shape: []int{4, 8}, elem: graph.Float32}))))
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, y))
	g := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p$")}).Model.Graph
	var readers []string
	for _, n := range g.Nodes {
		for _, id := range n.Inputs {
			if id != graph.None && (g.Tensors[id].Name == "drop.mask" || g.Tensors[id].Name == "drop/Dropout.grad/Reshape") {
				readers = append(readers, n.Op)
			}
		}
	}
	if want := []string{"Reshape", "Gather"}; !slices.Equal(readers, want) {
		t.Errorf("the mask is read by %v, expected %v", readers, want)
	}
}

// TestNoLeanNames: an unknown name is refused.
func TestNoLeanNames(t *testing.T) {
	m, _ := perceptron(0)
	_, err := Train(m, Options{NoLean: []string{"fat"}})
	if want := `saving "fat": expected some of cross-entropy, softmax, norm, mask, pool, dropout, product, in-place, cast, all`; err == nil || err.Error() != want {
		t.Errorf("got %v, expected %s", err, want)
	}
}
