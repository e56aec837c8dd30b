package schedule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/program"
)

// SolverReport is what [Options.Solver] did.
type SolverReport struct {
	Name, Version string
	Status        ilp.Status // Optimal: no order has a smaller peak, it says; Feasible: it does not say so; Unknown: it was not asked
	Bound         int64      // bytes: it says that no order has a smaller peak, or that is proven; 0: neither
	Seconds       float64
	Programs      int    // that it worked on
	Columns       int    // of the largest of them
	Windows       int    // how many of them were windows of an order: those can improve it, and prove nothing
	Whole         bool   // it worked on the problem as it is, and not on what the search left
	Why           string // why it does not say more; may be empty
}

// maxColumns is the most columns of a program that a solver is asked about. Ten times as
// many take a minute in presolve alone.
const maxColumns = 300_000

// maxConfirmed is the most columns of the program of a whole problem that a solver confirms.
// CP-SAT takes some seconds for 14,000 columns (AlexNet's training step, 101 nodes), and did
// not finish 119,000. A larger problem is contracted first.
const maxConfirmed = 30_000

// foreign asks a solver.
type foreign struct {
	solver  ilp.Solver
	ctx     context.Context
	threads int
	until   time.Time // zero: as long as ctx
	report  *SolverReport
	err     error // of the solver: nothing more is asked

	most    int  // columns of a program
	refused bool // a program was too large

	each   time.Duration // for a program of a window; 0: none is under way
	claim  int64         // a bound of the attempt that is under way, by the solver
	silent bool          // counts only
	counts int           // programs that are to be asked, and share the time that is left
	tell   func(bound, peak int64)
}

// ask asks the solver about all that the search has left open, or, if that is nothing, about
// the problem as it is: then the solver is not told our bound, so that it proves its own.
func (opt Options) ask(ctx context.Context, g *indexed.Problem, found *subproblem) (*SolverReport, error) {
	name, version := opt.Solver.Identity()
	a := &foreign{solver: opt.Solver, ctx: ctx, threads: opt.Threads, most: maxColumns, report: &SolverReport{Name: name, Version: version, Status: ilp.Unknown}}
	if opt.SolverTime > 0 {
		a.until = time.Now().Add(opt.SolverTime)
	}
	if !found.closed() {
		a.narrow(g, found, opt)
	}
	if found.closed() && a.report.Programs == a.report.Windows && a.err == nil {
		a.confirm(g, found, opt.Progress)
	}
	if errors.Is(a.err, ilp.ErrLost) { // what we have stays as good as it is
		a.report.Status, a.report.Why, a.err = ilp.Feasible, errors.Unwrap(a.err).Error(), nil
	}
	return a.report, a.err
}

// confirm asks about the problem as it is, or contracted if that is too large.
func (a *foreign) confirm(g *indexed.Problem, found *subproblem, tell func(bound, peak int64)) {
	order := found.best.order
	a.report.Whole, a.report.Why = true, ""
	if program.Columns(g) > maxConfirmed && g.Idle == 0 {
		s := newSolver(a.ctx, EffortDefault.budgets())
		if c := s.contract(g); c.Problem.Nodes > 0 {
			g, order = c.Problem, c.Reduce(order)
			a.report.Whole = false
		}
	}
	loads := g.Loads(order, nil)
	peak, _ := indexed.Peak(loads)
	if tell != nil {
		tell(0, found.best.peak) // it knows no bound yet
	}
	r, p := a.solve(g, peak, order, 0, func(value, bound *int64) {
		if tell != nil && bound != nil {
			tell(*bound, found.best.peak)
		}
	})
	if p == nil {
		a.onlyWindows()
		return
	}
	if r.Bound != nil {
		a.report.Bound = *r.Bound * p.Unit()
	}
	switch best := r.Value * p.Unit(); {
	case best < found.bound:
		a.err = fmt.Errorf("internal error: %s %s finds an order with a peak of %d bytes, below the proven bound of %d", a.report.Name, a.report.Version, best, found.bound)
	case a.report.Bound > found.best.peak:
		a.err = a.wrong("it says that no order is below %d bytes, and one has a peak of %d", a.report.Bound, found.best.peak)
	case r.Status == ilp.Optimal:
		a.report.Status, a.report.Bound = ilp.Optimal, found.best.peak
	default:
		a.report.Status, a.report.Why = ilp.Feasible, "it did not finish"
	}
}

