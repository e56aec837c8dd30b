package passes_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// twoBranches is y = Relu(x) + Exp(Tanh(x)), built by hand.
func twoBranches(t *testing.T) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("two branches", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 64))
	left := b.Node("Relu", "left", x)
	right := b.Node("Exp", "right", b.Node("Tanh", "inner", x))
	b.Output(b.Node("Add", "y", left, right))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// nothing is a pass without effect.
func nothing(name string) passes.Pass {
	return passes.Pass{Name: name, Run: func(context.Context, *passes.State) error { return nil }}
}

// before inserts a pass before the named one in the default list.
func before(name string, p passes.Pass) []passes.Pass {
	list := passes.Default()
	return slices.Insert(list, slices.IndexFunc(list, func(q passes.Pass) bool { return q.Name == name }), p)
}

func TestDefaultPassesAreValid(t *testing.T) {
	if err := (&passes.Options{Passes: passes.Default()}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestListsOfPasses: a list that breaks a constraint, or that has no pass on
// which another depends, is refused with the reason.
func TestListsOfPasses(t *testing.T) {
	without := func(name string) []passes.Pass {
		return slices.DeleteFunc(passes.Default(), func(p passes.Pass) bool { return p.Name == name })
	}
	swapped := passes.Default()
	infer := slices.IndexFunc(swapped, func(p passes.Pass) bool { return p.Name == "infer" })
	slices.Reverse(swapped[infer : infer+5])
	for _, c := range []struct {
		name, want string
		opt        passes.Options
	}{
		{"share before infer", `pass "infer" must run before pass "share": inference finds the sizes and the views`, passes.Options{Passes: swapped}},
		{"no share", `pass "bodies" needs pass "share" before it, which is missing from the list: the tensors that a body captures`, passes.Options{Passes: without("share")}},
		{"no train", `option Train needs pass "train", which is missing from the list`, passes.Options{Passes: without("train"), Train: &autodiff.Options{}}},
		{"no limit", `option Frontier needs pass "limit"`, passes.Options{Passes: without("limit"), Frontier: true}},
		{"two of a name", `two passes have the name "place"`, passes.Options{Passes: append(passes.Default(), nothing("place"))}},
		{"no name", "pass 0 has no name", passes.Options{Passes: before("adapt", nothing(""))}},
		{"no function", `pass "idle" has no function`, passes.Options{Passes: before("train", passes.Pass{Name: "idle"})}},
		{"disabled, but not optional", `pass "own" cannot be disabled: expected one of fold, loss, order, recast`, passes.Options{Passes: before("train", nothing("own")), Disable: []string{"own"}}},
	} {
		var option *passes.OptionError
		_, err := passes.Optimize(t.Context(), twoBranches(t), c.opt)
		if !errors.As(err, &option) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected an *OptionError with %q", c.name, err, c.want)
		}
	}
}

// dropExp redirects the readers of an Exp to its input.
func dropExp(_ context.Context, s *passes.State) error {
	g := s.Model().Graph
	for _, n := range g.Nodes {
		if n.Op != "Exp" {
			continue
		}
		for _, r := range g.Nodes {
			for k, t := range r.Inputs {
				if t == n.Outputs[0] {
					r.Inputs[k] = n.Inputs[0]
				}
			}
		}
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return n.Op == "Exp" })
	g.Link()
	g.DropTensors(func(t graph.TensorID) bool { return g.Tensors[t].Name == "right" })
	s.Invalidate()
	return nil
}

// TestPassOfOnesOwn: a pass may change the graph anywhere before order. The plan
// is then one of the changed graph, and the passes whose results follow from the
// graph run again.
func TestPassOfOnesOwn(t *testing.T) {
	for _, c := range []struct{ at, ran string }{
		{"train", "adapt attention precision own train inline kv infer fold slice loss share bodies range order limit recast place alias annotate verify"},
		{"infer", "adapt attention precision train inline kv own infer fold slice loss share bodies range order limit recast place alias annotate verify"},
		{"share", "adapt attention precision train inline kv infer fold slice loss own infer share bodies range order limit recast place alias annotate verify"},
		{"order", "adapt attention precision train inline kv infer fold slice loss share bodies range own infer share bodies order limit recast place alias annotate verify"},
	} {
		var ran []string
		r, err := passes.Optimize(t.Context(), twoBranches(t), passes.Options{
			Passes: before(c.at, passes.Pass{Name: "own", Run: dropExp}), Check: true,
			Trace: func(p passes.Pass, _ time.Duration) { ran = append(ran, p.Name) },
		})
		if err != nil {
			t.Errorf("before %s: %v", c.at, err)
			continue
		}
		if got := strings.Join(ran, " "); got != c.ran {
			t.Errorf("before %s: ran %s\nwant %s", c.at, got, c.ran)
		}
		if _, timed := r.Times["own"]; !timed || len(r.Plan.Steps) != 3 || slices.ContainsFunc(r.Plan.Steps, func(s plan.Step) bool { return s.Op == "Exp" }) {
			t.Errorf("before %s: steps %v, times %v", c.at, r.Plan.Steps, r.Times)
		}
	}
}

