// Package reduce makes indexed problems smaller, in three ways.
//
// [Contract] merges nodes that some optimal order runs one right after another; the
// optimum stays the same, and an order of the contracted problem expands to one of
// the problem. [Coarse] sets small tensors to 0 bytes; bounds of the result are
// bounds of the problem. [Separators] and [Extractor] split a problem into parts that
// can be solved separately.
//
//	contract.go  Contract: applies the rules until nothing changes
//	merge.go     when a node may be merged into a neighbour, with proofs
//	ancestors.go which nodes come before which
//	rules.go     the other rules: idle nodes, delayed nodes, siblings
//	modules.go   nodes between an entry and an exit, in a fixed order
//	coarse.go    Coarse
//	parts.go     Separators and Extractor
package reduce

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// contraction makes a problem smaller and keeps its optimum: nodes that some optimal order
// runs next to each other become one, and nodes that touch no bytes and have room at
// either end are taken out. The rules and their proofs are in merge.go and rules.go.
type contraction struct {
	g            *indexed.Problem
	left         int // nodes
	gone         []bool
	frozen       []bool // too many pairs: not merged
	trans        []int64
	preds, succs [][]int32
	reads        [][]int32
	readers      [][]int32
	into         []int32                 // node -> the one it was merged into, or itself
	outs         []int64                 // node -> the bytes that it makes and leaves
	sole         []int64                 // node -> the bytes that it alone reads and that are no outputs
	dead         []bool                  // tensors made and read within a node
	credits      [][]int32               // node -> tensors
	pairs        [][]indexed.InPlacePair // node -> pairs, by result; what is written over may be dead
	run          [][]int32               // node -> the nodes of g that it stands for, in their order
	anchors      [][]int32               // node -> the nodes to the last of which the others of its run move
	place        []int32                 // node -> its place in the listing
	listing      []int32

	useCredits bool
	sets       ancestors // by place; of no nodes, if they are more than maxSets
	near       nearby

	first, last, escape int64 // see ends
	result              Contracted
}

// Contracted is a contracted problem and what its nodes stand for.
type Contracted struct {
	Problem    *indexed.Problem
	Run        [][]int32 // node -> the nodes that it stands for
	anchors    [][]int32 // node -> the nodes to the last of which the others of its run move
	head, tail []int32   // idle nodes, run before and after all others
	Floor      int64     // the largest load of the idle nodes: a bound
}

// Without says which rules a contraction leaves out.
type Without struct {
	Merging   bool // of nodes that run next to each other: see merge.go
	Siblings  bool // that run next to each other
	IdleNodes bool // run before or after all others: see takeOut
	Delaying  bool // of nodes that gain nothing by an early run
	Credits   bool // for inputs that a merged node may free
	Modules   bool // run in a fixed order
}

// Expand returns the order of the problem that an order of the contracted problem stands
// for.
func (c *Contracted) Expand(order []int32) []int32 {
	full := slices.Clone(c.head)
	for _, v := range order {
		full = append(full, c.Run[v]...)
	}
	return append(full, c.tail...)
}

// Reduce returns an order of the contracted problem that follows an order of the problem:
// each node runs where the last of its anchors ran, or right after its predecessors. The peak does
// not grow, unless a node has been delayed.
func (c *Contracted) Reduce(order []int32) []int32 {
	node := make(map[int32]int32, len(c.anchors))
	for i, anchors := range c.anchors {
		for _, v := range anchors {
			node[v] = int32(i)
		}
	}
	place := make([]int32, len(c.anchors))
	k := int32(0)
	for _, v := range order {
		if i, ok := node[v]; ok {
			place[i] = k
			k++
		}
	}
	return c.Problem.SortedBy(place)
}

// Contract applies the rules to the nodes from last to first until nothing changes, first
// without credits, then with them: that leaves fewer nodes. The nodes that remain keep the
// sequence of the listing, by which list scheduling breaks ties. When the context ends it
// returns what is merged by then.
//
// Then it fixes the order of modules, and applies the rules again.
func Contract(g *indexed.Problem, off Without, m *meter.Meter) *Contracted {
	c := contractOnce(g, off, m)
	for range maxRounds {
		if off.Modules || m.Ended() {
			break
		}
		edges := Chains(c.Problem)
		if len(edges) == 0 {
			break
		}
		c.Problem.AddPrecedence(edges)
		c = c.then(contractOnce(c.Problem, off, m))
	}
	return c
}

// then returns the contraction of a problem by c, and of its result by next.
func (c *Contracted) then(next *Contracted) *Contracted {
	nodes := func(runs [][]int32, list []int32) (all []int32) {
		for _, v := range list {
			all = append(all, runs[v]...)
		}
		return all
	}
	r := &Contracted{
		Problem: next.Problem, Floor: max(c.Floor, next.Floor),
		head: append(slices.Clip(c.head), nodes(c.Run, next.head)...),
		tail: append(nodes(c.Run, next.tail), c.tail...),
	}
	for i := range next.Run {
		r.Run = append(r.Run, nodes(c.Run, next.Run[i]))
		r.anchors = append(r.anchors, nodes(c.anchors, next.anchors[i]))
	}
	return r
}

func contractOnce(g *indexed.Problem, off Without, m *meter.Meter) *Contracted {
	c := newContraction(g)
	for range maxRounds {
		if !c.mergeEach(off, m) || off.Delaying || !c.delayEach(m) || !c.delayAll() {
			break
		}
	}
	return c.finish()
}

// maxRounds is how often Contract merges nodes and delays others.
const maxRounds = 4

