package vm_test

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestSlicedLossCurves: a hundred steps of training in micro-batches, whose gradients are
// sums over slices, have the losses of the whole steps within 1e-5, or within twice what
// another last bit of the learning rate changes: from its step 71 on, the network with
// MaxPools goes another way, as soon as a maximum is elsewhere.
func TestSlicedLossCurves(t *testing.T) {
	const steps = 100
	bert := smallNetwork{"bert", smallLayers, map[string]int64{"batch": 8, "sequence": 16}}
	for _, c := range []struct {
		name, file string
		rate       float32
	}{{"bert", bert.file(t), 0.01}, {"pools", pools(t), 0.0005}} {
		t.Run(c.name, func(t *testing.T) {
			curve := func(rate float32, opt passes.Options) (losses []float64, r *passes.Result) {
				opt.Train = &autodiff.Options{}
				p, r := program(t, c.file, opt)
				s := newSession(t, p, vm.Options{})
				if err := s.Load(r.Step.Params); err != nil {
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
				return losses, r
			}
			want, _ := curve(c.rate, passes.Options{})
			got, r := curve(c.rate, passes.Options{Slices: passes.SlicesAny, Limit: &passes.Limit{Percent: 45}, Device: passes.Device{FLOPS: 1e8, Bandwidth: 1e8}})
			if r.Plan.Slices == nil || len(want) != steps || len(got) != steps {
				t.Fatalf("%d and %d losses: expected %d each, and slices", len(want), len(got), steps)
			}
			worst := func(losses []float64) (most float64) {
				for i := range losses {
					most = max(most, math.Abs(losses[i]-want[i])/math.Abs(want[i]))
				}
				return most
			}
			sliced, allowed := worst(got), 1e-5
			if sliced > allowed {
				other, _ := curve(c.rate*(1-1.2e-7), passes.Options{})
				allowed = 2 * worst(other)
			}
			t.Logf("%d losses from %.4f to %.4f within %.1e", steps, want[0], want[steps-1], sliced)
			if sliced > allowed {
				t.Errorf("losses differ by %.1e in slices: expected %.1e at most", sliced, allowed)
			}
			if want[steps-1] >= want[0] {
				t.Errorf("losses from %v to %v: expected them to fall", want[0], want[steps-1])
			}
		})
	}
}
