package core

import (
	"math"
	"slices"
)

// Bounds computes lower bounds of the loads of a problem from their definition; package
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
type Bounds struct {
	Before [][]int32 // by node: known predecessors, ascending
	After  [][]int32 // by node: known successors, ascending
	Trans  []int64   // by node: its outputs and its workspace
	Base   int64     // graph inputs that are outputs: always live
	Idle   int64     // graph inputs that nobody reads: live at step 0
	Unit   int64     // greatest common divisor of all sizes
	Total  int64     // of all sizes

	Written []Written // over parameters and states

	p      *Problem
	budget int64  // for work
	work   int64  // of all flows so far: nodes and storages visited
	marks  int64  // upper bound on the nodes that were put on sides
	side   []side // by node, for the present case
	stack  []int32

	choices map[int32][][]option // by node: the matchings of its pairs
}

// side says whether a node has run when another is about to run.
type side int8

const (
	free side = iota
	done      // it has run
	due       // it has not
)

// NewBounds expects the nodes in a valid order. All questions together may take as much work as
// the budget. It returns nil if a sum of sizes overflows, which it records.
func NewBounds(p *Problem, budget int64) *Bounds {
	n := len(p.Nodes)
	b := &Bounds{
		p: p, Before: make([][]int32, n), After: make([][]int32, n), budget: budget,
		Trans: slices.Clone(p.Work), side: make([]side, n), choices: map[int32][][]option{},
	}
	for _, w := range p.Work {
		b.Total = p.Sums.Add(b.Total, w)
		b.Unit = gcd(b.Unit, w)
	}
	for i := range p.Storages {
		st := &p.Storages[i]
		if !p.Counts(int32(i)) {
			continue
		}
		if b.Total = p.Sums.Add(b.Total, st.Bytes); p.Sums.Overflow {
			return nil
		}
		b.Unit = gcd(b.Unit, st.Bytes)
		switch {
		case st.Maker >= 0:
			b.Trans[st.Maker] += st.Bytes
		case st.Output:
			b.Base += st.Bytes
		case len(st.Readers) == 0:
			b.Idle += st.Bytes
		}
	}
	b.precede()
	b.Written = b.writtenOver()
	return b
}