// onlyWindows reports that the solver worked on windows, if it did, and why on no more.
func (a *foreign) onlyWindows() {
	if a.report.Windows == 0 {
		return
	}
	if a.report.Why == "" {
		a.report.Why = "no time was left"
	}
	a.report.Status = ilp.Feasible
	a.report.Why = fmt.Sprintf("it worked on %d windows of the order; of the whole, %s;", a.report.Windows, a.report.Why)
}

func (a *foreign) wrong(format string, args ...any) error {
	return &ilp.WrongError{Solver: a.report.Name + " " + a.report.Version, What: fmt.Sprintf(format, args...)}
}

// narrow asks about the parts of the contracted problem that are open, twice: the first time
// it counts them, so that they share the time.
func (a *foreign) narrow(g *indexed.Problem, found *subproblem, opt Options) {
	for _, a.silent = range [2]bool{true, false} {
		s := newSolver(a.ctx, EffortFast.budgets())
		s.meter.Budget.Work = math.MaxInt64
		s.foreign, s.without = a, found.s.without
		p := s.open(g, found.bound)
		p.see(found.best.order)
		if !a.silent {
			s.progress.tell = opt.Progress
			a.tell = s.progress.told(p)
		}
		if reducible(p) {
			p.solveContracted(others)
		} else {
			p.askSolver()
		}
		if a.silent {
			continue
		}
		if p.best.peak < found.best.peak {
			found.best, found.by, found.alternatives = p.best, a.report.Name, nil
		}
		if p.bound > found.bound {
			found.bound, found.proof = p.bound, searched(p.bound)
			if a.report.Programs > a.report.Windows { // a window raises no bound
				found.proof.ClaimedBy = a.report.Name + " " + a.report.Version
			}
		}
	}
	a.report.Bound = found.bound
	switch {
	case a.report.Programs == 0:
		if a.report.Why == "" {
			a.report.Why = "nothing was left that is small enough"
		}
	case a.report.Programs == a.report.Windows:
		a.onlyWindows()
	case found.closed():
		a.report.Status = ilp.Optimal
	default:
		a.report.Status = ilp.Feasible
		if a.report.Why == "" {
			a.report.Why = "it did not finish"
		}
	}
}

// told returns a function that tells what a solver of a part knows.
func (pr *progress) told(p *subproblem) func(bound, peak int64) {
	return func(bound, peak int64) {
		if bound > 0 {
			pr.raised(bound)
		}
		if peak > 0 && p.whole != nil {
			pr.lowered(peak)
		}
	}
}

// askSolver asks a solver twice, once the windows of a large problem are done. The first time it begins with the best order of this problem
// and improves it; CP-SAT is good at that. Then it is asked for an order below the peak, as
// long as it finds one: precedence that such a peak forces makes the program smaller (see
// attempt), and an order to begin with is not known.
func (p *subproblem) askSolver() {
	a := p.s.foreign
	large := program.Columns(p.g) > windowsFrom
	if large {
		p.solverWindows(windowWidth)
	}
	p.improve()
	unit := p.g.Granularity()
	for p.best.peak > p.bound && a.err == nil && a.ctx.Err() == nil {
		a.claim = 0
		limit := p.best.peak - unit
		v, order := p.attempt(limit, 0, p.s.meter.Flow+maxForcing, maxForcing/3)
		switch {
		case a.silent:
			return
		case v == feasible:
			if p.see(order); large {
				p.solverWindows(windowWidth)
			}
			continue
		case v == infeasible:
			p.raise(searched(p.best.peak))
		case a.claim > p.bound:
			p.raise(searched(min(a.claim, p.best.peak)))
		}
		return
	}
}

