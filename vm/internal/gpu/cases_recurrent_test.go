package gpu

import (
	"bytes"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func init() {
	cases = append(cases, recurrentCases...)
	// The evaluator has no activations with constants of their own.
	var in []*form.Tensor
	for i, shape := range [][]int{{3, 2, 5}, {2, 16, 5}, {2, 16, 4}} {
		t := blank(graph.Float64, shape...)
		list := make([]float64, t.Len())
		for k := range list {
			list[k] = float64((k*37+i)%19)/8 - 1
		}
		if err := form.Store(t, list, nil); err != nil {
			panic(err)
		}
		in = append(in, t)
	}
	for _, names := range [][]string{{"HardSigmoid", "Affine", "ScaledTanh", "Sigmoid", "LeakyRelu", "Elu"}, {"Sigmoid", "ThresholdedRelu", "Tanh", "Softsign", "Softplus", "Relu"}} {
		hostCases = append(hostCases, hostCase{
			op: "LSTM", in: in, shape: []int{3, 2, 2, 4},
			attrs: attrs(whole("hidden_size", 4), texts("activations", names...), text("direction", "bidirectional"), floats("activation_alpha", 0.3, 0.5, 0.7), floats("activation_beta", 0.4, 0.1)),
		})
	}
}

// singleAndDouble are the dtypes of layers whose states run for many steps.
var singleAndDouble = []graph.DType{graph.Float32, graph.Float64}

// recurrentCases have tolerances of some roundings a step.
var recurrentCases = []nodeCase{
	{op: "RNN", outputs: 2, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 5)), in: args(noise(3, 2, 4), noise(1, 5, 4), noise(1, 5, 5)), types: singleAndDouble},
	{op: "RNN", outputs: 2, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 40), texts("activations", "Softsign")), in: args(noise(7, 13, 30), noise(1, 40, 30), faint(1, 40, 40), noise(1, 80), nil, noise(1, 13, 40)), types: onlySingle},
	{op: "GRU", outputs: 2, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 40), text("direction", "bidirectional")), in: args(noise(7, 2, 30), noise(2, 120, 30), faint(2, 120, 40), noise(2, 240))},
	{op: "GRU", outputs: 2, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 130), whole("linear_before_reset", 1)), in: args(noise(4, 2, 30), noise(1, 390, 30), faint(1, 390, 130), noise(1, 780)), types: onlySingle},
	{op: "GRU", outputs: 2, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 12), whole("layout", 1), text("direction", "reverse")), in: args(noise(3, 6, 3), noise(1, 36, 3), faint(1, 36, 12), noise(1, 72), wholes(graph.Int32, 1, 7, 3), noise(3, 1, 12)), types: singleAndDouble},
	{op: "LSTM", outputs: 3, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 40)), in: args(noise(7, 2, 30), noise(1, 160, 30), faint(1, 160, 40), noise(1, 320)), types: allReals},
	{op: "LSTM", outputs: 3, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 20), text("direction", "bidirectional"), real("clip", 3)), in: args(noise(4, 14, 9), noise(2, 80, 9), faint(2, 80, 20), noise(2, 160), wholes(graph.Int32, 0, 5, 14), noise(2, 14, 20), noise(2, 14, 20), noise(2, 60)), types: onlySingle},
	{op: "LSTM", outputs: 3, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 8), whole("layout", 1), text("direction", "reverse")), in: args(noise(3, 5, 9), noise(1, 32, 9), faint(1, 32, 8), noise(1, 64), wholes(graph.Int32, 2, 6, 3), noise(3, 1, 8), noise(3, 1, 8)), types: onlySingle},
	{op: "LSTM", outputs: 3, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 33), whole("input_forget", 1)), in: args(noise(5, 3, 21), noise(1, 132, 21), faint(1, 132, 33), nil, nil, noise(1, 3, 33), noise(1, 3, 33), noise(1, 99)), types: onlySingle},
	{op: "RNN", outputs: 2, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 4), texts("activations", "Relu", "Softsign"), text("direction", "bidirectional")), in: args(noise(3, 2, 5), noise(2, 4, 5), noise(2, 4, 4)), types: onlySingle},
	{op: "RNN", outputs: 2, tolerance: 1e-5, attrs: attrs(whole("hidden_size", 4), texts("activations", "Softplus")), in: args(noise(3, 2, 5), noise(1, 4, 5), noise(1, 4, 4)), types: onlySingle},
}

// faint returns weights of states that do not multiply their errors from step to step.
func faint(shape ...int) *reference.Tensor {
	t := noise(shape...)
	for i := range t.F {
		t.F[i] /= 8
	}
	return t
}

func texts(name string, list ...string) *graph.Attr {
	return &graph.Attr{Name: name, Type: graph.AttrStrings, Strings: list}
}

// TestStepsInPieces: the bits are the same however many steps are multiplied at once.
func TestStepsInPieces(t *testing.T) {
	b := newBench(t)
	defer func(bytes int64) { sumsAtOnce = bytes }(sumsAtOnce)
	for _, layout := range []int64{0, 1} {
		c := &nodeCase{op: "GRU", attrs: attrs(whole("layout", layout), text("direction", "bidirectional")), in: args(noise(5, 5, 9), noise(2, 24, 9), noise(2, 24, 8), nil, wholes(graph.Int32, 3, 6, 5))}
		var list []*prepared
		for _, steps := range []int64{1, 2, 5} {
			sumsAtOnce = steps * 4 * 2 * 5 * 24
			list = append(list, b.prepare(c, graph.Float32))
		}
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		var want []byte
		for _, p := range list {
			b.must(p.run((*work.Pool)(nil)))
			got := bytes.Clone(b.bytesOf(p.n.Out[0]))
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("layout %d: other steps at once give other bits", layout)
			}
			b.check(t, p)
		}
	}
}
