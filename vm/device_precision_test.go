package vm_test

import (
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestDevicePrecision: a training step in 16 bits runs on the device alone, with all products on
// tensor cores. Planned and replayed it gives the same bits as with every tensor apart, where the
// casts between the elementwise nodes of groups and of updates change nothing.
func TestDevicePrecision(t *testing.T) {
	d, f := onDevice(t)
	for _, n := range smallNetworks {
		t.Run(n.name, func(t *testing.T) {
			if n.name != "bert" {
				sweepOnFake(t, f)
			}
			p, r := program(t, n.file(t), passes.Options{Train: &autodiff.Options{Optimizer: "adamw"}, Precision: &passes.Precision{Type: graph.BFloat16}})
			const steps = 3
			got, s := everyStep(t, p, vm.Options{Device: d}, r.Step.Params, steps)
			u := s.DeviceUse()
			if u.FallbackNodes > 0 || u.ReplayedSteps != steps-2 {
				t.Errorf("%d nodes on the CPU (%v), %d steps replayed: expected none, and all after the second", u.FallbackNodes, u.FallbackOps, u.ReplayedSteps)
			}
			if len(u.Arithmetic) != 1 || u.Arithmetic[0].In != graph.BFloat16.String() {
				t.Errorf("products are computed in %v, expected bfloat16 alone", u.Arithmetic)
			}
			apart, _ := everyStep(t, p, vm.Options{Device: d, Separate: true, Without: []string{"elementwise"}}, r.Step.Params, steps)
			for i := range got {
				sameBits(t, fmt.Sprintf("step %d", i), got[i], apart[i])
			}
		})
	}
}
