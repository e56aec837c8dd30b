package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

const (
	unknown    = exact.Unknown
	feasible   = exact.Feasible
	infeasible = exact.Infeasible
)

// maxExact is the most nodes for which attempts are made, maxClimb for which exact
// search is tried. To begin one takes time linear in nodes.
const (
	maxExact = 20_000
	maxClimb = 200_000
)

// exact returns an exact search that is led by an order.
func (s *solver) exact(g *indexed.Problem, follow []int32) *exact.Search {
	d := exact.New(g, follow, s.meter)
	if s.without["look-ahead"] {
		d.LookAheadFrom = -1
	}
	d.Eager = s.without["postponing"]
	return d
}

// climb closes the gap by exact decisions of a few states each. The first is at the largest
// limit below the peak, where a failure proves the best order optimal. The next are
// alternately in the middle, at the bound and below the peak. It gives up when the states did
// not suffice twice. It takes all rules if none is given.
func (p *subproblem) climb(states, tries int, by ...listsched.Rule) {
	if p.s.budgets.states == 0 || p.g.Nodes > maxClimb || p.done() {
		return
	}
	unit := p.g.Granularity()
	limit := p.best.peak - unit
	open := 0
	for try := 0; try < tries && open < 2 && !p.done(); try++ {
		limit = min(max(limit, p.bound), p.best.peak-unit)
		if !p.decide(limit, states, by...) {
			open++
			limit = p.bound
			continue
		}
		switch try % 3 {
		case 0:
			limit = p.bound + (p.best.peak-p.bound)/2
		case 1:
			limit = p.bound
		case 2:
			limit = p.best.peak - unit
		}
	}
}

// decide asks for an order within a limit, by each rule in turn, led by the best
// order, and reports whether it got an answer.
func (p *subproblem) decide(limit int64, states int, by ...listsched.Rule) bool {
	if len(by) == 0 {
		by = listsched.Rules[:]
	}
	for _, rule := range by {
		if p.s.meter.Exhausted() {
			return false
		}
		d := p.s.exact(p.g, p.best.order)
		d.Rule = rule
		switch v, order, bound := d.Decide(limit, states); v {
		case feasible:
			p.see(order)
			return true
		case infeasible:
			p.raise(searched(min(bound, p.best.peak)))
			return true
		}
	}
	return false
}

// exhaust climbs with all the states that fit a second or so on a small problem: a
// hundred thousand on one of 200 nodes. It takes one rule: to show that there is no
// order takes the same states by any.
func (p *subproblem) exhaust() {
	states := p.s.budgets.exact / p.g.Nodes
	if states <= p.s.budgets.states/4 || p.s.meter.Exhausted() {
		return
	}
	budget := &p.s.meter.Budget
	all := budget.States
	budget.States = p.s.meter.States + states
	p.climb(states, 6, listsched.ByPlace)
	budget.States = all + states
}

// bisect closes the gap by attempts: at the bound, below the peak each time that it
// falls, and then in the middle of what is not known. Three that stay unknown end it.
func (p *subproblem) bisect(states int, work int64) {
	if p.s.budgets.states == 0 || p.g.Nodes > maxExact || p.g.Idle > 0 {
		return
	}
	unit := p.g.Granularity()
	up := func(x int64) int64 { return (x + unit - 1) / unit * unit }
	p.raise(searched(min(up(p.bound), p.best.peak)))
	low := p.bound // no limit up to here, and below high, is worth another attempt
	high := p.best.peak
	top := true // the limit below the peak has not been tried
	for try, open := 0, 0; try < 14 && open < 3 && !p.done(); try++ {
		low, high = max(low, p.bound), min(high, p.best.peak)
		limit := low + (high-low)/2
		switch {
		case try == 0:
			limit = p.bound
		case top:
			limit = p.best.peak - unit // a failure there proves the best order optimal
			top = false
		}
		limit = min(max(limit, p.bound), p.best.peak-unit)
		v, order := p.attempt(limit, states, p.s.meter.Flow+5*work, work)
		switch v {
		case feasible:
			p.see(order)
			top = open == 0
		case infeasible:
			p.raise(searched(min(up(limit+1), p.best.peak)))
		case unknown:
			open++
			if limit > low+(high-low)/2 {
				high = limit
			} else {
				low = limit
			}
		}
	}
}

