package budget

import "slices"

// chain lists the buffers to recompute in a slot so that a target buffer is there.
type chain struct {
	target  int32
	slot    int32
	adds    []int32 // buffers, target first
	cost    int64   // nanoseconds of the nodes that do not run in the slot yet
	penalty float64 // what the inputs kept longer add to the excess, see hotBytes
}

// maxChain is the largest number of buffers in a chain.
const maxChain = 150

// byCut is the threshold for chainer.chainFor that keeps the buffers a minimum cut
// holds.
const byCut = -1

// chainer finds chains for the plan of the last sweep.
type chainer struct {
	*sweep
	held      []bool  // buffer -> the minimum cut holds it, for byCut
	met       []int32 // buffer -> the chain that last met it
	ran       []int32 // node -> the chain that last ran it
	runs      []int32 // the nodes that the current chain runs
	kept      []int32 // memory for the chains of candidates
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

// chainFor returns the chain that recomputes t in a slot, so that t need not be held
// across the peak. An input that has been freed by then is either kept longer or
// recomputed, too. It is kept
//
//   - if it cannot be recomputed,
//   - if its size is at most 1/64 of t's, or at most threshold times t's,
//   - if its last use comes after the peak and it fits below the limit from there on,
//   - or, with the threshold byCut, if the minimum cut holds it.
//
// ok is false if some node of the chain must not run in the slot. The next call
// reuses adds.
func (c *chainer) chainFor(t, slot, peakAt int32, threshold float64) (x chain, ok bool) {
	c.number++
	c.now = chain{target: t, slot: slot, adds: c.now.adds[:0]}
	c.runs, c.peakAt, c.threshold = c.runs[:0], peakAt, threshold
	ok = c.extend(t)
	return c.now, ok
}

// extend adds a buffer to the chain, and the inputs that it needs.
func (c *chainer) extend(t int32) bool {
	if c.until[t] < c.now.slot || len(c.now.adds) >= maxChain || c.swapsOut != nil && c.swapsOut[c.now.slot] {
		return false
	}
	c.met[t] = c.number
	c.now.adds = append(c.now.adds, t)
	ok := true
	c.unit(t, c.now.slot, func(i int32) { ok = ok && c.include(i, t) })
	return ok
}

// include adds a node of the unit of t, and the inputs that it needs.
func (c *chainer) include(i, t int32) bool {
	slot := c.now.slot
	if _, runs := slices.BinarySearch(c.who[slot], i); !runs && c.ran[i] != c.number {
		c.ran[i] = c.number
		c.runs = append(c.runs, i)
		c.now.cost += c.sweep.cost[i]
	}
	c.count(1 + len(c.reads.of(i)))
	for _, x := range c.reads.of(i) {
		if x == t || c.met[x] == c.number {
			continue
		}
		before, after := c.around(x, newMoment(slot, 0))
		if c.output[x] && before >= 0 || after >= 0 && (!after.makes() || after.moment() < newMoment(slot, i)) {
			continue // held across the slot or recomputed in it
		}
		last := int32(0)
		if before >= 0 {
			last = c.place(before.moment())
		}
		if !c.keeps(x, last) && c.tryExtend(x) {
			continue
		}
		if len(c.now.adds) >= maxChain-10 {
			return false
		}
		c.met[x] = c.number
		c.now.penalty += c.hotBytes(x, last, c.first[slot])
	}
	return true
}

// keeps reports whether to keep x from its last event on, rather than recompute it.
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

// tryExtend adds x to the chain. If it cannot, it leaves the chain as it was.
func (c *chainer) tryExtend(x int32) bool {
	adds, runs, cost, penalty := len(c.now.adds), len(c.runs), c.now.cost, c.now.penalty
	if c.extend(x) {
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
