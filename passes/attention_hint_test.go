package passes_test

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
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

// TestAttentionHintOfStep: the hint of a training step names bytes of weights that are not in the step with the
// option, and there is none where a step keeps its weights with it, too.
func TestAttentionHintOfStep(t *testing.T) {
	step := func(text string, attention bool) *passes.Result {
		t.Helper()
		m, err := graph.Parse("m", "ir 11\nopset 20\ngraph g\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		r, err := passes.Optimize(t.Context(), m, passes.Options{Train: &autodiff.Options{Loss: "mse", Attention: attention}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const four = `
		in a float32[1,64,16]
		init wq float32[16,16] = 0.25
		init heads int64[4] = [1, 64, 2, 8]
		q1 = MatMul(a, wq)
		q2 = Reshape(q1, heads)
		q = Transpose(q2) perm=[0, 2, 1, 3]
		k = Transpose(q2) perm=[0, 2, 3, 1]
		t = MatMul(q, k)
		p = Softmax(t) axis=-1
		y = MatMul(p, q)
		out y`
	const bytes = 2 * 64 * 64 * 4
	hint := step(four, false).AttentionHint
	if hint == nil || hint.KeptBytes != bytes || hint.PeakBytes != 0 {
		t.Errorf("hint %+v, expected %d kept bytes", hint, bytes)
	}
	with := step(four, true)
	if with.AttentionHint != nil {
		t.Errorf("a hint of what is done: %+v", *with.AttentionHint)
	}
	for _, b := range with.Plan.Buffers {
		if b.Bytes >= bytes {
			t.Errorf("buffer of %q has %d bytes, expected no weights", b.Tensors, b.Bytes)
		}
	}
	for what, text := range map[string]string{
		"a Dropout": strings.Replace(four, "y = MatMul(p, q)", "init r float32[] = 0.5\n\t\tinit on bool[] = 1\n\t\td = Dropout(p, r, on)\n\t\ty = MatMul(d, q)", 1),
		"three axes": `
		in a float32[2,64,8]
		init wq float32[8,8] = 0.25
		q = MatMul(a, wq)
		k = Transpose(q) perm=[0, 2, 1]
		t = MatMul(q, k)
		p = Softmax(t) axis=-1
		y = MatMul(p, q)
		out y`,
	} {
		if r := step(text, false); r.AttentionHint != nil {
			t.Errorf("%s: a hint of what is not done: %+v", what, *r.AttentionHint)
		}
	}
}
