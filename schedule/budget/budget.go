package budget

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget/internal/copies"
)

// Options control the search. The zero value means default effort, with the bound.
type Options struct {
	// Effort is how much work goes into plans and bound. At [schedule.EffortFast]
	// each limit is planned separately: this is quick, but a larger limit may cost
	// more than a smaller one. At the other efforts one archive serves all limits; where
	// layers repeat, each is planned as at fast effort, too, and a few asked for by themselves without that archive (see Single).
	Effort schedule.Effort

	// NoBound omits the lower bound. A limit is then called impossible only if some
	// node needs more for its own inputs and outputs, or all inputs or all outputs
	// together take more. Set it if the problem's nodes
	// do not model all that a plan could do, such as transfers to a host.
	NoBound bool

	// KeepOrders plans from the given orders only. Set it if the nodes must keep an
	// order that the tensors do not imply. Otherwise the solver also searches for
	// orders that suit a plan.
	KeepOrders bool

	// Final marks nodes that run after all others: once one of them has run, the others do
	// not run again. It needs KeepOrders, and orders that meet it. nil marks none.
	Final []bool

	// Part bounds the search to one Part-th of its work, for a caller that solves several
	// problems; 0 is 1.
	Part int64

	// Known lists plans that the caller has: nodes as they run, like [Plan.Steps]. The order
	// of their first runs is one to plan from, too. No plan that is returned costs more than
	// a known one whose peak is within the limit, or less.
	Known [][]int

	// Quick returns the orders that the caller would plan from at fast effort; none: the given ones. nil is none.
	// Where layers repeat, each limit is planned from them, too.
	Quick func(ctx context.Context) [][]int32

	// Single says that few limits will be asked for, each by itself. Where layers repeat, default effort then searches
	// near each of the first three alone. That is quicker for one, but a larger limit may cost more.
	Single bool

	without []string // parts of the search to leave out, by name: for the ablation
}

// Verdict says whether a plan within a limit exists.
type Verdict int

const (
	NoneFound  Verdict = iota // no plan was found, but one may exist
	Found                     // a plan was found
	Impossible                // proven: no plan keeps the limit, in any order, with any recomputation
)

func (v Verdict) String() string {
	return [...]string{"none found", "found", "impossible"}[v]
}

// Plan is a step that keeps a limit or, if none was found, what is known about the
// limit.
type Plan struct {
	Limit    int64 // bytes
	Feasible Verdict

	// Steps lists the nodes as they run, repeated runs included: every occurrence of
	// a node after its first is a repeated run. Each run makes new instances of all
	// outputs of the node, and a reader reads the newest instance of a tensor. If
	// the tensor is overwritten in place, it reads the newest instance that has been
	// overwritten as often as in the given order.
	Steps     []int
	PeakBytes int64

	PlainCost    int64   // nanoseconds of a step without repeated runs
	ExtraCost    int64   // nanoseconds of the repeated runs
	ExtraPercent float64 // of PlainCost

	// LowerBound is a proven lower bound on ExtraCost, in nanoseconds, for every
	// plan within the limit, in any order. It is 0 without a bound.
	LowerBound        int64
	LowerBoundPercent float64 // of PlainCost
	LowerBoundNode    int32   // at its first run, every plan has to run other nodes again for that long; -1 without a bound

	LeastBytes int64     // proven lower bound on the peak of any plan, in any order
	Highest    Obstacle  // the step of every plan that needs LeastBytes
	Lowest     int64     // the smallest peak of any known plan, bytes
	Obstacle   *Obstacle // why the limit is impossible
	Ended      error     // why the context ended the search early, or nil
}

// Obstacle is a step of every plan that does not fit within a limit, or that no plan within it gets
// to: the one at which a node runs for the first time, the first step, or the last.
type Obstacle struct {
	Node    int32   // or AtStart, or AtEnd
	Bytes   int64   // no plan with a smaller peak has such a step
	Tensors []int32 // the tensors held then: inputs, outputs, and those that cannot be recomputed; with Way, the largest
	Way     bool    // the step itself may need less: what comes before it needs Bytes
}

