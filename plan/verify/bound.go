package verify

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// bounds computes lower bounds of a scope's loads from their definition; package
// schedule has the proofs.
//
// A downset is a set of nodes that contains all predecessors of its members: a
// state between two steps. A storage is live in it if its maker is in the set and
// a reader is not. When node v runs from S,
//
//	load(v | S) = live(S) + trans(v) - savings of v's in-place results
//
// where trans(v), its outputs and workspace, is the same for every S. So the
// least load of v over all S that contain some nodes and lack others is a minimum
// cut.
type bounds struct {
	s       *scope
	before  [][]graph.NodeID // by node: known predecessors
	after   [][]graph.NodeID
	written []written // over parameters and states
	trans   []int64   // by node
	base    int64     // graph inputs that are outputs: always live
	idle    int64     // graph inputs that nobody reads: live at step 0
	unit    int64     // greatest common divisor of all sizes
	total   int64     // of all sizes
	work    int64     // of all flows so far: nodes and storages visited
	marks   int64     // upper bound on the nodes that were put on sides
	side    []side    // by node, for the present case
	stack   []graph.NodeID

	choices map[graph.NodeID][][]option // by node: the matchings of its pairs
}

// side says whether a node has run when another is about to run.
type side int8

const (
	free side = iota
	done      // it has run
	due       // it has not
)

// newBounds expects the nodes in a valid order. It returns nil if a sum of sizes
// overflows, which it records.
func newBounds(s *scope) *bounds {
	n := len(s.g.Nodes)
	b := &bounds{
		s: s, before: make([][]graph.NodeID, n), after: make([][]graph.NodeID, n),
		trans: slices.Clone(s.work), side: make([]side, n), choices: map[graph.NodeID][][]option{},
	}
	for _, w := range s.work {
		b.total = s.v.add(b.total, w)
		b.unit = gcd(b.unit, w)
	}
	for i := range s.storages {
		st := &s.storages[i]
		if !s.counts(int32(i)) {
			continue
		}
		if b.total = s.v.add(b.total, st.bytes); s.v.overflow {
			return nil
		}
		b.unit = gcd(b.unit, st.bytes)
		switch {
		case st.maker >= 0:
			b.trans[st.maker] += st.bytes
		case st.output:
			b.base += st.bytes
		case len(st.readers) == 0:
			b.idle += st.bytes
		}
	}
	b.precede()
	b.written = b.writtenOver()
	return b
}

