package vm_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/vm"
)

// TestPlannedWorkspaces: the scratch that a run records becomes workspaces of the next
// plan, which then takes no scratch beside the arena, and gives the same bits, planned,
// apart, and poisoned.
func TestPlannedWorkspaces(t *testing.T) {
	d, f := onDevice(t)
	for _, c := range []struct {
		name string
		net  smallNetwork
		opt  func() passes.Options
	}{
		{"inference", smallNetworks[0], func() passes.Options { return passes.Options{} }},
		{"recomputed", smallNetworks[3], func() passes.Options {
			return passes.Options{Train: &autodiff.Options{Optimizer: "sgd"}, Limit: &passes.Limit{Percent: 85}, Effort: schedule.EffortFast}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.net.file(t)
			p, r := program(t, file, c.opt())
			want, s := runSteps(t, p, vm.Options{Device: d}, params(r), 1)
			w := s.Workspaces()
			before := s.DeviceUse()
			if before.ScratchBytes == 0 || len(w.Nodes) == 0 {
				t.Fatalf("%d bytes of scratch, of %d nodes: expected some", before.ScratchBytes, len(w.Nodes))
			}
			opt := c.opt()
			opt.Workspaces = w
			p, r = program(t, file, opt)
			list := r.Plan.Workspaces
			again := 0
			for _, st := range r.Plan.Steps {
				if st.Again != nil {
					again++
				}
			}
			if list == nil || list.Device != d.Name() || len(list.Nodes) < len(w.Nodes) || again == 0 && len(list.Nodes) > len(w.Nodes) {
				t.Fatalf("%+v: expected the workspaces of %d nodes", list, len(w.Nodes))
			}
			got, s := runSteps(t, p, vm.Options{Device: d}, params(r), 1)
			sameBits(t, "in workspaces", got, want)
			if u := s.DeviceUse(); u.ScratchBytes > 0 {
				t.Errorf("%d bytes of scratch beside the arena, expected none", u.ScratchBytes)
			}
			apart, s := runSteps(t, p, vm.Options{Device: d, Separate: true}, params(r), 1)
			sameBits(t, "apart", apart, want)
			if u := s.DeviceUse(); u.ScratchBytes == 0 {
				t.Error("no scratch where every tensor is apart, expected some")
			}
			poisoned, _ := runSteps(t, p, vm.Options{Device: d, Poison: true}, params(r), 1)
			sameBits(t, "poisoned", poisoned, want)
			if f != nil {
				f.Mode("random:3")
				mixed, _ := runSteps(t, p, vm.Options{Device: d}, params(r), 1)
				f.Mode("lazy")
				sameBits(t, "in another order", mixed, want)
			}
			onCPU, _ := runSteps(t, p, vm.Options{}, params(r), 1)
			if len(onCPU) != len(want) {
				t.Errorf("%d outputs on the CPU, expected %d", len(onCPU), len(want))
			}
			if again := s.Workspaces(); len(again.Nodes) != len(w.Nodes) || again.Model.GraphSHA256 == w.Model.GraphSHA256 && w.Model != (plan.File{}) {
				t.Errorf("recorded again: %d nodes of %+v, expected %d of another file", len(again.Nodes), again.Model, len(w.Nodes))
			}
		})
	}
}

// params returns the initial values of a training step's parameters; nil for inference.
func params(r *passes.Result) *graph.Model {
	if r.Step == nil {
		return nil
	}
	return r.Step.Params
}
