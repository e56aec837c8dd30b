package alloc

import (
	"math"
	"slices"
)

// index answers which unplaced buffer has the lowest rank among those whose
// sections lie in a given range. Ranks are assigned by reset.
//
// It is a static k-d tree over the points (lo, hi) of the buffers. Each tree node
// knows the bounding box of its points and the unplaced one with the lowest rank.
// A buffer is known by its place in s.ids.
type index struct {
	nodes     []box   // node 1 is the root, node x has halves 2x and 2x+1
	points    []point // the points of a leaf are adjacent
	leafStart []int32 // by leaf: its first point
	leafOf    []int32 // by point: its leaf
	pointOf   []int32 // by place in s.ids: its point
	ranked    []int32 // by rank: its point
	work      int     // tree nodes visited so far
}

type point struct{ lo, hi, rank int32 }

type box struct {
	minLo, maxLo, minHi, maxHi int32
	first                      point // the unplaced point with the lowest rank; its rank is noRank if there is none
}

const (
	noRank   = math.MaxInt32
	leafSize = 8 // points in a leaf
)

func newIndex(s prepared) *index {
	n := len(s.ids)
	leaves := int32(1)
	for int(leaves)*leafSize < n {
		leaves *= 2
	}
	x := &index{
		nodes:     make([]box, 2*leaves),
		points:    make([]point, 0, n),
		leafStart: make([]int32, 1, leaves+1),
		leafOf:    make([]int32, 0, n),
		pointOf:   make([]int32, n),
		ranked:    make([]int32, n),
	}
	b := indexBuilder{index: x, s: s, inLeft: make([]bool, n)}
	byLo := make([]int32, n)
	for k := range byLo {
		byLo[k] = int32(k)
	}
	byHi := slices.Clone(byLo)
	sortBy(byLo, func(k int32) uint64 { return uint64(s.lo[s.ids[k]]) })
	sortBy(byHi, func(k int32) uint64 { return uint64(s.hi[s.ids[k]]) })
	b.split(1, leaves, byLo, byHi, make([]int32, n))
	order := byLo
	for k := range order {
		order[k] = int32(k)
	}
	x.reset(order)
	return x
}

// indexBuilder builds the tree of an index.
type indexBuilder struct {
	index  *index
	s      prepared
	inLeft []bool // by place in s.ids: in the left half of the current split
}

// split builds the subtree of a node from the same buffers in two orders. It
// splits them at the median of the first order's coordinate, and the halves at the
// median of the other. spare is as long as they are.
func (b *indexBuilder) split(node, leaves int32, by, other, spare []int32) {
	x, in := b.index, box{minLo: noRank, minHi: noRank}
	for _, k := range by {
		i := b.s.ids[k]
		in.minLo, in.maxLo = min(in.minLo, b.s.lo[i]), max(in.maxLo, b.s.lo[i])
		in.minHi, in.maxHi = min(in.minHi, b.s.hi[i]), max(in.maxHi, b.s.hi[i])
	}
	x.nodes[node] = in
	if leaves == 1 {
		for _, k := range by {
			x.pointOf[k] = int32(len(x.points))
			x.points = append(x.points, point{lo: b.s.lo[b.s.ids[k]], hi: b.s.hi[b.s.ids[k]]})
			x.leafOf = append(x.leafOf, int32(len(x.leafStart)-1))
		}
		x.leafStart = append(x.leafStart, int32(len(x.points)))
		return
	}
	mid := len(by) / 2
	for k, place := range by {
		b.inLeft[place] = k < mid
	}
	left, right := 0, mid
	for _, place := range other {
		if b.inLeft[place] {
			spare[left] = place
			left++
		} else {
			spare[right] = place
			right++
		}
	}
	b.split(2*node, leaves/2, spare[:mid], by[:mid], other[:mid])
	b.split(2*node+1, leaves/2, spare[mid:], by[mid:], other[mid:])
}

// reset marks all buffers as unplaced and ranks them: order lists places in s.ids,
// and a rank is a place in order. O(n).
func (x *index) reset(order []int32) {
	for rank, place := range order {
		x.ranked[rank] = x.pointOf[place]
		x.points[x.pointOf[place]].rank = int32(rank)
	}
	leaves := int32(len(x.nodes) / 2)
	for node := 2*leaves - 1; node > 0; node-- {
		if node < leaves {
			x.nodes[node].first = lowerRank(x.nodes[2*node].first, x.nodes[2*node+1].first)
		} else {
			x.nodes[node].first = x.firstInLeaf(node - leaves)
		}
	}
}

// firstWithin returns the lowest rank of an unplaced buffer whose sections lie in
// [lo, hi), or -1.
func (x *index) firstWithin(lo, hi int32) int32 {
	return x.firstIn(box{minLo: lo, maxLo: noRank, minHi: 0, maxHi: hi})
}

// firstAcross returns the lowest rank of an unplaced buffer whose sections lie in
// [lo, hi) and include c, or -1.
func (x *index) firstAcross(lo, c, hi int32) int32 {
	return x.firstIn(box{minLo: lo, maxLo: c, minHi: c + 1, maxHi: hi})
}

func (x *index) firstIn(in box) int32 {
	if r := x.search(1, &in, noRank); r < noRank {
		return r
	}
	return -1
}

// search returns the lowest rank below best in a subtree, or best. It descends
// first into the half with the lower rank, which more often makes the other half
// unnecessary.
func (x *index) search(node int32, in *box, best int32) int32 {
	x.work++
	b := &x.nodes[node]
	if b.first.rank >= best || b.maxLo < in.minLo || b.minLo > in.maxLo || b.minHi > in.maxHi || b.maxHi < in.minHi {
		return best
	}
	if in.contains(b.first) {
		return b.first.rank
	}
	if leaf := node - int32(len(x.nodes)/2); leaf >= 0 {
		for _, p := range x.points[x.leafStart[leaf]:x.leafStart[leaf+1]] {
			if p.rank < best && in.contains(p) {
				best = p.rank
			}
		}
		return best
	}
	half := 2 * node
	if x.nodes[half+1].first.rank < x.nodes[half].first.rank {
		half++
	}
	best = x.search(half, in, best)
	return x.search(half^1, in, best)
}

func (b *box) contains(p point) bool {
	return b.minLo <= p.lo && p.lo <= b.maxLo && b.minHi <= p.hi && p.hi <= b.maxHi
}

// lowerRank returns the point with the lower rank.
func lowerRank(a, b point) point {
	if b.rank < a.rank {
		return b
	}
	return a
}

// firstInLeaf returns the point of a leaf with the lowest rank. Placed points have
// the rank noRank.
func (x *index) firstInLeaf(leaf int32) point {
	first := point{rank: noRank}
	for _, p := range x.points[x.leafStart[leaf]:x.leafStart[leaf+1]] {
		first = lowerRank(first, p)
	}
	return first
}

// remove marks the buffer with this rank as placed.
func (x *index) remove(rank int32) {
	x.points[x.ranked[rank]].rank = noRank
	leaf := x.leafOf[x.ranked[rank]]
	node := leaf + int32(len(x.nodes)/2)
	if x.nodes[node].first.rank != rank {
		return
	}
	x.nodes[node].first = x.firstInLeaf(leaf)
	for node /= 2; node > 0 && x.nodes[node].first.rank == rank; node /= 2 {
		x.nodes[node].first = lowerRank(x.nodes[2*node].first, x.nodes[2*node+1].first)
	}
}
