package schedule

import (
	"context"
	"math"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// search is the state of [Solve] over all nets.
type search struct {
	splitter
	progress
	clock
	ctx    context.Context
	ended  bool // the context ended before the search did
	effort limits
	off    stage // what the tests leave out
	most   int64 // visits
	enough int64 // a bound that ends the search: nobody asks for more
	states int   // of all exact searches
	runs   int   // of nodes, in all exact searches
}

// limits bound the search by counted work, never by time.
type limits struct {
	states    int // of one exact search
	allStates int
	allRuns   int   // of nodes, in all exact searches
	exact     int   // states times nodes, of one long exact search
	flow      int64 // of one attempt at a budget

	// Of the whole search, as search.visited counts: small for graphs of up to
	// smallGraph nodes, perNode times the nodes for large ones.
	small, perNode int64
}

// smallGraph is the number of nodes up to which the search stays in the caches
// and may take all the work that its effort allows.
const smallGraph = 3000

// all is how much a search on so many nodes may visit. On large graphs a visit
// misses the caches and takes ten times as long; the limit falls to meet the
// line that gives each node its share, about a second for 20,000 nodes.
func (l limits) all(nodes int) int64 {
	n := int64(max(nodes, smallGraph))
	return max(l.small/n*smallGraph/n*smallGraph, l.perNode*n)
}

func newSearch(ctx context.Context, effort limits) *search {
	s := &search{ctx: ctx, effort: effort, most: math.MaxInt64, enough: indexed.Infinite}
	s.stop = func() bool { return s.halted() || s.exhausted() }
	s.Halt, s.settler.halt = s.halted, s.halted
	return s
}

// spent reports whether the exact searches have had their share.
func (s *search) spent() bool {
	return s.states >= s.effort.allStates || s.runs >= s.effort.allRuns
}

// halted reports whether the context has ended.
func (s *search) halted() bool {
	s.ended = s.ended || s.ctx != nil && s.ctx.Err() != nil
	return s.ended
}

func (s *search) exhausted() bool { return s.visited() > s.most }

// visited is the work so far in vertices and edges of flows. A node of a walk,
// with its heaps, costs as much as some hundred of them.
func (s *search) visited() int64 { return s.cutter.Work + 100*s.walked }

// alternate settles from both ends in turn, each walk following the last, as
// forward-backward improvement does in project scheduling; the node at the peak
// is asked for its bound after each round.
func (p *gap) alternate() {
	for round := range 6 {
		order := p.settle(p.g, p.best.order, p.bound, byPlace)
		if p.see(order) || p.see(p.settleBack(p.g, order, p.bound, byPlace)) {
			return
		}
		v := p.best.order[p.best.step]
		if p.asked[v] {
			return
		}
		bound := p.bound
		if p.ask(v) || p.bound == bound && round > 1 || p.stop() {
			return
		}
	}
}

// cheap tries the listing, the greedy orders and alternation.
func (p *gap) cheap() {
	listing := p.g.Listing()
	if p.see(listing) || p.ask(p.best.order[p.best.step]) {
		return
	}
	if p.see(p.settle(p.g, listing, indexed.Infinite, byDelta)) || p.ask(p.best.order[p.best.step]) {
		return
	}
	if p.see(p.settle(p.g, listing, p.bound, byDelta)) || p.stop() {
		return
	}
	if p.alternate(); !p.done() {
		p.deepen()
	}
}

// maxDives is how many limits deepen tries.
const maxDives = 10

// deepen settles by what became ready last, at limits between the bound and the
// peak: the lower the limit, the less of what does not lead to a fall runs before
// what does, until there is room for nothing but that.
func (p *gap) deepen() {
	low := p.bound
	for range maxDives {
		limit := low + (p.best.peak-low)/2
		if limit <= low || p.stop() {
			return
		}
		peak := p.best.peak
		if p.see(p.settle(p.g, p.g.Listing(), limit, byReady)) {
			return
		}
		if p.best.peak == peak || p.best.peak > limit {
			low = limit
		}
	}
}

// recurse splits at cuts, with bounds between, while something improves.
func (p *gap) recurse() {
	if p.off.has(recursion) {
		return
	}
	p.work, p.limit = 0, min(int64(p.g.Nodes)*100+500_000, 4_000_000)
	for round := range 8 {
		bound, peak := p.bound, p.best.peak
		p.cuts()
		if p.done() {
			return
		}
		if round == 0 || p.bound == bound {
			p.sets()
			if p.done() {
				return
			}
		}
		order := p.best.order
		part := p.listed(p.g, order)
		found := p.split(part, p.bound, 0)
		if found.peak < peak {
			moved := make([]int32, len(order))
			for i, x := range found.order {
				moved[i] = order[x]
			}
			p.see(moved)
		}
		if p.done() || p.best.peak == peak && p.bound == bound {
			return
		}
	}
}

// boundOf returns the bound that cuts and sets prove, led by an order.
func (s *search) boundOf(g *indexed.Problem, order []int32) (int64, Certificate) {
	s.most = s.effort.all(g.Nodes)
	p := s.open(g, leastFirst(g))
	if !p.see(order) {
		p.cuts()
	}
	if !p.done() {
		p.sets()
	}
	return p.bound, p.proof
}

// optimize runs the stages on a net with at least one node.
func (s *search) optimize(g *indexed.Problem) outcome {
	s.most = s.effort.all(g.Nodes)
	p := s.open(g, leastFirst(g))
	if !p.quick() && !p.stop() {
		p.thorough()
		p.certify(p.hint)
	}
	return outcome{p.best, p.bound, p.proof}
}

// quick tries the listing and the greedy order, with a cut at the peak of each:
// enough for most graphs.
func (p *gap) quick() bool {
	listing := p.g.Listing()
	return p.see(listing) || p.halted() || p.ask(p.best.order[p.best.step]) ||
		p.see(p.settle(p.g, listing, indexed.Infinite, byDelta)) || p.ask(p.best.order[p.best.step])
}

func (p *gap) thorough() {
	g := p.g
	if g.Idle > 0 {
		p.full() // moving the first node would move the idle bytes
		return
	}
	// The listing, but for what frees: where it keeps what belongs together
	// close, as on layers of a random network, none of the greedy orders does.
	if p.see(p.settle(g, g.Listing(), indexed.Infinite, byPlace)) {
		return
	}
	c := contract(g, p.off, p.halted)
	if p.stop() {
		return
	}
	if p.take(c, (*gap).early) || p.original() || g.Nodes <= maxExact && p.coarsely() {
		return
	}
	if !p.take(c, (*gap).full) && g.Nodes <= maxExact {
		p.finely()
	}
}

// coarsely solves the net without its smallest tensors, where those could not
// make the gap.
func (p *gap) coarsely() bool {
	if p.off.has(coarseNets) {
		return false
	}
	h := coarse(p.g, (p.best.peak-p.bound)/2)
	return h != nil && p.take(contract(h, p.off, p.halted), (*gap).full)
}

// finely solves the net without the tensors of the smallest size alone, however
// many, with a tenth of the states of all searches: where those keep the net from
// contracting, what stays open is what is live of them at the peak.
func (p *gap) finely() {
	if p.off.has(coarseNets) || p.stop() {
		return
	}
	if h := coarse(p.g, ofSmallest(p.g)); h != nil {
		p.effort.allStates += p.effort.allStates / 10
		p.effort.allRuns += p.effort.allRuns / 10
		p.take(contract(h, p.off, p.halted), (*gap).full)
	}
}

// original works on the net as it is, where a bound has a certificate.
func (p *gap) original() bool {
	if p.alternate(); !p.done() {
		p.goals()
	}
	if !p.done() {
		p.cuts()
	}
	if !p.done() {
		p.sets()
	}
	if !p.done() {
		p.turns()
	}
	return p.done()
}

// take solves the contracted net and takes what that says about this one.
func (p *gap) take(c *contracted, solve func(*gap)) bool {
	out := p.apart(c.Problem, max(c.floor, p.bound), c.reduce(p.best.order), solve)
	p.see(c.expand(out.best.order))
	if out.bound > p.bound {
		p.raise(out.bound, KindSearch)
		p.hint = c.translate(p.g, out.proof)
	}
	return p.done()
}

// early is cheap orders, a few cuts and a small exact search; on large nets sets too,
// which often close what would take many states.
func (p *gap) early() {
	if p.cheap(); !p.done() {
		p.climb(400, 12)
	}
	if p.done() || p.g.Nodes <= smallGraph {
		return
	}
	if p.sets(); !p.done() {
		p.climb(p.effort.states/5, 24, byPlace) // cuts of the whole net take longer
	}
}

// full is all there is, from what takes least to what takes most.
func (p *gap) full() {
	for _, stage := range []func(){
		p.cheap,
		func() { p.climb(400, 12) },
		func() { p.climb(p.effort.states/5, 24) },
		p.recurse,
		func() { p.bisect(4000, 1_000_000) },
		func() { p.windows(p.effort.states / 10) },
		p.exhaust,
		func() { p.bisect(p.effort.states/4, p.effort.flow) },
		func() { p.windows(p.effort.states) },
		func() {
			if 4*p.effort.states > p.effort.exact/p.g.Nodes { // else exhaust took more
				p.climb(4*p.effort.states, 6)
			}
		},
	} {
		if stage(); p.done() {
			return
		}
	}
}
