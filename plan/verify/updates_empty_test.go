package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// A parameter without elements, such as the empty roi of a Resize, shares one buffer
// with its update. Other tensors of 0 bytes share none: no operator may write one there.
func TestUpdatesWithoutElements(t *testing.T) {
	x := text{
		main: `
			in w float32[0]
			in r float32[0]
			z = Concat(w, r) axis=0
			u = Neg(z)
			w.new = Sub(w, u)
			loss = ReduceSum(u) keepdims=0
			out loss
			out w.new
		`,
		props: map[string]string{"onnxmem.mode": "training", "onnxmem.updates": `["w=w.new"]`, "onnxmem.trainable": `["w"]`},
	}
	_, b, p := planReal(t, x, passes.Options{})
	find := func(tensor string) int {
		return slices.IndexFunc(p.Buffers, func(b plan.Buffer) bool { return slices.Contains(b.Tensors, tensor) })
	}
	if find("w") < 0 || find("w") != find("w.new") {
		t.Fatalf("%v: expected one buffer for w and w.new", p.Buffers)
	}
	r, err := verify.Plan(parse(t, b), p, verify.Options{})
	if err != nil || !r.Valid {
		t.Fatalf("%v, %v", r, err)
	}
	from, to := find("z"), find("r")
	if from < 0 || to < 0 || from == to {
		t.Fatalf("%v: expected buffers of their own for z and r", p.Buffers)
	}
	p.Buffers[to].Tensors = append(p.Buffers[to].Tensors, p.Buffers[from].Tensors...)
	p.Buffers = slices.Delete(p.Buffers, from, from+1)
	r, err = verify.Plan(parse(t, b), p, verify.Options{})
	if err != nil || !slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == verify.CodeInplace }) {
		t.Fatalf("%v, %v: expected a fault of the buffer in which Concat writes over r", r, err)
	}
}
