package schedule

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// scaled returns a part of the budgets of default effort, so that a test that spends them
// on many problems takes seconds.
func scaled(part int) budgets {
	b := EffortDefault.budgets()
	b.states, b.allStates, b.allRuns = b.states/part, b.allStates/part, b.allRuns/part
	b.exact, b.flow = b.exact/part, b.flow/int64(part)
	b.small, b.perNode = b.small/int64(part), b.perNode/int64(part)
	return b
}

// hardProblems returns problems on which a small search does not end with a proof.
func hardProblems(t *testing.T) map[string]*Problem {
	all := map[string]*Problem{"tangled": tangled(300), "recurrent": recurrent(1500, sgd)}
	for _, path := range datafolder.Glob(t, "open-orders", "*.json.gz") {
		all[filepath.Base(path)] = readFile(t, path)
	}
	return all
}

// A search of more effort ends with no greater peak, because it begins with the one of
// less; so does one that the context cuts off after that.
func TestMoreEffortIsNeverWorse(t *testing.T) {
	for name, p := range hardProblems(t) {
		solve := func(ctx context.Context, rounds ...budgets) *subproblem {
			return newSolver(ctx, rounds...).optimize(indexed.NewProblem(index(p)))
		}
		looks := &countdown{t.Context(), 1 << 40}
		less := solve(looks, scaled(200))
		used := 1<<40 - looks.left
		more := solve(t.Context(), scaled(200), scaled(40))
		if more.best.peak > less.best.peak || more.bound < less.bound {
			t.Errorf("%s: peak %d and bound %d with more effort, %d and %d with less", name, more.best.peak, more.bound, less.best.peak, less.bound)
		}
		for part := range 8 {
			if part%4 != 0 && !sweep.On() {
				continue
			}
			cut := solve(&countdown{t.Context(), used * (8 + part) / 8}, scaled(200), scaled(40))
			if cut.best.peak > less.best.peak || cut.bound < less.bound {
				t.Errorf("%s: peak %d and bound %d when cut off, %d and %d with less effort", name, cut.best.peak, cut.bound, less.best.peak, less.bound)
			}
		}
		t.Logf("%s: %d looks, peak %d, then %d", name, used, less.best.peak, more.best.peak)
	}
}

// A search with in-place pairs ends with no greater peak than one without, at any effort.
func TestPairsAreNeverWorse(t *testing.T) {
	problems := hardProblems(t)
	for _, path := range datafolder.Glob(t, "training", "*.json*") {
		problems[filepath.Base(path)] = readFile(t, path)
	}
	for name, p := range problems {
		for _, part := range []int{20, 200} {
			if part == 20 && !sweep.On() {
				continue // most of the work
			}
			opt := Options{NoPairs: true, rounds: []budgets{scaled(part)}}
			without, err := Solve(t.Context(), p, opt)
			if err != nil {
				t.Fatal(err)
			}
			opt.NoPairs = false
			with, err := Solve(t.Context(), p, opt)
			if err != nil {
				t.Fatal(err)
			}
			if with.Evaluation.Peak > without.Evaluation.Peak {
				t.Errorf("%s: peak %d with pairs, %d without", name, with.Evaluation.Peak, without.Evaluation.Peak)
			}
		}
	}
}

// Fast effort ends early on a gap that it cannot close, and at no other.
func TestBroadGap(t *testing.T) {
	for _, c := range []struct {
		effort Effort
		nodes  int // contracted
		bound  int64
		want   bool
	}{
		{EffortFast, 400, 990, true},
		{EffortFast, 400, 875, true},
		{EffortFast, 400, 991, false},
		{EffortFast, 400, 874, false},
		{EffortFast, 399, 990, false},
		{EffortDefault, 400, 990, false},
		{EffortMax, 400, 990, false},
	} {
		p := &subproblem{s: &solver{budgets: c.effort.budgets()}, bound: c.bound, best: incumbent{peak: 1000}}
		p.contracted = &reduce.Contracted{Problem: &indexed.Problem{Nodes: c.nodes}}
		if got := broad(p); got != c.want {
			t.Errorf("effort %d, %d nodes, peak 1000, bound %d: %v, expected %v", c.effort, c.nodes, c.bound, got, c.want)
		}
	}
}
