package vm_test

import (
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestDevicePrecision: a training step in 16 bits runs on the device alone, with all products on
// tensor cores but for gradients of few rows or places, which are made in float32. Planned and
// replayed it gives the same bits as with every tensor apart, where the casts between the
// elementwise nodes of groups and of updates change nothing.
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
			narrow, wide := 0, 0
			for _, a := range u.Arithmetic {
				switch a.In {
				case graph.BFloat16.String():
					narrow += a.Nodes
				case graph.Float32.String():
					wide += a.Nodes
				}
			}
			if expected := wideProducts(t, r.Model.Graph); narrow == 0 || wide != expected {
				t.Errorf("products are computed in %v, expected bfloat16, and float32 for %d", u.Arithmetic, expected)
			}
			apart, _ := everyStep(t, p, vm.Options{Device: d, Separate: true, Without: []string{"elementwise"}}, r.Step.Params, steps)
			for i := range got {
				sameBits(t, fmt.Sprintf("step %d", i), got[i], apart[i])
			}
		})
	}
}

// wideProducts counts the products in float32 of a step in bfloat16. Each is the gradient of a
// matrix, of operands that a Cast widens.
func wideProducts(t *testing.T, g *graph.Graph) int {
	t.Helper()
	wide := 0
	for _, n := range g.Nodes {
		if !ops.IsProduct(n) || g.Tensors[n.Inputs[0]].Type.Elem != graph.Float32 {
			continue
		}
		wide++
		for _, id := range n.Inputs[:2] {
			in := g.Tensors[id]
			if in.Maker == graph.None || !ops.Casts(g.Nodes[in.Maker]) || g.Tensors[g.Nodes[in.Maker].Inputs[0]].Type.Elem != graph.BFloat16 {
				t.Errorf("node %s multiplies %s in float32, expected an operand that a Cast widens", n.Name, in.Name)
			}
		}
	}
	return wide
}
