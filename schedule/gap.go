package schedule

import "slices"

// gap is what a search knows about a net: the best order so far and the
// greatest bound, and for each node the least load in all orders seen. The last
// is a bound on what a cut at the node can prove, so the node of the greatest
// is asked first, and none whose figure is not above the bound.
type gap struct {
	*search
	g     *net
	best  incumbent
	bound int64
	proof Certificate // of the bound; Value is kept in bound
	hint  Certificate // where the bound is from, if it is not proven on this net
	shown int64       // the greatest bound proven on this net

	recent  []loaded // the last orders seen, and the best
	ceiling []int64  // node -> the least load seen
	asked   []bool   // node -> its cut bound is known

	// whole is the peak of the order of all nodes that the best is part of.
	whole func() int64
}

func (s *search) open(g *net, floor int64) *gap {
	p := &gap{search: s, g: g, bound: floor, proof: Certificate{Kind: KindSearch}}
	p.ceiling = make([]int64, g.nodes)
	for v := range p.ceiling {
		p.ceiling[v] = infinite
	}
	p.asked = make([]bool, g.nodes)
	p.whole = func() int64 { return max(p.best.peak, floor) }
	return p
}

// leastFirst returns the least load of a first step, where that has idle bytes
// that no cut sees; else 0.
func (g *net) leastFirst() int64 {
	if g.idle == 0 {
		return 0
	}
	unread := g.waiting(nil)
	least := infinite
	for i := range g.nodes {
		if v := int32(i); len(g.preds.of(v)) == 0 {
			least = min(least, g.liveFirst()+g.idle+g.need(v, unread, 1))
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
		if kind != KindSearch {
			p.shown = bound
		}
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

// maxSets is how many thresholds the set bounds try of each kind.
const maxSets = 12

// sets raises the bound by sets of all nodes whose need reaches a threshold: the
// largest among the nodes loaded above the bound. A set that proves nothing costs a
// cut or two.
//
// A need is what a node adds while it runs and what it reads: of a weight's gradient
// and the nodes that use it up, as in Adam, only the last is as tall as all of them
// together. Or it is what a node adds alone.
func (p *gap) sets() { p.setsAbove(p.bound) }

// setsAbove is sets with the thresholds of the nodes loaded above a level.
func (p *gap) setsAbove(level int64) {
	if p.off.has(setBounds) {
		return
	}
	defer p.clock.end(p.clock.begin())
	tall, need := make([]int64, p.g.nodes), make([]int64, p.g.nodes)
	for v := range need {
		tall[v] = p.g.alone(int32(v))
		need[v] = p.g.trans[v] - p.g.mostSaved(int32(v))
	}
	work := p.cutter.Work + maxSetsWork
	if !p.setsOf(tall, level, work) {
		p.setsOf(need, level, work)
	}
}

// The flow work of one set, and of all: some tenths of a second.
const (
	maxSetWork  = 10_000_000
	maxSetsWork = 15_000_000
)

// setsOf tries the thresholds of one kind of need, until the flows have visited so
// much, and reports whether that is the end of it.
func (p *gap) setsOf(need []int64, level, work int64) bool {
	var thresholds []int64
	for v, n := range need {
		if p.ceiling[v] > level {
			thresholds = append(thresholds, n)
		}
	}
	slices.Sort(thresholds)
	thresholds = slices.Compact(thresholds)
	slices.Reverse(thresholds)
	for _, least := range thresholds[:min(maxSets, len(thresholds))] {
		var set []int32
		in := make([]bool, p.g.nodes)
		for v, n := range need {
			if in[v] = n >= least; in[v] {
				set = append(set, int32(v))
			}
		}
		first, last := p.ends(in)
		if first > p.bound {
			if bound := p.firstOf(p.g, set, p.bound, maxSetWork); !p.Broken {
				p.raise(bound, KindFirst, set...)
			}
		}
		if last > p.bound && !p.done() {
			if bound := p.lastOf(p.g, set, p.bound, maxSetWork); !p.Broken {
				p.raise(bound, KindLast, set...)
			}
		}
		if p.done() || p.cutter.Work > work {
			return true
		}
	}
	return false
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

// ends returns the least loads that the first and the last node of a set have in
// the recent orders: bounds on what the set can prove.
func (p *gap) ends(in []bool) (first, last int64) {
	first, last = infinite, infinite
	for _, x := range p.recent {
		i := slices.IndexFunc(x.order, func(v int32) bool { return in[v] })
		first = min(first, x.loads[i])
		for i = len(x.order) - 1; !in[x.order[i]]; {
			i--
		}
		last = min(last, x.loads[i])
	}
	return first, last
}
