package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// forward sees an order of list scheduling that breaks ties by another order.
func (p *subproblem) forward(follow []int32, limit int64, by listsched.Rule) bool {
	return p.see(p.s.lists.Forward(p.g, follow, limit, by))
}

// alternate schedules from both ends in turn, each pass following the order of the
// last, as forward-backward improvement does in project scheduling. After each round
// it asks the node at the peak for its bound.
func (p *subproblem) alternate() {
	for round := range 6 {
		order := p.s.lists.Forward(p.g, p.best.order, p.bound, listsched.ByPlace)
		if p.see(order) || p.see(p.s.lists.Backward(p.g, order, p.bound, listsched.ByPlace)) {
			return
		}
		v := p.best.order[p.best.step]
		if p.asked[v] {
			return
		}
		bound := p.bound
		if p.ask(v) || p.bound == bound && round > 1 || p.s.stopped() {
			return
		}
	}
}

// maxDives is how many limits dive tries.
const maxDives = 10

// dive schedules by what became ready last, at limits between the bound and the peak.
// A tighter limit makes the scheduler pursue nodes that free memory sooner, until
// there is room for nothing else.
func (p *subproblem) dive() {
	low := p.bound
	for range maxDives {
		limit := low + (p.best.peak-low)/2
		if limit <= low || p.s.stopped() {
			return
		}
		peak := p.best.peak
		if p.forward(p.g.Listing(), limit, listsched.ByReady) {
			return
		}
		if p.best.peak == peak || p.best.peak > limit {
			low = limit
		}
	}
}

// goals reorders the best order so that all ancestors of the next step that frees
// memory run first, and schedules what comes out; twice.
func (p *subproblem) goals() {
	order := p.best.order
	for range 2 {
		order = p.s.lists.Forward(p.g, listsched.ByGoals(p.g, order), infinite, listsched.ByPlace)
		if p.see(order) || p.s.stopped() {
			return
		}
	}
}

// recurse splits the problem at minimum cuts, with cuts and sets between the rounds,
// as long as the order or the bound improves.
func (p *subproblem) recurse() {
	r := recursion{s: p.s, budget: min(int64(p.g.Nodes)*100+500_000, 4_000_000)}
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
		found := r.split(p.s.parts.Relist(p.g, order), p.bound, 0)
		if found.peak < peak {
			p.see(compose(order, found.order))
			r.work += int64(p.g.Nodes)
		}
		if p.done() || p.best.peak == peak && p.bound == bound {
			return
		}
	}
}

// recursion finds orders by recursion on minimum cuts. Each call first tries cheap
// orders. If their peak exceeds the limit, a cut finds the least load of the node v at
// the peak, and what the cut runs before v and what it runs after v are ordered apart:
//
//	before v  |  v  |  after v        each side a problem of its own, and again
//
// Most calls end with the first cheap order, so the work stays nearly linear.
type recursion struct {
	s      *solver
	work   int64 // nodes of all problems and orders so far
	budget int64 // that ends the recursion; the orders stay valid
}

// maxSplits bounds the depth of the recursion.
const maxSplits = 200

func (r *recursion) see(g *indexed.Problem, best *incumbent, order []int32, limit int64) bool {
	r.work += int64(g.Nodes)
	return r.s.see(g, best, order, limit)
}

// cheap tries the cheap orders of a problem, the listing first, until one is within
// the limit.
func (r *recursion) cheap(g *indexed.Problem, limit int64) (best incumbent) {
	listing := indexed.Ascending(g.Nodes)
	if r.see(g, &best, listing, limit) || r.s.stopped() {
		return best
	}
	lists := r.s.lists
	forward := lists.Forward(g, listing, limit, listsched.ByPlace)
	if r.see(g, &best, forward, limit) ||
		r.see(g, &best, lists.Backward(g, listing, limit, listsched.ByPlace), limit) ||
		r.see(g, &best, lists.Backward(g, forward, limit, listsched.ByPlace), limit) ||
		r.see(g, &best, lists.Forward(g, listing, limit, listsched.ByRise), limit) ||
		r.see(g, &best, lists.Backward(g, listing, limit, listsched.ByRise), limit) {
		return best
	}
	for range 3 {
		peak := best.peak
		if r.see(g, &best, lists.Backward(g, best.order, limit, listsched.ByPlace), limit) ||
			r.see(g, &best, lists.Forward(g, best.order, limit, listsched.ByPlace), limit) || best.peak == peak {
			break
		}
	}
	return best
}

// split returns the best order that it finds; it stops at one within the limit.
func (r *recursion) split(g *indexed.Problem, limit int64, depth int) incumbent {
	best := r.cheap(g, limit)
	if best.peak <= limit || r.work > r.budget || depth > maxSplits || r.s.stopped() {
		return best
	}
	v := best.order[best.step]
	limit = max(limit, r.s.cut.NodeState(g, v))
	r.work += int64(g.Nodes)
	if best.peak <= limit {
		return best
	}
	small, large := make([]bool, g.Nodes), make([]bool, g.Nodes)
	r.s.cut.Minimiser(false, small)
	r.s.cut.Minimiser(true, large)
	for i, in := range [2][]bool{small, large} {
		if i == 1 && slices.Equal(small, large) {
			break
		}
		order := r.sides(g, best.order, in, v, limit, depth)
		if r.see(g, &best, order, limit) || r.work > r.budget {
			break
		}
	}
	return best
}

// sides orders the nodes that are in, then v, then the others, each side listed as in
// the given order.
func (r *recursion) sides(g *indexed.Problem, order []int32, in []bool, v int32, limit int64, depth int) []int32 {
	left, right := make([]int32, 0, len(order)), make([]int32, 0, len(order))
	for _, u := range order {
		if in[u] {
			left = append(left, u)
		} else if u != v {
			right = append(right, u)
		}
	}
	parts := &r.s.parts
	var first, last *indexed.Problem
	if len(left) > 0 {
		parts.PlaceAll(g, reduce.After)
		first = parts.Extract(g, left, g.LiveFirst())
	}
	if len(right) > 0 {
		in[v] = true
		live := g.Live(in)
		in[v] = false
		parts.PlaceAll(g, reduce.Before)
		last = parts.Extract(g, right, live)
	}
	joined := make([]int32, 0, len(order))
	if first != nil {
		joined = append(joined, compose(left, r.split(first, limit, depth+1).order)...)
	}
	joined = append(joined, v)
	if last != nil {
		joined = append(joined, compose(right, r.split(last, limit, depth+1).order)...)
	}
	return joined
}

// compose returns the nodes that an order of places stands for.
func compose(at, order []int32) []int32 {
	nodes := make([]int32, len(order))
	for i, x := range order {
		nodes[i] = at[x]
	}
	return nodes
}
