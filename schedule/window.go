package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// windows improves the incumbent by exact decisions about the steps around its
// peak: 8, 16, ... 512 to either side. What they find is no proof.
func (p *gap) windows(states int) {
	if p.effort.states == 0 || p.off.has(windowing) {
		return
	}
	for width := 8; width <= 512 && !p.done() && !p.spent(); {
		from, to := max(0, p.best.step-width), min(p.g.Nodes, p.best.step+width+1)
		peak := p.best.peak
		if p.window(from, to, states) && p.best.peak < peak {
			continue
		}
		if from == 0 && to == p.g.Nodes {
			return
		}
		width *= 2
	}
}

// window reorders the steps of the incumbent from one step to another.
func (p *gap) window(from, to, states int) bool {
	g, order := p.g, p.best.order
	p.all(g, after)
	in := make([]bool, g.Nodes)
	for _, v := range order[:from] {
		p.where[v], in[v] = before, true
	}
	nodes := order[from:to]
	h := p.part(g, nodes, g.Live(in))
	d := p.newDecider(h, indexed.Ascending(h.Nodes))
	// Limits with the same multiple of the grain below them are one.
	grain := h.Granularity()
	low, high := p.bound/grain, (p.best.peak-1)/grain
	limits := slices.Compact([]int64{low, low + (high-low)/2, high})
	for _, d.rule = range rules {
		for _, limit := range limits {
			limit = max(limit*grain, p.bound)
			v, found, _ := d.decide(limit, states)
			if v == feasible {
				all := append([]int32{}, order...)
				copy(all[from:to], compose(nodes, found))
				p.see(all)
				return true
			}
			if p.done() || p.spent() {
				return false
			}
		}
	}
	return false
}
