package schedule

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Options say how [Solve] looks for an order. The zero value is the whole
// search at default effort, with in-place pairs.
type Options struct {
	Strategy string // run this one alone; empty: search
	Effort   Effort // how much work before the search gives up on a gap
	NoPairs  bool   // as if no tensor could be written over another

	// Progress is called, on the goroutine of the caller, when the search has found a
	// greater bound or a smaller peak, in bytes; nil: never. While Solver works, it is called
	// on any goroutine, and where Solver confirms the peak, with Solver's own bound.
	Progress func(bound, peak int64)

	// Precedence lists pairs of nodes, the first to run before the second, beside the
	// precedence of the tensors. The orders keep it; the bound holds for all orders.
	Precedence [][2]int32

	Goal      Goal           // which orders of the smallest peak are preferred
	BoundTime *time.Duration // grows by the time that bounds take; nil: not measured

	// Solver is a solver of integer programs that gets what the search leaves open, and
	// makes the result depend on time; nil: none. If nothing is left, it gets the whole
	// problem, to confirm the peak without knowing our bound. Its orders are evaluated
	// here. A bound that rests on it has a certificate that names it.
	Solver     ilp.Solver
	SolverTime time.Duration // it may take in all; 0: as long as the context
	Threads    int           // it may use; 0: one for each core

	rounds  []budgets // instead of those of Effort, for tests; nil: those
	without []string  // stages to leave out, by name: for tests and the ablation
	work    *int64    // grows by the work of the search; nil: not counted
}

// Effort bounds the search by counted work, not by time: the same problem gives
// the same result on any machine.
type Effort int

// EffortFast does a twenty-fifth of the work of EffortDefault, EffortMax at least 15 times
// the work of EffortDefault before it leaves a gap open.
const (
	EffortDefault Effort = iota
	EffortFast
	EffortMax
)

// Result is the best order found, and what is known about it.
type Result struct {
	Order      []int32
	Evaluation Evaluation
	Strategy   string // the strategy that found it, or "search"
	Optimal    bool   // its peak is the bound
	Ended      error  // why the context ended the search early, or nil

	// Orders are up to five different orders of the smallest peak, Order first, for the
	// caller to place: their arenas differ. Program order leads if it is one of them and
	// the goal is not the area; the others follow by area.
	Orders [][]int32

	Bound        int64         // bytes; the peak of no order is smaller
	BoundNode    int32         // the node whose CutBound it is, or -1
	Certificates []Certificate // of the bound
	KeptBound    int64         // the peak of no order that keeps Options.Precedence is smaller

	Solver *SolverReport // what Options.Solver did; nil without one

	ProgramOrder      []int32 // the order of the listing: see Program
	ProgramEvaluation Evaluation
	ProgramPeak       int64 // the peak of that
}

// TakeLeastArea makes the order with the least area of Orders the order of the result: of
// equal peaks, the one that holds the fewest bytes for the fewest steps.
func (r *Result) TakeLeastArea(p *Problem) error {
	for _, order := range r.Orders {
		x, err := p.Evaluate(order)
		if err != nil {
			return fmt.Errorf("internal error in an order by %s: %w", r.Strategy, err)
		}
		if x.Area() < r.Evaluation.Area() {
			r.Order, r.Evaluation = order, x
		}
	}
	return nil
}

// Solve returns an order of small peak and a lower bound on the peak of all orders. It
// stops as soon as the two meet, which they do on nearly all real networks; then the
// order is proven optimal. Of equal orders program order is kept, so that nothing moves
// if nothing is gained. It fails if the problem is not valid, or if no strategy has the
// name asked for. When the context ends it returns the best order so far, and says so
// in Ended. The search is the table in stages.go.
func Solve(ctx context.Context, p *Problem, opt Options) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	tried, err := named(opt.Strategy)
	if err != nil {
		return nil, err
	}
	if len(opt.Precedence) > 0 {
		return solveKeeping(ctx, p, opt)
	}
	if opt.NoPairs {
		p = p.withoutPairs()
	}
	f := index(p)
	g := indexed.NewProblem(f)
	r := &Result{ProgramOrder: g.Listing(), BoundNode: -1}
	r.ProgramEvaluation = evaluate(f, r.ProgramOrder, AllPairs)
	r.ProgramPeak = r.ProgramEvaluation.Peak
	switch {
	case f.Nodes == 0 || g.TooLarge():
		r.Bound = -1
		r.proveAtLeast(f)
		for _, s := range tried {
			r.take(f, s.Func(p), s.Name)
		}
	case opt.Strategy != "":
		s := opt.solver(ctx)
		r.take(f, tried[0].Func(p), tried[0].Name)
		r.prove(s.boundOf(g, r.Order))
		r.end(ctx, s, f)
	default:
		all := ctx
		if deadline, ok := ctx.Deadline(); ok && opt.Solver != nil {
			// One limit for both: the search takes at most half of it.
			var cancel func()
			ctx, cancel = context.WithDeadline(ctx, time.Now().Add(time.Until(deadline)/2))
			defer cancel()
		}
		s := opt.solver(ctx)
		if g.Savings != nil {
			s.withoutPairs = func(enough int64) []int32 {
				return s.solveSeparately(g.WithoutSavings(), enough)
			}
		}
		s.strategies = func(try func(name string, order []int32)) {
			for _, t := range tried {
				try(t.Name, t.Func(p))
			}
		}
		found := s.optimize(g)
		if opt.Solver != nil {
			if r.Solver, err = opt.ask(all, g, found); err != nil {
				return nil, err
			}
		}
		r.Order, r.Evaluation, r.Strategy = r.ProgramOrder, r.ProgramEvaluation, "program"
		if found.best.peak < r.ProgramPeak {
			r.take(f, found.best.order, found.strategy())
		}
		found.proof.Value = found.bound
		r.prove(found.proof)
		if found.alternatives == nil {
			r.end(ctx, s, f)
			break
		}
		r.Orders = found.alternatives
		r.Order = r.Orders[0]
		r.Evaluation = evaluate(f, r.Order, AllPairs)
	}
	r.Optimal, r.KeptBound = r.Evaluation.Peak == r.Bound, r.Bound
	if r.Orders == nil {
		r.Orders = [][]int32{r.Order}
	}
	return r, nil
}