// precede fills in the precedence: the makers of all tensors that a node reads,
// dynamic or not, run before it. All readers of a parameter's old value run
// before its update, because both values share one buffer in every plan.
func (b *bounds) precede() {
	g := b.s.g
	edge := func(from, to graph.NodeID) {
		if from < 0 || from >= to { // against the order: such a plan is not valid
			return
		}
		b.before[to] = append(b.before[to], from)
	}
	for i, n := range g.Nodes {
		n.Reads(func(t graph.TensorID) { edge(g.Tensors[t].Maker, graph.NodeID(i)) })
	}
	for _, u := range b.s.updated {
		for _, r := range b.s.storages[u.old].readers {
			edge(r, b.s.storages[u.updated].maker)
		}
	}
	for i := range b.before {
		slices.Sort(b.before[i])
		b.before[i] = slices.Compact(b.before[i])
		for _, n := range b.before[i] {
			b.after[n] = append(b.after[n], graph.NodeID(i))
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mark puts all nodes that the given ones lead to on a side, but not the given
// ones.
func (b *bounds) mark(from []graph.NodeID, next [][]graph.NodeID, as side) {
	b.marks += int64(len(b.side))
	b.stack = append(b.stack[:0], from...)
	for len(b.stack) > 0 {
		n := b.stack[len(b.stack)-1]
		b.stack = b.stack[:len(b.stack)-1]
		for _, x := range next[n] {
			if b.side[x] != as {
				b.side[x] = as
				b.stack = append(b.stack, x)
			}
		}
	}
}

// atNode asks for the least load of node id over all states from which it may
// run: its predecessors have run, its successors have not.
func (b *bounds) atNode(id graph.NodeID, target int64) answer {
	clear(b.side)
	b.mark([]graph.NodeID{id}, b.before, done)
	b.mark([]graph.NodeID{id}, b.after, due)
	b.side[id] = due
	return b.least(id, target)
}

// firstOf asks for the least load of the node of a set that runs first: from a state
// without nodes of the set, and so without nodes after any of them.
func (b *bounds) firstOf(set []graph.NodeID, target int64) answer {
	return b.ofSet(set, b.after, due, b.before, done, target)
}

// first asks for the least load of the node of a set that runs first. One node of any set
// runs first, so each bound holds for all orders. If that is less than the target, and inputs
// that nobody reads are live at the first step, it asks for that of the set and all nodes
// that need no other before them. The planner has more precedence than the verifier: what it
// writes over a state in its buffer, it writes after all readers of the state. So its set of
// all nodes that may begin can lack one.
func (b *bounds) first(set []graph.NodeID, target int64) answer {
	a := b.firstOf(set, target)
	if a.unknown || a.bytes >= target || b.idle == 0 {
		return a
	}
	all := slices.Clone(set)
	for n := range b.before {
		if len(b.before[n]) == 0 && !slices.Contains(set, graph.NodeID(n)) {
			all = append(all, graph.NodeID(n))
		}
	}
	if len(all) > len(set) {
		if more := b.firstOf(all, target); !more.unknown && more.bytes > a.bytes {
			return more
		}
	}
	return a
}

// lastOf asks for the least load of the node of a set that runs last: from a state
// with all other nodes of the set, and so with all nodes before any of them.
func (b *bounds) lastOf(set []graph.NodeID, target int64) answer {
	return b.ofSet(set, b.before, done, b.after, due, target)
}

// ofSet asks for the least load of the first node of a set in the direction next:
// forward for the node that runs first, backward for the one that runs last. The set
// and all nodes to which it leads in that direction are on side beyond; each
// candidate for the first node puts the nodes in the other direction, prev, on side
// past.
func (b *bounds) ofSet(set []graph.NodeID, next [][]graph.NodeID, beyond side, prev [][]graph.NodeID, past side, target int64) answer {
	clear(b.side)
	b.mark(set, next, beyond)
	var candidates []graph.NodeID
	for _, n := range set {
		if b.side[n] == free { // no other node of the set leads to it
			candidates = append(candidates, n)
		}
	}
	for _, n := range set {
		b.side[n] = beyond
	}
	return b.whichever(candidates, prev, past, target)
}

// whichever is the least answer over several candidates, one of which is the first (or
// the last). The sides are common to all cases; each case adds the nodes to which its
// candidate leads.
func (b *bounds) whichever(nodes []graph.NodeID, next [][]graph.NodeID, as side, target int64) answer {
	shared := slices.Clone(b.side)
	var worst answer
	for i, n := range nodes {
		b.s.v.poll()
		copy(b.side, shared)
		b.mark(nodes[i:i+1], next, as)
		b.side[n] = due
		a := b.least(n, target)
		if i == 0 || a.unknown || a.bytes < worst.bytes {
			worst = a
		}
		if b.spent() {
			a.unknown, worst.unknown = true, true
		}
		if a.unknown || a.bytes < target {
			break // a smaller one would not change the verdict
		}
	}
	return worst
}

// answer is a lower bound on a least load.
type answer struct {
	bytes   int64        // proven; exact if it is below the target
	node    graph.NodeID // the node whose load it is
	unknown bool         // the sizes or the work are too large
}

// maxMatchings is the number of matchings of in-place pairs that a bound tries. If
// there are more, it subtracts the largest, whether or not a state permits it.
const maxMatchings = 16

// maxWork limits the work on a plan's certificates: some 2,000 flows through a graph of
// 24,000 nodes, and ten times as many through the largest of the training graphs.
// A certificate that needs more counts as claimed.
const maxWork = 1 << 27

// maxMarks limits the nodes that the proofs of a plan may put on sides before any
// flow: as many as the largest set of a graph of 10,000 nodes needs.
const maxMarks = 1 << 27

// spent reports whether there is no work left for proofs.
func (b *bounds) spent() bool { return b.work > maxWork || b.marks > maxMarks }

// least asks whether the load of node id, over all states that the sides allow,
// is at least target. The cheapest bound is tried first.
func (b *bounds) least(id graph.NodeID, target int64) answer {
	if simple := b.s.atNode(id); simple >= target {
		return answer{bytes: simple, node: id}
	}
	pairs := b.s.pairs(id)
	saved := b.s.saved(pairs)
	bytes, ok := b.cut(id, nil, above(target, saved))
	bytes -= saved
	if !ok || bytes >= target || len(pairs) == 0 {
		return answer{bytes: bytes, node: id, unknown: !ok}
	}
	matchings, known := b.choices[id]
	if !known {
		matchings = maximal(b.alike(pairs), maxMatchings)
		b.choices[id] = matchings
	}
	for i, m := range matchings {
		saved = 0
		for _, p := range m {
			saved += p.bytes
		}
		with, ok := b.cut(id, m, above(target, saved))
		if !ok {
			return answer{node: id, unknown: true}
		}
		with -= saved
		if i == 0 || with < bytes {
			bytes = with
		}
	}
	return answer{bytes: bytes, node: id}
}

// option is a pair, or several that permit and save their bytes in the same states: others
// stand for them in a matching.
type option struct {
	pair
	bytes int64 // that all of them save
}

// alike joins what a node's pairs have in common. Pairs that compete for a result or an
// overwritten storage, directly or through others, form a group. With aliases, a node has
// a group for each part of its result, and all of these say the same of their own parts:
// the same competition, for storages with the same readers. In each state S, the best
// matching of such a group is the best of each other, so the least over all choices for
// all groups,
//
//	min over S { live(S) + sum over groups g of size(g) * (least over matchings of g in S) }
//
// is taken with one choice for all groups that are alike: they count as one group of the
// sum of their sizes. Without that, n parts over either of two inputs have 2^n matchings.
func (b *bounds) alike(pairs []pair) (list []option) {
	group := make([]int, len(pairs)) // union-find; its root is the first pair of a group
	find := func(i int) int {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	byResult, byOver := map[int32]int{}, map[int32]int{}
	for i, p := range pairs {
		group[i] = i
		join := func(of map[int32]int, k int32) {
			j, known := of[k]
			if !known {
				of[k] = i
				return
			}
			x, y := find(i), find(j)
			group[max(x, y)] = min(x, y)
		}
		join(byResult, p.result)
		join(byOver, p.over)
	}
	first := map[string]int{}             // by what a group says: the first option of the first such group
	members := make([][]pair, len(pairs)) // by the first pair of a group
	for i, p := range pairs {
		members[find(i)] = append(members[find(i)], p)
	}
	for _, same := range members {
		if len(same) == 0 {
			continue
		}
		var results, overs []int32
		number := func(list *[]int32, i int32) int {
			k := slices.Index(*list, i)
			if k < 0 {
				k = len(*list)
				*list = append(*list, i)
			}
			return k
		}
		var says []byte
		for _, p := range same {
			says = fmt.Appendf(says, "%d over %d, read by %v;", number(&results, p.result), number(&overs, p.over), b.s.storages[p.over].readers)
		}
		at, known := first[string(says)]
		if !known {
			at = len(list)
			first[string(says)] = at
			for _, p := range same {
				list = append(list, option{pair: p})
			}
		}
		for k, p := range same {
			list[at+k].bytes += b.s.storages[p.over].bytes
		}
	}
	return list
}

// above adds two figures; a sum that overflows is no target that can be met.
func above(target, saved int64) int64 {
	if target > math.MaxInt64-saved {
		return math.MaxInt64
	}
	return target + saved
}

// cut is the least live(S) + trans(id) over all states that the sides allow. A pair of
// the matching costs its size in a state S that does not permit it, because another
// reader of the overwritten storage has not run. ok is false if the sizes or the work
// are too large. A figure below the target is exact; the work ends where the target is met.
func (b *bounds) cut(id graph.NodeID, matching []option, target int64) (bytes int64, ok bool) {
	if b.work += int64(len(b.side) + len(b.s.storages)); b.work > maxWork {
		return 0, false
	}
	net := newNetwork(b)
	bytes = b.base + b.trans[id] + net.elsewhere(id)
	if !slices.Contains(b.side, done) && !slices.Contains(b.side, free) {
		bytes += b.idle // it is step 0
	}
	for i := range b.s.storages {
		st := &b.s.storages[i]
		switch {
		case !b.s.counts(int32(i)) || st.bytes == 0 || st.maker >= 0 && b.side[st.maker] == due:
		case st.maker < 0 && st.output: // counted in base
		default:
			bytes += net.hold(st.maker, st.readers, st.output, st.bytes)
		}
	}
	for _, p := range matching {
		over := &b.s.storages[p.over]
		others := slices.DeleteFunc(slices.Clone(over.readers), func(r graph.NodeID) bool { return r == id })
		bytes += net.hold(none, others, false, p.bytes)
	}
	flow, ok := net.maxFlow(target - bytes)
	return bytes + flow, ok
}

// written is what a node writes over a parameter or state, or over what lies in its buffer.
type written struct {
	maker   graph.NodeID
	bytes   int64
	others  []graph.NodeID // what else reads that
	operand bool           // it may be written over an operand in the arena
	waits   bool           // a reader of it must wait for all others, as the update does
}

// writtenOver lists what is written over parameters and states, but for the updated values, which
// stay in any plan, and for what may be written over another parameter, too.
func (b *bounds) writtenOver() (list []written) {
	s := b.s
	for _, u := range s.chained {
		st := &s.storages[u.updated]
		if st.update || st.maker < 0 || s.overAnother(u) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(s.storages[u.old].readers), func(r graph.NodeID) bool { return r == st.maker })
		waits := func(r graph.NodeID) bool {
			return !slices.ContainsFunc(others, func(q graph.NodeID) bool { return q == r || !slices.Contains(b.before[r], q) })
		}
		list = append(list, written{st.maker, st.bytes, others, s.overOperand(u), slices.ContainsFunc(st.readers, waits)})
	}
	return list
}

// elsewhere adds the bytes of what nodes write over parameters and states in their buffers, in the
// states in which another reader of these has not run. Whatever the plan, no node can write it there
// then. It takes as many bytes of the arena or, if a plan writes it over the parameter further back
// in the buffer, the value between them does, which is live and as large. That holds at node id,
// which makes it, unless it may lie where an operand does, and behind its maker where a reader waits
// for all readers of the parameter: then it is live. The bytes that are added in all states are
// returned.
func (w *network) elsewhere(id graph.NodeID) (constant int64) {
	for _, x := range w.b.written {
		switch {
		case x.maker == id && !x.operand:
			constant += w.hold(none, x.others, false, x.bytes)
		case x.maker != id && x.waits && w.b.side[x.maker] != due:
			constant += w.hold(x.maker, x.others, false, x.bytes)
		}
	}
	return constant
}

// overOperand reports whether what is written over u.old may be written over an operand in the
// arena.
func (s *scope) overOperand(u update) bool {
	n := s.g.Nodes[s.storages[u.updated].maker]
	return s.v.p.Sharing.Inplace && slices.ContainsFunc(n.Semantics.Inplace, func(a graph.Alias) bool {
		p, ok := s.pair(n, a)
		return ok && p.result == u.updated && s.counts(p.over)
	})
}

// overAnother reports whether what is written over u.old may be written over another parameter or
// state.
func (s *scope) overAnother(u update) bool {
	n := s.g.Nodes[s.storages[u.updated].maker]
	return slices.ContainsFunc(n.Semantics.Inplace, func(a graph.Alias) bool {
		if a.In >= len(n.Inputs) || n.Inputs[a.In] < 0 {
			return false
		}
		i := s.storageOf[n.Inputs[a.In]]
		return i != none && i != u.old && s.stays(i)
	})
}

// stays reports whether a storage is in the buffer of a parameter or state.
func (s *scope) stays(i int32) bool {
	return s.storages[i].update || slices.ContainsFunc(s.chained, func(u update) bool { return u.old == i || u.updated == i })
}

// maximal lists the matchings of a node's pairs to which no pair can be added,
// nil if there are none or more than limit.
func maximal(pairs []option, limit int) [][]option {
	var list [][]option
	var chosen []option
	taken := map[int32]bool{} // storages of chosen pairs; one is not both result and overwritten
	tries := 0
	var from func(k int)
	from = func(k int) {
		if tries++; tries > 1<<12 || len(list) > limit {
			return
		}
		if k == len(pairs) {
			for _, p := range pairs {
				if !taken[p.result] && !taken[p.over] {
					return
				}
			}
			list = append(list, slices.Clone(chosen))
			return
		}
		p := pairs[k]
		if !taken[p.result] && !taken[p.over] {
			taken[p.result], taken[p.over] = true, true
			chosen = append(chosen, p)
			from(k + 1)
			chosen = chosen[:len(chosen)-1]
			delete(taken, p.result)
			delete(taken, p.over)
			competes := func(q option) bool {
				return q != p && (q.result == p.result || q.over == p.over)
			}
			if !slices.ContainsFunc(pairs, competes) {
				return // it is in every maximal matching
			}
		}
		from(k + 1)
	}
	from(0)
	if tries > 1<<12 || len(list) > limit {
		return nil
	}
	return list
}
