package passes_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

// TestWorkspacesOfANetwork: recorded workspaces become buffers that live for the step of
// their node, the peak never falls, and the order may change but not the sharing rules.
func TestWorkspacesOfANetwork(t *testing.T) {
	build := func() *graph.Model {
		m, err := models.Build("resnet18", models.Options{Dims: map[string]int64{"batch": 1}, Set: map[string]string{"size": "32", "width": "0.25"}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before, err := passes.Optimize(t.Context(), build(), passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &plan.Recording{Device: "a GPU"}
	for i, n := range before.Model.Graph.Nodes {
		if n.Op == "Conv" {
			w.Nodes = append(w.Nodes, plan.NewNodeScratch(before.Model.Graph, graph.NodeID(i), 1<<20+int64(i)))
		}
	}
	after, err := passes.Optimize(t.Context(), build(), passes.Options{Workspaces: w, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	p := after.Plan
	if len(p.Workspaces.Nodes) != len(w.Nodes) || p.Summary.PeakBytes < before.Plan.Summary.PeakBytes+1<<20 {
		t.Errorf("%d workspaces, a peak of %d bytes after %d: expected %d, and a higher peak", len(p.Workspaces.Nodes), p.Summary.PeakBytes, before.Plan.Summary.PeakBytes, len(w.Nodes))
	}
	for _, x := range p.Workspaces.Nodes {
		if op := p.Steps[x.Step].Op; op != "Conv" {
			t.Errorf("step %d is a %s: expected a Conv", x.Step, op)
		}
		if !slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool {
			return b.Kind == plan.KindWorkspace && *b.Node == x.Step && b.First == x.Step && b.Last == x.Step && b.Bytes == (x.Bytes+63)&^63
		}) {
			t.Errorf("step %d: no buffer of %d bytes", x.Step, x.Bytes)
		}
	}
	if before.Plan.Workspaces != nil {
		t.Error("a plan without a recording has workspaces")
	}
}

func TestWorkspacesRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		w      plan.Recording
		option bool // the option is wrong for every model
		err    string
	}{
		{"an unknown node", plan.Recording{Nodes: []plan.NodeScratch{{Node: "nobody", Output: "nothing", Bytes: 64}}}, false, `node "nobody" has a recorded workspace, but is not in the graph`},
		{"another length", plan.Recording{Dims: map[string]int64{"batch": 3}}, false, `dimension "batch" = 3, expected 2`},
		{"an absurd size", plan.Recording{Nodes: []plan.NodeScratch{{Node: "x", Bytes: 1 << 60}}}, true, "expected from 1 to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := models.Build("resnet18", models.Options{Set: map[string]string{"size": "32", "width": "0.25"}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = passes.Optimize(t.Context(), m, passes.Options{Dims: map[string]int64{"batch": 2}, Workspaces: &c.w})
			var option *passes.OptionError
			if err == nil || !strings.Contains(err.Error(), c.err) || errors.As(err, &option) != c.option {
				t.Errorf("error %v, expected one with %q", err, c.err)
			}
		})
	}
}
