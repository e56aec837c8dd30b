package vm_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// withAttention are the small networks that have some, and types of their steps.
func withAttention(t *testing.T, test func(t *testing.T, n *smallNetwork, opt passes.Options)) {
	for i := range smallNetworks {
		n := &smallNetworks[i]
		if !slices.Contains([]string{"vit_b_16", "bert", "transformer"}, n.name) {
			continue
		}
		for _, elem := range []graph.DType{graph.Float32, graph.BFloat16, graph.Float16} {
			opt := passes.Options{Train: &autodiff.Options{Optimizer: "sgd", Attention: true}}
			if elem != graph.Float32 {
				opt.Precision = &passes.Precision{Type: elem}
			}
			t.Run(n.name+"-"+elem.String(), func(t *testing.T) { test(t, n, opt) })
		}
	}
}

// TestDeviceAttention: steps whose attention keeps no scores give the CPU's results on the device,
// with every node of theirs there, and without memory beside the plan once its scratch is planned.
func TestDeviceAttention(t *testing.T) {
	d, f := onDevice(t)
	withAttention(t, func(t *testing.T, n *smallNetwork, opt passes.Options) {
		if n.name != "bert" || opt.Precision != nil {
			sweepOnFake(t, f)
		}
		p, r := program(t, n.file(t), opt)
		checkOnDevice(t, p, d, f, r.Step.Params, 3)
		_, s := runSteps(t, p, vm.Options{Device: d}, r.Step.Params, 1)
		u, w := s.DeviceUse(), s.Workspaces()
		if u.FallbackNodes > 0 {
			t.Errorf("%d nodes on the CPU (%v), expected none", u.FallbackNodes, u.FallbackOps)
		}
		grads := 0
		for _, node := range r.Model.Graph.Nodes {
			if node.Op == graph.FlashAttentionGrad {
				grads++
			}
		}
		if grads == 0 {
			t.Error("no attention that keeps no scores")
		}
		opt.Workspaces = w
		p, r = program(t, n.file(t), opt)
		_, s = runSteps(t, p, vm.Options{Device: d}, r.Step.Params, 1)
		if u := s.DeviceUse(); u.ScratchBytes > 0 {
			t.Errorf("%d bytes of scratch beside the arena, expected none", u.ScratchBytes)
		}
	})
}
