package budget

import (
	"slices"
)

// chain is what a slot has to make so that a buffer is there.
type chain struct {
	target  int32
	slot    int32
	adds    []int32 // buffers, target first
	cost    int64   // nanoseconds beyond what the slot runs already
	penalty float64 // what is kept longer for it, over the hot positions
}

// maxChain is the largest number of buffers of a chain.
const maxChain = 150

// byCut, as a threshold of chainer.link, keeps what a cut holds.
const byCut = -1

// chainer finds chains in the plan that a sweep has seen.
type chainer struct {
	*sweep
	held      []bool  // buffers that a cut holds, for byCut
	met       []int32 // buffer -> the chain that last met it
	ran       []int32 // node -> the chain that last ran it
	runs      []int32 // the nodes that this chain runs
	kept      []int32 // the buffers of candidates' chains
	found     []candidate
	ranked    []ranked
	best      []candidate // found, the best first
	number    int32
	now       chain
	peakAt    int32
	threshold float64
}

func newChainer(s *sweep) *chainer {
	return &chainer{sweep: s, met: make([]int32, len(s.size)), ran: make([]int32, len(s.order))}
}

// link returns the chain that makes t in a slot, to take load off the position
// of the peak. An input that is not there any more is kept longer or made anew
// itself. It is kept if nothing can make it; if it is small beside t: at most a
// 64th of it, or at most the threshold's share; if it is last used after the peak
// and there is room for it from there on; or with the threshold byCut, if the cut
// holds it. The chain fails if a node of it may not run in the slot. The next call
// reuses adds.
func (c *chainer) link(t, slot, peakAt int32, threshold float64) (chain, bool) {
	c.number++
	c.now = chain{target: t, slot: slot, adds: c.now.adds[:0]}
	c.runs, c.peakAt, c.threshold = c.runs[:0], peakAt, threshold
	ok := c.make(t)
	return c.now, ok
}

// make adds a buffer and what it needs.
func (c *chainer) make(t int32) bool {
	if c.until[t] < c.now.slot || len(c.now.adds) >= maxChain || c.leaves != nil && c.leaves[c.now.slot] {
		return false
	}
	c.met[t] = c.number
	c.now.adds = append(c.now.adds, t)
	ok := true
	c.unit(t, c.now.slot, func(i int32) { ok = ok && c.include(i, t) })
	return ok
}

// include adds a node of the unit of t.
func (c *chainer) include(i, t int32) bool {
	from, to := c.first[c.now.slot], c.first[c.now.slot+1]-1
	if _, runs := slices.BinarySearch(c.node[from:to], i); !runs && c.ran[i] != c.number {
		c.ran[i] = c.number
		c.runs = append(c.runs, i)
		c.now.cost += c.sweep.cost[i]
	}
	c.count(1 + len(c.reads.of(i)))
	for _, x := range c.reads.of(i) {
		if x == t || c.met[x] == c.number {
			continue
		}
		before, after := c.around(x, from)
		if c.output[x] && before >= 0 || after >= 0 && (after&1 == 0 || after>>1 < to && c.node[after>>1] < i) {
			continue // held across the slot, or made in it
		}
		last := max(before>>1, 0)
		if !c.keeps(x, last) && c.anew(x) {
			continue
		}
		if len(c.now.adds) >= maxChain-10 {
			return false
		}
		c.met[x] = c.number
		c.now.penalty += c.hotBytes(x, last, from)
	}
	return true
}

// keeps reports whether x is held on from its last event rather than made anew.
func (c *chainer) keeps(x, last int32) bool {
	size, target := c.size[x], c.size[c.now.target]
	switch {
	case c.until[x] < c.now.slot, size <= target/64, float64(size) <= c.threshold*float64(target):
		return true
	case c.threshold == byCut && c.held[x]:
		return true
	case last <= c.peakAt:
		return false
	}
	for _, load := range c.load[last : c.first[c.now.slot]+1] {
		if load+size > c.limit {
			return false
		}
	}
	return true
}

// anew makes x in the slot too, or leaves the chain as it was.
func (c *chainer) anew(x int32) bool {
	adds, runs, cost, penalty := len(c.now.adds), len(c.runs), c.now.cost, c.now.penalty
	if c.make(x) {
		return true
	}
	for _, y := range c.now.adds[adds:] {
		c.met[y] = 0
	}
	for _, i := range c.runs[runs:] {
		c.ran[i] = 0
	}
	c.now.adds, c.runs, c.now.cost, c.now.penalty = c.now.adds[:adds], c.runs[:runs], cost, penalty
	return false
}
