package budget

import (
	"cmp"
	"math/bits"
	"slices"
)

// A minimum cut knows what the first run of a node forces to be held, but not whether a plan
// can get there. ways decides that by exhaustion, backwards: a state is a set of tensors that must
// be held at some moment, and the question is which node made one of them last. Just before
// that node ran, its inputs were needed in place of its results, and while it ran, both were held.
// If no sequence of such steps within the limit leads to a state without a tensor that a node
// must make, no plan exists. States hold only what is needed, so they are few where few tensors
// fit. For a step of a small 3-D ResNet, cuts prove that 32 % of the best order's peak are
// needed, ways that 42 % are, with 32 tensors tracked, in less than a hundred states.
//
// Only the largest tensors are tracked. A smaller one counts while a node that reads or makes
// it runs, and is taken to be there whenever one does, so a proof holds for all plans.
type ways struct {
	*cutter
	limit   int64
	tensors []int32 // tracked tensor -> its place in the problem, the largest first
	nodes   []wayNode
	goal    tensorSet // the outputs
	edges   int
	firsts  []tensorSet // by node, see first
	known   []bool      // the firsts that are known
	met     map[wayState]bool
	states  int // that may still be met
	work    int // that may still be done for firsts, in nodes and edges
}

// wayState is what must be held, and the nodes marked Once that run later.
type wayState struct {
	held tensorSet
	once uint64
}

// wayNode is a node with what it reads and makes. need counts the bytes of both and of the
// workspace, less what in-place pairs save; beside is the part of it that is not tracked.
type wayNode struct {
	reads, makes tensorSet
	once         uint64
	beside, need int64
}

// wayMost bounds the states that are met for one moment, wayAll those for all moments and limits
// together, wayWork the nodes and edges that are visited to find what is held at all moments, and
// wayNodes the nodes marked Once that are told apart.
const (
	wayMost  = 2_000
	wayAll   = 100_000
	wayWork  = 20_000_000
	wayNodes = 64
)

// wayTracked are the numbers of tensors that are tracked, in turn. Few prove much where activations
// are large; more take more states.
var wayTracked = []int{16, 32, 64, 128}

// tensorSet is a set of tracked tensors.
type tensorSet [2]uint64

func (s *tensorSet) add(k int) { s[k>>6] |= 1 << (k & 63) }

func (s tensorSet) with(t tensorSet) tensorSet { return tensorSet{s[0] | t[0], s[1] | t[1]} }

func (s tensorSet) without(t tensorSet) tensorSet { return tensorSet{s[0] &^ t[0], s[1] &^ t[1]} }

// each calls f for each tensor, ascending.
func (s tensorSet) each(f func(k int)) {
	for w, x := range s {
		for ; x != 0; x &= x - 1 {
			f(w<<6 + bits.TrailingZeros64(x))
		}
	}
}

// proveWays bisects, once, between the bound and the lowest plan for the largest limit within which
// no plan gets to some node: for few tracked tensors, then for more.
func (s *Solver) proveWays(w *work) {
	if s.wayProven || s.opt.NoBound || len(s.p.Nodes) == 0 || w.leavesOut("ways") {
		return
	}
	left, work := int(wayAll/s.sharedBy), int(wayWork/s.sharedBy)
	for _, number := range wayTracked {
		x := newWays(s.bound.cutter, number)
		low, high := max(s.bound.least(), s.way.Bytes), s.archive.lowest()+1
		for high-low > max(1, s.best/reachParts) && left > 0 && work > 0 && !w.halted() {
			mid := low + (high-low)/2
			x.limit, x.states, x.work = mid-1, left, work
			o := x.obstacle()
			w.count((left-x.states)*len(x.tensors) + work - x.work)
			work = x.work
			if left = x.states; o == nil {
				high = mid
				continue
			}
			o.Bytes, low = mid, mid
			s.way = *o
		}
		if len(x.tensors) < number {
			break // all are tracked
		}
	}
	s.wayProven = !w.halted()
}

// newWays tracks the largest tensors.
func newWays(c *cutter, number int) *ways {
	n := len(c.need)
	x := &ways{cutter: c, nodes: make([]wayNode, n), firsts: make([]tensorSet, n), known: make([]bool, n)}
	for i := range c.p.Tensors {
		if t := &c.p.Tensors[i]; !t.Resident && t.Bytes > 0 {
			x.tensors = append(x.tensors, int32(i))
		}
	}
	slices.SortStableFunc(x.tensors, func(a, b int32) int { return cmp.Compare(c.p.Tensors[b].Bytes, c.p.Tensors[a].Bytes) })
	x.tensors = x.tensors[:min(len(x.tensors), number)]
	place := make(map[int32]int, len(x.tensors))
	for k, t := range x.tensors {
		place[t] = k
		if c.p.Tensors[t].Output {
			x.goal.add(k)
		}
		if m := c.p.Tensors[t].Producer; m >= 0 {
			x.nodes[m].makes.add(k)
		}
	}
	once := 0
	for v := range x.nodes {
		n := &x.nodes[v]
		n.need = c.need[v]
		x.edges += len(c.preds[v])
		for _, t := range c.reads[v] {
			n.need += c.p.Tensors[t].Bytes
			if k, ok := place[t]; ok {
				n.reads.add(k)
			}
		}
		n.beside = n.need - x.bytes(n.reads) - x.bytes(n.makes)
		if c.p.Nodes[v].Once && n.makes != (tensorSet{}) && once < wayNodes {
			n.once = 1 << once
			once++
		}
	}
	return x
}

