package schedule

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/ilptest"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/program"
)

// TestProgram: the program of a problem, and of a contracted one, has the optimum that brute
// force finds, and its solutions are those of the orders.
func TestProgram(t *testing.T) {
	saving := 0
	for i := range randomGraphs(t, 100) {
		p := withSibling(rand.New(rand.NewPCG(uint64(i), 11)), 6)
		best := newBrute(p, true).optimum()
		g := indexed.NewProblem(index(p))
		s := newSolver(t.Context(), EffortDefault.budgets())
		problems := []*indexed.Problem{g}
		floors := []int64{0}
		if g.Idle == 0 {
			c := s.contract(g)
			problems, floors = append(problems, c.Problem), append(floors, c.Floor)
		}
		for k, h := range problems {
			saving += len(h.Savings)
			if h.Nodes == 0 {
				continue
			}
			listing := h.Listing()
			peak, _ := indexed.Peak(h.Loads(listing, nil))
			m := program.New(h, "p", 0, peak)
			if v, err := m.Value(m.Solution(listing)); err != nil || v*m.Unit() != peak {
				t.Fatalf("graph %d: the listing of peak %d has the value %d, %v", i, peak, v*m.Unit(), err)
			}
			value, x, done := ilptest.Minimum(&m.Program, 1<<18)
			if !done || max(value*m.Unit(), floors[k]) != best {
				t.Fatalf("graph %d, program %d of %d nodes: optimum %d (found: %v), expected %d", i, k, h.Nodes, value*m.Unit(), done, best)
			}
			order, err := m.Order(x)
			if err != nil {
				t.Fatalf("graph %d: %v", i, err)
			}
			if got, _ := indexed.Peak(h.Loads(order, nil)); got != value*m.Unit() {
				t.Fatalf("graph %d: the order has the peak %d, expected %d", i, got, value*m.Unit())
			}
		}
	}
	if saving == 0 {
		t.Error("expected nodes with savings")
	}
}

// fake is a solver that a test gives.
type fake func(*ilp.Program, ilp.Options) ilp.Answer

func (fake) Identity() (name, version string) { return "fake", "1.0" }

func (f fake) Solve(_ context.Context, p *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
	return f(p, opt), nil
}

// honest solves a program by brute force.
func honest(p *ilp.Program, _ ilp.Options) ilp.Answer {
	value, x, done := ilptest.Minimum(p, 1<<20)
	switch {
	case !done:
		return ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1), Ended: true}
	case x == nil:
		return ilp.Answer{Status: ilp.Infeasible}
	}
	a := ilp.Answer{Status: ilp.Optimal, Value: float64(value), Bound: float64(value)}
	for _, v := range x {
		a.Values = append(a.Values, float64(v))
	}
	return a
}

// blind are the stages without which the search leaves gaps on small graphs.
func blind() (without []string) {
	for _, x := range stages {
		if x.Name != "listing" && x.Name != "solver" {
			without = append(without, x.Name)
		}
	}
	return without
}

// TestSolverFindsTheOptimum: what a search without its stages leaves open, the solver closes,
// and the certificate says so.
func TestSolverFindsTheOptimum(t *testing.T) {
	open, claimed, confirmed := 0, 0, 0
	for i := range randomGraphs(t, 150) {
		p := withSibling(rand.New(rand.NewPCG(uint64(i), 12)), 7)
		best := newBrute(p, true).optimum()
		r, err := Solve(t.Context(), p, Options{Solver: fake(honest), without: blind()})
		if err != nil {
			t.Fatalf("graph %d: %v", i, err)
		}
		if r.Evaluation.Peak != best || r.Bound != best || !r.Optimal || r.Solver.Status != ilp.Optimal {
			t.Fatalf("graph %d: peak %d, bound %d, solver %+v; expected %d", i, r.Evaluation.Peak, r.Bound, r.Solver, best)
		}
		if c := r.Certificates[0]; c.ClaimedBy != "" {
			if claimed++; c.ClaimedBy != "fake 1.0" || c.Kind != KindSearch || c.Value != best {
				t.Errorf("graph %d: certificate %+v", i, c)
			}
		}
		if r.Solver.Programs > 0 && !r.Solver.Whole {
			open++
		}
		full, err := Solve(t.Context(), p, Options{Solver: fake(honest)})
		if err != nil || full.Solver.Status != ilp.Optimal || full.Evaluation.Peak != best {
			t.Fatalf("graph %d: %+v, %v", i, full.Solver, err)
		}
		if full.Solver.Whole {
			confirmed++
		}
	}
	if open < 10 || claimed < 10 || confirmed < 100 {
		t.Errorf("%d open, %d claimed, %d confirmed: expected 10, 10 and 100 or more", open, claimed, confirmed)
	}
}