// solver returns a solver that does what the options ask for.
func (opt Options) solver(ctx context.Context) *solver {
	rounds := opt.rounds
	if rounds == nil {
		rounds = opt.Effort.rounds()
	}
	s := newSolver(ctx, rounds...)
	s.goal, s.progress.tell, s.clock.spent, s.work = opt.Goal, opt.Progress, opt.BoundTime, opt.work
	s.without = map[string]bool{}
	for _, name := range opt.without {
		s.without[name] = true
	}
	return s
}

// solveSeparately solves another problem with a budget of its own, that of the rounds so
// far, and returns the best order. It stops early once it has proven that no order has a
// peak below enough.
func (s *solver) solveSeparately(g *indexed.Problem, enough int64) []int32 {
	other := solverWith(s.meter.Separate(), s.rounds[:s.round+1]...)
	other.clock, other.enough, other.without, other.work = s.clock, enough, s.without, s.work
	other.orderOnly = true
	return other.optimize(g).best.order
}

// strategy names what found the best order: a strategy, or the search.
func (p *subproblem) strategy() string {
	if slices.ContainsFunc(Strategies, func(s Strategy) bool { return s.Name == p.by }) {
		return p.by
	}
	return "search"
}

// end says why the context ended the search, if it did. The bound is then at least
// that of [LowerBound].
func (r *Result) end(ctx context.Context, s *solver, f *indexed.Graph) {
	if s.meter.Interrupted() {
		r.Ended = context.Cause(ctx)
		r.proveAtLeast(f)
	}
}

// take keeps an order if it is better.
func (r *Result) take(f *indexed.Graph, order []int32, strategy string) {
	e := evaluate(f, order, AllPairs)
	if r.Strategy == "" || e.Peak < r.Evaluation.Peak {
		r.Order, r.Evaluation, r.Strategy = order, e, strategy
	}
}

// prove keeps a bound and what proves it.
func (r *Result) prove(proof bounds.Certificate) {
	r.Bound, r.Certificates = proof.Value, []Certificate{Certificate(proof)}
	if proof.Kind == KindCut {
		r.BoundNode = proof.Nodes[0]
	}
}

// proveAtLeast keeps a bound of LowerBound if it is greater.
func (r *Result) proveAtLeast(f *indexed.Graph) {
	switch bound, node := bounds.Simple(f); {
	case bound <= r.Bound:
	case node >= 0:
		r.prove(bounds.Certificate{Kind: KindCut, Nodes: []int32{node}, Value: bound})
	case f.Nodes > 0:
		r.prove(bounds.SimpleEnd(f))
	default:
		r.Bound, r.BoundNode, r.Certificates = bound, -1, nil
	}
}

// named returns the strategy of a name, or for the empty name all that are
// worth trying beside the search.
func named(name string) ([]Strategy, error) {
	var names []string
	var tried []Strategy
	for _, s := range Strategies {
		if s.Name == name {
			return []Strategy{s}, nil
		}
		names = append(names, s.Name)
		if !s.OnRequest {
			tried = append(tried, s)
		}
	}
	if name == "" {
		return tried, nil
	}
	return nil, fmt.Errorf("strategy %q: unknown: expected one of %s", name, strings.Join(names, ", "))
}

// withoutPairs returns the problem with no tensor written over another.
func (p *Problem) withoutPairs() *Problem {
	q := *p
	q.Tensors = slices.Clone(p.Tensors)
	for t := range q.Tensors {
		q.Tensors[t].Reuses = nil
	}
	return &q
}

// solveKeeping is [Solve] with further precedence. The orders keep it; the bound holds for
// all orders and is proven on the problem as it is, so a check need not know what was
// asked. If an order that Solve finds without the precedence keeps it already, that is the
// answer; otherwise the problem is solved again with a tensor of 0 bytes for each pair.
func solveKeeping(ctx context.Context, p *Problem, opt Options) (*Result, error) {
	keep := opt.Precedence
	opt.Precedence = nil
	q := *p
	q.Tensors = slices.Clone(p.Tensors)
	for _, e := range keep {
		q.Tensors = append(q.Tensors, Tensor{Kind: "control", Producer: e[0], Consumers: []int32{e[1]}})
	}
	if err := q.Validate(); err != nil {
		return nil, err
	}
	free, err := Solve(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	step := make([]int, len(p.Nodes))
	breaks := func(order []int32) bool {
		for i, v := range order {
			step[v] = i
		}
		return slices.ContainsFunc(keep, func(e [2]int32) bool { return step[e[0]] > step[e[1]] })
	}
	if !breaks(free.ProgramOrder) {
		if kept := slices.DeleteFunc(slices.Clone(free.Orders), breaks); len(kept) > 0 {
			free.Orders, free.Order = kept, kept[0]
			free.Evaluation, err = p.Evaluate(kept[0])
			return free, err
		}
	}
	r, err := Solve(ctx, &q, opt)
	if err != nil {
		return nil, err
	}
	r.Bound, r.BoundNode, r.Certificates = free.Bound, free.BoundNode, free.Certificates
	r.Optimal = r.Evaluation.Peak == r.Bound
	if r.Ended == nil {
		r.Ended = free.Ended
	}
	return r, nil
}
