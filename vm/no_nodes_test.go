package vm_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// TestNoNodes: a model without nodes, whose output is an initializer, is planned and run.
func TestNoNodes(t *testing.T) {
	b := graph.NewBuilder("none", 17)
	b.Input("x", graph.TensorOf(graph.Int64, 2))
	y := b.Floats("y", []int64{3}, []float32{1, 2, 3})
	b.Output(y)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := vm.New(r.Model, r.Plan)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.NewSession(vm.Options{Poison: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(t.Context(), map[string]vm.Value{"x": vm.Int64s([]int64{4, 5}, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := out["y"].Reals(); !slices.Equal(got, []float64{1, 2, 3}) {
		t.Errorf("got %v, want 1 2 3", got)
	}
}
