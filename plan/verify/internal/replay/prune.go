package replay

import (
	"cmp"
	"slices"
)

// tightest lists the nodes that decide whether a state is dead. A state is dead
// if some node that has not run can no longer meet the limit: its load is above
// the limit in every later state. Nodes that have run stay on the source side of
// the node's minimum cut (see force), so its least load only rises. We test the
// node with the least initial slack that has not run: it is usually the first to
// exceed the limit.
type tightest struct {
	nodes []tightNode // in ascending order of slack
	known bool
}

// tightNode is a node of little slack, with the network that determines its least
// load and a maximum flow in it. Each node that runs adds to the flow.
type tightNode struct {
	node  int32
	least int64
	cut   minCut
	open  []int32 // nodes that may be on either side
	first []int32
	edges []cutEdge
}

// deadAfter is the number of states that a replay explores before it tests each
// for being dead: most replays end sooner. A test takes as long as some hundred
// steps.
const deadAfter = 2000

// maxTight is the number of nodes that are kept for the test.
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

// after returns by how much the nodes that have run raise the least load. It
// stops once the limit is exceeded.
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
	r.visits += len(t.open) + c.work - work
	return more
}

// tighten finds the nodes of least slack.
func (r *replay) tighten() {
	all := r.held()
	least := make([]int64, len(r.ran))
	for v := range least {
		r.around(int32(v))
		least[v], _ = r.leastLoad(int32(v), all)
	}
	nodes := r.p.Identity()
	slices.SortStableFunc(nodes, func(a, b int32) int { return cmp.Compare(least[b], least[a]) })
	for _, v := range nodes[:min(maxTight, len(nodes))] {
		r.around(v)
		_, open := r.leastLoad(v, all)
		t := tightNode{node: v, least: least[v], cut: r.cut, open: open, first: slices.Clone(r.cut.first), edges: slices.Clone(r.cut.edges)}
		r.cut = minCut{}
		r.tightest.nodes = append(r.tightest.nodes, t)
	}
	r.tightest.known = true
}

// maxAsked is the number of nodes whose least load negligible computes.
const maxAsked = 64

// negligible returns the size below which storages may be ignored when a limit is
// to be refuted; 0: none may be. Their sum is less than half the distance from
// the greatest least load of a node to the limit. In some networks hundreds of
// scalars for shape arithmetic would account for most of the states.
func (r *replay) negligible(limit int64) int64 {
	p := r.p
	if r.b.Idle > 0 {
		return 0
	}
	order := p.Identity()
	loads, _ := p.Simulate(order)
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(loads[b], loads[a]) })
	all, bound := r.held(), int64(0)
	var sizes []int64
	for _, i := range all {
		sizes = append(sizes, p.Storages[i].Bytes)
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

// Limits on the work of force, separate from that of the replay.
const (
	maxForceRounds = 8
	maxForceWork   = 1 << 28 // edges visited
)

// force adds the precedence that every order within the limit obeys, and reports
// whether there can be such an order.
//
// The slack of a node v is the limit minus v's least load. Let x be another node.
// If v's load is above the limit in every state that contains x, then v runs
// before x in every order within the limit; if it is in every state that lacks x,
// then v runs after x. Both are minimum cuts: the cut of v with x bound to a
// side. Only an x outside the largest state of least live bytes, or inside the
// smallest, can raise the cut. The precedence found is used for all further cuts,
// and the search is repeated until it adds none.
func (r *replay) force() bool {
	p := r.p
	order := p.Identity()
	loads, _ := p.Simulate(order)
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(loads[b], loads[a]) })
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
			// Precedence that follows from known precedence needs no edge.
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

// held lists the storages that count and are not live in every state.
func (r *replay) held() (all []int32) {
	for i := range r.p.Storages {
		st := &r.p.Storages[i]
		if r.p.Counts(int32(i)) && !r.small(int32(i)) && (st.Maker >= 0 || !st.Output) {
			all = append(all, int32(i))
		}
	}
	return all
}

// forcedBy returns the nodes that run before v, and after it, in every order
// within the limit, beyond the known precedence. ok is false if v cannot run
// within the limit.
func (r *replay) forcedBy(v int32, all []int32) (before, after []int32, ok bool) {
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
		case largest[at] != none: // not in the largest state
			c.edge(cutSource, at, unlimitedBytes)
			if c.flow(slack) > slack {
				after = append(after, x)
			}
		case smallest[at] != none: // in the smallest state
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

// around puts all nodes on their sides for the moment when v runs, and reports
// whether v can run at all.
func (r *replay) around(v int32) bool {
	clear(r.side)
	r.mark(v, r.before, done)
	r.mark(v, r.after, due)
	possible := r.side[v] == free
	r.side[v] = due
	return possible
}

// mark puts all nodes to which a node leads on a side, but not the node itself.
func (r *replay) mark(from int32, next [][]int32, as side) {
	stack := append(r.stack[:0], from)
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, x := range next[n] {
			if r.side[x] != as {
				r.side[x] = as
				stack = append(stack, x)
			}
		}
	}
	r.stack = stack
}

// leastLoad is a lower bound on the load of v over all states that the sides
// allow, as if every state permitted all in-place pairs of v. It leaves the
// network in cut, and returns the free nodes.
func (r *replay) leastLoad(v int32, all []int32) (bytes int64, open []int32) {
	for x, side := range r.side {
		if side == free {
			open = append(open, int32(x))
		}
	}
	r.cut.build(r, open, all)
	bytes = r.b.Base + r.trans[v] + r.cut.fixed + r.cut.flow(unlimitedBytes)
	if pairs := r.pairs[v]; len(pairs) > 0 {
		bytes -= r.p.Saved(pairs)
	}
	return bytes, open
}

// ends returns the nodes of an ascending list that lead to no other node of the
// list.
func ends(list []int32, next [][]int32) []int32 {
	var kept []int32
	for _, x := range list {
		if !slices.ContainsFunc(next[x], func(y int32) bool {
			_, in := slices.BinarySearch(list, y)
			return in
		}) {
			kept = append(kept, x)
		}
	}
	return kept
}

// precede adds precedence.
func (r *replay) precede(u, v int32) {
	r.before[v] = append(slices.Clip(r.before[v]), u)
	r.after[u] = append(slices.Clip(r.after[u]), v)
}

// acyclic reports whether the precedence leaves an order.
func (r *replay) acyclic() bool {
	waits := make([]int, len(r.before))
	var ready []int32
	for v := range waits {
		if waits[v] = len(r.before[v]); waits[v] == 0 {
			ready = append(ready, int32(v))
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
