package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// gap is what a search knows about a net: the best order so far and the
// greatest bound, and for each node the least load in all orders seen. The last
// is a bound on what a cut at the node can prove, so the node of the greatest
// is asked first, and none whose figure is not above the bound.
type gap struct {
	*search
	g     *indexed.Problem
	best  incumbent
	bound int64
	proof Certificate // of the bound; Value is kept in bound
	hint  Certificate // where the bound is from, if it is not proven on this net

	recent  []loaded // the last orders seen, and the best
	ceiling []int64  // node -> the least load seen
	asked   []bool   // node -> its cut bound is known

	// whole is the peak of the order of all nodes that the best is part of.
	whole func() int64
}

func (s *search) open(g *indexed.Problem, floor int64) *gap {
	p := &gap{search: s, g: g, bound: floor, proof: Certificate{Kind: KindSearch}}
	p.ceiling = make([]int64, g.Nodes)
	for v := range p.ceiling {
		p.ceiling[v] = indexed.Infinite
	}
	p.asked = make([]bool, g.Nodes)
	p.whole = func() int64 { return max(p.best.peak, floor) }
	return p
}

// leastFirst returns the least load of a first step, where that has idle bytes
// that no cut sees; else 0.
func leastFirst(g *indexed.Problem) int64 {
	if g.Idle == 0 {
		return 0
	}
	unread := g.Unread(nil)
	least := indexed.Infinite
	for i := range g.Nodes {
		if v := int32(i); len(g.Preds.Of(v)) == 0 {
			least = min(least, g.LiveFirst()+g.Idle+g.Need(v, unread, 1))
		}
	}
	return least
}

func (p *gap) closed() bool { return p.best.peak <= p.bound }

// done reports whether there is nothing left to do, or no time.
func (p *gap) done() bool { return p.closed() || p.bound >= p.enough || p.stop() }

// see takes an order, and reports whether that closes the gap.
func (p *gap) see(order []int32) bool {
	best := p.best.peak
	p.splitter.see(p.g, &p.best, order, p.bound)
	improves := len(p.recent) == 0 || p.best.peak < best
	if improves && p.tell != nil && p.whole != nil {
		p.lowered(p.whole())
	}
	p.remember(order, improves)
	for i, v := range order {
		p.ceiling[v] = min(p.ceiling[v], p.loads[i])
	}
	return p.closed()
}

// raise takes a bound, and reports whether that closes the gap.
func (p *gap) raise(bound int64, kind string, nodes ...int32) bool {
	if bound > p.bound {
		p.bound, p.proof = bound, Certificate{Kind: kind, Nodes: nodes}
		p.raised(bound)
	}
	return p.closed()
}

// ask computes the cut bound of a node, unless that is known.
func (p *gap) ask(v int32) bool {
	if !p.asked[v] {
		p.asked[v] = true
		defer p.clock.end(p.clock.begin())
		if bound := p.node(p.g, v); !p.Broken {
			p.raise(bound, KindCut, v)
		}
	}
	return p.closed()
}

// highest returns the node of the greatest ceiling above the bound that was not
// asked yet, or -1.
func (p *gap) highest() int32 {
	at := int32(-1)
	for v, c := range p.ceiling {
		if !p.asked[v] && c > p.bound && (at < 0 || c > p.ceiling[at]) {
			at = int32(v)
		}
	}
	return at
}

// How many cuts may fail in a row, and how much flow work they may take: some
// hundredths of a second.
const (
	maxFailedCuts = 48
	maxFailedWork = 5_000_000
)

// cuts asks nodes until some time after the bound last rose.
func (p *gap) cuts() {
	work := p.cutter.Work + maxFailedWork
	for failed := 0; failed < maxFailedCuts && !p.done() && p.cutter.Work < work; failed++ {
		v := p.highest()
		if v < 0 {
			return
		}
		bound := p.bound
		p.ask(v)
		if p.bound > bound {
			failed, work = 0, p.cutter.Work+maxFailedWork
		}
	}
}

// loaded is an order and its loads.
type loaded struct {
	order []int32
	loads []int64
}

const maxRecent = 6

// remember keeps an order among the recent ones, the best in the first place.
func (p *gap) remember(order []int32, best bool) {
	x := loaded{order, slices.Clone(p.loads)}
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
