package schedule

// climb closes the gap by exact decisions of a few states each: first at the
// largest limit below the peak, where a failure proves the incumbent, then by
// turns in the middle, at the bound and below the peak. It gives up when the
// states did not suffice twice. It takes all rules if none is given.
func (p *gap) climb(budget, tries int, by ...rule) {
	if p.effort.states == 0 || p.g.Nodes > maxClimb || p.off.has(climbing) || p.done() {
		return
	}
	grain := p.g.Granularity()
	limit := p.best.peak - grain
	open := 0
	for try := 0; try < tries && open < 2 && !p.done(); try++ {
		limit = min(max(limit, p.bound), p.best.peak-grain)
		if !p.decide(limit, budget, by...) {
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
			limit = p.best.peak - grain
		}
	}
}

// maxExact is the most nodes for which attempts are made, maxClimb for which exact
// search is tried. To begin one takes time linear in nodes.
const (
	maxExact = 20_000
	maxClimb = 200_000
)

// decide asks for an order within a limit by each of the given rules in turn, or by all, led by the
// incumbent, and reports whether it got an answer.
func (p *gap) decide(limit int64, budget int, by ...rule) bool {
	if len(by) == 0 {
		by = rules[:]
	}
	for _, by := range by {
		if p.spent() {
			return false
		}
		d := p.newDecider(p.g, p.best.order)
		d.rule = by
		v, order, bound := d.decide(limit, budget)
		switch v {
		case feasible:
			p.see(order)
			return true
		case infeasible:
			p.raise(min(bound, p.best.peak), KindSearch)
			return true
		}
	}
	return false
}

// exhaust climbs with all the states that fit a second or so on a small net:
// a hundred thousand on one of 200 nodes. It takes one rule: that there is no order
// takes the same states by any.
func (p *gap) exhaust() {
	budget := p.effort.exact / p.g.Nodes
	if budget <= p.effort.states/4 || p.spent() {
		return
	}
	all := p.effort.allStates
	p.effort.allStates = p.states + budget
	p.climb(budget, 6, byPlace)
	p.effort.allStates = all + budget
}
