package bounds

import (
	"cmp"
	"iter"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

const (
	maxConflicted   = 8          // nodes v
	maxOpponents    = 24         // nodes W of each
	maxConflictWork = 10_000_000 // if the budget allows
)

// Conflicts looks for sets of a node v at a step of large load and opponents W. These are
// nodes that v is not ordered with, and that stand on the other side of v in the best order
// than in v's cut. It yields a certificate each time that the bound rises.
//
//	cut of v      ... w ...  v              the cut runs w before v,
//	best order    ...  v  ...  w  ...       the order has no room for w there
//
// The gradient of a large weight is such a w: it waits for room and keeps its inputs
// live until then, while the bound of v alone takes w to have run. Sets by height
// miss v, which need not be tall.
//
// Lemma. Let load(x | not Y) be the least load of x from a state that contains no
// node of Y. The set {v} ∪ W proves, as the first of a set, at least
//
//	min( load(v | not W), min over w in W of load(w | not {v}) ).
//
// Proof. If v runs first of the set, its state contains no node of W; if w does, its
// state does not contain v. The mirror image has "all of Y" in place of "no node of
// Y", and the last of a set.
//
// So single cuts tell which nodes are of use. Node w is dropped if it can run before v at a
// load within the bound. There is nothing to ask if v can run before all of W at such a load.
func (c *Cutter) Conflicts(g *indexed.Problem, best Loaded, bound int64) iter.Seq[Certificate] {
	return func(yield func(Certificate) bool) {
		s := conflictSearch{cut: c, g: g, bound: bound, yield: yield, work: c.meter.Flow + c.meter.Part(maxConflictWork), place: make([]int32, g.Nodes)}
		for i, v := range best.Order {
			s.place[v] = int32(i)
		}
		for _, i := range steepest(best.Loads, bound, maxConflicted) {
			for _, before := range [2]bool{false, true} {
				if s.try(best.Order[i], before) {
					return
				}
			}
		}
	}
}

type conflictSearch struct {
	cut   *Cutter
	g     *indexed.Problem
	place []int32 // node -> its place in the best order
	bound int64
	yield func(Certificate) bool
	work  int64 // that ends the search
}

// opponent is a node w and its least load on the other side of v.
type opponent struct {
	node int32
	load int64
}

// try asks about one node v with its opponents after it, or before it. From W it
// drops the nodes of least load as long as one of them, not v, holds the bound down.
// It reports whether the search is over.
func (s *conflictSearch) try(v int32, before bool) (over bool) {
	var list []opponent
	for _, w := range s.opponents(v, before) {
		if load := s.cut.Against(s.g, w, []int32{v}, before); load > s.bound {
			list = append(list, opponent{w, load})
		}
		if s.spent() {
			return true
		}
	}
	slices.SortStableFunc(list, func(a, b opponent) int { return cmp.Compare(b.load, a.load) })
	for len(list) > 0 {
		set := make([]int32, len(list), len(list)+1)
		for i, w := range list {
			set[i] = w.node
		}
		load := s.cut.Against(s.g, v, set, before)
		if load <= s.bound || s.cut.Broken() {
			break // fewer prove no more
		}
		set = append(set, v)
		slices.Sort(set)
		ask := s.cut.First
		if before {
			ask = s.cut.Last
		}
		x := ask(s.g, set, s.bound, SetWork)
		if s.cut.Broken() {
			break
		}
		if x.Value > s.bound {
			s.bound = x.Value
			if !s.yield(x) {
				return true
			}
		}
		if load <= x.Value || s.spent() {
			break
		}
		least := list[len(list)-1].load
		list = slices.DeleteFunc(list, func(w opponent) bool { return w.load == least })
	}
	return s.spent()
}

func (s *conflictSearch) spent() bool {
	return s.cut.Broken() || s.cut.meter.Flow > s.work || s.cut.meter.Stop() != meter.Continue
}

// opponents returns the tallest of the nodes that v's cut runs before v though the
// best order runs them after it; or with before those that the cut does not run
// before v though the order does.
func (s *conflictSearch) opponents(v int32, before bool) (nodes []int32) {
	s.cut.NodeState(s.g, v)
	in := make([]bool, s.g.Nodes)
	s.cut.Minimiser(before, in)
	need := func(w int32) int64 { return s.g.Transient[w] - s.g.MostSaved(w) }
	for i, m := range s.cut.Marks {
		w := int32(i)
		if m == Free && in[w] != before && (s.place[w] < s.place[v]) == before {
			nodes = append(nodes, w)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(need(b), need(a)) })
	return nodes[:min(len(nodes), maxOpponents)]
}
