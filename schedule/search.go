package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

const infinite = indexed.Infinite

// solver is what the stages share over all problems that one call of [Solve] opens:
// the tools with their buffers, the work done, and whom to tell.
type solver struct {
	meter *meter.Meter
	cut   *bounds.Cutter
	lists *listsched.Scheduler
	parts reduce.Extractor
	loads []int64 // of the order seen last

	stages    []stage
	rounds    []budgets // the stages run once with each, if the gap stays open
	round     int       // that runs
	budgets   budgets   // of that round
	goal      Goal
	enough    int64           // a bound that ends the search
	orderOnly bool            // the best order is all that the caller takes
	without   map[string]bool // stages that are left out, by name
	progress  progress
	clock     clock
	work      *int64 // see Options

	// withoutPairs solves the whole problem as if it had no in-place pairs and returns
	// the order; nil if it has none.
	withoutPairs func(enough int64) []int32
	// strategies are worth trying once the budget of work is spent.
	strategies func(try func(name string, order []int32))
	// foreign takes the place of the exact search in the row of others; else nil.
	foreign *foreign
}

func newSolver(ctx context.Context, rounds ...budgets) *solver {
	return solverWith(meter.New(ctx), rounds...)
}

func solverWith(m *meter.Meter, rounds ...budgets) *solver {
	s := &solver{stages: stages, meter: m, cut: bounds.NewCutter(m), lists: listsched.New(m), rounds: rounds, enough: infinite}
	s.budgets = rounds[0]
	m.Budget.States, m.Budget.Runs = s.budgets.allStates, s.budgets.allRuns
	return s
}

// begin gives the search what a round may spend, beside what was spent before.
func (s *solver) begin(round, nodes int) {
	m, b := s.meter, s.rounds[round]
	if nodes > 2*smallGraph {
		b.narrow = 0 // long rows close narrow gaps of recurrent networks of 30,000 nodes
	}
	s.round, s.budgets = round, b
	m.Budget = meter.Budget{Work: m.Work() + b.work(nodes), States: m.States + b.allStates, Runs: m.Runs + b.allRuns}
}

// budgets bound the search by counted work, never by time.
type budgets struct {
	states    int   // of one exact search
	allStates int   // of all exact searches
	allRuns   int   // of nodes, in all exact searches
	exact     int   // states times nodes, of one long exact search
	flow      int64 // of one attempt at a limit
	early     int64 // of the flows of all attempts in the rows of constrained
	long      int64 // the same, in long forced
	windows   int64 // of level, at most, beside its share for each node
	narrow    int64 // a gap of less than the peak divided by this is narrow; 0: none is
	broad     int64 // of all that follows once a gap counts as broad, as meter.Work counts; 0: none does

	// Of the whole search, as meter.Work counts: small for graphs of up to smallGraph
	// nodes, perNode times the nodes for large ones.
	small, perNode int64
}

// rounds returns the budgets that an effort spends one after another. EffortMax begins
// with a round of EffortDefault: the path of a search depends on its budgets, and more
// of them may lead past the order that fewer find. So EffortMax ends with no greater
// peak, also if time cuts it off after that round.
func (e Effort) rounds() []budgets {
	if e == EffortMax {
		return []budgets{EffortDefault.budgets(), e.budgets()}
	}
	return []budgets{e.budgets()}
}

// budgets returns the budgets of the last round.
func (e Effort) budgets() budgets {
	switch e {
	case EffortFast:
		return budgets{states: 2000, allStates: 20_000, allRuns: 250_000, exact: 2_000_000, flow: 500_000, early: 2_500_000, long: 7_500_000, windows: 1_200_000, broad: 1_500_000, small: 15_000_000, perNode: 500}
	case EffortMax:
		return budgets{states: 300_000, allStates: 6_000_000, allRuns: 75_000_000, exact: 300_000_000, flow: 75_000_000, early: 375_000_000, long: 1_125_000_000, windows: 900_000_000, small: 6_000_000_000, perNode: 40_000}
	}
	return budgets{states: 20_000, allStates: 400_000, allRuns: 2_500_000, exact: 20_000_000, flow: 5_000_000, early: 10_000_000, long: 30_000_000, windows: 60_000_000, narrow: 2048, small: 400_000_000, perNode: 6000}
}

