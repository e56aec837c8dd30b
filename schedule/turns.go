package schedule

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// turns raises the bound at the steps of largest load by what cannot have run yet:
// the gradient of a large weight waits for room, and keeps its inputs until then,
// while the bound of a node takes it to have run. It asks sets of such a node v and
// some W that are comparable with it neither way: see [FirstBound] and, for the
// mirror image, [LastBound]. Sets by height alone miss them, for v need not be tall.
//
// Which of the nodes W are of use follows from single cuts. If v runs first of the
// set, its state holds no node of W; if w does, its state does not hold v. So no w
// belongs in W that can run before v at a load within the bound, and there is nothing
// to ask where v can run before all of W at such a load. In the mirror image the
// states hold W, and v.
//
// W are the tallest of the nodes that stand on the other side of v in the best order
// than in its cut.
func (p *gap) turns() {
	if p.off.has(turning) || p.done() {
		return
	}
	defer p.clock.end(p.clock.begin())
	t := turner{gap: p, work: p.cutter.Work + maxTurnWork, place: make([]int32, p.g.Nodes)}
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

// waiting is a node w and its least load where it runs on the other side of v.
type waiting struct {
	node int32
	load int64
}

// turn asks one node v, with W after it or before it, and reports whether that is the
// end of it. From W it drops the nodes of least load for as long as one of them, not v,
// holds the bound down.
func (t *turner) turn(v int32, before bool) bool {
	var list []waiting
	for _, w := range t.contrary(v, before) {
		if load := t.against(t.g, w, []int32{v}, before); load > t.bound {
			list = append(list, waiting{w, load})
		}
		if t.spentTurning() {
			return true
		}
	}
	slices.SortStableFunc(list, func(a, b waiting) int { return cmp.Compare(b.load, a.load) })
	for len(list) > 0 {
		set := make([]int32, len(list), len(list)+1)
		for i, w := range list {
			set[i] = w.node
		}
		load := t.against(t.g, v, set, before)
		if load <= t.bound || t.Broken {
			break // fewer prove no more
		}
		set = append(set, v)
		slices.Sort(set)
		kind, ask := KindFirst, t.firstOf
		if before {
			kind, ask = KindLast, t.lastOf
		}
		bound := ask(t.g, set, t.bound, maxSetWork)
		if t.Broken {
			break
		}
		if t.raise(bound, kind, set...); load <= bound || t.done() || t.spentTurning() {
			break
		}
		least := list[len(list)-1].load
		list = slices.DeleteFunc(list, func(w waiting) bool { return w.load == least })
	}
	return t.done() || t.spentTurning()
}

func (t *turner) spentTurning() bool { return t.Broken || t.cutter.Work > t.work || t.stop() }

// contrary returns the tallest of the nodes which the cut of v has run though they
// come after it in the best order, or with before those which it has not run though
// they come before it.
func (t *turner) contrary(v int32, before bool) (nodes []int32) {
	t.nodeSplit(t.g, v)
	in := make([]bool, t.g.Nodes)
	t.minimiser(before, in)
	need := func(w int32) int64 { return t.g.Transient[w] - t.g.MostSaved(w) }
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
func (c *cutter) against(g *indexed.Problem, v int32, others []int32, hold bool) int64 {
	c.begin(g)
	c.around(v)
	for _, w := range others {
		if hold {
			c.spread(w, inside, &g.Preds)
		} else {
			c.spread(w, outside, &g.Succs)
		}
	}
	load, _ := c.choose(v, indexed.Infinite)
	return load
}