// forced attempts the limit just below the peak, as often as that lowers the peak: with
// the precedence that this limit forces, few states decide. It ends after some tries, or
// when the flows have done the work; a third of it in which no node forces anything ends
// the search for precedence.
func (p *subproblem) forced(states, tries int, work int64) {
	if p.s.budgets.states == 0 || p.g.Nodes > 2*smallGraph || p.g.Idle > 0 {
		return
	}
	unit := p.g.Granularity()
	work = min(work, p.s.meter.Budget.Work/5)
	patience := work / 3
	work += p.s.meter.Flow
	for range tries {
		switch v, order := p.attempt(p.best.peak-unit, states, work, patience); v {
		case feasible:
			p.see(order)
		case infeasible:
			p.raise(searched(p.best.peak))
			return
		case unknown:
			return
		}
		if p.done() {
			return
		}
	}
}

// forceAll is forced with all the states that fit a second or so, as exhaust has them: with
// the precedence that a limit forces, fewer states suffice than without.
func (p *subproblem) forceAll(work int64) {
	budget := &p.s.meter.Budget
	all, before := budget.States, p.s.meter.States
	states := max(p.s.budgets.states/5, p.s.budgets.exact/p.g.Nodes)
	budget.States = max(all, before+states)
	p.forced(states, maxForced, work)
	budget.States = all + p.s.meter.States - before
}

// maxForced is how often forceAll may lower the peak.
const maxForced = 12

// attempt asks for an order of a peak within a limit. Precedence that the limit forces
// is added to the problem, which is then contracted further, cut into parts and searched.
// Work is the reading of the meter's flow at which nothing more is forced; patience is the
// work in which some node must force something.
func (p *subproblem) attempt(limit int64, states int, work, patience int64) (exact.Verdict, []int32) {
	at := p.best.order // node of h -> node
	h := p.s.parts.Relist(p.g, at)
	for range maxRounds {
		if p.s.without["precedence"] {
			break
		}
		added, v := p.force(h, at, limit, work, patience)
		if v == infeasible {
			return infeasible, nil
		}
		if !added || p.s.stopped() {
			break
		}
		forward := p.s.lists.Forward(h, indexed.Ascending(h.Nodes), limit, listsched.ByPlace)
		backward := p.s.lists.Backward(h, forward, limit, listsched.ByPlace)
		best := incumbent{}
		if !p.s.see(h, &best, forward, limit) {
			p.s.see(h, &best, backward, limit)
		}
		at = compose(at, best.order)
		if best.peak <= limit {
			return feasible, at
		}
		h = p.s.parts.Relist(h, best.order)
	}
	if p.s.stopped() {
		return unknown, nil
	}
	c := p.s.contract(h)
	if c.Floor > limit {
		return infeasible, nil
	}
	v, order := p.s.decideParts(c.Problem, limit, states)
	if v != feasible {
		return v, nil
	}
	return feasible, compose(at, c.Expand(order))
}

// decideParts cuts a problem at its separators and asks for an order of each part within a
// limit. If one part has none, the problem has none.
func (s *solver) decideParts(g *indexed.Problem, limit int64, states int) (exact.Verdict, []int32) {
	order := g.Listing()
	joined := make([]int32, 0, g.Nodes)
	all := feasible
	for _, part := range divide(g, order, reduce.Separators(g, order)) {
		switch v, found := s.decidePart(part.g, limit, states); v {
		case infeasible:
			return infeasible, nil
		case unknown:
			all = unknown // another part may have none
		case feasible:
			joined = append(joined, compose(part.nodes, found)...)
		}
	}
	return all, joined
}

