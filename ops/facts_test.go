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
