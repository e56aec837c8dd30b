package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// splitter finds orders by recursion on minimum cuts. Each call first tries the
// cheap orders. While their peak is above the limit, the least load of the node
// at the peak is found by a cut, and the two sides of the cut, what runs before
// the node and what after, are ordered apart: near-linear, since most calls end
// with the first cheap order.
type splitter struct {
	cutter
	settler
	parter
	loads []int64
	work  int64 // nodes of all calls
	limit int64 // ends the recursion; the orders stay valid
	stop  func() bool
}

// maxSplits bounds the depth of the recursion.
const maxSplits = 200

// incumbent is the best of the orders seen.
type incumbent struct {
	order []int32
	peak  int64
	step  int // the first of the largest load
}

// see takes an order if its peak is smaller, and reports whether the peak is
// within the limit.
func (s *splitter) see(g *indexed.Problem, best *incumbent, order []int32, limit int64) bool {
	s.work += int64(g.Nodes)
	s.loads = g.Loads(order, s.loads)
	if peak, step := indexed.Peak(s.loads); best.order == nil || peak < best.peak {
		*best = incumbent{order, peak, step}
	}
	return best.peak <= limit
}

// quick tries the cheap orders of a net, the listing first, until one is within
// the limit.
func (s *splitter) quick(g *indexed.Problem, limit int64) (best incumbent) {
	listing := indexed.Ascending(g.Nodes)
	if s.see(g, &best, listing, limit) || s.stop() {
		return best
	}
	forward := s.settle(g, listing, limit, byPlace)
	if s.see(g, &best, forward, limit) ||
		s.see(g, &best, s.settleBack(g, listing, limit, byPlace), limit) ||
		s.see(g, &best, s.settleBack(g, forward, limit, byPlace), limit) ||
		s.see(g, &best, s.settle(g, listing, limit, byDelta), limit) ||
		s.see(g, &best, s.settleBack(g, listing, limit, byDelta), limit) {
		return best
	}
	for range 3 {
		peak := best.peak
		if s.see(g, &best, s.settleBack(g, best.order, limit, byPlace), limit) ||
			s.see(g, &best, s.settle(g, best.order, limit, byPlace), limit) || best.peak == peak {
			break
		}
	}
	return best
}

// split returns the best order that it finds, until one is within the limit.
func (s *splitter) split(g *indexed.Problem, limit int64, depth int) incumbent {
	best := s.quick(g, limit)
	if best.peak <= limit || s.work > s.limit || depth > maxSplits || s.stop() {
		return best
	}
	v := best.order[best.step]
	limit = max(limit, s.nodeSplit(g, v))
	s.work += int64(g.Nodes)
	if best.peak <= limit {
		return best
	}
	small, large := make([]bool, g.Nodes), make([]bool, g.Nodes)
	s.minimiser(false, small)
	s.minimiser(true, large)
	for i, in := range [2][]bool{small, large} {
		if i == 1 && slices.Equal(small, large) {
			break
		}
		order := s.sides(g, best.order, in, v, limit, depth)
		if s.see(g, &best, order, limit) || s.work > s.limit {
			break
		}
	}
	return best
}

// sides orders the nodes that are in, then v, then the others, each side listed
// as in the order given.
func (s *splitter) sides(g *indexed.Problem, order []int32, in []bool, v int32, limit int64, depth int) []int32 {
	left, right := make([]int32, 0, len(order)), make([]int32, 0, len(order))
	for _, u := range order {
		if in[u] {
			left = append(left, u)
		} else if u != v {
			right = append(right, u)
		}
	}
	var first, last *indexed.Problem
	if len(left) > 0 {
		s.all(g, after)
		first = s.part(g, left, g.LiveFirst())
	}
	if len(right) > 0 {
		in[v] = true
		live := g.Live(in)
		in[v] = false
		s.all(g, before)
		last = s.part(g, right, live)
	}
	joined := make([]int32, 0, len(order))
	if first != nil {
		for _, i := range s.split(first, limit, depth+1).order {
			joined = append(joined, left[i])
		}
	}
	joined = append(joined, v)
	if last != nil {
		for _, i := range s.split(last, limit, depth+1).order {
			joined = append(joined, right[i])
		}
	}
	return joined
}
