package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/exact"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
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

// climb closes the gap by exact decisions of a few states each: first at the largest
// limit below the peak, where a failure proves the best order optimal, then alternately
// in the middle, at the bound and below the peak. It gives up when the states did not
// suffice twice. It takes all rules if none is given.
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
// falls, and then in the middle of what is not known. The first attempt that stays
// unknown is repeated with all nodes instead of the 24 of largest load. Three that
// stay unknown end it.
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
		v, order := p.attempt(limit, 24, states/10, work)
		if v == unknown && open == 0 && !p.done() {
			v, order = p.attempt(limit, p.g.Nodes, states, 5*work)
		}
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

// attempt asks for an order of a peak within a limit. Precedence that the limit forces
// is added to the problem, which is then contracted further and searched. At most top
// nodes, those of largest load, are asked what the limit forces.
func (p *subproblem) attempt(limit int64, top, states int, work int64) (exact.Verdict, []int32) {
	at := p.best.order // node of h -> node
	h := p.s.parts.Relist(p.g, at)
	work += p.s.meter.Flow
	for range 6 {
		if p.s.without["precedence"] {
			break
		}
		edges, v := p.force(h, limit, top, work)
		if v == infeasible {
			return infeasible, nil
		}
		if len(edges) == 0 || p.s.stopped() {
			break
		}
		if !h.AddPrecedence(edges) {
			return infeasible, nil
		}
		if p.s.stopped() {
			return unknown, nil
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
	r := recursion{s: p.s, budget: int64(c.Problem.Nodes)*10 + 100_000}
	if found := r.split(c.Problem, limit, 0); found.peak <= limit {
		return feasible, compose(at, c.Expand(found.order))
	}
	d := p.s.exact(c.Problem, indexed.Ascending(c.Problem.Nodes))
	for _, d.Rule = range listsched.Rules {
		if p.s.meter.Exhausted() {
			break
		}
		switch v, order, _ := d.Decide(limit, states); v {
		case feasible:
			return feasible, compose(at, c.Expand(order))
		case infeasible:
			return infeasible, nil
		}
	}
	return unknown, nil
}

// force asks the nodes of largest load in the listing what the limit forces.
func (p *subproblem) force(h *indexed.Problem, limit int64, top int, work int64) (edges [][2]int32, v exact.Verdict) {
	loads := h.Loads(indexed.Ascending(h.Nodes), nil)
	byLoad := indexed.Ascending(h.Nodes)
	slices.SortStableFunc(byLoad, func(a, b int32) int { return cmp.Compare(loads[b], loads[a]) })
	for _, v := range byLoad[:min(top, len(byLoad))] {
		if p.s.meter.Flow > work || p.s.stopped() {
			break
		}
		earlier, later, ok := p.s.cut.Forced(h, v, limit, work)
		if !ok {
			return nil, infeasible
		}
		for _, x := range earlier {
			edges = append(edges, [2]int32{x, v})
		}
		for _, x := range later {
			edges = append(edges, [2]int32{v, x})
		}
	}
	return edges, unknown
}
