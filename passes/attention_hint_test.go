package passes_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
)

// TestAttentionHint: where scores lie at the peak, the result says what the operator Attention would save, and
// the plan with it has this peak.
func TestAttentionHint(t *testing.T) {
	plan := func(queries string, opt passes.Options) *passes.Result {
		t.Helper()
		m, err := graph.Parse("m", `ir 11
			opset 23
			graph g
			in q float32[1,2,`+queries+`,8]
			in k float32[1,2,8,`+queries+`]
			in v float32[1,2,`+queries+`,8]
			t = MatMul(q, k)
			p = Softmax(t) axis=-1
			y = MatMul(p, v)
			z = Relu(y)
			out z`)
		if err != nil {
			t.Fatal(err)
		}
		r, err := passes.Optimize(t.Context(), m, opt)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	hint := plan("64", passes.Options{}).AttentionHint
	with := plan("64", passes.Options{Attention: true})
	switch {
	case hint == nil:
		t.Fatal("no hint")
	case hint.PeakBytes != with.Plan.Summary.PeakBytes || hint.KeptBytes != 0:
		t.Errorf("hint %+v, expected a peak of %d bytes", *hint, with.Plan.Summary.PeakBytes)
	case with.AttentionHint != nil:
		t.Errorf("a hint of what is done: %+v", *with.AttentionHint)
	}
	if r := plan("2", passes.Options{}); r.AttentionHint != nil {
		t.Errorf("a hint of scores that are small: %+v", *r.AttentionHint)
	}
}