func (x *ways) bytes(set tensorSet) (size int64) {
	set.each(func(k int) { size += x.p.Tensors[x.tensors[k]].Bytes })
	return size
}

// obstacle returns a moment that no plan within the limit gets to, or nil if none is known. It
// tries the nodes that need the most first.
func (x *ways) obstacle() *Obstacle {
	x.met = map[wayState]bool{}
	order := make([]int32, len(x.nodes))
	for v := range order {
		order[v] = int32(v)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(x.nodes[b].need, x.nodes[a].need) })
	for _, v := range order {
		n := &x.nodes[v]
		held := x.first(v)
		if x.bytes(held.with(n.makes))+n.beside > x.limit || x.none(wayState{held, n.once}) {
			return x.at(v, held)
		}
		if x.states <= 0 || x.work <= 0 {
			return nil
		}
	}
	if x.none(wayState{held: x.goal}) {
		return x.at(AtEnd, x.goal)
	}
	return nil
}

// at returns the obstacle at a node.
func (x *ways) at(v int32, held tensorSet) *Obstacle {
	o := &Obstacle{Node: v, Way: true}
	held.each(func(k int) { o.Tensors = append(o.Tensors, x.tensors[k]) })
	slices.Sort(o.Tensors)
	return o
}

// first returns what is held when a node runs for the first time: what it reads, and what cannot
// be made again and is read by nodes that run later.
func (x *ways) first(v int32) tensorSet {
	if !x.known[v] {
		x.firsts[v], x.known[v] = x.findFirst(v), true
		x.work -= len(x.nodes) + x.edges
	}
	return x.firsts[v]
}

func (x *ways) findFirst(v int32) tensorSet {
	held := x.nodes[v].reads
	clear(x.mark)
	x.spread(v, before, x.preds)
	x.mark[v] = after
	x.spread(v, after, x.succs)
	for k, i := range x.tensors {
		t := &x.p.Tensors[i]
		if m := t.Producer; m >= 0 && (!x.p.Nodes[m].Once || x.mark[m] != before) {
			continue
		}
		if t.Output || slices.ContainsFunc(t.Consumers, func(r int32) bool { return x.mark[r] == after }) {
			held.add(k)
		}
	}
	return held
}

// none reports whether it is proven that no plan within the limit gets to a state. It remembers
// the states from which there is a way, and those from which there is none.
func (x *ways) none(start wayState) bool {
	if way, ok := x.met[start]; ok {
		return !way
	}
	type step struct {
		wayState
		next int // the step that it leads to
	}
	trail, open := []step{{start, -1}}, []int{0}
	x.met[start] = false
	var earlier []wayState
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		var found bool
		earlier, found = x.earlier(trail[at].wayState, earlier[:0])
		for _, y := range earlier {
			if way, ok := x.met[y]; ok {
				found = found || way
			} else if !x.exceeds(y) {
				x.met[y] = false
				trail, open = append(trail, step{y, at}), append(open, len(trail))
			}
		}
		x.states--
		if found || len(trail) > wayMost || x.states <= 0 {
			for _, y := range trail { // those beside the way are not decided
				delete(x.met, y.wayState)
			}
			for ; found && at >= 0; at = trail[at].next {
				x.met[trail[at].wayState] = true
			}
			return false
		}
	}
	return true
}

// exceeds reports whether a state holds one tensor more than another that is known, and that no way
// is known from.
func (x *ways) exceeds(y wayState) (yes bool) {
	y.held.each(func(k int) {
		less := y
		less.held[k>>6] &^= 1 << (k & 63)
		way, ok := x.met[less]
		yes = yes || ok && !way
	})
	return yes
}

// earlier appends the states from which one run of a node leads to y, those of late nodes last.
// found reports that y holds nothing that a node must make.
func (x *ways) earlier(y wayState, list []wayState) (_ []wayState, found bool) {
	var makers []int32
	y.held.each(func(k int) {
		if m := x.p.Tensors[x.tensors[k]].Producer; m >= 0 && !slices.Contains(makers, m) {
			makers = append(makers, m)
		}
	})
	slices.Sort(makers)
	for _, m := range makers {
		n := &x.nodes[m]
		if n.once&y.once != 0 || x.bytes(y.held.with(n.makes).with(n.reads))+n.beside > x.limit {
			continue
		}
		z := wayState{y.held.without(n.makes).with(n.reads), y.once | n.once}
		if n.reads.without(y.held) == (tensorSet{}) && n.once == 0 {
			return append(list[:0], z), false // z is part of y, so there is a way to both or to none
		}
		list = append(list, z)
	}
	return list, len(makers) == 0
}
