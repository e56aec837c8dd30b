package passes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
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

// TestWorkspacesInPools: scratch given as a list of nodes and bytes lies in the pools of a
// board, in what other buffers of its step leave free, and counts as traffic there. A plan
// that has it elsewhere is refused, and so is scratch that no pool takes.
func TestWorkspacesInPools(t *testing.T) {
	build := func() *graph.Model {
		m, err := models.Build("resnet18", models.Options{Dims: map[string]int64{"batch": 1}, Set: map[string]string{"size": "32", "width": "0.25"}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := build()
	list := "node,bytes\n"
	for i, n := range m.Graph.Nodes {
		if n.Op == "Conv" {
			list += fmt.Sprintf("%s,%d\n", n.Name, 5000+1000*(i%7))
		}
	}
	w, err := plan.ReadRecordingCSV(strings.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	pools := []passes.Pool{{Name: "sram", Capacity: 16 << 10}, {Name: "dram", Capacity: 1 << 20}}
	r, err := passes.Optimize(t.Context(), m, passes.Options{Workspaces: w, Pools: pools, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	source := build()
	faults := func() []verify.Violation {
		got, err := verify.Plan(r.Model, r.Plan, verify.Options{SkipAnnotations: true, Source: source})
		if err != nil {
			t.Fatal(err)
		}
		return got.Violations
	}
	if list := faults(); len(list) > 0 {
		t.Fatalf("the verifier refuses the plan: %v", list)
	}
	in := map[string]int{}
	for i := range r.Plan.Buffers {
		b := &r.Plan.Buffers[i]
		if b.Kind != plan.KindWorkspace {
			continue
		}
		in[b.Pool]++
		was := *b
		for _, wrong := range []plan.Buffer{
			{Pool: plan.Resident, Offset: was.Offset, Bytes: was.Bytes}, {Pool: "sram", Offset: 16 << 10, Bytes: was.Bytes}, {Pool: was.Pool, Offset: was.Offset, Bytes: was.Bytes - 64},
		} {
			b.Pool, b.Offset, b.Bytes = wrong.Pool, wrong.Offset, wrong.Bytes
			if len(faults()) == 0 {
				t.Errorf("the workspace of step %d in %s at %d, of %d bytes: expected a refusal", *b.Node, b.Pool, b.Offset, b.Bytes)
			}
			*b = was
		}
	}
	if in["sram"] == 0 || in["sram"]+in["dram"] != len(w.Nodes) {
		t.Errorf("workspaces lie in %v: expected all %d in the two pools, some in the first", in, len(w.Nodes))
	}
	w.Nodes[0].Bytes = 2 << 20
	var full *passes.PoolError
	if _, err := passes.Optimize(t.Context(), build(), passes.Options{Workspaces: w, Pools: pools}); !errors.As(err, &full) {
		t.Errorf("scratch larger than every pool: found %v", err)
	}
}

// TestWorkspacesBesideMoves: where tensors are copied between pools, each node keeps its
// scratch, and the copies have none.
func TestWorkspacesBesideMoves(t *testing.T) {
	m, err := models.Build("mobilenet_v1", models.Options{Dims: map[string]int64{"batch": 1}})
	if err != nil {
		t.Fatal(err)
	}
	w := &plan.Recording{Device: "a list"}
	scratch := map[string]int64{}
	for i, n := range m.Graph.Nodes {
		if n.Op == "Conv" {
			bytes := 10_000 + 1000*int64(i)
			scratch[n.Name] = bytes
			w.Nodes = append(w.Nodes, plan.NewNodeScratch(m.Graph, graph.NodeID(i), bytes))
		}
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{Workspaces: w, Pools: []passes.Pool{{Name: "sram", Capacity: 3 << 20}, {Name: "dram", Capacity: 100 << 20}}, Check: true})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Plan
	if !slices.ContainsFunc(p.Steps, func(s plan.Step) bool {
		return strings.Contains(s.Op, graph.SwapIn) || strings.Contains(s.Op, graph.SwapOut)
	}) {
		t.Fatal("the plan copies nothing between its pools: expected a network in which it does")
	}
	for _, x := range p.Workspaces.Nodes {
		if name := p.Steps[x.Step].Name; scratch[name] != x.Bytes {
			t.Errorf("%s has a workspace of %d bytes, expected %d", name, x.Bytes, scratch[name])
		}
	}
	if len(p.Workspaces.Nodes) != len(scratch) || len(r.GivenUp) > 0 {
		t.Errorf("%d workspaces, %v given up: expected %d, and nothing", len(p.Workspaces.Nodes), r.GivenUp, len(scratch))
	}
}