// TestPassThatBreaks: the error names a pass that leaves the graph or the state
// broken.
func TestPassThatBreaks(t *testing.T) {
	for _, c := range []struct {
		name, at, want string
		run            func(context.Context, *passes.State) error
	}{
		{"no link", "infer", `after pass own: tensor "x": its links are not those of the graph`, func(_ context.Context, s *passes.State) error {
			s.Model().Graph.Nodes[0].Inputs[0] = 2
			return nil
		}},
		{"no invalidation", "order", "after pass own: 5 tensors and 4 nodes are known, the graph has 6 and 4: expected a call of State.Invalidate", func(_ context.Context, s *passes.State) error {
			s.Model().Graph.NewTensor("spare")
			return nil
		}},
		{"another graph", "order", "after pass own: the model's graph is not the one that was planned", func(_ context.Context, s *passes.State) error {
			s.Model().Graph = s.Model().Graph.Clone()
			return nil
		}},
		{"too late", "place", `pass "own" changed the graph after its nodes were ordered`, dropExp},
		{"a panic", "infer", "internal error in pass own: oh", func(context.Context, *passes.State) error { panic("oh") }},
	} {
		_, err := passes.Optimize(t.Context(), twoBranches(t), passes.Options{Passes: before(c.at, passes.Pass{Name: "own", Run: c.run})})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected an error with %q", c.name, err, c.want)
		}
	}
}

// TestStateBetweenPasses: each method of State returns nothing before its pass,
// and afterwards what the plan will have.
func TestStateBetweenPasses(t *testing.T) {
	var seen []string
	list := passes.Default()
	for i := len(list); i >= 0; i-- {
		list = slices.Insert(list, i, passes.Pass{Name: fmt.Sprint("look", i), Run: func(_ context.Context, s *passes.State) error {
			seen = append(seen, fmt.Sprint(s.Inference() != nil, len(s.Storages()), s.Problem() != nil, s.Evaluation().Peak, len(s.Buffers()), s.Plan() != nil))
			return nil
		}})
	}
	r, err := passes.Optimize(t.Context(), twoBranches(t), passes.Options{Passes: list})
	if err != nil {
		t.Fatal(err)
	}
	const none, inferred, shared = "false 0 false 0 0 false", "true 0 false 0 0 false", "true 5 true 0 0 false"
	ordered := fmt.Sprintf("true 5 true %d 0 false", r.Plan.Summary.PeakBytes)
	placed := fmt.Sprintf("true 5 true %d %d ", r.Plan.Summary.PeakBytes, len(r.Plan.Buffers))
	want := []string{none, none, none, none, none, none, none, inferred, inferred, inferred, inferred, shared, shared, shared, ordered, ordered, ordered, placed + "false", placed + "false", placed + "true"}
	if !slices.Equal(seen, want) {
		t.Errorf("saw  %q\nwant %q", seen, want)
	}
}

// TestProgramOrderInAllPasses: without the pass order, the passes before and behind it see program
// order, too, as with the strategy of that name.
func TestProgramOrderInAllPasses(t *testing.T) {
	for _, opt := range []passes.Options{
		{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}},
		{Slices: passes.SlicesExact, Pools: []passes.Pool{{Name: "fast", Capacity: 20000}, {Name: "slow", Capacity: 1 << 30}}},
		{Ranges: map[string]string{"batch": "1..2"}},
	} {
		opt.Effort = schedule.EffortFast
		var found [2]*plan.Plan
		for i := range found {
			opt := opt
			if opt.Device = slowDevice; opt.Ranges == nil {
				opt.Dims = map[string]int64{"batch": 2}
			}
			if opt.Schedule = "program"; i == 1 {
				opt.Schedule, opt.Disable = "", []string{"order"}
			}
			m, err := models.Build("tiny_resnet8", models.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := passes.Optimize(t.Context(), m, opt)
			if err != nil {
				t.Fatalf("%+v: %v", opt, err)
			}
			found[i] = r.Plan
		}
		if !reflect.DeepEqual(found[0], found[1]) {
			t.Errorf("%+v: %+v, by the strategy %+v: expected the same plan", opt, found[1].Summary, found[0].Summary)
		}
	}
}

// TestDisablePass disables a caller's optional pass by name.
func TestDisablePass(t *testing.T) {
	opt := passes.Options{Passes: before("infer", passes.Pass{Name: "own", Run: dropExp, Optional: true}), Disable: []string{"own"}}
	r, err := passes.Optimize(t.Context(), twoBranches(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Plan.Steps) != 4 {
		t.Errorf("%d steps, expected the 4 of the graph as it was", len(r.Plan.Steps))
	}
}
