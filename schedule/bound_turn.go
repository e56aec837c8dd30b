package schedule

import (
	"cmp"
	"slices"
)

// turns raises the bound at the steps of largest load by what cannot have run yet:
// the gradient of a large weight waits for room, and keeps its inputs until then,
// while the bound of a node takes it to have run. Let W be nodes that are comparable
// with v neither way. The peak of no order is smaller than the least of
//
//	the load of v from a state that holds no node of W
//	the load of w from a state that does not hold v, for each w of W
//
// nor than the mirror image, with states that hold all of W, or v. Each is a cut: see
// [CutBound].
//
// Proof. Either v runs before all of W: the state from which it does holds no node of
// W, and nothing that follows one. Or some w of W runs before v: the state from which
// that does holds neither v nor what follows it. In the mirror image, either v runs
// after all of W, or before some w, and the states hold what runs before, and what
// that needs.
//
// W are the tallest of the nodes that stand on the other side of v in the best order
// than in its cut.
func (p *gap) turns() {
	if p.off.has(turning) || p.done() {
		return
	}
	defer p.clock.end(p.clock.begin())
	t := turner{gap: p, work: p.cutter.Work + maxTurnWork, place: make([]int32, p.g.nodes)}
	best := p.recent[0]
	for i, v := range best.order {
		t.place[v] = int32(i)
	}
	for _, i := range steepest(best.loads, p.bound, maxTurned) {
		for _, before := range [2]bool{false, true} {
			if t.turn(best.order[i], before) {
				return
			}
		}
	}
}

const (
	maxTurned   = 8  // nodes v
	maxWaiting  = 24 // of W
	maxTurnWork = 10_000_000
)

type turner struct {
	*gap
	place []int32 // node -> its place in the best order
	work  int64   // that ends it
}

// waiting is a node w and its load where it runs on the other side of v.
type waiting struct {
	node int32
	load int64
}

// turn asks one node v, with W after it or before it, and reports whether that is the
// end of it.
func (t *turner) turn(v int32, before bool) bool {
	var list []waiting
	for _, w := range t.contrary(v, before) {
		if load := t.against(t.g, w, []int32{v}, before); load > t.bound {
			list = append(list, waiting{w, load})
		}
		if t.Broken || t.cutter.Work > t.work || t.stop() {
			return true
		}
	}
	slices.SortStableFunc(list, func(a, b waiting) int { return cmp.Compare(b.load, a.load) })
	for len(list) > 0 {
		set := make([]int32, len(list))
		for i, w := range list {
			set[i] = w.node
		}
		load, least := t.against(t.g, v, set, before), list[len(list)-1].load
		if load <= t.bound || t.Broken {
			break // fewer prove no more
		}
		if t.raise(min(load, least), KindSearch); t.done() || load <= least || t.cutter.Work > t.work {
			break
		}
		list = slices.DeleteFunc(list, func(w waiting) bool { return w.load == least })
	}
	return t.done() || t.Broken || t.cutter.Work > t.work
}

// contrary returns the tallest of the nodes which the cut of v has run though they
// come after it in the best order, or with before those which it has not run though
// they come before it.
func (t *turner) contrary(v int32, before bool) (nodes []int32) {
	t.nodeSplit(t.g, v)
	in := make([]bool, t.g.nodes)
	t.minimiser(before, in)
	need := func(w int32) int64 { return t.g.trans[w] - t.g.mostSaved(w) }
	for i, m := range t.mark {
		w := int32(i)
		if m == free && in[w] != before && (t.place[w] < t.place[v]) == before {
			nodes = append(nodes, w)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(need(b), need(a)) })
	return nodes[:min(len(nodes), maxWaiting)]
}

// against returns the least load of v from a state that holds none of the others, or
// that holds them all.
func (c *cutter) against(g *net, v int32, others []int32, hold bool) int64 {
	c.begin(g)
	c.around(v)
	for _, w := range others {
		if hold {
			c.spread(w, inside, &g.preds)
		} else {
			c.spread(w, outside, &g.succs)
		}
	}
	load, _ := c.choose(v, infinite)
	return load
}