// In place of the node of an [Obstacle].
const (
	AtStart int32 = -1 - iota // the first step holds all inputs, and what some node makes
	AtEnd                     // the last step holds all outputs, and what some node reads
	AtFinal                   // the first of the nodes of Options.Final holds what they read of the others
)

// Solve returns the cheapest plan that it finds with a peak of at most limit
// bytes. See [New] for the orders.
func Solve(ctx context.Context, p *schedule.Problem, orders [][]int32, limit int64, opt Options) (*Plan, error) {
	s, err := New(p, orders, opt)
	if err != nil {
		return nil, err
	}
	return s.Solve(ctx, limit), nil
}

// Frontier returns a plan for each limit. Except at [schedule.EffortFast], the larger
// of two limits never costs more. Where layers repeat, none costs more than at that effort from
// the same orders, and one asked for by itself may cost less than among others (see Options.Single).
func Frontier(ctx context.Context, p *schedule.Problem, orders [][]int32, limits []int64, opt Options) ([]*Plan, error) {
	s, err := New(p, orders, opt)
	if err != nil {
		return nil, err
	}
	return s.Frontier(ctx, limits), nil
}

// Solver plans one problem for any number of limits. It is not safe for concurrent
// use.
type Solver struct {
	p         *schedule.Problem
	opt       Options
	lines     []*line
	copies    *copies.Copies // of a stretch that repeats; nil: there are none, or the problem is small
	known     []entry        // Options.Known
	begun     int            // number of lines before any search
	asked     map[int64]bool // limits that planAsked or planNear has planned
	quick     [][]int32      // what Options.Quick has returned
	best      int64          // the smallest peak of the given orders
	costs     []int64
	rules     *rules
	archive   archive
	small     *fewer  // at fast effort; nil: there is none
	limits    []int64 // that the archive is filled for; nil: see grid
	filled    bool
	proven    bool     // prove has run for the grid
	reached   bool     // reachLeast has run
	lowTried  bool     // fast has looked for the lowest plan of layers alike
	wayProven bool     // proveWays has run
	way       Obstacle // what it found
	bound     *bound
	sharedBy  int64 // the number of solvers that share the work of one
	spent     int64 // the work of all calls so far
}

// New checks the problem and the orders to plan from: at least one topological order
// of all nodes, the best first. Several orders that have the same small peak and
// differ elsewhere, such as [schedule.Result.Orders], give better plans than one. If
// no node has a cost, costs are estimated from the bytes that each node moves.
func New(p *schedule.Problem, orders [][]int32, opt Options) (*Solver, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if len(orders) == 0 {
		return nil, fmt.Errorf("orders: expected at least one")
	}
	costs, err := Costs(p)
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(p)
	if err != nil {
		return nil, err
	}
	rules.final = opt.Final
	s := &Solver{p: p, opt: opt, costs: costs, rules: rules, sharedBy: max(opt.Part, 1)}
	if len(p.Nodes) >= CopiesNodes {
		s.copies = copies.Find(p)
	}
	for _, order := range orders {
		if err := s.addLine(order); err != nil {
			return nil, err
		}
	}
	for _, steps := range opt.Known {
		if err := s.addKnown(steps); err != nil {
			return nil, err
		}
	}
	s.begun = len(s.lines)
	s.bound = newBound(p, costs, rules, opt)
	return s, nil
}

// addLine adds an order to plan from.
func (s *Solver) addLine(order []int32) error {
	e, err := s.p.Evaluate(order)
	if err != nil {
		return err
	}
	index := int32(len(s.lines))
	if index == 0 || e.Peak < s.best {
		s.best = e.Peak
	}
	s.lines = append(s.lines, s.newLine(order))
	s.archive.put(entry{line: index, peak: e.Peak})
	return nil
}

// newLine returns the next line of the solver.
func (s *Solver) newLine(order []int32) *line {
	l := newLine(s.p, order, s.costs, s.rules, int32(len(s.lines)))
	l.alike = newAlike(l, s.copies)
	return l
}

// CopiesNodes is the number of nodes from which on copies are planned alike. Below it, there is time to plan each
// by itself.
const CopiesNodes = 3000

// Solve returns the cheapest plan that it finds with a peak of at most limit
// bytes.
func (s *Solver) Solve(ctx context.Context, limit int64) *Plan {
	return s.Frontier(ctx, []int64{limit})[0]
}