// decidePart asks for an order within a limit, first by recursion on cuts, then by exact
// search. Only the first rule may take many states: to show that there is no order takes the
// same states by any.
func (s *solver) decidePart(g *indexed.Problem, limit int64, states int) (exact.Verdict, []int32) {
	if s.foreign != nil {
		return s.foreign.decide(g, limit)
	}
	r := recursion{s: s, budget: int64(g.Nodes)*10 + 100_000}
	if found := r.split(g, limit, 0); found.peak <= limit {
		return feasible, found.order
	}
	d := s.exact(g, indexed.Ascending(g.Nodes))
	for i, rule := range listsched.Rules {
		if s.meter.Exhausted() {
			break
		}
		if i > 0 {
			states = min(states, s.budgets.states/5)
		}
		d.Rule = rule
		if v, order, _ := d.Decide(limit, states); v != unknown {
			return v, order
		}
	}
	return unknown, nil
}

// maxRounds is how often an attempt asks what the limit forces.
const maxRounds = 8

// force adds to the problem h the precedence that the limit forces; at says which nodes its
// nodes are. What one node tells counts for the next.
//
// First it asks the nodes that forced something within another limit. Then it asks those of
// the largest and of the smallest load in the listing alternately, until too many in a row
// force nothing. A node of large load has little slack. One of small load stands at an end
// of the listing, often with a choice among thousands of states: to learn that it may not
// run last, or first, connects branches that no node of large load connects.
func (p *subproblem) force(h *indexed.Problem, at []int32, limit, work, patience int64) (added bool, v exact.Verdict) {
	if p.forces == nil {
		p.forces = make([]bool, p.g.Nodes)
	}
	listing := indexed.Ascending(h.Nodes)
	loads := h.Loads(listing, nil)
	byLoad := indexed.Ascending(h.Nodes)
	slices.SortStableFunc(byLoad, func(a, b int32) int { return cmp.Compare(loads[b], loads[a]) })
	var list, others []int32
	for i := range byLoad {
		v := byLoad[i/2]
		if i%2 == 1 {
			v = byLoad[len(byLoad)-1-i/2]
		}
		if p.forces[at[v]] {
			list = append(list, v)
		} else {
			others = append(others, v)
		}
	}
	seen := p.s.placed(h, listing, limit)
	var edges [][2]int32
	failed, since := 0, p.s.meter.Flow
	for _, v := range append(list, others...) {
		if failed > maxFailedCuts && p.s.meter.Flow > since+patience || p.s.meter.Flow > work || p.s.stopped() {
			break
		}
		failed++
		earlier, later, ok := p.s.cut.Forced(h, v, limit, work, seen)
		if !ok {
			return added, infeasible
		}
		edges = edges[:0]
		for _, x := range earlier {
			edges = append(edges, [2]int32{x, v})
		}
		for _, x := range later {
			edges = append(edges, [2]int32{v, x})
		}
		if len(edges) > 0 {
			added, failed, since = true, 0, p.s.meter.Flow
			p.forces[at[v]] = true
			if !h.AddPrecedence(edges) {
				return added, infeasible
			}
		}
	}
	return added, unknown
}

// placed returns several orders of a problem, an order to follow among them.
func (s *solver) placed(g *indexed.Problem, follow []int32, limit int64) (list []bounds.Placed) {
	add := func(order []int32) []int32 {
		x := bounds.Placed{Place: make([]int32, g.Nodes), Load: make([]int64, g.Nodes)}
		s.loads = g.Loads(order, s.loads)
		for i, v := range order {
			x.Place[v], x.Load[v] = int32(i), s.loads[i]
		}
		list = append(list, x)
		return order
	}
	add(follow)
	add(s.lists.Forward(g, follow, limit, listsched.ByRise))
	add(s.lists.Backward(g, follow, limit, listsched.ByRise))
	return list
}