// improve lets the solver begin with the best order.
func (p *subproblem) improve() {
	a, g := p.s.foreign, p.g
	if a.silent {
		a.count(g)
		return
	}
	r, m := a.solve(g, p.best.peak, p.best.order, p.bound, func(value, bound *int64) {
		if a.tell == nil {
			return
		}
		if bound != nil {
			a.tell(min(*bound, p.best.peak), 0)
		}
		if value != nil && p.whole != nil && p.whole() == p.best.peak {
			a.tell(0, *value)
		}
	})
	if m == nil {
		return
	}
	order, err := m.Order(r.Values)
	if err != nil {
		a.err = err
		return
	}
	if !p.see(order) && r.Bound != nil {
		p.raise(searched(min(*r.Bound*m.Unit(), p.best.peak)))
	}
}

// count counts a program that will be asked about.
func (a *foreign) count(g *indexed.Problem) {
	if program.Columns(g) <= maxColumns {
		a.counts++
	}
}

// take returns the time of the next program: an equal share of what is left.
func (a *foreign) take() time.Duration {
	share := time.Until(a.until) / time.Duration(max(1, a.counts))
	a.counts--
	return max(share, time.Millisecond)
}

// maxForcing is the work of the flows that force precedence for a solver.
const maxForcing = 30_000_000

// decide asks for an order within a limit.
func (a *foreign) decide(g *indexed.Problem, limit int64) (exact.Verdict, []int32) {
	if a.silent {
		a.count(g)
		return unknown, nil
	}
	r, p := a.solve(g, limit, nil, 0, func(_, bound *int64) {
		if bound != nil && a.tell != nil {
			a.tell(min(*bound, limit+g.Granularity()), 0)
		}
	})
	if p == nil {
		return unknown, nil
	}
	if r.Bound != nil {
		a.claim = max(a.claim, min(*r.Bound*p.Unit(), limit+g.Granularity()))
	}
	switch {
	case r.Status == ilp.Infeasible:
		return infeasible, nil
	case r.Values == nil:
		return unknown, nil
	}
	order, err := p.Order(r.Values)
	if err != nil {
		a.err = err
		return unknown, nil
	}
	return feasible, order
}

// solve builds the program of a problem, whose peak shall be at most a figure, and lets the
// solver work on it. An order to begin with has such a peak. The bound is a cut: what is
// below it in one part of a problem is hidden by another part. It returns no program if the solver was not asked.
func (a *foreign) solve(g *indexed.Problem, most int64, start []int32, bound int64, tell func(value, bound *int64)) (r ilp.Result, p *program.Program) {
	if a.err != nil || a.ctx.Err() != nil {
		return r, nil
	}
	if columns := program.Columns(g); columns > a.most {
		a.refused = true
		a.report.Why = fmt.Sprintf("a program of %d columns is too large, expected at most %d", columns, a.most)
		return r, nil
	}
	opt := ilp.Options{Threads: a.threads}
	if !a.until.IsZero() {
		left := time.Until(a.until)
		if left <= 0 {
			a.report.Why = "no time was left"
			return r, nil
		}
		if opt.TimeLimit = min(a.each, left); a.each == 0 {
			opt.TimeLimit = a.take()
		}
	}
	p = program.New(g, "order", bound, most)
	if start != nil {
		opt.Start = p.Solution(start)
	}
	opt.Complete = func(x []int64) ([]int64, error) {
		order, err := p.Order(x)
		if err != nil {
			return nil, err
		}
		return p.Solution(order), nil
	}
	opt.Progress = func(x ilp.Progress) {
		scaled := func(v *int64) *int64 {
			if v == nil {
				return nil
			}
			bytes := *v * p.Unit()
			return &bytes
		}
		tell(scaled(x.Value), scaled(x.Bound))
	}
	var err error
	r, err = ilp.Solve(a.ctx, a.solver, &p.Program, opt)
	a.report.Programs++
	a.report.Columns = max(a.report.Columns, len(p.Program.Columns))
	a.report.Seconds += r.Seconds
	if err != nil {
		a.err = err
		return r, nil
	}
	return r, p
}
