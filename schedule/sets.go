package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// sets raises the bound by sets of nodes of which one runs first and one last: see
// [FirstBound] and [LastBound]. It asks those whose first or last node is loaded
// above the bound in all recent orders, since no other can prove more.
//
// The sets are all nodes whose need reaches a threshold, and what stands before or
// after a node: see tallest and neighbours.
func (p *gap) sets() {
	if p.off.has(setBounds) {
		return
	}
	defer p.clock.end(p.clock.begin())
	s := setter{gap: p, work: p.cutter.Work + maxSetsWork}
	for _, x := range p.recent {
		place := make([]int32, p.g.Nodes)
		for i, v := range x.order {
			place[v] = int32(i)
		}
		s.places = append(s.places, place)
	}
	s.need = make([]int64, p.g.Nodes)
	for v := range s.need {
		s.need[v] = p.g.LeastLoad(int32(v))
	}
	if s.tallest() || s.neighbours() {
		return
	}
	for v := range s.need {
		s.need[v] = p.g.Transient[v] - p.g.MostSaved(int32(v))
	}
	s.tallest()
}

const (
	maxSets   = 12 // of the tallest nodes that may fail in a row
	maxSteps  = 48 // whose neighbours are looked at
	maxAround = 32 // nodes, next to one

	// The flow work of one set, and of all: some tenths of a second.
	maxSetWork  = 10_000_000
	maxSetsWork = 15_000_000
)

type setter struct {
	*gap
	need   []int64   // node -> bytes
	places [][]int32 // recent order -> node -> its place
	work   int64     // that ends it
	tries  int       // that failed in a row
}

// tallest tries the nodes of the largest needs, one threshold after another, and
// reports whether that is the end of it.
//
// A need is what a node adds while it runs and what it reads: of a weight's gradient
// and the nodes that use it up, as in Adam, only the last is as tall as all of them
// together. Or it is what a node adds alone.
func (s *setter) tallest() bool {
	byNeed := indexed.Ascending(s.g.Nodes)
	slices.SortStableFunc(byNeed, func(a, b int32) int { return cmp.Compare(s.need[b], s.need[a]) })
	e := s.ends()
	s.tries = 0
	for i, v := range byNeed {
		e.add(v)
		if i+1 < len(byNeed) && s.need[byNeed[i+1]] == s.need[v] {
			continue
		}
		if s.try(&e, byNeed[:i+1]) {
			return true
		}
		if s.tries > maxSets || s.need[v] == 0 {
			break
		}
	}
	return false
}

// neighbours tries, for the nodes of largest load, sets that they are the last or the
// first of: the tallest of what a successor waits for, of which one runs last while
// the results of the others are live, and the tallest of what waits for a predecessor.
// It reports whether that is the end of it.
func (s *setter) neighbours() bool {
	best := s.recent[0]
	s.tries = 0
	for _, i := range steepest(best.loads, s.bound, maxSteps) {
		u := best.order[i]
		for _, v := range s.g.Succs.Of(u) {
			if s.around(s.g.Preds.Of(v), func(w int32) bool { return s.places[0][w] <= int32(i) }) {
				return true
			}
		}
		for _, v := range s.g.Preds.Of(u) {
			if s.around(s.g.Succs.Of(v), func(w int32) bool { return s.places[0][w] >= int32(i) }) {
				return true
			}
		}
		if s.tries > 2*maxSets {
			break
		}
	}
	return false
}

// steepest returns the steps of largest load, of those above a bound.
func steepest(loads []int64, bound int64, most int) (steps []int32) {
	for i, load := range loads {
		if load > bound {
			steps = append(steps, int32(i))
		}
	}
	slices.SortStableFunc(steps, func(a, b int32) int { return cmp.Compare(loads[b], loads[a]) })
	return steps[:min(len(steps), most)]
}

// around tries the tallest of some nodes.
func (s *setter) around(nodes []int32, within func(int32) bool) bool {
	if len(nodes) < 2 || len(nodes) > maxAround {
		return false
	}
	list := slices.Clone(nodes)
	slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(s.need[b], s.need[a]) })
	e := s.ends()
	for i, v := range list {
		if !within(v) {
			break
		}
		if e.add(v); i > 0 && s.try(&e, list[:i+1]) {
			return true
		}
	}
	return false
}

// try asks a set, and reports whether that is the end of it.
func (s *setter) try(e *setEnds, nodes []int32) bool {
	bound := s.bound
	first, last := e.loads()
	if max(first, last) <= bound {
		return false
	}
	set := slices.Sorted(slices.Values(nodes))
	if first > bound {
		if bound := s.firstOf(s.g, set, bound, maxSetWork); !s.Broken {
			s.raise(bound, KindFirst, set...)
		}
	}
	if last > s.bound && !s.done() {
		if bound := s.lastOf(s.g, set, s.bound, maxSetWork); !s.Broken {
			s.raise(bound, KindLast, set...)
		}
	}
	if s.tries++; s.bound > bound {
		s.tries = 0
	}
	return s.done() || s.cutter.Work > s.work
}

// setEnds are the first and the last places of a set that grows, in the recent
// orders.
type setEnds struct {
	*setter
	first, last []int32
}

func (s *setter) ends() setEnds {
	e := setEnds{setter: s, first: make([]int32, len(s.recent)), last: make([]int32, len(s.recent))}
	for k := range e.first {
		e.first[k], e.last[k] = int32(s.g.Nodes), -1
	}
	return e
}

func (e *setEnds) add(v int32) {
	for k, place := range e.places {
		e.first[k] = min(e.first[k], place[v])
		e.last[k] = max(e.last[k], place[v])
	}
}

// loads returns the least loads that the first and the last node of the set have:
// bounds on what the set can prove.
func (e *setEnds) loads() (first, last int64) {
	first, last = indexed.Infinite, indexed.Infinite
	for k, x := range e.recent {
		first = min(first, x.loads[e.first[k]])
		last = min(last, x.loads[e.last[k]])
	}
	return first, last
}