// smallGraph is the number of nodes up to which the search stays in the caches and
// may do all the work that its effort allows.
const smallGraph = 3000

// work is the budget for a problem of so many nodes. On large graphs a visit misses
// the caches and takes ten times as long: the budget falls until it meets the line
// that gives each node its share, about a second for 20,000 nodes.
func (b budgets) work(nodes int) int64 {
	n := int64(max(nodes, smallGraph))
	return max(b.small/n*smallGraph/n*smallGraph, b.perNode*n)
}

func (s *solver) stopped() bool { return s.meter.Stop() != meter.Continue }

// incumbent is the best of the orders seen.
type incumbent struct {
	order []int32
	peak  int64
	step  int // the first of the largest load
}

// see computes the loads of an order and keeps it if its peak is smaller. It reports
// whether the best peak is within the limit.
func (s *solver) see(g *indexed.Problem, best *incumbent, order []int32, limit int64) bool {
	s.loads = g.Loads(order, s.loads)
	if peak, step := indexed.Peak(s.loads); best.order == nil || peak < best.peak {
		*best = incumbent{order, peak, step}
	}
	return best.peak <= limit
}

// subproblem is one problem that a search has opened - the whole one, a part of it,
// or a reduced one - and what is known of it: the best order so far and the greatest
// bound. Its optimum lies between the two.
//
// For each node it keeps the ceiling, the least load in all orders seen. No cut can
// prove more than that about the node. So the node of the greatest ceiling is asked
// first, and none whose ceiling does not exceed the bound.
type subproblem struct {
	s     *solver
	g     *indexed.Problem
	best  incumbent
	by    string // the stage or strategy that found it
	stage string // that is running
	bound int64
	proof bounds.Certificate // of the bound
	hint  bounds.Certificate // where the bound is from, if it is not proven on this problem

	recent  []bounds.Loaded // the last orders seen, the best first
	ceiling []int64         // node -> the least load seen
	asked   []bool          // node -> its cut bound is known
	forces  []bool          // node -> it forced precedence within some limit

	contracted   *reduce.Contracted // once a stage has asked for it
	alternatives [][]int32          // orders of the best peak, once a stage has found them

	// whole is the peak of the order of all nodes that the best one is part of.
	whole func() int64
}

// open begins a search of a problem whose optimum is known to be at least floor.
func (s *solver) open(g *indexed.Problem, floor int64) *subproblem {
	p := &subproblem{s: s, g: g, bound: floor, proof: bounds.Certificate{Kind: bounds.Search}}
	p.ceiling = make([]int64, g.Nodes)
	for v := range p.ceiling {
		p.ceiling[v] = infinite
	}
	p.asked = make([]bool, g.Nodes)
	p.whole = func() int64 { return max(p.best.peak, floor) }
	return p
}

// openWhole begins a search of a whole problem: one of which no part has been put in order.
func (s *solver) openWhole(g *indexed.Problem) *subproblem {
	floor := leastFirst(g)
	p := s.open(g, floor)
	if floor == 0 {
		return p
	}
	p.proof = searched(floor)
	var sources []int32
	for v := range int32(g.Nodes) {
		if len(g.Preds.Of(v)) == 0 {
			sources = append(sources, v)
		}
	}
	if x := s.cut.First(g, sources, 0, bounds.SetWork); !s.cut.Broken() && x.Value >= floor {
		p.proof = x
	}
	return p
}

// leastFirst returns the least load of a first step, if that has idle bytes, which only
// a cut around the first step sees; else 0.
func leastFirst(g *indexed.Problem) int64 {
	if g.Idle == 0 {
		return 0
	}
	unread := g.Unread(nil)
	least := infinite
	for i := range g.Nodes {
		if v := int32(i); len(g.Preds.Of(v)) == 0 {
			least = min(least, g.LiveFirst()+g.Idle+g.Need(v, unread, 1))
		}
	}
	return least
}

