package verify_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
)

// TestBestPeakOfTraversal: the default order of a runtime may be better than the one of a
// strategy that is given by name. The peak of the best order is then its own.
func TestBestPeakOfTraversal(t *testing.T) {
	// Strategies that go by the listing or by distance make both of what is large first.
	x := text{main: `
		in x float32[4,16]
		b = Concat(x, x, x, x) axis=0
		c = Concat(x, x, x, x) axis=1
		d = ReduceMax(b) keepdims=0
		e = ReduceMax(c) keepdims=0
		y = Add(d, e)
		out y
	`}
	better := 0
	for _, name := range []string{"program", "reverse-dfs", "bfs", "inductor-dfs", "kahn-size"} {
		opt := passes.Options{Runtime: ops.ONNXRuntime, Schedule: name, NoVerify: true}
		plain, err := passes.Optimize(t.Context(), x.build(t), opt)
		if err != nil {
			t.Fatal(name, err)
		}
		opt.RuntimeOrder = true
		found, err := passes.Optimize(t.Context(), x.build(t), opt)
		if err != nil {
			t.Fatal(name, err)
		}
		peak, best := found.Plan.Summary.PeakBytes, found.Plan.Traversal.BestPeakBytes
		if best > peak || best < found.Plan.Summary.LowerBoundBytes {
			t.Errorf("%s: the best order has %d bytes: expected from %d, the bound, to %d, the peak", name, best, found.Plan.Summary.LowerBoundBytes, peak)
		}
		if peak < plain.Plan.Summary.PeakBytes {
			better++
		}
	}
	if better == 0 {
		t.Error("the default order is never better than a strategy: expected one case")
	}
}
