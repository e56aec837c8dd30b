package alloc

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSolve: the first of the strategies with the smallest arena wins, and an unknown
// name or a context that has ended is an error.
func TestSolve(t *testing.T) {
	missed := parse(t, "a:3@0-2 b:3@4-6 c:2@2-4 d:4@0-1 e:4@5-6 f:1@1-5")
	for _, c := range []struct {
		p        Problem
		strategy string
		want     string
		arena    int64
	}{
		{Problem{}, "", "greedy-by-size", 0},
		{parse(t, picture), "", "greedy-by-size", 7},
		{parse(t, picture), "best-fit", "best-fit", 7},
		{missed, "", "greedy-by-size", 8},
	} {
		r, err := Solve(t.Context(), c.p, Options{Strategy: c.strategy})
		if err != nil {
			t.Fatal(err)
		}
		if r.Strategy != c.want || r.Arena != c.arena || r.LowerBound != c.p.MaxLoad() {
			t.Errorf("got %+v, want %s with an arena of %d", r, c.want, c.arena)
		}
	}
	want := `strategy "best": unknown: expected one of greedy-by-size, best-fit, boxing, greedy-by-breadth, greedy-by-start, strip-packing, greedy-in-order, first-fit-by-duration, hill-climb`
	if _, err := Solve(t.Context(), Problem{}, Options{Strategy: "best"}); message(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Solve(ctx, Problem{}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestSolveIsBounded: the lower bound and the arena enclose the optimum that brute force
// finds.
func TestSolveIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 5)
		r, err := Solve(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		best := optimum(p)
		if r.LowerBound > best || best > r.Arena {
			t.Fatalf("want bound %d <= optimum %d <= arena %d", r.LowerBound, best, r.Arena)
		}
		if r.Optimal != (r.Arena == r.LowerBound) {
			t.Fatalf("optimal %v, arena %d, bound %d", r.Optimal, r.Arena, r.LowerBound)
		}
	})
}

