package vm_test

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm"
)

// sameLosses trains for a hundred steps, whole and in slices: the losses must be the same
// within 1e-5 of themselves. The network with MaxPools goes another way as soon as a maximum
// is elsewhere, as at its step 88, where two elements are nearly equal. It then stays within
// twice what a last bit more or less of the learning rate changes.
func sameLosses(t *testing.T, whole, sliced *vm.Program, params *graph.Model, rate float32) {
	t.Helper()
	const steps = 100
	curve := func(p *vm.Program, rate float32) (losses []float64) {
		s := newSession(t, p, vm.Options{})
		if err := s.Load(params); err != nil {
			t.Fatal(err)
		}
		in := inputsOf(p)
		in["learning_rate"] = vm.Float32s([]float32{rate})
		for range steps {
			out, err := s.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			loss, _ := out["loss"].Reals()
			losses = append(losses, loss...)
		}
		return losses
	}
	want, got := curve(whole, rate), curve(sliced, rate)
	if len(want) != steps || len(got) != steps {
		t.Fatalf("%d and %d losses: expected %d each", len(want), len(got), steps)
	}
	worst := func(losses []float64) (most float64) {
		for i := range losses {
			most = max(most, math.Abs(losses[i]-want[i])/math.Abs(want[i]))
		}
		return most
	}
	off, allowed := worst(got), 1e-5
	if off > allowed {
		allowed = 2 * max(worst(curve(whole, rate*(1-1.2e-7))), worst(curve(whole, rate*(1+1.2e-7))))
	}
	t.Logf("%d losses from %.4f to %.4f within %.1e", steps, want[0], want[steps-1], off)
	if off > allowed {
		t.Errorf("losses differ by %.1e in slices: expected %.1e at most", off, allowed)
	}
	if want[steps-1] >= want[0] {
		t.Errorf("losses from %v to %v: expected them to fall", want[0], want[steps-1])
	}
}
