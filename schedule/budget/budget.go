package budget

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// Options say how much is done. The zero value is default effort, with the bound.
type Options struct {
	// Effort is how much work goes into plans and bound. At [schedule.EffortFast]
	// a plan is made for the limit asked for alone, from the first order: quick,
	// but two limits may contradict each other. At the others one archive serves
	// all limits.
	Effort schedule.Effort

	// NoBound leaves the bound out: no lower bound, and no limit is called
	// impossible, but for what the nodes themselves need. For problems that stand
	// for something else than their nodes say, such as transfers to a host.
	NoBound bool

	// OrdersAlone plans from the orders given and from no others: for problems
	// whose nodes have to keep an order that their tensors do not tell. Otherwise
	// orders are looked for that suit a plan.
	OrdersAlone bool
}

// Verdict says whether a limit can be kept.
type Verdict int

const (
	NoneFound  Verdict = iota // no plan was found, and it is not proven that there is none
	Found                     // there is a plan
	Impossible                // no plan in any order, with any repetitions, keeps it: proven
)

func (v Verdict) String() string {
	return [...]string{"none found", "found", "impossible"}[v]
}

// Plan is a step that keeps a limit, or what is known where there is none.
type Plan struct {
	Limit    int64 // bytes
	Feasible Verdict

	// Steps lists the nodes as they run, repetitions included. The first time
	// that a node stands there is its own run, a later one a repetition. Each run
	// makes new instances of all tensors that the node makes, and a reader reads
	// the newest instance of a tensor; of one that is overwritten in place the
	// newest that has been overwritten as often as in the order given.
	Steps     []int
	PeakBytes int64

	PlainCost    int64   // nanoseconds of a step without repetitions
	ExtraCost    int64   // nanoseconds of the repetitions
	ExtraPercent float64 // of PlainCost

	// LowerBound is how many nanoseconds no plan of any order can do without:
	// below the limit it is proven. 0 without a bound.
	LowerBound        int64
	LowerBoundPercent float64 // of PlainCost

	LeastBytes int64     // no plan of any order has a smaller peak: proven
	Lowest     int64     // the smallest peak of a plan that is known, bytes
	Obstacle   *Obstacle // why it is impossible
	Ended      error     // why the context ended the search early, or nil
}

// Obstacle is a node that no plan can run below a limit.
type Obstacle struct {
	Node    int32
	Bytes   int64   // the least load with which it can run
	Tensors []int32 // what is held then: what it reads and makes, and what cannot be made anew
}

// Solve returns the cheapest plan that it finds with a peak of at most limit
// bytes. See [New] for the orders.
func Solve(ctx context.Context, p *schedule.Problem, orders [][]int32, limit int64, opt Options) (*Plan, error) {
	s, err := New(p, orders, opt)
	if err != nil {
		return nil, err
	}
	return s.Solve(ctx, limit), nil
}

// Frontier returns a plan for each of some limits. Of two limits the larger
// never costs more.
func Frontier(ctx context.Context, p *schedule.Problem, orders [][]int32, limits []int64, opt Options) ([]*Plan, error) {
	s, err := New(p, orders, opt)
	if err != nil {
		return nil, err
	}
	return s.Frontier(ctx, limits), nil
}

// Solver answers for any number of limits of one problem. It is not safe for
// use by several goroutines at once.
type Solver struct {
	p       *schedule.Problem
	opt     Options
	lines   []*line
	best    int64 // the smallest peak of the orders
	costs   []int64
	rules   *rules
	archive archive
	filled  bool
	bound   *bound
	among   int64 // how many solvers share the work of one
}

// New checks the problem and the orders to plan from: topological orders of all
// nodes, the best first, at least one. Two of the same small peak that differ
// away from it, such as those of [schedule.Result.Orders], are better than one.
// If no node has a cost, the bytes that each moves stand for it.
func New(p *schedule.Problem, orders [][]int32, opt Options) (*Solver, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if len(orders) == 0 {
		return nil, fmt.Errorf("orders: expected at least one")
	}
	costs, err := costsOf(p)
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(p)
	if err != nil {
		return nil, err
	}
	s := &Solver{p: p, opt: opt, costs: costs, rules: rules, among: 1}
	for i, order := range orders {
		e, err := p.Evaluate(order)
		if err != nil {
			return nil, err
		}
		if i == 0 || e.Peak < s.best {
			s.best = e.Peak
		}
		s.lines = append(s.lines, newLine(p, order, costs, rules, int32(i)))
		s.archive.put(entry{line: int32(i), peak: e.Peak})
	}
	s.bound = newBound(p, costs, rules, opt)
	return s, nil
}

// Solve returns the cheapest plan that it finds with a peak of at most limit
// bytes.
func (s *Solver) Solve(ctx context.Context, limit int64) *Plan {
	return s.Frontier(ctx, []int64{limit})[0]
}

// Frontier returns a plan for each of some limits.
func (s *Solver) Frontier(ctx context.Context, limits []int64) []*Plan {
	w := &work{ctx: ctx, most: math.MaxInt64}
	if s.opt.Effort == schedule.EffortFast {
		s.fast(w, limits)
	} else if slices.ContainsFunc(limits, func(l int64) bool { return l < s.best }) && !s.filled {
		s.fill(w)
	}
	plans := make([]*Plan, len(limits))
	for i, limit := range limits {
		plans[i] = s.plan(w, limit)
	}
	return plans
}

// plan looks a limit up.
func (s *Solver) plan(w *work, limit int64) *Plan {
	l := s.lines[0]
	p := &Plan{Limit: limit, PlainCost: l.plain, Ended: w.cause()}
	p.LowerBound, p.Obstacle = s.bound.at(limit)
	if found := s.archive.cheapest(limit); found != nil {
		p.Feasible, p.Obstacle = Found, nil
		p.Steps = s.lines[found.line].unroll(found.again)
		p.PeakBytes, p.ExtraCost = found.peak, found.cost
	} else if p.Obstacle != nil {
		p.Feasible, p.LowerBound = Impossible, 0
	}
	p.LeastBytes, p.Lowest = s.bound.least(), s.archive.lowest()
	if p.PlainCost > 0 {
		p.ExtraPercent = 100 * float64(p.ExtraCost) / float64(p.PlainCost)
		p.LowerBoundPercent = 100 * float64(p.LowerBound) / float64(p.PlainCost)
	}
	return p
}