// TestSolveCapacity: a capacity is met, proven too small by the load, or proven too
// small by the search.
func TestSolveCapacity(t *testing.T) {
	refuted := Problem{}
	for seed := uint64(0); ; seed++ {
		refuted = tight(seed, 24)
		if out, _ := newExact(refuted, prepare(refuted)).decide(24, never); out == fails {
			break
		}
	}
	for _, c := range []struct {
		name     string
		p        Problem
		capacity int64
		fit      Fit
		bound    int64
	}{
		{"not asked", parse(t, picture), 0, FitUnknown, 7},
		{"met", parse(t, picture), 7, FitFound, 7},
		{"met with room", parse(t, picture), 100, FitFound, 7},
		{"below the load", parse(t, picture), 6, FitNever, 7},
		{"the load, out of reach", refuted, 24, FitNever, 25},
	} {
		r, err := Solve(t.Context(), c.p, Options{Capacity: c.capacity})
		if err != nil {
			t.Fatal(err)
		}
		if r.Fit != c.fit || r.LowerBound != c.bound {
			t.Errorf("%s: got fit %d, bound %d, want %d and %d", c.name, r.Fit, r.LowerBound, c.fit, c.bound)
		}
		if err := c.p.Check(r.Placement); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestInfeasible: the buffers that do not fit, for each way to prove it.
func TestInfeasible(t *testing.T) {
	at := int64(8)
	fixed := parse(t, picture)
	fixed.Buffers[2].Fixed = &at
	gap := parse(t, "a:8@0-4 b:4@1-2 c:5@2-3")
	gap.Buffers[0].Gaps = []Gap{{First: 2, Last: 2, From: 0, To: 4}}
	for _, c := range []struct {
		name     string
		p        Problem
		capacity int64
		want     []int32
	}{
		{"fits", parse(t, picture), 7, nil},
		{"too much at one step", parse(t, picture), 6, []int32{0, 1, 2}},
		{"one buffer is too large", parse(t, picture), 3, []int32{0}},
		{"a fixed offset too high", fixed, 8, []int32{2}},
		{"bytes in a gap do not count", gap, 12, []int32{0, 1, 2}},
	} {
		r, err := Solve(t.Context(), c.p, Options{Capacity: c.capacity})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Infeasible, c.want) || (r.Fit == FitNever) != (c.want != nil) {
			t.Errorf("%s: got %v, fit %d, want %v", c.name, r.Infeasible, r.Fit, c.want)
		}
	}
}

// subset returns the problem of some of the buffers.
func subset(p Problem, ids []int32) Problem {
	part := Problem{Alignment: p.Alignment}
	for _, i := range ids {
		part.Buffers = append(part.Buffers, p.Buffers[i])
	}
	return part
}

// TestInfeasibleIsMinimal: the buffers of Result.Infeasible do not fit, but without any
// one of them the others do.
func TestInfeasibleIsMinimal(t *testing.T) {
	named := 0
	check := func(t interface{ Fatalf(string, ...any) }, p Problem, capacity int64, decide func(Problem, int64) bool) {
		r, err := Solve(context.Background(), p, Options{Capacity: capacity})
		if err != nil {
			t.Fatalf("%v", err)
		}
		if (r.Fit == FitNever) != (len(r.Infeasible) > 0) {
			t.Fatalf("fit %d, infeasible %v", r.Fit, r.Infeasible)
		}
		if r.Fit != FitNever {
			return
		}
		named++
		if decide(subset(p, r.Infeasible), capacity) {
			t.Fatalf("capacity %d: %v of %v fit", capacity, r.Infeasible, p.Buffers)
		}
		for k := range r.Infeasible {
			if !decide(subset(p, slices.Delete(slices.Clone(r.Infeasible), k, k+1)), capacity) {
				t.Fatalf("capacity %d: %v of %v without buffer %d of them do not fit either", capacity, r.Infeasible, p.Buffers, k)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawTight(t, 8, true)
		check(t, p, max(1, p.MaxLoad()-int64(rapid.IntRange(-2, 2).Draw(t, "room"))), inCapacity)
	})
	for seed := range uint64(30) {
		check(t, tight(seed, 40), 24, func(p Problem, capacity int64) bool {
			out, _ := newExact(p, prepare(p)).decide(capacity, never)
			return out == fits
		})
	}
	if named < 20 {
		t.Errorf("%d infeasible sets, expected at least 20", named)
	}
}

// TestSolveInstances: at the default effort, the instances of MiniMalloc fit into their
// capacity and the others into the smallest arena known.
func TestSolveInstances(t *testing.T) {
	n := 1 << 15
	if testing.Short() {
		n = 1100
	}
	for _, x := range instances(t, n) {
		begin := time.Now()
		r, err := Solve(t.Context(), x.problem, Options{Capacity: x.best})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		if err := x.problem.CheckSweep(r.Placement); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if r.Fit != FitFound {
			t.Errorf("%s: arena %d, want at most %d", x.name, r.Arena, x.best)
		}
		t.Logf("%-26s n %5d load %12d arena %12d %-16s %8.2f ms", x.name, len(x.problem.Buffers), x.bound, r.Arena, r.Strategy, took.Seconds()*1e3)
	}
}

// TestSolveLarge: 100,000 buffers of each kind come within 1 % of the largest load.
func TestSolveLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	for _, g := range generators {
		p := g.make(100_000)
		r, err := Solve(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckSweep(r.Placement); err != nil {
			t.Errorf("%s: %v", g.name, err)
		}
		if gap := float64(r.Arena-r.LowerBound) / float64(r.LowerBound); gap > 0.01 {
			t.Errorf("%s: %.3f %% above the largest load, want at most 1 %%", g.name, 100*gap)
		}
	}
}

// TestSolveEnds: when the context ends, the result is the best placement so far.
func TestSolveEnds(t *testing.T) {
	p := tangled(300)
	ctx, cancel := context.WithCancel(t.Context())
	s := Strategies[0].Func
	Strategies[0].Func = func(p Problem) Placement {
		cancel()
		return s(p)
	}
	defer func() { Strategies[0].Func = s }()
	r, err := Solve(ctx, p, Options{Effort: EffortMax})
	if err != nil {
		t.Fatal(err)
	}
	if r.Strategy != Strategies[0].Name || p.Check(r.Placement) != nil {
		t.Errorf("got %q, %v", r.Strategy, p.Check(r.Placement))
	}
}

// TestEfforts: in every stage, each effort allows at most the work of the next;
// EffortMax allows ten times the work of the default; Short changes the default only.
func TestEfforts(t *testing.T) {
	of := func(opt Options) reflect.Value {
		return reflect.ValueOf((&solver{opt: opt}).effort())
	}
	fast, short, usual, most := of(Options{Effort: EffortFast}), of(Options{Short: true}), of(Options{}), of(Options{Effort: EffortMax})
	for i := range usual.NumField() {
		name := usual.Type().Field(i).Name
		if f, s, u, m := fast.Field(i).Int(), short.Field(i).Int(), usual.Field(i).Int(), most.Field(i).Int(); f > s || s > u || 10*u > m {
			t.Errorf("%s: %d, %d, %d, %d: expected an ascending order, and the last at least ten times the third", name, f, s, u, m)
		}
	}
	for _, e := range []Effort{EffortFast, EffortMax} {
		if short := (&solver{opt: Options{Effort: e, Short: true}}).effort(); short != (&solver{opt: Options{Effort: e}}).effort() {
			t.Errorf("Short changes effort %d", e)
		}
	}
}

// TestOptionsValidate: options that are wrong for every problem are refused by name.
func TestOptionsValidate(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{}, ""},
		{Options{Effort: EffortMax, Short: true, Capacity: 7, Strategy: "best-fit"}, ""},
		{Options{Capacity: -1}, "capacity: expected 0 or more bytes, found -1"},
		{Options{Effort: 9}, "effort: expected EffortDefault, EffortFast or EffortMax, found 9"},
	} {
		got := ""
		if err := c.opt.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: got %q, expected %q", c.opt, got, c.want)
		}
	}
}
