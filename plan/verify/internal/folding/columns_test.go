package folding

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
)

// TestFoldedOperators: the verifier recomputes the operators that a plan may fold, and no
// others; those whose elements it carries move elements, by their class in package ops.
func TestFoldedOperators(t *testing.T) {
	for _, name := range ops.Names("") {
		op := ops.Lookup("", name)
		_, carries := carried[name]
		if known := constant.Known(&graph.Node{Op: name}); known != (carries || allowed[name]) {
			t.Errorf("%s: folded: %v, recomputed: %v", name, known, carries || allowed[name])
		}
		if carries && allowed[name] {
			t.Errorf("%s is in both lists", name)
		}
		moves := op.Class == ops.Move || op.Class == ops.View || op.Copies || name == "Where" // which chooses
		if carries && !moves {
			t.Errorf("%s is of class %v, but its elements are carried", name, op.Class)
		}
		if allowed[name] && moves {
			t.Errorf("%s moves elements, which must be carried as bits", name)
		}
	}
}
