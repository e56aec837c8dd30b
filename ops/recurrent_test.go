package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestRecurrent(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	x := f(5, 2, 3)
	runCases(t, []opCase{
		{doc: "hidden size from R", op: "GRU", in: []Arg{x, f(1, 12, 3), f(1, 12, 4)}, outs: 2, want: "float32[5,1,2,4], float32[1,2,4]"},
		{doc: "two directions", op: "LSTM", in: []Arg{x, f(2, 16, 3), f(2, 16, 4), f(2, 32)}, outs: 3, attrs: []*graph.Attr{attrString("direction", "bidirectional")}, want: "float32[5,2,2,4], float32[2,2,4], float32[2,2,4]"},
		{doc: "batch first", op: "RNN", in: []Arg{f(2, 5, 3), f(1, 4, 3), f(1, 4, 4)}, outs: 2, attrs: []*graph.Attr{attrInt("layout", 1)}, want: "float32[2,5,1,4], float32[2,1,4]"},
		{doc: "hidden size from the attribute", op: "RNN", in: []Arg{x, argUnranked(graph.Float32), argUnranked(graph.Float32)}, attrs: []*graph.Attr{attrInt("hidden_size", 7)}, want: "float32[5,1,2,7]"},
		{doc: "bounded length", op: "GRU", in: []Arg{f(graph.AtMost(5), 2, 3), f(1, 12, 3), f(1, 12, 4)}, outs: 2, want: "float32[<=5,1,2,4], float32[1,2,4]"},
		{doc: "gates", op: "LSTM", in: []Arg{x, f(1, 12, 3), f(1, 16, 4)}, want: "error: input 1 has shape [1,12,3], expected [1,16,3]"},
		{doc: "bias", op: "LSTM", in: []Arg{x, f(1, 16, 3), f(1, 16, 4), f(1, 16)}, want: "error: expected [1,32]: the biases of W and R"},
		{doc: "peepholes", op: "LSTM", in: []Arg{x, f(1, 16, 3), f(1, 16, 4), {}, {}, {}, {}, f(1, 16)}, want: "error: expected [1,12]: peepholes"},
		{doc: "initial state", op: "GRU", in: []Arg{x, f(1, 12, 3), f(1, 12, 4), {}, {}, f(1, 3, 4)}, want: "error: expected [1,2,4]: a state"},
		{doc: "lengths", op: "GRU", in: []Arg{x, f(1, 12, 3), f(1, 12, 4), {}, arg(graph.Int32, 3)}, want: "error: expected [2]: a length per sequence"},
		{doc: "direction", op: "GRU", in: []Arg{x, f(1, 12, 3), f(1, 12, 4)}, attrs: []*graph.Attr{attrString("direction", "both")}, want: `error: direction is "both"`},
		{doc: "rank", op: "GRU", in: []Arg{f(5, 3), f(1, 12, 3), f(1, 12, 4)}, want: "error: expected rank 3"},
	})
}
