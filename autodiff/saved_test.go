package autodiff

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestSaved: the backward pass of a node reads no more of the forward graph than its
// formula needs, so that the other tensors can be freed early. Inputs are p0, p1, …,
// outputs y0, y1, ….
func TestSaved(t *testing.T) {
	pair := []operand{param(2, 3), param(2, 3)}
	one := []operand{param(2, 3)}
	image := []operand{param(2, 3, 4, 4)}
	for _, k := range []struct {
		c    ruleCase
		want string
	}{
		{ruleCase{op: "Relu", in: one}, "y0"},
		{ruleCase{op: "LeakyRelu", in: one}, "y0"},
		{ruleCase{op: "LeakyRelu", in: one, attrs: attrs{"alpha": -0.5}}, "p0"},
		{ruleCase{op: "Elu", in: one}, "y0"},
		{ruleCase{op: "Selu", in: one}, "y0"},
		{ruleCase{op: "Sigmoid", in: one}, "y0"},
		{ruleCase{op: "Tanh", in: one}, "y0"},
		{ruleCase{op: "HardSigmoid", in: one}, "y0"},
		{ruleCase{op: "Exp", in: one}, "y0"},
		{ruleCase{op: "Reciprocal", in: one}, "y0"},
		{ruleCase{op: "Softmax", in: one}, "y0"},
		{ruleCase{op: "LogSoftmax", in: one}, "y0"},
		{ruleCase{op: "HardSwish", in: one}, "p0"},
		{ruleCase{op: "Abs", in: one}, "p0"},
		{ruleCase{op: "Neg", in: one}, ""},
		{ruleCase{op: "Identity", in: one}, ""},
		{ruleCase{op: "Transpose", in: one}, ""},
		{ruleCase{op: "Concat", in: pair, attrs: attrs{"axis": 0}}, ""},
		{ruleCase{op: "Add", in: pair}, ""},
		{ruleCase{op: "Sub", in: pair}, ""},
		{ruleCase{op: "Mul", in: pair}, "p0 p1"},
		{ruleCase{op: "Mul", in: []operand{param(2, 3), param(2, 3).fixed()}}, "c1"},
		{ruleCase{op: "Div", in: pair}, "p1 y0"},
		{ruleCase{op: "Div", in: []operand{param(2, 3), param(2, 3).fixed()}}, "c1"},
		{ruleCase{op: "Where", in: []operand{flags([]int{3}, 1, 0, 1), param(2, 3), param(2, 3)}}, "x0"},
		{ruleCase{op: "Dropout", in: one}, "y0.mask"},
		{ruleCase{op: "Clip", in: []operand{param(2, 3), scalar(0), scalar(6)}}, "c2 y0"},
		{ruleCase{op: "Clip", in: []operand{param(2, 3), scalar(-1), scalar(1)}}, "c1 c2 y0"},
		{ruleCase{op: "MaxPool", in: image, attrs: attrs{"kernel_shape": []int64{2, 2}}}, "y0.indices"},
		{ruleCase{op: "AveragePool", in: image, attrs: attrs{"kernel_shape": []int64{2, 2}}}, ""},
		{ruleCase{op: "GlobalAveragePool", in: image}, ""},
		{ruleCase{op: "ReduceSum", in: one}, ""},
		{ruleCase{op: "ReduceMean", in: one}, ""},
		{ruleCase{op: "ReduceMax", in: one}, "p0 y0"},
		{ruleCase{op: "ReduceLogSum", in: []operand{param(2, 3).in(1, 2)}}, "y0"},
		{ruleCase{op: "MatMul", in: []operand{param(2, 3), param(3, 4)}}, "p0 p1"},
		{ruleCase{op: "MatMul", in: []operand{param(2, 3).fed(), param(3, 4)}}, "x0"},
		{ruleCase{op: "Gemm", in: []operand{param(2, 3), param(3, 4).fixed(), param(4)}}, "c1"},
		{ruleCase{op: "Conv", in: []operand{param(2, 3, 4, 4).fed(), param(2, 3, 3, 3), param(2)}}, "x0"},
		{ruleCase{op: "Conv", in: []operand{param(2, 3, 4, 4), param(2, 3, 3, 3).fixed()}}, "c1"},
		{ruleCase{op: "LayerNormalization", in: []operand{param(2, 3), param(3), param(3)}}, "p0 p1 y0.inv_std y0.mean"},
		{ruleCase{op: "BatchNormalization", in: []operand{param(4, 3), param(3), param(3), param(3).fixed(), param(3).in(1, 2).fixed()}}, "p0 p1"},
		{ruleCase{op: "Gather", in: []operand{param(4, 3), indices([]int{2}, 1, 1)}}, "x1"},
		{ruleCase{op: "TopK", in: []operand{param(2, 3), list(2)}, outputs: 2}, "y1"},
		{ruleCase{op: "SoftmaxCrossEntropyLoss", in: []operand{param(3, 4), indices([]int{3}, 0, 3, 1)}}, "x1 y0/SoftmaxCrossEntropyLoss/LogSoftmax"},
	} {
		b := k.c.model(t, 18)
		step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`), KeepGradients: true})
		own := regexp.MustCompile(`^([pcx]\d+|y\d+(\.(mask|indices|inv_std|mean|log_prob))?|y0/\w+/LogSoftmax)$`)
		var read []string
		for _, n := range step.Model.Graph.Nodes {
			phase, _ := n.Prop(keyPhase)
			if of, _ := n.Prop(keyOf); phase == phaseForward || !strings.HasPrefix(of, "y0/"+k.c.op) {
				continue
			}
			for _, id := range n.Inputs {
				if id != graph.None && own.MatchString(step.Model.Graph.Tensors[id].Name) {
					read = append(read, step.Model.Graph.Tensors[id].Name)
				}
			}
		}
		slices.Sort(read)
		if got := strings.Join(slices.Compact(read), " "); got != k.want {
			t.Errorf("%s: backward reads %q, expected %q", k.c.op, got, k.want)
		}
	}
}

// TestNothingForFrozen: no gradient is emitted for data, nor for tensors that only
// frozen parameters need.
func TestNothingForFrozen(t *testing.T) {
	for _, k := range []struct {
		freeze string
		silent []string // forward nodes without backward nodes
		sparse []string // nodes whose input needs no gradient: no ConvTranspose
	}{
		{`fc.bias`, nil, []string{"conv1/Conv"}},
		{`^(conv1|bn1)`, []string{"conv1/Conv", "bn1/BatchNormalization", "act1/Sigmoid", "pool/MaxPool"}, []string{"conv2/Conv"}},
		{`^(conv|bn)`, []string{"conv1/Conv", "conv2/Conv", "conv3/Conv", "bn2/BatchNormalization", "mean/GlobalAveragePool"}, nil},
	} {
		m, _ := convolutional()
		step := train(t, m, Options{Freeze: regexp.MustCompile(k.freeze)})
		backward := map[string][]string{}
		for _, n := range step.Model.Graph.Nodes {
			phase, _ := n.Prop(keyPhase)
			if of, _ := n.Prop(keyOf); phase != phaseForward {
				backward[of] = append(backward[of], n.Op)
			}
		}
		for _, n := range k.silent {
			if len(backward[n]) > 0 {
				t.Errorf("freeze %s: backward of %s: %v, expected nothing", k.freeze, n, backward[n])
			}
		}
		for _, n := range k.sparse {
			if len(backward[n]) == 0 || slices.Contains(backward[n], "ConvTranspose") {
				t.Errorf("freeze %s: backward of %s: %v, expected only the weights' gradient", k.freeze, n, backward[n])
			}
		}
		if len(backward) == 0 {
			t.Errorf("freeze %s: no node is backward", k.freeze)
		}
	}
}
