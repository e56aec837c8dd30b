package bounds

import (
	"cmp"
	"iter"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// SetWork is the flow work that one set may take.
const SetWork = 10_000_000

const (
	maxSets   = 12 // of the tallest nodes that may fail in a row
	maxSteps  = 48 // whose neighbours are looked at
	maxAround = 32 // nodes, next to one
	maxBeyond = 4  // nodes, the others of which are looked at

	// The flow work of all sets, if the budget allows: some hundredths of a second.
	maxSetsWork = 15_000_000
)

// Loaded is an order that was seen, with the load at each of its steps.
type Loaded struct {
	Order []int32
	Loads []int64
}

// Sets looks for sets of nodes whose first or last node proves a larger bound (see
// [Cutter.First] and [Cutter.Last]), and yields a certificate each time that the
// bound rises. Recent are orders seen, the best first. Only sets whose first (or
// last) node exceeds the bound in every recent order can help.
//
// The sets are all nodes whose need reaches a threshold, the neighbours of the nodes
// of largest load, and the nodes beyond these whose need reaches a threshold.
func (c *Cutter) Sets(g *indexed.Problem, recent []Loaded, bound int64) iter.Seq[Certificate] {
	return func(yield func(Certificate) bool) {
		s := setSearch{cut: c, g: g, recent: recent, bound: bound, yield: yield, work: c.meter.Flow + c.meter.Part(maxSetsWork)}
		for _, x := range recent {
			place := make([]int32, g.Nodes)
			for i, v := range x.Order {
				place[v] = int32(i)
			}
			s.places = append(s.places, place)
		}
		s.need = make([]int64, g.Nodes)
		for v := range s.need {
			s.need[v] = g.LeastLoad(int32(v))
		}
		if s.tallest(s.byNeed()) || s.neighbours() {
			return
		}
		for v := range s.need {
			s.need[v] = g.Transient[v] - g.MostSaved(int32(v))
		}
		list := s.byNeed()
		_ = s.tallest(list) || s.beyond(list)
	}
}

// setSearch is one search for sets. Its methods report whether the search is over.
type setSearch struct {
	cut    *Cutter
	g      *indexed.Problem
	recent []Loaded
	places [][]int32 // recent order -> node -> its place
	need   []int64   // node -> bytes
	bound  int64
	yield  func(Certificate) bool
	work   int64 // that ends the search
	tries  int   // that failed in a row
}

// left returns the work that the next set may take.
func (s *setSearch) left() int64 { return min(SetWork, max(0, s.work-s.cut.meter.Flow)) }

// byNeed returns all nodes, the largest need first.
func (s *setSearch) byNeed() []int32 {
	nodes := indexed.Ascending(s.g.Nodes)
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(s.need[b], s.need[a]) })
	return nodes
}

// beyond tries the tallest of the nodes that are no ancestors of a node u of large load,
// and of those that are no descendants of it.
//
//	f1 f2 f3 ... u ... w1 w2      f: as tall as u, but before it in every order
//
// In a training step u and the w are gradients of weights, each of which waits for room
// that the backward pass makes. Some f of the forward pass are as tall. With them in the
// set, the first of it is an f, at a load that says nothing of u.
func (s *setSearch) beyond(byNeed []int32) bool {
	best := s.recent[0]
	for _, i := range steepest(best.Loads, s.bound, maxBeyond) {
		u := best.Order[i]
		for _, neighbours := range [2]*indexed.Lists{&s.g.Preds, &s.g.Succs} {
			s.cut.Begin(s.g)
			s.cut.spread(u, Inside, neighbours)
			list := make([]int32, 0, len(byNeed))
			for _, v := range byNeed {
				if v == u || s.cut.Marks[v] == Free {
					list = append(list, v)
				}
			}
			if s.tallest(list) {
				return true
			}
		}
	}
	return false
}

// tallest tries the nodes of the largest needs, one threshold after another.
//
// A need is first the least load of a node: of a weight's gradient and the nodes
// that use it up, as in Adam, only the last is as tall as all of them together. The
// second time it is what a node adds alone.
func (s *setSearch) tallest(byNeed []int32) bool {
	e := s.ends()
	s.tries = 0
	for i, v := range byNeed {
		e.add(s.places, v)
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

// neighbours tries sets around the nodes of largest load: the tallest predecessors
// of a successor, of which one runs last while the results of the others are live,
// and the tallest successors of a predecessor.
func (s *setSearch) neighbours() bool {
	best := s.recent[0]
	s.tries = 0
	for _, i := range steepest(best.Loads, s.bound, maxSteps) {
		u := best.Order[i]
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

// steepest returns the steps of largest load among those above a bound.
func steepest(loads []int64, bound int64, most int) (steps []int32) {
	for i, load := range loads {
		if load > bound {
			steps = append(steps, int32(i))
		}
	}
	slices.SortStableFunc(steps, func(a, b int32) int { return cmp.Compare(loads[b], loads[a]) })
	return steps[:min(len(steps), most)]
}

// around tries the tallest of some nodes, as long as they are within.
func (s *setSearch) around(nodes []int32, within func(int32) bool) bool {
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
		if e.add(s.places, v); i > 0 && s.try(&e, list[:i+1]) {
			return true
		}
	}
	return false
}

// try asks what a set proves, unless the recent orders show that it is too little.
func (s *setSearch) try(e *setEnds, nodes []int32) bool {
	bound := s.bound
	first, last := e.loads(s.recent)
	if max(first, last) <= bound {
		return false
	}
	over := false
	set := slices.Sorted(slices.Values(nodes))
	if first > bound {
		over = s.take(s.cut.First(s.g, set, bound, s.left()))
	}
	if last > s.bound && !over && s.cut.meter.Stop() == meter.Continue {
		over = s.take(s.cut.Last(s.g, set, s.bound, s.left()))
	}
	if s.tries++; s.bound > bound {
		s.tries = 0
	}
	return over || s.cut.meter.Stop() != meter.Continue || s.cut.meter.Flow > s.work
}

// take yields a certificate that raises the bound.
func (s *setSearch) take(x Certificate) (over bool) {
	if s.cut.Broken() || x.Value <= s.bound {
		return false
	}
	s.bound = x.Value
	return !s.yield(x)
}

// setEnds are the first and the last places of a growing set in the recent orders.
type setEnds struct{ first, last []int32 }

func (s *setSearch) ends() setEnds {
	e := setEnds{first: make([]int32, len(s.recent)), last: make([]int32, len(s.recent))}
	for k := range e.first {
		e.first[k], e.last[k] = int32(s.g.Nodes), -1
	}
	return e
}

func (e *setEnds) add(places [][]int32, v int32) {
	for k, place := range places {
		e.first[k] = min(e.first[k], place[v])
		e.last[k] = max(e.last[k], place[v])
	}
}

// loads returns the least loads of the set's first and last node over the recent
// orders: no cut can prove more.
func (e *setEnds) loads(recent []Loaded) (first, last int64) {
	first, last = infinite, infinite
	for k, x := range recent {
		first = min(first, x.Loads[e.first[k]])
		last = min(last, x.Loads[e.last[k]])
	}
	return first, last
}
