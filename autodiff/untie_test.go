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

// fresh is a network as PyTorch's exporter writes one that was never trained. One tensor
// of ones is the scale and the running variance of both normalizations, one of zeros
// their biases and running means. Some of them through Identity nodes, which keep the
// names. w is one parameter of two products, meant to be one.
func fresh() (*graph.Model, *builder) {
	b := newBuilder("fresh", 18)
	const channels = 3
	filled := func(v float64) *reference.Tensor {
		return &reference.Tensor{Type: graph.Float32, Shape: []int{channels}, F: slices.Repeat([]float64{v}, channels)}
	}
	one, zero := b.initializer("bn1.weight", filled(1)), b.initializer("bn1.bias", filled(0))
	w := b.weights("w", channels, channels)
	same := func(name string, t ID) ID { return b.op(name, "Identity", nil, t) }
	h := b.op("h", "MatMul", nil, b.input("x", b.real(5, channels)), w)
	h = b.op("n1", "BatchNormalization", nil, h, one, zero, zero, one)
	h = b.op("h2", "MatMul", nil, b.op("act", "Tanh", nil, h), w)
	y := b.op("n2", "BatchNormalization", nil, h, same("bn2.weight", one), same("bn2.bias", zero), same("bn2.running_mean", zero), same("bn2.running_var", one))
	b.classes([]int{5}, channels)
	return b.finish(y), b
}

// TestScaleThatIsStatistics: a tensor that is a scale and a running variance becomes two,
// and the gradients of both networks are slopes of the loss.
func TestScaleThatIsStatistics(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		m, b := fresh()
		step := train(t, m, Options{KeepGradients: true, FreezeStatistics: frozen})
		if want := []string{"bn1.weight", "bn1.bias", "w"}; !slices.Equal(step.Parameters, want) {
			t.Errorf("parameters %v, expected %v", step.Parameters, want)
		}
		checkGradients(t, step, b.feeds, math.MaxInt)
		var statistics []string
		for _, n := range step.Model.Graph.Nodes {
			if n.Op == "BatchNormalization" {
				for _, x := range n.Inputs[3:5] {
					statistics = append(statistics, step.Model.Graph.Tensors[x].Name)
				}
			}
		}
		if want := []string{"bn1.bias_2", "bn1.weight_2", "bn2.running_mean", "bn2.running_var"}; !slices.Equal(statistics, want) {
			t.Errorf("statistics %v, expected %v", statistics, want)
		}
		if len(step.Copies) != 4 || !strings.Contains(strings.Join(step.Warnings, "\n"), "bn1.weight is running statistics and a parameter") {
			t.Errorf("copies %+v, warnings %q", step.Copies, step.Warnings)
		}
	}
}

// TestUntie: parameters that several nodes read are named, and each node has its own if
// that is asked for. The gradients of the parts add up to that of the whole.
func TestUntie(t *testing.T) {
	gradients := func(opt Options) (*Step, map[string]*reference.Tensor) {
		m, b := fresh()
		opt.KeepGradients = true
		step := train(t, m, opt)
		got, _ := checkGradients(t, step, b.feeds, math.MaxInt)
		return step, got
	}
	step, tied := gradients(Options{})
	for i, want := range []string{
		"bn1.weight is one parameter for 2 nodes: n1/BatchNormalization, n2/BatchNormalization; all its elements are equal, so an exporter may have merged several (--untie)",
		"bn1.bias is one parameter for 2 nodes: n1/BatchNormalization, n2/BatchNormalization; all its elements are equal, so an exporter may have merged several (--untie)",
		"w is one parameter for 2 nodes: h/MatMul, h2/MatMul",
	} {
		if got := step.Tied[i].String(); got != want {
			t.Errorf("tied %q, expected %q", got, want)
		}
	}
	step, apart := gradients(Options{UntieEqual: true})
	if len(step.Tied) != 1 || !slices.Equal(step.Separated, []string{"bn1.weight", "bn1.bias"}) {
		t.Errorf("tied %v, separated %v", step.Tied, step.Separated)
	}
	for _, name := range []string{"weight", "bias"} {
		for i, want := range tied["bn1."+name+".grad"].F {
			if got := apart["bn1."+name+".grad"].F[i] + apart["bn2."+name+".grad"].F[i]; math.Abs(got-want) > 1e-12 {
				t.Errorf("element %d of the two gradients of %s: %v, expected %v", i, name, got, want)
			}
		}
	}
	step, apart = gradients(Options{Untie: regexp.MustCompile("^w$")})
	if len(step.Tied) != 2 || !slices.Equal(step.Separated, []string{"w"}) {
		t.Errorf("tied %v, separated %v", step.Tied, step.Separated)
	}
	for i, want := range tied["w.grad"].F {
		if got := apart["w.grad"].F[i] + apart["w_2.grad"].F[i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("element %d of the two gradients of w: %v, expected %v", i, got, want)
		}
	}
}
