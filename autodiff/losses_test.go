package autodiff

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func TestParseLoss(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "[{cross-entropy  1}]"},
		{"mse", "[{mse  1}]"},
		{"none:loss", "[{none loss 1}]"},
		{"none:a+b", "[{none a+b 1}]"},
		{"mse:logits:0", "[{mse logits:0 1}]"},
		{"mse:box + 0.5*bce:obj+cross-entropy:cls", "[{mse box 1} {bce obj 0.5} {cross-entropy cls 1}]"},
		{"1e-3 * l1:a + none:b", "[{l1 a 0.001} {none b 1}]"},
		{"none", `loss "none": expected one of cross-entropy, mse, bce, l1, none:OUTPUT`},
		{"hinge", `loss "hinge": expected one of`},
		{"mse:a + hinge:b", "[{mse a + hinge:b 1}]"}, // the name of an output
		{"1.2.3*mse", `expected a number before *, found "1.2.3"`},
		{"mse+", `loss "mse+": expected one of`},
	} {
		terms, err := parseLoss(c.text)
		got := fmt.Sprint(terms)
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%q: %s, expected %s", c.text, got, c.want)
		}
	}
}

// heads is a network of three outputs and a loss.
func heads() (*graph.Model, *builder) {
	b := newBuilder("heads", 18)
	h := b.op("h", "Tanh", nil, b.op("m", "MatMul", nil, b.input("x", b.real(3, 4)), b.weights("w", 4, 4)))
	box := b.op("box", "MatMul", nil, h, b.weights("wb", 4, 2))
	obj := b.op("obj", "MatMul", nil, h, b.weights("wo", 4, 1))
	cls := b.op("cls", "MatMul", nil, h, b.weights("wc", 4, 3))
	own := b.op("norm_loss", "ReduceMean", attrs{"keepdims": 1}, b.op("squares", "Mul", nil, h, h))
	m := b.finish(box)
	for _, t := range []ID{obj, cls, own} {
		m.Graph.Tensors[t].Output = true
		m.Graph.Outputs = append(m.Graph.Outputs, t)
	}
	return m, b
}

// TestSumOfLosses: the gradients of a weighted sum over outputs, each with its labels.
func TestSumOfLosses(t *testing.T) {
	m, b := heads()
	step := train(t, m, Options{Loss: "mse:box + 0.5*bce:obj + 2*cross-entropy:cls + 0.1*l1:box + 3*none:norm_loss", KeepGradients: true})
	if len(step.Parameters) != 4 || len(step.Warnings) > 0 {
		t.Errorf("parameters %v, warnings %q", step.Parameters, step.Warnings)
	}
	b.feeds["labels.box"], b.feeds["labels.obj"] = b.real(3, 2), b.real(3, 1)
	b.feeds["labels.cls"] = reference.Ints([]int{3}, 2, 0, 1)
	checkGradients(t, step, b.feeds, math.MaxInt)
	if loss, _ := step.Model.Prop("onnxmem.loss"); !strings.HasPrefix(loss, "mse:box + 0.5*bce:obj") {
		t.Errorf("metadata: loss %q", loss)
	}
}

// TestSeveralOutputs: messages name the output that was taken, and how to choose.
func TestSeveralOutputs(t *testing.T) {
	for _, c := range []struct {
		opt           Options
		warning, fail string
	}{
		{Options{Loss: "mse"}, "the loss is computed from output box alone, the first of several: obj, cls, norm_loss can be chosen (--loss-output), or summed (--loss 'mse:box + 0.5*mse:obj'); norm_loss is one number, as a loss is: --loss none:norm_loss", ""},
		{Options{Loss: "mse", LossOutput: "cls"}, "", ""},
		{Options{Loss: "mse:cls"}, "", ""},
		{Options{Loss: "mse:cls", LossOutput: "cls"}, "", `loss output "cls": expected none, since loss "mse:cls" names its outputs`},
		{Options{Loss: "mse:nosuch"}, "", `output "nosuch" not found: expected one of box, obj, cls, norm_loss`},
		{Options{LossOutput: "norm_loss"}, "", "one number, as a loss is, and no scores of classes: expected --loss none:norm_loss"},
		{Options{Loss: "l1:norm_loss"}, "output norm_loss is one number, as a loss is, and l1 is computed from it: --loss none:norm_loss takes it as the loss", ""},
		{Options{LossOutput: "obj"}, "", "cross-entropy over one class is always 0"},
		{Options{Loss: "cross-entropy:box + mse:box"}, "", "the name is reserved"},
	} {
		m, _ := heads()
		step, err := Train(m, c.opt)
		switch {
		case c.fail != "":
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%v: error %v, expected %q", c.opt.Loss, err, c.fail)
			}
		case err != nil:
			t.Errorf("%v: %v", c.opt.Loss, err)
		case strings.Join(step.Warnings, "\n") != c.warning:
			t.Errorf("%v: warnings %q, expected %q", c.opt.Loss, step.Warnings, c.warning)
		}
	}
}