// TestSolverLies: an order, a bound or a verdict that is wrong is an error, also where the
// search has proven the optimum.
func TestSolverLies(t *testing.T) {
	p := parse(t, "x:4; a:8=A(x); b:2=B(a); c:6=C(x); d:1=D(b,c); out d")
	change := func(do func(*ilp.Program, *ilp.Answer)) fake {
		return func(m *ilp.Program, opt ilp.Options) ilp.Answer {
			a := honest(m, opt)
			do(m, &a)
			return a
		}
	}
	for _, c := range []struct {
		name string
		fake fake
		want string
	}{
		{"no order", change(func(_ *ilp.Program, a *ilp.Answer) { clear(a.Values) }), "node 0 runs at no step"},
		{"too small", change(func(_ *ilp.Program, a *ilp.Answer) { a.Value--; a.Bound-- }), "its solution has the value"},
		{"bound", change(func(_ *ilp.Program, a *ilp.Answer) { a.Bound++ }), "it says that no solution is below"},
		{"infeasible", change(func(_ *ilp.Program, a *ilp.Answer) { *a = ilp.Answer{Status: ilp.Infeasible} }), "it says that there is no solution"},
		{"two at a step", change(func(m *ilp.Program, a *ilp.Answer) {
			for i := range a.Values {
				if m.Columns[i].Name[0] == 'x' {
					a.Values[i] = 1
				}
			}
		}), "both run at step"},
	} {
		_, err := Solve(t.Context(), p, Options{Solver: c.fake})
		if wrong := (*ilp.WrongError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected the error %q, found %v", c.name, c.want, err)
		}
	}
}

// TestSolverWithoutTime: a solver that is interrupted leaves the order of the search.
func TestSolverWithoutTime(t *testing.T) {
	p := parse(t, "x:4; a:8=A(x); b:2=B(a); c:6=C(x); d:1=D(b,c); out d")
	nothing := fake(func(*ilp.Program, ilp.Options) ilp.Answer {
		return ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1), Ended: true}
	})
	for _, opt := range []Options{{}, {without: blind()}} {
		plain, err := Solve(t.Context(), p, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Solver = nothing
		r, err := Solve(t.Context(), p, opt)
		if err != nil || r.Evaluation.Peak != plain.Evaluation.Peak || r.Bound != plain.Bound || r.Solver.Status != ilp.Feasible || len(r.Certificates) > 0 && r.Certificates[0].ClaimedBy != "" {
			t.Errorf("%+v, %+v, %v", r, r.Solver, err)
		}
	}
}

// TestSolverWindows: windows of a small graph lower the peak of its listing, by the solver
// alone, never below the optimum, and raise no bound.
func TestSolverWindows(t *testing.T) {
	lower, asked := 0, 0
	for i := range randomGraphs(t, 100) {
		p := withSibling(rand.New(rand.NewPCG(uint64(i), 13)), 7)
		best := newBrute(p, true).optimum()
		g := indexed.NewProblem(index(p))
		if g.Idle > 0 {
			continue
		}
		s := newSolver(t.Context(), EffortFast.budgets())
		s.meter.Budget.Work = math.MaxInt64
		s.without = map[string]bool{"level": true, "precedence": i%2 == 0}
		s.foreign = &foreign{solver: fake(honest), ctx: t.Context(), most: maxColumns, report: &SolverReport{}}
		q := s.open(g, 0)
		q.see(g.Listing())
		before := q.best.peak
		q.solverWindows(2)
		if s.foreign.err != nil {
			t.Fatalf("graph %d: %v", i, s.foreign.err)
		}
		if got, _ := indexed.Peak(g.Loads(q.best.order, nil)); got != q.best.peak || got < best || got > before || q.bound != 0 {
			t.Fatalf("graph %d: peak %d, loaded %d, bound %d: expected %d to %d and no bound", i, q.best.peak, got, q.bound, best, before)
		}
		if q.best.peak < before {
			lower++
		}
		asked += s.foreign.report.Windows
	}
	if lower < 5 || asked < 40 {
		t.Errorf("%d lowered, %d windows asked about: expected 5 and 40 or more", lower, asked)
	}
}
