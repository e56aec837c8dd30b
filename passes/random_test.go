package passes_test

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
	"github.com/onnxmem/onnxmem/schedule"
)

// noise is a model that draws random numbers twice. The first tensor waits while
// the second, larger one is drawn and reduced; the best order draws the second
// first.
func noise(t *testing.T) []byte {
	t.Helper()
	g := &graph.Graph{Name: "noise"}
	node := func(op string, attrs []*graph.Attr, inputs ...graph.TensorID) graph.TensorID {
		out := g.NewTensor(strings.ToLower(op) + string(rune('a'+len(g.Nodes))))
		g.Nodes = append(g.Nodes, &graph.Node{Name: "n" + string(rune('0'+len(g.Nodes))), Op: op, Attrs: attrs, Inputs: inputs, Outputs: []graph.TensorID{out}})
		return out
	}
	draw := func(n int64) graph.TensorID {
		return node("RandomNormal", []*graph.Attr{{Name: "shape", Type: graph.AttrInts, Ints: []int64{n}}})
	}
	reduce := func(x graph.TensorID) graph.TensorID {
		return node("ReduceMax", []*graph.Attr{{Name: "keepdims", Type: graph.AttrInt, Int: 1}}, x)
	}
	first := draw(1 << 12)
	second := reduce(draw(1 << 13))
	sum := reduce(node("Add", nil, first, second))
	g.Outputs = []graph.TensorID{sum}
	g.Tensors[sum].Output = true
	g.Tensors[sum].Declared = &graph.Declared{Type: graph.Type{Kind: graph.KindTensor, Elem: graph.Float32, Shape: []graph.Dim{1}}, Symbols: []string{""}}
	g.Link()
	m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	file, err := im.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// draws lists the random nodes of a plan in its order.
func draws(p *plan.Plan) (names []string) {
	for _, s := range p.Steps {
		if s.Op == "RandomNormal" {
			names = append(names, s.Name)
		}
	}
	return names
}

// TestKeepRandomOrder: random nodes move for a smaller peak, unless
// KeepRandomOrder is set. The bound holds over all orders; a verifier without the
// option proves it, and checks the claim of the plan.
func TestKeepRandomOrder(t *testing.T) {
	file := noise(t)
	_, free := planned(t, file, passes.Options{})
	_, kept := planned(t, file, passes.Options{KeepRandomOrder: true})
	if got := strings.Join(draws(free), " "); got == "n0 n1" || !free.Summary.ScheduleOptimal {
		t.Fatalf("draws in the order %s, optimal: %t: nothing is tested", got, free.Summary.ScheduleOptimal)
	}
	if got := strings.Join(draws(kept), " "); got != "n0 n1" {
		t.Errorf("draws in the order %s, expected n0 n1", got)
	}
	if kept.Summary.LowerBoundBytes != free.Summary.LowerBoundBytes || kept.Summary.ScheduleOptimal || kept.Summary.PeakBytes <= free.Summary.PeakBytes {
		t.Errorf("peak %d, bound %d, optimal %t; without the order kept peak and bound are %d", kept.Summary.PeakBytes, kept.Summary.LowerBoundBytes, kept.Summary.ScheduleOptimal, free.Summary.PeakBytes)
	}
	if !kept.KeepsRandomOrder || free.KeepsRandomOrder {
		t.Error("the plans do not say which of them keeps the order")
	}
	for _, name := range []string{"program", "greedy", "bfs"} {
		_, p := planned(t, file, passes.Options{KeepRandomOrder: true, Schedule: name})
		if got := strings.Join(draws(p), " "); got != "n0 n1" {
			t.Errorf("%s draws in the order %s", name, got)
		}
	}

	// A plan that claims to keep the order, but does not.
	m, err := onnx.Parse("in.onnx", file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Plan.KeepsRandomOrder = true
	rep, err := verify.Plan(r.Model, r.Plan, verify.Options{SkipAnnotations: true})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Valid || rep.Violations[0].Code != verify.CodeProgram || !strings.Contains(rep.Violations[0].Message, "random operators") {
		t.Errorf("a plan that moves random nodes and denies it: %v", rep)
	}
}

// TestKeepRandomOrderSaysWhatItCosts: a warning gives the cost of keeping the
// order.
func TestKeepRandomOrderSaysWhatItCosts(t *testing.T) {
	m, err := onnx.Parse("in.onnx", noise(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{KeepRandomOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "no order that meets this has a smaller peak") {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// TestTimeLimit: without any time there is still a valid plan, and a warning
// names the time limit. Results that need no search stay the same.
func TestTimeLimit(t *testing.T) {
	for _, placement := range []string{"", "best-fit"} {
		m, err := onnx.Parse("in.onnx", noise(t))
		if err != nil {
			t.Fatal(err)
		}
		r, err := passes.Optimize(t.Context(), m, passes.Options{TimeLimit: 1, Placement: placement, Check: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "time limit of 1ns") {
			t.Errorf("warnings %q", r.Warnings)
		}
	}
	planned(t, noise(t), passes.Options{TimeLimit: 1})
}

// TestGoalArea: the goal area keeps the peak and does not increase the area.
func TestGoalArea(t *testing.T) {
	area := func(p *plan.Plan) (sum int64) {
		for _, s := range p.Steps {
			sum += s.LoadBytes
		}
		return sum
	}
	file := noise(t)
	_, peak := planned(t, file, passes.Options{})
	_, flat := planned(t, file, passes.Options{Goal: schedule.GoalArea})
	if flat.Summary.PeakBytes != peak.Summary.PeakBytes || area(flat) > area(peak) {
		t.Errorf("peak %d, area %d; expected %d and at most %d", flat.Summary.PeakBytes, area(flat), peak.Summary.PeakBytes, area(peak))
	}
}
