package ops_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// TestPrepares: sums depend on how a runtime arranges a constant, moves and operations
// on single elements do not.
func TestPrepares(t *testing.T) {
	for _, c := range []struct {
		domain, op string
		want       bool
	}{
		{"", "MatMul", true},
		{"", "Gemm", true},
		{"", "Conv", true},
		{"", "LSTM", true},
		{"", "Einsum", true},
		{"com.microsoft", "FusedMatMul", true},
		{"com.microsoft", "MatMulNBits", true},
		{"acme", "Fuse", true},
		{"", "Add", false},
		{"", "LayerNormalization", false},
		{"", "Gather", false},
		{"", "Concat", false},
		{"", "Reshape", false},
	} {
		n := &graph.Node{Domain: c.domain, Op: c.op, Semantics: graph.Semantics{Known: true}}
		if got := ops.Prepares(n); got != c.want {
			t.Errorf("%s::%s: %t, expected %t", c.domain, c.op, got, c.want)
		}
	}
}

// TestRounds: lengths that follow from floating-point numbers, that a rounding mode
// decides, or that belong to an operator that is not known.
func TestRounds(t *testing.T) {
	one := func(name string) []*graph.Attr { return []*graph.Attr{{Name: name, Type: graph.AttrInt, Int: 1}} }
	for _, c := range []struct {
		domain, op string
		attrs      []*graph.Attr
		want       bool
	}{
		{"", "Resize", nil, true},
		{"", "Range", nil, true},
		{"", "MaxPool", nil, false},
		{"", "MaxPool", one("ceil_mode"), true},
		{"", "AveragePool", one("ceil_mode"), true},
		{"", "ConvTranspose", nil, false},
		{"", "ConvTranspose", one("auto_pad"), true},
		{"", "Conv", one("auto_pad"), false},
		{"", "Reshape", nil, false},
		{"acme", "Fuse", nil, true},
	} {
		n := &graph.Node{Domain: c.domain, Op: c.op, Attrs: c.attrs, Semantics: graph.Semantics{Known: true}}
		if got := ops.Rounds(n); got != c.want {
			t.Errorf("%s::%s: %t, expected %t", c.domain, c.op, got, c.want)
		}
	}
}
