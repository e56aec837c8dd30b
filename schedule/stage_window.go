package schedule

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// windows decides exactly about the steps around the peak of the best order: 8, 16,
// ... 512 to either side. What it finds is no proof.
func (p *subproblem) windows(states int) {
	for width := 8; width <= 512 && !p.done() && !p.s.meter.Exhausted(); {
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

// window reorders the steps of the best order from one step to another.
func (p *subproblem) window(from, to, states int) bool {
	g, order, parts := p.g, p.best.order, &p.s.parts
	parts.PlaceAll(g, reduce.After)
	in := make([]bool, g.Nodes)
	for _, v := range order[:from] {
		parts.Where[v], in[v] = reduce.Before, true
	}
	nodes := order[from:to]
	h := parts.Extract(g, nodes, g.Live(in))
	d := p.s.exact(h, indexed.Ascending(h.Nodes))
	// Limits with the same multiple of the unit below them are one.
	unit := h.Granularity()
	low, high := p.bound/unit, (p.best.peak-1)/unit
	limits := slices.Compact([]int64{low, low + (high-low)/2, high})
	for _, d.Rule = range listsched.Rules {
		for _, limit := range limits {
			limit = max(limit*unit, p.bound)
			v, found, _ := d.Decide(limit, states)
			if v == feasible {
				all := append([]int32{}, order...)
				copy(all[from:to], compose(nodes, found))
				p.see(all)
				return true
			}
			if p.done() || p.s.meter.Exhausted() {
				return false
			}
		}
	}
	return false
}

// level lowers the highest steps of the best order, one after another, until none gets
// lower. Each time a window of 8 to 512 steps to either side is ordered again: by exact
// searches of few states, which do most of it, and once those no longer suffice, by attempts
// with forced precedence. What it finds is no proof.
//
// Its budget is its own: a window stays in the caches, so its work takes a third of the time
// that the same work takes on a large graph.
func (p *subproblem) level() {
	m := p.s.meter
	before, work, states, runs := m.Budget, m.Work(), m.States, m.Runs
	b := p.s.budgets
	n := int64(p.g.Nodes)
	own := min(b.windows, 12*b.flow*smallGraph/max(n, smallGraph)) + b.perNode/6*n
	m.Budget = meter.Budget{Work: work + own, States: math.MaxInt, Runs: math.MaxInt}
	l := newLeveller(p)
	for _, l.states = range levelStates {
		l.lowerAll()
	}
	l.force = true
	l.lowerAll()
	before.Work += min(m.Work()-work, math.MaxInt64-before.Work)
	before.States += m.States - states
	before.Runs += m.Runs - runs
	m.Budget = before
	if l.peak < p.best.peak {
		p.see(l.order)
	}
}

// levelForcing is the work of the flows of one attempt in a window.
const levelForcing = 100_000

// levelStates are the states of the searches in windows, few first.
var levelStates = [...]int{25, 100, 400}

// leveller is an order under way of [subproblem.level]. A window changes what it covers
// and nothing else, so its cost does not depend on the number of nodes.
type leveller struct {
	p     *subproblem
	parts reduce.Extractor
	order []int32
	place []int32 // node -> its step
	loads []int64 // by step
	live  []int64 // before each step
	peak  int64
	step  int // the first of the largest load

	states int  // of one search
	force  bool // whether searches force precedence
}

func newLeveller(p *subproblem) *leveller {
	g := p.g
	l := &leveller{p: p, order: slices.Clone(p.best.order), place: make([]int32, g.Nodes), live: make([]int64, g.Nodes)}
	l.loads = g.Loads(l.order, nil)
	l.relive(g, l.order, 0)
	for i, v := range l.order {
		l.place[v] = int32(i)
	}
	l.parts.PlaceAll(g, reduce.After)
	l.peak, l.step = indexed.Peak(l.loads)
	return l
}

// relive computes the live bytes before each step of an order of a problem, which begins
// at a step of the whole.
func (l *leveller) relive(g *indexed.Problem, order []int32, from int) {
	unread := g.Unread(nil)
	live := g.LiveFirst()
	for i, v := range order {
		l.live[from+i] = live
		live = g.LiveAfter(v, live, unread)
	}
}

// lowerAll lowers the highest step until that fails, no order is lower, or the work is spent.
func (l *leveller) lowerAll() {
	for l.peak > l.p.bound && l.lower() {
		l.peak, l.step = indexed.Peak(l.loads)
	}
}

// lower lowers the highest step by the narrowest window in which that is possible, and
// reports whether it did. A window reaches as far to either side, or further to one.
func (l *leveller) lower() bool {
	for width := 8; width <= 512; width *= 2 {
		for _, shift := range [3]int{0, -width / 2, width / 2} {
			from, to := max(0, l.step-width+shift), min(len(l.order), l.step+width+shift+1)
			if l.p.s.stopped() {
				return false
			}
			if l.window(from, to) {
				return true
			}
			if to-from == len(l.order) {
				return false
			}
		}
	}
	return false
}

// window reorders the steps from one to another, if that lowers the highest of them.
func (l *leveller) window(from, to int) bool {
	p, nodes := l.p, slices.Clone(l.order[from:to])
	p.s.meter.Placed += int64(len(nodes) / 4) // what it takes to begin
	l.parts.PlaceAround(p.g, nodes, l.place, int32(from))
	h := l.parts.Extract(p.g, nodes, l.live[from])
	found := l.search(h)
	if found == nil {
		return false
	}
	l.put(h, nodes, found, from)
	return true
}

// put writes an order of a window into that of the whole.
func (l *leveller) put(h *indexed.Problem, nodes, found []int32, from int) {
	for i, x := range found {
		l.order[from+i] = nodes[x]
		l.place[nodes[x]] = int32(from + i)
	}
	copy(l.loads[from:], h.Loads(found, nil))
	l.relive(h, found, from)
}

// levelTries is how many limits a window tries.
const levelTries = 5

// search returns an order of a window below the peak, or nil. After the first it tries
// the middle between the last limit that failed and the peak of the order.
func (l *leveller) search(h *indexed.Problem) (best []int32) {
	unit := h.Granularity()
	follow, low, peak := indexed.Ascending(h.Nodes), l.p.bound, l.peak
	limit := peak - unit
	for try := 0; try < levelTries && limit < peak; try++ {
		order := l.decide(h, follow, limit)
		switch {
		case order != nil:
			best, follow = order, order
			peak, _ = indexed.Peak(h.Loads(order, nil))
		case best == nil:
			return nil
		default:
			low = limit + 1
		}
		limit = max(low, (low+(peak-low)/2)/unit*unit)
	}
	return best
}

// decide returns an order of a window within a limit, or nil. It takes what one of the
// rules finds, or what list scheduling from the end makes of the order to follow.
func (l *leveller) decide(h *indexed.Problem, follow []int32, limit int64) []int32 {
	s := l.p.s
	if l.force {
		q := s.open(h, l.p.bound)
		q.whole = nil
		q.see(follow)
		_, order := q.attempt(limit, l.states, s.meter.Flow+levelForcing, levelForcing)
		return order
	}
	for _, rule := range listsched.Rules {
		d := s.exact(h, follow)
		d.Rule = rule
		if v, order, _ := d.Decide(limit, l.states); v != unknown || s.stopped() {
			return order
		}
	}
	order := s.lists.Backward(h, follow, limit, listsched.ByPlace)
	if peak, _ := indexed.Peak(h.Loads(order, nil)); peak <= limit {
		return order
	}
	return nil
}