// mergeEach merges nodes and takes out idle ones until nothing changes. It reports false
// if the context ends.
func (c *contraction) mergeEach(off Without, m *meter.Meter) bool {
	for _, c.useCredits = range [2]bool{false, true} {
		if c.useCredits && off.Credits {
			break
		}
		for changed := true; changed; {
			changed = false
			for i, v := range slices.Backward(c.listing) {
				if m.Poll(i) {
					return false
				}
				if !c.gone[v] && (!off.IdleNodes && c.takeOut(v) || !off.Merging && c.mergeAll(v, off)) {
					changed = true
				}
			}
		}
	}
	return true
}

// delayEach delays each node that can be delayed. It reports false if the context ends.
func (c *contraction) delayEach(m *meter.Meter) bool {
	for i, v := range slices.Backward(c.listing) {
		if m.Poll(i) {
			return false
		}
		if !c.gone[v] {
			c.delay(v)
		}
	}
	return true
}

// mergeAll merges v with successors while it can.
func (c *contraction) mergeAll(v int32, off Without) (changed bool) {
	if c.frozen[v] {
		return false
	}
	for c.mergeNext(v) {
		changed = true
	}
	if len(c.succs[v]) == 1 {
		if w := c.succs[v][0]; !c.frozen[w] && c.backward(v, w) {
			return true
		}
	}
	return !off.Siblings && c.pair(v) || changed
}

// mergeNext merges v with the first successor that can run right after it.
func (c *contraction) mergeNext(v int32) bool {
	for _, w := range c.succs[v] {
		if !c.frozen[w] && c.forward(v, w) {
			return true
		}
	}
	return false
}

func newContraction(g *indexed.Problem) *contraction {
	n := g.Nodes
	c := &contraction{
		g: g, left: n,
		gone: make([]bool, n), frozen: make([]bool, n), dead: make([]bool, len(g.Size)),
		trans: slices.Clone(g.Transient), into: indexed.Ascending(n),
		preds: g.Preds.Slices(), succs: g.Succs.Slices(),
		reads: g.Reads.Slices(), readers: g.Readers.Slices(),
		outs: make([]int64, n), sole: make([]int64, n),
		credits: make([][]int32, n), pairs: make([][]indexed.InPlacePair, n),
		run: make([][]int32, n), anchors: make([][]int32, n), place: make([]int32, n), listing: g.Listing(),
	}
	own := indexed.Ascending(n)
	for i, v := range c.listing {
		c.place[v] = int32(i)
		c.run[v] = own[v : v+1 : v+1]
		c.anchors[v] = c.run[v]
	}
	c.findAncestors()
	for i := range g.Size {
		t := int32(i)
		if m := g.Maker[t]; m >= 0 {
			c.outs[m] += g.Size[t]
		}
		c.soleReader(t, 1)
	}
	if g.SavingsAt != nil {
		c.takeSavings()
	}
	c.ends()
	return c
}

// takeSavings copies pairs and credits. A credit whose other readers are all ancestors is
// always given, a credit with a reader among the descendants never.
func (c *contraction) takeSavings() {
	for i, at := range c.g.SavingsAt {
		if at == 0 {
			continue
		}
		v, s := int32(i), &c.g.Savings[at-1]
		c.frozen[v] = s.Many
		c.pairs[v] = slices.Clone(s.Pairs)
		if s.Many {
			c.credits[v] = slices.Clone(s.Credits)
		}
		for _, t := range s.Credits {
			never, always := false, true
			for _, r := range c.readers[t] {
				if r != v {
					never = never || c.precedes(v, r)
					always = always && c.precedes(r, v)
				}
			}
			switch {
			case s.Many, never:
			case always:
				c.trans[v] -= c.g.Size[t]
			default:
				c.credits[v] = append(c.credits[v], t)
			}
		}
	}
}

// finish makes the contracted problem.
func (c *contraction) finish() *Contracted {
	g, r := c.g, &c.result
	slices.Reverse(r.tail)
	h := &indexed.Problem{Nodes: c.left, Base: g.Base, Matcher: g.Matcher, AlwaysGiven: g.AlwaysGiven + int32(len(g.Size))}
	r.Problem = h
	node := make([]int32, g.Nodes)
	for _, v := range c.listing {
		if !c.gone[v] {
			node[v] = int32(len(r.Run))
			r.Run = append(r.Run, c.run[v])
			r.anchors = append(r.anchors, c.anchors[v])
			h.Transient = append(h.Transient, c.trans[v])
		}
	}
	renamed := func(list []int32) []int32 {
		for i, v := range list {
			list[i] = node[v]
		}
		return list
	}
	for _, v := range c.listing {
		if !c.gone[v] {
			h.Preds.Add(renamed(c.preds[v])...)
		}
	}
	h.Preds.Finish()
	h.Succs = h.Preds.Inverse(h.Nodes)
	tensor := make([]int32, len(g.Size))
	for t, m := range g.Maker {
		if c.dead[t] {
			// Always given: a number of its own, below 0.
			tensor[t] = -(g.AlwaysGiven + int32(t) + 1)
			continue
		}
		if m >= 0 {
			m = node[c.now(m)]
		}
		tensor[t] = h.AddTensor(g.Size[t], m, g.Output[t], renamed(c.readers[t]))
	}
	h.FinishTensors()
	for _, v := range c.listing {
		if !c.gone[v] && len(c.pairs[v])+len(c.credits[v]) > 0 {
			pairs, credits := c.pairs[v], c.credits[v]
			for i := range pairs {
				if t := pairs[i].Over; t >= 0 {
					pairs[i].Over = tensor[t]
				}
			}
			for i, t := range credits {
				credits[i] = tensor[t]
			}
			h.SetSavings(node[v], h.NewSavings(pairs, credits))
		}
	}
	return r
}
