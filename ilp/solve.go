package ilp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Solver is somebody's solver of integer programs. Package ilp/solvers has three.
type Solver interface {
	// Identity is the name and the version, such as "cp-sat" and "9.15".
	Identity() (name, version string)

	// Solve looks for the smallest objective. If ctx ends, it returns the best so far.
	// Options.Complete is not its business.
	Solve(ctx context.Context, p *Program, opt Options) (Answer, error)
}

// Options say how to solve. The zero value has no limits.
type Options struct {
	TimeLimit time.Duration // 0: none
	Threads   int           // 0: one for each core
	Start     []int64       // a solution to begin with; nil: none
	Bound     *int64        // no solution is below it: a cut for the solver; nil: not known

	// Complete returns the solution that a solver's values stand for: it may derive all
	// columns from those that it trusts. Columns that need not be integers are rounded,
	// which alone can violate a row. Nil: the values are the solution.
	Complete func(values []int64) ([]int64, error)

	Progress func(Progress) // called on any goroutine, one call at a time; nil: never
}

// Progress is what a solver knows while it works.
type Progress struct {
	Value *int64 // of the best solution so far; nil: none yet
	Bound *int64 // below which no solution lies; nil: none yet
}

// Status says how a solver ended.
type Status string

// The statuses. Optimal: no solution is better. Feasible: there may be a better one.
// Infeasible: there is none. Unknown: none was found, and none excluded.
const (
	Optimal    Status = "optimal"
	Feasible   Status = "feasible"
	Infeasible Status = "infeasible"
	Unknown    Status = "unknown"
)

// ErrLost is wrapped by the error of a solver whose process ended before it answered.
var ErrLost = errors.New("its process ended without an answer")

// Answer is what a solver says, in its own numbers.
type Answer struct {
	Status Status
	Values []float64 // nil: no solution
	Value  float64   // their objective
	Bound  float64   // below which no solution lies; minus infinity: none
	Ended  bool      // by the time limit or the context
}

// Result is what remains of an answer once it is checked. Bound alone is a claim: package
// ilp cannot check it.
type Result struct {
	Status  Status
	Values  []int64 // the best solution, maybe that of Options.Start; nil: none
	Value   int64   // its objective, computed from it
	Bound   *int64  // no solution is below it, as the solver says; nil: it does not say
	Seconds float64
	Ended   bool // by the time limit or the context
}

// WrongError is an answer that contradicts the program, or itself.
type WrongError struct {
	Solver string // name and version
	What   string
}

func (w *WrongError) Error() string { return w.Solver + ": wrong answer: " + w.What }

// Solve lets a solver work on a program and checks its answer with [Program.Value]. The
// error is of type [*WrongError] if the answer contradicts the program: a solution that
// violates a row, an objective that is not that of the solution, a bound above the
// objective of a known solution.
func Solve(ctx context.Context, s Solver, p *Program, opt Options) (Result, error) {
	q := p
	if opt.Bound != nil {
		q = p.withBound(*opt.Bound)
	}
	return solve(ctx, s, opt, p.Value, func(ctx context.Context) (Answer, error) { return s.Solve(ctx, q, opt) })
}

// solve runs a solver and checks its answer; value is the objective of a solution.
func solve(ctx context.Context, s Solver, opt Options, value func([]int64) (int64, error), run func(context.Context) (Answer, error)) (Result, error) {
	r := Result{Status: Unknown}
	if opt.Start != nil {
		v, err := value(opt.Start)
		if err != nil {
			return r, fmt.Errorf("the solution to start with: %w", err)
		}
		r.Status, r.Values, r.Value = Feasible, slices.Clone(opt.Start), v
	}
	if opt.TimeLimit > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, opt.TimeLimit)
		defer cancel()
	}
	name, version := s.Identity()
	who := name + " " + version
	began := time.Now()
	answer, err := run(ctx)
	r.Seconds = time.Since(began).Seconds()
	if err != nil {
		return r, fmt.Errorf("%s: %w", who, err)
	}
	r.Ended = answer.Ended
	if err := r.check(&answer, opt, value); err != nil {
		return r, &WrongError{who, err.Error()}
	}
	return r, nil
}

// check takes from an answer what withstands.
func (r *Result) check(a *Answer, opt Options, value func([]int64) (int64, error)) error {
	if a.Values != nil {
		if err := r.take(a, opt, value); err != nil {
			return err
		}
	}
	switch {
	case a.Status == Infeasible && r.Values != nil:
		return fmt.Errorf("it says that there is no solution, and one has the value %d", r.Value)
	case a.Status == Infeasible:
		r.Status = Infeasible
		return nil
	case a.Status == Optimal && a.Values == nil:
		return errors.New("it says that its solution is the best, and gives none")
	case math.IsNaN(a.Bound):
		return errors.New("its bound is no number")
	}
	if math.Abs(a.Bound) < limit {
		b := int64(math.Ceil(a.Bound - tolerance(a.Bound)))
		if opt.Bound != nil {
			b = max(b, *opt.Bound)
		}
		r.Bound = &b
	}
	switch {
	case a.Status == Optimal && r.Bound == nil:
		return errors.New("it says that its solution is the best, and gives no bound")
	case r.Values == nil || r.Bound == nil:
	case *r.Bound > r.Value:
		return fmt.Errorf("it says that no solution is below %d, and one has the value %d", *r.Bound, r.Value)
	case *r.Bound == r.Value:
		r.Status = Optimal
	case a.Status == Optimal:
		return fmt.Errorf("it says that its solution of %d is the best, and its bound is %d", r.Value, *r.Bound)
	}
	return nil
}

// take keeps the solution of an answer if it is one, and better.
func (r *Result) take(a *Answer, opt Options, value func([]int64) (int64, error)) error {
	x := make([]int64, len(a.Values))
	for i, v := range a.Values {
		if !(math.Abs(v) < limit) {
			return fmt.Errorf("value %d is %v", i, v)
		}
		x[i] = int64(math.Round(v))
	}
	var err error
	if opt.Complete != nil {
		if x, err = opt.Complete(x); err != nil {
			return err
		}
	}
	v, err := value(x)
	if err != nil {
		return err
	}
	// A completed solution may be better than the solver's, and never worse.
	if over := float64(v) - a.Value; over > tolerance(a.Value) || opt.Complete == nil && -over > tolerance(a.Value) {
		return fmt.Errorf("its solution has the value %d, and it says %.17g", v, a.Value)
	}
	if r.Values == nil || v < r.Value {
		r.Status, r.Values, r.Value = Feasible, x, v
	}
	return nil
}

// limit is above all numbers that are taken from a solver.
const limit = 1 << 62

// tolerance is how far from an integer a solver's objective may lie: those in floating
// point violate rows by a millionth.
func tolerance(x float64) float64 { return 1e-6 * max(1, math.Abs(x)/1e3) }

// withBound returns the program with the row that its objective is at least a bound. If the
// objective is a single column, the bound of that column says so.
func (p *Program) withBound(bound int64) *Program {
	q := *p
	row := Row{Name: "bound", Lower: bound, Upper: Unbounded}
	for i, c := range p.Columns {
		if c.Objective != 0 {
			row.Terms = append(row.Terms, Term{i, c.Objective})
		}
	}
	if len(row.Terms) == 1 && row.Terms[0].Coefficient == 1 {
		q.Columns = slices.Clone(p.Columns)
		c := &q.Columns[row.Terms[0].Column]
		c.Lower = max(c.Lower, bound)
		return &q
	}
	q.Rows = append(slices.Clip(p.Rows), row)
	return &q
}
