package models_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/ops"
)

// Inference finds the shape of every tensor, and for the outputs the shape that the
// builder declares. The two share no code.
func TestInfer(t *testing.T) {
	bound := map[string]int64{"batch": 3, "sequence": 7, "source": 6, "target": 5}
	for _, n := range models.Networks() {
		dims := map[string]int64{}
		for _, p := range n.Dims {
			dims[p.Name] = bound[p.Name]
		}
		for _, set := range []map[string]string{nil, small[n.Name]} {
			// The dimensions are bound in the file, or during inference.
			fixed := build(t, n.Name, models.Options{Dims: dims, Set: set})
			infer(t, fixed, nil)
			symbolic := build(t, n.Name, models.Options{Set: set})
			infer(t, symbolic, dims)
			for i, id := range fixed.Graph.Outputs {
				want := fixed.Graph.Tensors[id].Declared.Type.String()
				for _, m := range []*graph.Model{fixed, symbolic} {
					if got := m.Graph.Tensors[m.Graph.Outputs[i]].Type.String(); got != want {
						t.Errorf("%s %v: output %d is %s, expected %s", n.Name, set, i, got, want)
					}
				}
			}
		}
	}
}

// infer fails if a tensor has no exact size.
func infer(t *testing.T, m *graph.Model, dims map[string]int64) {
	t.Helper()
	found, err := ops.Infer(m, ops.Options{Dims: dims, StrictDims: true, IgnoreDeclared: true})
	if err != nil {
		t.Errorf("%s: %v", m.Graph.Name, err)
		return
	}
	for _, w := range found.Warnings {
		t.Errorf("%s: %s", m.Graph.Name, w)
	}
	for _, tensor := range m.Graph.Tensors {
		if !tensor.Type.Exact() || tensor.Dynamic != "" || tensor.Bounded {
			t.Errorf("%s: %q is %s, dynamic %q, bounded %v", m.Graph.Name, tensor.Name, tensor.Type, tensor.Dynamic, tensor.Bounded)
		}
	}
}