// Frontier returns a plan for each limit.
func (s *Solver) Frontier(ctx context.Context, limits []int64) []*Plan {
	w := &work{ctx: ctx, most: math.MaxInt64, without: s.opt.without}
	if len(s.p.Nodes) == 0 {
		// Nothing can run again: the archive and the floor say all.
	} else if s.opt.Effort == schedule.EffortFast {
		s.fast(w, limits)
	} else if slices.ContainsFunc(limits, func(l int64) bool { return l < s.best }) {
		single := len(limits) == 1
		served := single && s.asked[limits[0]]
		if single && s.Single() && !served {
			served = s.planNear(w, limits[0])
		}
		if !s.filled && !(served && s.archive.cheapest(limits[0]) != nil) {
			s.fill(w)
		}
		for _, limit := range limits {
			if limit < s.best {
				s.planAsked(w, limit)
			}
		}
	}
	plans := make([]*Plan, len(limits))
	for i, limit := range limits {
		plans[i] = s.plan(w, limit)
	}
	s.spent += w.done
	return plans
}

// fillOnce fills the archive of all limits.
func (s *Solver) fillOnce(ctx context.Context) {
	if w := (&work{ctx: ctx, most: math.MaxInt64, without: s.opt.without}); !s.filled && len(s.p.Nodes) > 0 {
		s.fill(w)
		s.spent += w.done
	}
}

// Work is that of all plans so far, in units of one position of a sweep over an order. It does not
// depend on the machine.
func (s *Solver) Work() int64 { return s.spent }

// Bound returns a lower bound, in per cent of a step without repeated runs, on the extra
// time of every plan within a limit, in any order, and, if the limit is proven to be
// impossible, why; nil if it is not. It does only the part of the work of [Solver.Frontier] that proves bounds.
// With Options.NoBound it proves only what some node needs for its own inputs and outputs,
// and what all inputs and all outputs take.
func (s *Solver) Bound(ctx context.Context, limit int64) (percent float64, o *Obstacle) {
	w := &work{ctx: ctx, most: math.MaxInt64, without: s.opt.without}
	if !s.proven && len(s.p.Nodes) > 0 {
		s.proveGrid(w, s.chainers(w)[0])
	}
	ns, o := s.bound.at(limit)
	if o == nil && limit < s.way.Bytes {
		way := s.way
		o = &way
	}
	if limit < s.best {
		percent = share(ns, s.lines[0].plain)
	}
	return percent, o
}

// proveGrid computes hulls for the limits of the grid, once.
func (s *Solver) proveGrid(w *work, c *chainer) {
	if !s.proven {
		s.proven = true
		s.prove(w, c, s.grid(), s.effort(boundWork))
	}
}

// raise takes the higher of two obstacles.
func (p *Plan) raise(o *Obstacle) {
	if o.Bytes > p.Highest.Bytes {
		p.Highest, p.LeastBytes = *o, o.Bytes
	}
}

// plan returns the cheapest archived plan for a limit, with its bounds.
func (s *Solver) plan(w *work, limit int64) *Plan {
	l := s.lines[0]
	p := &Plan{Limit: limit, PlainCost: l.plain, Ended: w.cause()}
	p.LowerBound, p.Obstacle = s.bound.at(limit)
	p.LowerBoundNode = s.bound.deciding(limit)
	if found := s.archive.cheapest(limit); found != nil {
		p.Feasible, p.Obstacle = Found, nil
		p.Steps = s.lines[found.line].unroll(found.set)
		p.PeakBytes, p.ExtraCost = found.peak, found.cost
	}
	p.Highest, p.Lowest = s.bound.highest(), s.archive.lowest()
	if p.Feasible == NoneFound && p.Obstacle == nil {
		s.proveWays(w)
		if p.raise(&s.way); limit < s.way.Bytes {
			way := s.way
			p.Obstacle = &way
		}
	}
	if p.Obstacle != nil {
		p.Feasible, p.LowerBound = Impossible, 0
	}
	p.LeastBytes = p.Highest.Bytes
	p.ExtraPercent, p.LowerBoundPercent = share(p.ExtraCost, p.PlainCost), share(p.LowerBound, p.PlainCost)
	return p
}