// precede fills in the precedence: the makers of all tensors that a node reads,
// dynamic or not, run before it. All readers of a parameter's old value run
// before its update, because both values share one buffer in every plan.
func (b *Bounds) precede() {
	edge := func(from, to int32) {
		if from < 0 || from >= to { // against the order: such a plan is not valid
			return
		}
		b.Before[to] = append(b.Before[to], from)
	}
	for i := range b.p.Nodes {
		for _, maker := range b.p.Nodes[i].After {
			edge(maker, int32(i))
		}
	}
	for _, u := range b.p.Updated {
		for _, r := range b.p.Storages[u.Old].Readers {
			edge(r, b.p.Storages[u.New].Maker)
		}
	}
	for i := range b.Before {
		slices.Sort(b.Before[i])
		b.Before[i] = slices.Compact(b.Before[i])
		for _, n := range b.Before[i] {
			b.After[n] = append(b.After[n], int32(i))
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
func (b *Bounds) mark(from []int32, next [][]int32, as side) {
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

// AtNode asks for the least load of node id over all states from which it may
// run: its predecessors have run, its successors have not.
func (b *Bounds) AtNode(id int32, target int64) Answer {
	clear(b.side)
	b.mark([]int32{id}, b.Before, done)
	b.mark([]int32{id}, b.After, due)
	b.side[id] = due
	return b.least(id, target)
}

// FirstOf asks for the least load of the node of a set that runs first: from a state
// without nodes of the set, and so without nodes after any of them.
func (b *Bounds) FirstOf(set []int32, target int64) Answer {
	return b.ofSet(set, b.After, due, b.Before, done, target)
}

// First asks for the least load of the node of a set that runs first. One node of any set
// runs first, so each bound holds for all orders. If that is less than the target, and inputs
// that nobody reads are live at the first step, it asks for that of the set and all nodes
// that need no other before them. The planner has more precedence than the verifier: what it
// writes over a state in its buffer, it writes after all readers of the state. So its set of
// all nodes that may begin can lack one.
func (b *Bounds) First(set []int32, target int64) Answer {
	a := b.FirstOf(set, target)
	if a.Unknown || a.Bytes >= target || b.Idle == 0 {
		return a
	}
	if all := b.beginning(set); len(all) > len(set) {
		if more := b.FirstOf(all, target); !more.Unknown && more.Bytes > a.Bytes {
			return more
		}
	}
	return a
}

// beginning is a set and all nodes that need no other before them.
func (b *Bounds) beginning(set []int32) []int32 {
	all := slices.Clone(set)
	for n := range b.Before {
		if len(b.Before[n]) == 0 && !slices.Contains(set, int32(n)) {
			all = append(all, int32(n))
		}
	}
	return all
}

// Widened is the set for which First answers.
func (b *Bounds) Widened(set []int32, target int64) []int32 {
	if b.Idle == 0 || b.FirstOf(set, target).Bytes >= target {
		return set
	}
	return b.beginning(set)
}

// LastOf asks for the least load of the node of a set that runs last: from a state
// with all other nodes of the set, and so with all nodes before any of them.
func (b *Bounds) LastOf(set []int32, target int64) Answer {
	return b.ofSet(set, b.Before, done, b.After, due, target)
}

// ofSet asks for the least load of the first node of a set in the direction next:
// forward for the node that runs first, backward for the one that runs last. The set
// and all nodes to which it leads in that direction are on side beyond; each
// candidate for the first node puts the nodes in the other direction, prev, on side
// past.
func (b *Bounds) ofSet(set []int32, next [][]int32, beyond side, prev [][]int32, past side, target int64) Answer {
	clear(b.side)
	b.mark(set, next, beyond)
	var candidates []int32
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

// whichever is the least Answer over several candidates, one of which is the first (or
// the last). The sides are common to all cases; each case adds the nodes to which its
// candidate leads.
func (b *Bounds) whichever(nodes []int32, next [][]int32, as side, target int64) Answer {
	shared := slices.Clone(b.side)
	var worst Answer
	for i, n := range nodes {
		b.p.poll()
		copy(b.side, shared)
		b.mark(nodes[i:i+1], next, as)
		b.side[n] = due
		a := b.least(n, target)
		if i == 0 || a.Unknown || a.Bytes < worst.Bytes {
			worst = a
		}
		if b.Spent() {
			a.Unknown, worst.Unknown = true, true
		}
		if a.Unknown || a.Bytes < target {
			break // a smaller one would not change the verdict
		}
	}
	return worst
}

// Answer is a lower bound on a least load.
type Answer struct {
	Bytes   int64 // proven; exact if it is below the target
	Node    int32 // the node whose load it is
	Unknown bool  // the sizes or the work are too large
}

// maxMatchings is the number of matchings of in-place pairs that a bound tries. If
// there are more, it subtracts the largest, whether or not a state permits it.
const maxMatchings = 16

// MaxWork limits the work on a plan's certificates: some 2,000 flows through a graph of
// 24,000 nodes, and ten times as many through the largest of the training graphs.
// A certificate that needs more counts as claimed.
const MaxWork = 1 << 27

// maxMarks limits the nodes that the proofs of a plan may put on sides before any
// flow: as many as the largest set of a graph of 10,000 nodes needs.
const maxMarks = 1 << 27

// Spent reports whether there is no work left for proofs.
func (b *Bounds) Spent() bool { return b.work > b.budget || b.marks > maxMarks }

// least asks whether the load of node id, over all states that the sides allow,
// is at least target. The cheapest bound is tried first.
func (b *Bounds) least(id int32, target int64) Answer {
	if simple := b.p.AtNode(id); simple >= target {
		return Answer{Bytes: simple, Node: id}
	}
	pairs := b.p.Pairs(id)
	saved := b.p.Saved(pairs)
	bytes, ok := b.cut(id, nil, above(target, saved))
	bytes -= saved
	if !ok || bytes >= target || len(pairs) == 0 {
		return Answer{Bytes: bytes, Node: id, Unknown: !ok}
	}
	matchings := b.matchings(id, pairs)
	for i, m := range matchings {
		saved = 0
		for _, x := range m {
			saved += x.bytes
		}
		with, ok := b.cut(id, m, above(target, saved))
		if !ok {
			return Answer{Node: id, Unknown: true}
		}
		with -= saved
		if i == 0 || with < bytes {
			bytes = with
		}
	}
	return Answer{Bytes: bytes, Node: id}
}

// matchings lists the matchings of a node's pairs that a bound tries.
func (b *Bounds) matchings(id int32, pairs []Pair) [][]option {
	list, known := b.choices[id]
	if !known {
		list = maximal(b.p.alike(pairs), maxMatchings)
		b.choices[id] = list
	}
	return list
}

// Exact reports whether a bound at a node is exact: the node has no pairs, or so few matchings
// of them that each is tried.
func (b *Bounds) Exact(id int32) bool {
	pairs := b.p.Pairs(id)
	return len(pairs) == 0 || b.matchings(id, pairs) != nil
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
func (b *Bounds) cut(id int32, matching []option, target int64) (bytes int64, ok bool) {
	if b.work += int64(len(b.side) + len(b.p.Storages)); b.work > b.budget {
		return 0, false
	}
	net := newNetwork(b)
	bytes = b.Base + b.Trans[id] + net.elsewhere(id)
	if !slices.Contains(b.side, done) && !slices.Contains(b.side, free) {
		bytes += b.Idle // it is step 0
	}
	for i := range b.p.Storages {
		st := &b.p.Storages[i]
		switch {
		case !b.p.Counts(int32(i)) || st.Bytes == 0 || st.Maker >= 0 && b.side[st.Maker] == due:
		case st.Maker < 0 && st.Output: // counted in base
		default:
			bytes += net.hold(st.Maker, st.Readers, st.Output, st.Bytes)
		}
	}
	for _, x := range matching {
		over := &b.p.Storages[x.Over]
		others := slices.DeleteFunc(slices.Clone(over.Readers), func(r int32) bool { return r == id })
		bytes += net.hold(None, others, false, x.bytes)
	}
	flow, ok := net.maxFlow(target - bytes)
	return bytes + flow, ok
}
