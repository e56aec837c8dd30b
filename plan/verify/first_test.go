package verify_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// TestFirstStepOfTraining: an input that nobody reads is live at the first step, whichever
// node that is. In a step that accumulates gradients, a node that writes over a state in its
// buffer runs after the other readers of the state. So the planner's set of nodes that may
// begin lacks it, but the file's edges do not say so. A bound above that is refused.
func TestFirstStepOfTraining(t *testing.T) {
	x := text{main: `
		in x float32[4,8]
		in unread float32[64,64]
		init w float32[8,4] = ...
		y = MatMul(x, w)
		out y
	`}
	for _, every := range []int{1, 2, 3} {
		_, file, p := planReal(t, x, passes.Options{Train: &autodiff.Options{Loss: "mse", Accumulate: every}})
		r, err := verify.Plan(parse(t, file), p, verify.Options{})
		if err != nil || !r.Valid || r.Schedule != "proven" {
			t.Fatalf("every %d steps: expected a valid plan that is proven, found %v, %v", every, r, err)
		}
		for i := range p.Certificates {
			p.Certificates[i].ValueBytes += 64
		}
		p.Summary.LowerBoundBytes += 64
		refusedFor(t, file, p, verify.Options{SkipAnnotations: true}, verify.CodeCertificate, "a lower bound of")
		p.Certificates = []plan.Certificate{}
	}
}
