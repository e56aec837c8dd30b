package graph_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestFlashAttention: a model gets both functions once, and one is no longer ours if any node,
// attribute or input of its body is another one, or its opset gives the body another meaning.
func TestFlashAttention(t *testing.T) {
	m := &graph.Model{Opsets: []graph.Opset{{Version: 18}}, Graph: &graph.Graph{}}
	for range 2 {
		if err := m.AddFlashAttention(); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.Functions) != 2 || m.Opset(graph.SwapDomain) != 1 {
		t.Fatalf("%d functions, domain version %d: expected two and 1", len(m.Functions), m.Opset(graph.SwapDomain))
	}
	for _, f := range m.Functions {
		expect := func(own bool, what string) {
			t.Helper()
			if f.Own() != own || f.IsFlashAttention() != own {
				t.Errorf("%s: %s: ours: %t, expected %t", f.Name, what, f.Own(), own)
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
					"number": func() { a.Int++ }, "real": func() { a.Float++ }, "list": func() { a.Ints = append([]int64{5}, a.Ints...) },
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
		f.Opsets[0].Version = 17
		expect(false, "opset 17")
	}
	if err := m.AddFlashAttention(); err == nil {
		t.Error("AddFlashAttention accepts other functions of these names")
	}
	m.Opsets[0].Version, m.Functions = 17, nil
	if err := m.AddFlashAttention(); err == nil {
		t.Error("AddFlashAttention accepts opset 17")
	}
}