// closed reports whether the best order is proven optimal.
func (p *subproblem) closed() bool { return p.best.order != nil && p.best.peak <= p.bound }

// done reports whether there is nothing left to do, or no work left to do it with.
func (p *subproblem) done() bool { return p.closed() || p.bound >= p.s.enough || p.s.stopped() }

// see takes an order, and reports whether that closes the gap.
func (p *subproblem) see(order []int32) bool {
	best := p.best.peak
	p.s.see(p.g, &p.best, order, p.bound)
	improves := len(p.recent) == 0 || p.best.peak < best
	if improves {
		p.by = p.stage
		if p.s.progress.tell != nil && p.whole != nil {
			p.s.progress.lowered(p.whole())
		}
	}
	p.remember(order, improves)
	for i, v := range order {
		p.ceiling[v] = min(p.ceiling[v], p.s.loads[i])
	}
	return p.closed()
}

const maxRecent = 6

// remember keeps an order among the recent ones, the best in the first place.
func (p *subproblem) remember(order []int32, best bool) {
	x := bounds.Loaded{Order: order, Loads: slices.Clone(p.s.loads)}
	switch {
	case best && len(p.recent) > 0:
		p.recent[0], x = x, p.recent[0]
		fallthrough
	case len(p.recent) < maxRecent:
		p.recent = append(p.recent, x)
	}
	if len(p.recent) > maxRecent {
		p.recent = slices.Delete(p.recent, 1, 2)
	}
}

// raise takes a certificate, and reports whether that closes the gap.
func (p *subproblem) raise(x bounds.Certificate) bool {
	if x.Value > p.bound {
		p.bound, p.proof = x.Value, x
		p.s.progress.raised(x.Value)
	}
	return p.closed()
}

// searched is the certificate of a bound that a search has proven.
func searched(bound int64) bounds.Certificate {
	return bounds.Certificate{Kind: bounds.Search, Value: bound}
}

// ask computes the cut bound of a node, unless it is known.
func (p *subproblem) ask(v int32) bool {
	if !p.asked[v] {
		p.asked[v] = true
		defer p.s.clock.end(p.s.clock.begin())
		if x := p.s.cut.Node(p.g, v); !p.s.cut.Broken() {
			p.raise(x)
		}
	}
	return p.closed()
}

// askPeak asks the node at the peak of the best order.
func (p *subproblem) askPeak() bool { return p.ask(p.best.order[p.best.step]) }

// progress tells a caller what a search knows so far. All bounds that it hears of
// hold for the whole problem, those of parts too.
type progress struct {
	tell        func(bound, peak int64) // nil: no caller listens
	bound, peak int64                   // last told
}

func (p *progress) raised(bound int64) {
	if p.tell != nil && bound > p.bound {
		p.bound = bound
		if p.peak > 0 {
			p.tell(p.bound, p.peak)
		}
	}
}

func (p *progress) lowered(peak int64) {
	if p.tell != nil && (peak < p.peak || p.peak == 0) {
		p.peak = peak
		p.tell(p.bound, p.peak)
	}
}

// clock adds up the time that bounds take, if a caller asks for it. Nothing else in a
// search depends on time.
type clock struct {
	spent *time.Duration // nil: no caller asks
}

func (c clock) begin() time.Time {
	if c.spent == nil {
		return time.Time{}
	}
	return time.Now()
}

func (c clock) end(began time.Time) {
	if c.spent != nil {
		*c.spent += time.Since(began)
	}
}

// Goal says which of the orders of the smallest peak [Solve] prefers.
type Goal int

const (
	// GoalPeak asks for nothing more: program order first if it is among them,
	// then the order that was found.
	GoalPeak Goal = iota
	// GoalArea asks for a small area, and looks for orders of less.
	GoalArea
)

// Area is the sum of the loads of all steps in bytes: what an order holds, and
// for how long. It is at most [math.MaxInt64].
func (e Evaluation) Area() int64 { return listsched.Area(e.Loads) }
