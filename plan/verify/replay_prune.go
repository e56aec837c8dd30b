package verify

import (
	"cmp"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// tightest are the nodes that tell whether a state is dead. A state is dead if some
// node that has not run can no longer meet the limit: its load is above the limit in
// every state that can follow. Nodes that have run stay on the source side of the
// node's minimum cut (see force), so its least load only rises. We test the node
// with the least initial slack that has not run: it is the first to have none.
type tightest struct {
	nodes []tightNode // the least slack first
	known bool
}

// tightNode is a node of little slack, with the network that gives its least load
// and a maximum flow through it. Each node that runs adds to the flow.
type tightNode struct {
	node  graph.NodeID
	least int64
	cut   minCut
	open  []graph.NodeID // that may stand on either side
	first []int32
	edges []cutEdge
}

// deadAfter is how many states a replay explores before it tests each for being
// dead: most replays are over by then. A test takes as long as some hundred steps.
const deadAfter = 2000

// maxTight is how many nodes are kept for the test.
const maxTight = 32

// isDead reports whether the state is known to be dead.
func (r *replay) isDead() bool {
	if r.states < r.deadAfter {
		return false
	}
	if !r.tightest.known {
		r.tighten()
	}
	for i := range r.tightest.nodes {
		if t := &r.tightest.nodes[i]; !r.ran[t.node] {
			return t.least+t.after(r) > r.limit
		}
	}
	return false
}

// after gives by how much the nodes that have run raise the least load. It stops
// once the limit is passed.
func (t *tightNode) after(r *replay) int64 {
	c := &t.cut
	work := c.work
	copy(c.first, t.first)
	c.edges = append(c.edges[:0], t.edges...)
	for k, x := range t.open {
		if r.ran[x] {
			c.edge(cutSource, int32(2+k), unlimitedBytes)
		}
	}
	more := c.flow(r.limit - t.least)
	r.looks += len(t.open) + c.work - work
	return more
}

// tighten finds the nodes of least slack.
func (r *replay) tighten() {
	all := r.held()
	least := make([]int64, len(r.ran))
	for v := range least {
		r.around(graph.NodeID(v))
		least[v], _ = r.leastLoad(graph.NodeID(v), all)
	}
	nodes := r.b.s.identity()
	slices.SortStableFunc(nodes, func(a, b graph.NodeID) int { return cmp.Compare(least[b], least[a]) })
	for _, v := range nodes[:min(maxTight, len(nodes))] {
		r.around(v)
		_, open := r.leastLoad(v, all)
		t := tightNode{node: v, least: least[v], cut: r.cut, open: open, first: slices.Clone(r.cut.first), edges: slices.Clone(r.cut.edges)}
		r.cut = minCut{}
		r.tightest.nodes = append(r.tightest.nodes, t)
	}
	r.tightest.known = true
}

// maxAsked is how many nodes negligible computes the least load of.
const maxAsked = 64

// negligible gives the size below which storages may be ignored when a limit is to
// be refuted; 0: none may. Together they take less than half of the room between the
// limit and the greatest least load of a node. In some networks hundreds of scalars
// that compute shapes would account for most of the states.
func (r *replay) negligible(limit int64) int64 {
	s := r.b.s
	if r.b.idle > 0 {
		return 0
	}
	order := s.identity()
	loads, _ := s.simulate(order)
	slices.SortStableFunc(order, func(a, b graph.NodeID) int { return cmp.Compare(loads[b], loads[a]) })
	all, bound := r.held(), int64(0)
	var sizes []int64
	for _, i := range all {
		sizes = append(sizes, s.storages[i].bytes)
	}
	for _, v := range order[:min(maxAsked, len(order))] {
		r.around(v)
		least, _ := r.leastLoad(v, all)
		bound = max(bound, least)
	}
	slices.Sort(sizes)
	room := (limit - bound) / 2
	for _, size := range sizes {
		if room -= size; room < 0 {
			if size > sizes[0] {
				return size
			}
			break
		}
	}
	return 0
}

// What forcing may take, beside the replay itself.
const (
	maxForceRounds = 8
	maxForceWork   = 1 << 28 // edges looked at
)

// force adds the precedence that every order within the limit keeps, and reports
// whether there can be such an order.
//
// Let a node v run, and the least load that it can have be some bytes below the
// limit: its slack. If the least load over the states that hold a node x is more
// than the slack above that, v runs before x in every order within the limit; if
// that over the states that lack x is, after it. Both are minimum cuts, the one
// of v with x bound to a side. Only an x outside the largest state of least live
// bytes, or inside the smallest, costs anything. What is found holds for all
// further questions, and is repeated until nothing is added.
func (r *replay) force() bool {
	s := r.b.s
	order := s.identity()
	loads, _ := s.simulate(order)
	slices.SortStableFunc(order, func(a, b graph.NodeID) int { return cmp.Compare(loads[b], loads[a]) })
	all := r.held()
	for range maxForceRounds {
		more := false
		for _, v := range order {
			if r.cut.work > maxForceWork {
				return true
			}
			before, after, ok := r.forcedBy(v, all)
			if !ok {
				return false
			}
			// What follows from another by what is known needs no edge.
			for _, x := range ends(before, r.after) {
				r.precede(x, v)
			}
			for _, x := range ends(after, r.before) {
				r.precede(v, x)
			}
			more = more || len(before)+len(after) > 0
		}
		if !more {
			return true
		}
		if !r.acyclic() {
			return false
		}
	}
	return true
}

// held lists the storages that count and may be live or not.
func (r *replay) held() (all []int32) {
	for i := range r.b.s.storages {
		st := &r.b.s.storages[i]
		if r.b.s.counts(int32(i)) && !r.small(int32(i)) && (st.maker >= 0 || !st.output) {
			all = append(all, int32(i))
		}
	}
	return all
}

// forcedBy gives what runs before node v, and after it, in every order within the
// limit, beside what is known. ok is false if v cannot run within the limit.
func (r *replay) forcedBy(v graph.NodeID, all []int32) (before, after []graph.NodeID, ok bool) {
	if !r.around(v) { // a cycle of forced precedence
		return nil, nil, false
	}
	c := &r.cut
	least, open := r.leastLoad(v, all)
	slack := r.limit - least
	if slack < 0 {
		return nil, nil, false
	}
	c.layers()
	smallest := slices.Clone(c.level)
	c.backwards()
	largest := slices.Clone(c.level)
	first, edges := slices.Clone(c.first), slices.Clone(c.edges)
	for k, x := range open {
		at := int32(2 + k)
		switch {
		case largest[at] != none: // not in the largest
			c.edge(cutSource, at, unlimitedBytes)
			if c.flow(slack) > slack {
				after = append(after, x)
			}
		case smallest[at] != none: // in the smallest
			c.edge(at, cutSink, unlimitedBytes)
			if c.flow(slack) > slack {
				before = append(before, x)
			}
		default:
			continue
		}
		copy(c.first, first)
		c.edges = append(c.edges[:0], edges...)
	}
	return before, after, true
}

// around puts all nodes on the sides where they stand when v runs, and reports
// whether it can run at all.
func (r *replay) around(v graph.NodeID) bool {
	b := r.b
	clear(b.side)
	b.mark([]graph.NodeID{v}, r.before, done)
	b.mark([]graph.NodeID{v}, r.after, due)
	possible := b.side[v] == free
	b.side[v] = due
	return possible
}

// leastLoad is a lower bound on the load of v over all states that the sides allow,
// with all of its pairs given. It leaves the cut in place, of the nodes that may
// stand on either side.
func (r *replay) leastLoad(v graph.NodeID, all []int32) (bytes int64, open []graph.NodeID) {
	b := r.b
	for x, side := range b.side {
		if side == free {
			open = append(open, graph.NodeID(x))
		}
	}
	r.cut.build(r, open, all)
	bytes = b.base + r.trans[v] + r.cut.fixed + r.cut.flow(unlimitedBytes)
	if pairs := r.pairs[v]; len(pairs) > 0 {
		bytes -= b.s.saved(pairs)
	}
	return bytes, open
}

// ends gives the nodes of an ascending list that lead to no other of it.
func ends(list []graph.NodeID, next [][]graph.NodeID) []graph.NodeID {
	var kept []graph.NodeID
	for _, x := range list {
		if !slices.ContainsFunc(next[x], func(y graph.NodeID) bool {
			_, in := slices.BinarySearch(list, y)
			return in
		}) {
			kept = append(kept, x)
		}
	}
	return kept
}

// precede adds precedence.
func (r *replay) precede(u, v graph.NodeID) {
	r.before[v] = append(slices.Clip(r.before[v]), u)
	r.after[u] = append(slices.Clip(r.after[u]), v)
}

// acyclic reports whether the precedence leaves an order.
func (r *replay) acyclic() bool {
	waits := make([]int, len(r.before))
	var ready []graph.NodeID
	for v := range waits {
		if waits[v] = len(r.before[v]); waits[v] == 0 {
			ready = append(ready, graph.NodeID(v))
		}
	}
	for k := 0; k < len(ready); k++ {
		for _, w := range r.after[ready[k]] {
			if waits[w]--; waits[w] == 0 {
				ready = append(ready, w)
			}
		}
	}
	return len(ready) == len(waits)
}
