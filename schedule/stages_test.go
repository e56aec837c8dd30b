package schedule

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// Each stage is one of several ways to the optimum: without any single one, except those in
// needed, the optimum is still found and proven.
func TestEachStageCanBeLeftOut(t *testing.T) {
	needed := map[string]bool{"listing": true, "open": true, "full": true, "direct": true}
	for i := range randomGraphs(t, 500) {
		r := rand.New(rand.NewPCG(uint64(i), 10))
		p := randomProblem(r, 13)
		g := indexed.NewProblem(index(p))
		best := newBrute(p, true).optimum()
		for _, x := range stages {
			if needed[x.Name] {
				continue
			}
			s := newSolver(t.Context(), EffortDefault.budgets())
			s.without = map[string]bool{x.Name: true}
			if got := s.optimize(g); got.best.peak != best || got.bound != best {
				t.Errorf("graph %d without %s: peak %d, bound %d, optimum %d", i, x.Name, got.best.peak, got.bound, best)
			}
		}
	}
}

// Every row has a unique name, a cost, a reason and a worth.
func TestStagesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range stages {
		if x.Name == "" || seen[x.Name] {
			t.Errorf("%q: empty, or the name of two stages", x.Name)
		}
		seen[x.Name] = true
		if x.Why == "" || x.Worth == "" || x.On != rules && (x.Cost == "" || x.Run == nil) {
			t.Errorf("%s: no reason, worth, cost or function", x.Name)
		}
	}
}

// with returns the problem with the precedence u before v added.
func (b *brute) with(u, v int32) *brute {
	c := *b
	c.preds = append([]uint32{}, b.preds...)
	c.preds[v] |= 1 << u
	return &c
}

// acyclic reports whether an order exists.
func (b *brute) acyclic() bool {
	var ran uint32
	for range b.preds {
		for v, preds := range b.preds {
			if !has(ran, int32(v)) && preds&^ran == 0 {
				ran |= 1 << v
			}
		}
	}
	return ran == 1<<len(b.preds)-1
}

// The precedence that a limit forces holds in every order within the limit.
func TestForcedPrecedence(t *testing.T) {
	found := 0
	for i := range randomGraphs(t, 1000) {
		r := rand.New(rand.NewPCG(uint64(i), 4))
		p := randomProblem(r, 11)
		g := indexed.NewProblem(index(p))
		b := newBrute(p, true)
		best := b.optimum()
		limit := best + r.Int64N(4) - 1
		c := bounds.NewCutter(meter.New(t.Context()))
		for v := range int32(g.Nodes) {
			earlier, later, ok := c.Forced(g, v, limit, indexed.Infinite, nil)
			// Orders that were seen only save tests.
			e, l, also := c.Forced(g, v, limit, indexed.Infinite, newSolver(t.Context(), EffortDefault.budgets()).placed(g, g.Listing(), limit))
			if !slices.Equal(e, earlier) || !slices.Equal(l, later) || also != ok {
				t.Fatalf("graph %d: node %d: with orders seen %v, %v, %v; without %v, %v, %v", i, v, e, l, also, earlier, later, ok)
			}
			if !ok && limit >= best {
				t.Fatalf("graph %d: node %d: no order within %d, optimum %d", i, v, limit, best)
			}
			check := func(x, y int32) { // no order with y before x is within the limit
				found++
				if other := b.with(y, x); other.acyclic() && other.optimum() <= limit {
					t.Fatalf("graph %d: limit %d: %d before %d is not forced", i, limit, x, y)
				}
			}
			for _, x := range earlier {
				check(x, v)
			}
			for _, x := range later {
				check(v, x)
			}
		}
	}
	t.Logf("%d pairs of nodes", found)
}

