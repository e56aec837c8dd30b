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

// stepOf trains one step of a parameter p of which build makes the output, and returns
// the loss, the gradient of p, and the warnings.
func stepOf(t *testing.T, opt Options, p, labels *reference.Tensor, opset int64, build func(b *builder, p ID) ID) (loss float64, grad []float64, warnings string) {
	t.Helper()
	b := newBuilder(t.Name(), opset)
	b.finish(build(b, b.initializer("p", p)))
	opt.Trainable, opt.KeepGradients = regexp.MustCompile("^p$"), true
	step, err := Train(b.m, opt)
	if err != nil {
		t.Fatal(err)
	}
	b.feeds[labelsName] = labels
	got, err := reference.Eval(step.Model, feedsOf(t, step, b.feeds), lossName, "p.grad")
	if err != nil {
		t.Fatal(err)
	}
	return got[lossName].F[0], got["p.grad"].F, strings.Join(step.Warnings, "\n")
}

func reals(shape []int, v ...float64) *reference.Tensor {
	return &reference.Tensor{Type: graph.Float64, Shape: shape, F: v}
}

func wantNumbers(t *testing.T, what string, got, want []float64) {
	t.Helper()
	same := slices.EqualFunc(got, want, func(v, w float64) bool { return math.Abs(v-w) <= 1e-6*math.Max(1, math.Abs(w)) })
	if !same {
		t.Errorf("%s is %v, expected %v", what, got, want)
	}
}

// TestBinaryCrossEntropyOfSigmoid: the loss is computed from the input of a Sigmoid, so
// that a saturated one still has the gradient sigmoid(x) - label.
func TestBinaryCrossEntropyOfSigmoid(t *testing.T) {
	x, labels := reals([]int{2, 2}, -800, 800, 17, -40), reals([]int{4}, 1, 0, 1, 0)
	for _, probabilities := range []bool{false, true} {
		loss, grad, warnings := stepOf(t, Options{Loss: "bce", Probabilities: probabilities}, x, labels, 18, func(b *builder, p ID) ID {
			return b.do("Reshape", nil, b.do("Sigmoid", nil, p), b.axes(4))
		})
		wantNumbers(t, "loss", []float64{loss}, []float64{400})
		wantNumbers(t, "gradient", grad, []float64{-0.25, 0.25, -math.Exp(-17) / 4, math.Exp(-40) / 4})
		if !strings.Contains(warnings, "is made by Sigmoid: the loss is computed from the input") {
			t.Errorf("warnings %q do not say what the loss is computed from", warnings)
		}
	}
}

// TestBinaryCrossEntropyOfProbabilities: the loss and the gradient are those of PyTorch's
// binary_cross_entropy, which bounds both.
func TestBinaryCrossEntropyOfProbabilities(t *testing.T) {
	loss, grad, warnings := stepOf(t, Options{Loss: "bce", Probabilities: true}, reals([]int{5}, 0, 0, 1, 1, 0.25), reals([]int{5}, 1, 0, 1, 0, 1), 18, func(b *builder, p ID) ID {
		return b.do("Identity", nil, p)
	})
	wantNumbers(t, "loss", []float64{loss}, []float64{(200 - math.Log(0.25)) / 5})
	wantNumbers(t, "gradient", grad, []float64{-2e11, 0, 0, 2e11, -4.0 / 5})
	if warnings != "" {
		t.Errorf("warnings: %s", warnings)
	}
}

// TestLossOfSoftmax: cross-entropy takes the input of a Softmax along the classes, also
// behind a Reshape, as opsets before 13 have it, and no other.
func TestLossOfSoftmax(t *testing.T) {
	x := reals([]int{1, 2, 2}, 1, 3, 2, 0)
	labels := &reference.Tensor{Type: graph.Int64, Shape: []int{1, 2}, I: []int64{1, 0}}
	logits := func(b *builder, p ID) ID { return b.do("Identity", nil, p) }
	want, slope, _ := stepOf(t, Options{}, x, labels, 18, logits)
	for _, c := range []struct {
		op, says string
		axis     int
		opset    int64
		same     bool
	}{
		{"Softmax", "Softmax: the loss is computed from the input of that node", 2, 18, true},
		{"LogSoftmax", "LogSoftmax: the loss is computed from the input of that node", -1, 18, true},
		{"Softmax", "Softmax: the loss is computed from the input of that node", 2, 11, true},
		{"Softmax", "Softmax along another axis", 1, 18, false},
	} {
		got, grad, warnings := stepOf(t, Options{}, x, labels, c.opset, func(b *builder, p ID) ID {
			return b.do("Identity", nil, b.do(c.op, attrs{"axis": c.axis}, p))
		})
		if same := math.Abs(got-want) < 1e-6; same != c.same || !strings.Contains(warnings, c.says) {
			t.Errorf("%s along axis %d, opset %d: loss %v, that of the logits is %v, warnings %q", c.op, c.axis, c.opset, got, want, warnings)
		}
		if c.same {
			wantNumbers(t, "gradient", grad, slope)
		}
	}
	_, _, warnings := stepOf(t, Options{Loss: "bce"}, x, reals([]int{1, 2, 2}, 0, 1, 1, 0), 18, func(b *builder, p ID) ID { return b.do("Softmax", nil, p) })
	if !strings.Contains(warnings, "--loss cross-entropy") {
		t.Errorf("bce of a Softmax: warnings %q", warnings)
	}
}

// TestIgnoredLabels: labels of -100 do not count: the mean is that over the others. If
// none counts, the loss is no number and the gradient 0, as in PyTorch.
func TestIgnoredLabels(t *testing.T) {
	ints := func(v ...int64) *reference.Tensor {
		return &reference.Tensor{Type: graph.Int64, Shape: []int{len(v)}, I: v}
	}
	build := func(b *builder, p ID) ID { return b.do("Identity", nil, p) }
	all := reals([]int{3, 2}, 1, 3, 5, -5, 2, 0)
	for _, noLean := range [][]string{nil, {"all"}} {
		opt := Options{NoLean: noLean}
		want, slope, _ := stepOf(t, opt, reals([]int{2, 2}, 1, 3, 2, 0), ints(1, 0), 18, build)
		loss, grad, _ := stepOf(t, opt, all, ints(1, -100, 0), 18, build)
		wantNumbers(t, "loss", []float64{loss}, []float64{want})
		wantNumbers(t, "gradient", grad, slices.Concat(slope[:2], []float64{0, 0}, slope[2:]))
		loss, grad, _ = stepOf(t, opt, all, ints(-100, -100, -100), 18, build)
		if !math.IsNaN(loss) {
			t.Errorf("the loss without a label is %v, expected NaN", loss)
		}
		wantNumbers(t, "gradient without a label", grad, make([]float64, 6))
	}
}

// TestParametersChange: the gradient takes no first value of a parameter for a constant.
func TestParametersChange(t *testing.T) {
	b := newBuilder("generalised mean", 18)
	x, p := b.input("x", reals([]int{3}, 1, 2, 3)), b.initializer("p", reals([]int{1}, 3))
	w := b.initializer("w", reals([]int{3}, 1, 2, 0.5))
	y := b.op("y", "Pow", nil, b.do("Mul", nil, x, w), p)
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, y))
	step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^[pw]$"), KeepGradients: true})
	step.Params.Graph.Tensors[slices.IndexFunc(step.Params.Graph.Tensors, func(t *graph.Tensor) bool { return t.Name == "p" })].Data = dataOf(reals([]int{1}, 1.5))
	checkGradients(t, step, b.feeds, 24)
}
