package graph_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestConvWeightGrad: a model gets the function once, and it is no longer ours if any node,
// attribute or input of its body is another one, or its opset gives the body another meaning.
func TestConvWeightGrad(t *testing.T) {
	m := &graph.Model{Opsets: []graph.Opset{{Version: 18}}, Graph: &graph.Graph{}}
	for range 2 {
		if err := m.AddConvWeightGrad(); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.Functions) != 1 || m.Opset(graph.SwapDomain) != 1 {
		t.Fatalf("%d functions, domain version %d: expected one of each", len(m.Functions), m.Opset(graph.SwapDomain))
	}
	f := m.Functions[0]
	expect := func(own bool, what string) {
		t.Helper()
		if f.Own() != own || f.IsConvWeightGrad() != own || f.IsPutRows() {
			t.Errorf("%s: ours: %t, expected %t", what, f.Own(), own)
		}
	}
	expect(true, "as it is")
	for _, n := range f.Body.Nodes {
		op := n.Op
		n.Op = "Other"
		expect(false, op+" is another operator")
		n.Op = op
		for _, a := range n.Attrs {
			was := *a
			for what, change := range map[string]func(){
				"number": func() { a.Int++ }, "list": func() { a.Ints = append([]int64{5}, a.Ints...) },
				"reference": func() { a.Ref += "x" }, "name": func() { a.Name += "x" },
			} {
				change()
				expect(false, op+": "+a.Name+": another "+what)
				*a = was
			}
		}
		for i, id := range n.Inputs {
			n.Inputs[i] = f.Body.Outputs[0]
			expect(false, op+" reads another tensor")
			n.Inputs[i] = id
		}
	}
	f.Opsets[0].Version = 14
	expect(false, "opset 14")
	if err := m.AddConvWeightGrad(); err == nil {
		t.Error("AddConvWeightGrad accepts another function of that name")
	}
	m.Opsets[0].Version, m.Functions = 14, nil
	if err := m.AddConvWeightGrad(); err == nil {
		t.Error("AddConvWeightGrad accepts opset 14")
	}
}