// Attempts and exact decisions are right or undecided, whatever the limit and the number of
// states that they may visit.
func TestAttempts(t *testing.T) {
	count := [3]int{}
	for i := range randomGraphs(t, 2000) {
		r := rand.New(rand.NewPCG(uint64(i), 5))
		p := randomProblem(r, 13)
		g := indexed.NewProblem(index(p))
		if g.Idle > 0 {
			continue
		}
		best := newBrute(p, true).optimum()
		limits := EffortDefault.budgets()
		limits.states = []int{1, 40, 10_000}[r.IntN(3)]
		sub := newSolver(t.Context(), limits).open(g, 0)
		sub.see(g.Listing())
		limit := best + r.Int64N(7) - 3
		v, order := sub.attempt(limit, limits.states, indexed.Infinite/2, indexed.Infinite/2)
		check := func(what string, v exact.Verdict, order []int32) {
			count[v]++
			if v == infeasible && best <= limit || v == feasible && best > limit {
				t.Fatalf("graph %d: %s: verdict %d on %d, optimum %d", i, what, v, limit, best)
			}
			if v != feasible {
				return
			}
			if e, err := p.Evaluate(order); err != nil || e.Peak > limit {
				t.Fatalf("graph %d: %s: an order of peak %d, %v; want %d", i, what, e.Peak, err, limit)
			}
		}
		check("attempt", v, order)
		d := sub.s.exact(g, g.Listing())
		d.Rule = listsched.Rules[r.IntN(len(listsched.Rules))]
		d.LookAheadFrom = r.IntN(3)
		v, order, bound := d.Decide(limit, limits.states)
		check("decide", v, order)
		if v == infeasible && (bound <= limit || bound > best) {
			t.Fatalf("graph %d: bound %d of limit %d, optimum %d", i, bound, limit, best)
		}
	}
	t.Logf("unknown, feasible, infeasible: %d", count)
}

// Each stage by itself gives valid orders and bounds.
func TestStages(t *testing.T) {
	stages := map[string]func(*subproblem){
		"early":    func(p *subproblem) { p.run(early) },
		"recurse":  (*subproblem).recurse,
		"bisect":   func(p *subproblem) { p.bisect(400, 1_000_000) },
		"windows":  func(p *subproblem) { p.windows(1000) },
		"level":    (*subproblem).level,
		"climb":    func(p *subproblem) { p.climb(50, 12) },
		"exhaust":  (*subproblem).exhaust,
		"cheap":    func(p *subproblem) { p.run(cheap) },
		"open":     func(p *subproblem) { p.run(open) },
		"coarse":   func(p *subproblem) { p.solveCoarse((p.best.peak - p.bound) / 2) },
		"thorough": func(p *subproblem) { p.run(thorough) },
	}
	closed := map[string]int{}
	for i := range randomGraphs(t, 500) {
		r := rand.New(rand.NewPCG(uint64(i), 6))
		p := randomProblem(r, 13)
		g := indexed.NewProblem(index(p))
		best := newBrute(p, true).optimum()
		for name, stage := range stages {
			sub := newSolver(t.Context(), EffortDefault.budgets()).open(g, 0)
			sub.see(g.Listing())
			if stage(sub); sub.bound > best || sub.best.peak < best {
				t.Fatalf("graph %d: %s: bound %d, peak %d, optimum %d", i, name, sub.bound, sub.best.peak, best)
			}
			if e, err := p.Evaluate(sub.best.order); err != nil || e.Peak != sub.best.peak {
				t.Fatalf("graph %d: %s: an order of peak %d, %v; want %d", i, name, e.Peak, err, sub.best.peak)
			}
			if sub.closed() {
				closed[name]++
			}
			if c := sub.proof; c.Kind == KindCut || len(c.Nodes) > 0 {
				c.Value = sub.bound
				checkCertificate(t, p, Certificate(c))
			}
		}
	}
	t.Logf("closed: %v", closed)
}

// Nodes that lead nowhere do not run early. The gradient of an unrolled network has a slice
// for each step. All slices may run at once, but only one enables other nodes. Without the
// rule the search would visit all subsets of the slices and end without a proof.
func TestPostponing(t *testing.T) {
	for _, steps := range []int{6, 18, 110} {
		p := recurrent(42*4*steps, sgd).withoutPairs()
		r, err := Solve(context.Background(), p, Options{})
		if err != nil || !r.Optimal {
			t.Errorf("%d steps: %v: peak %d, bound %d", steps, err, r.Evaluation.Peak, r.Bound)
		}
	}
}
