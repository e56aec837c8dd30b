package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// attempt asks for an order of a peak within a limit: precedence forced by the
// limit is added to the net, which is then contracted, since more is certain,
// and searched. It asks the nodes of largest load, at most top of them.
func (p *gap) attempt(limit int64, top, states int, work int64) (verdict, []int32) {
	at := p.best.order // node of h -> node
	h := p.listed(p.g, at)
	work += p.cutter.Work
	for range 6 {
		if p.off.has(precedence) {
			break
		}
		edges, v := p.force(h, limit, top, work)
		if v == infeasible {
			return infeasible, nil
		}
		if len(edges) == 0 || p.stop() {
			break
		}
		if !constrain(h, edges) {
			return infeasible, nil
		}
		if p.stop() {
			return unknown, nil
		}
		walk := p.settle(h, indexed.Ascending(h.Nodes), limit, byPlace)
		back := p.settleBack(h, walk, limit, byPlace)
		best := incumbent{}
		if !p.splitter.see(h, &best, walk, limit) {
			p.splitter.see(h, &best, back, limit)
		}
		at = compose(at, best.order)
		if best.peak <= limit {
			return feasible, at
		}
		h = p.listed(h, best.order)
	}
	if p.stop() {
		return unknown, nil
	}
	c := contract(h, p.off, p.halted)
	if c.floor > limit {
		return infeasible, nil
	}
	p.splitter.work, p.splitter.limit = 0, int64(c.Nodes)*10+100_000
	if found := p.split(c.Problem, limit, 0); found.peak <= limit {
		return feasible, compose(at, c.expand(found.order))
	}
	d := p.newDecider(c.Problem, indexed.Ascending(c.Nodes))
	for _, d.rule = range rules {
		if p.spent() {
			break
		}
		v, order, _ := d.decide(limit, states)
		switch v {
		case feasible:
			return feasible, compose(at, c.expand(order))
		case infeasible:
			return infeasible, nil
		}
	}
	return unknown, nil
}

// force asks the nodes of largest load in the listing what the limit forces.
func (p *gap) force(h *indexed.Problem, limit int64, top int, work int64) (edges [][2]int32, v verdict) {
	loads := h.Loads(indexed.Ascending(h.Nodes), nil)
	byLoad := indexed.Ascending(h.Nodes)
	slices.SortStableFunc(byLoad, func(a, b int32) int { return cmp.Compare(loads[b], loads[a]) })
	for _, v := range byLoad[:min(top, len(byLoad))] {
		if p.cutter.Work > work || p.stop() {
			break
		}
		earlier, later, ok := p.forced(h, v, limit, work)
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

// constrain adds precedence, and reports whether the net is still acyclic.
func constrain(g *indexed.Problem, edges [][2]int32) bool {
	preds := g.Preds.Slices()
	for _, e := range edges {
		preds[e[1]] = with(preds[e[1]], e[0])
	}
	g.Preds = indexed.Lists{}
	for _, list := range preds {
		g.Preds.Add(list...)
	}
	g.Preds.Finish()
	g.Succs = g.Preds.Inverse(g.Nodes)
	return len(g.Listing()) == g.Nodes
}

// compose returns the nodes that an order of places stands for.
func compose(at, order []int32) []int32 {
	nodes := make([]int32, len(order))
	for i, x := range order {
		nodes[i] = at[x]
	}
	return nodes
}

// bisect closes the gap by attempts: at the bound, below the peak, each time that it
// falls, and then in the middle of what is not known. The first that stays unknown is
// repeated with all nodes in place of the 24 of largest load; three that stay unknown
// end it.
func (p *gap) bisect(states int, work int64) {
	if p.effort.states == 0 || p.g.Nodes > maxExact || p.g.Idle > 0 || p.off.has(bisection) {
		return
	}
	grain := p.g.Granularity()
	up := func(x int64) int64 { return (x + grain - 1) / grain * grain }
	p.raise(min(up(p.bound), p.best.peak), KindSearch)
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
			limit = p.best.peak - grain // a failure there proves the incumbent
			top = false
		}
		limit = min(max(limit, p.bound), p.best.peak-grain)
		v, order := p.attempt(limit, 24, states/10, work)
		if v == unknown && open == 0 && !p.done() {
			v, order = p.attempt(limit, p.g.Nodes, states, 5*work)
		}
		switch v {
		case feasible:
			p.see(order)
			top = open == 0
		case infeasible:
			p.raise(min(up(limit+1), p.best.peak), KindSearch)
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
