package alloc

import (
	"cmp"
	"math"
	"slices"
)

// index finds the first unplaced buffer, in the order of s.ids, whose sections
// lie in a span. It is a static k-d tree over the points (lo, hi), in which
// each tree node knows the box around its points and its first unplaced one.
type index struct {
	lo, hi []int32 // by rank, the place in s.ids
	placed []bool  // by rank
	leaf   []int32 // rank -> its leaf
	nodes  []box   // node 1 is the root, node x has halves 2x and 2x+1
	ranks  []int32 // those of a leaf stand together
	from   []int32 // leaf -> its first place in ranks
}

type box struct {
	minLo, maxLo, minHi, maxHi int32
	first                      int32 // rank, or none
}

const (
	none   = math.MaxInt32
	bucket = 8 // points in a leaf
)

func newIndex(s prepared) *index {
	n := len(s.ids)
	leaves := int32(1)
	for int(leaves)*bucket < n {
		leaves *= 2
	}
	x := &index{
		lo:     make([]int32, n),
		hi:     make([]int32, n),
		placed: make([]bool, n),
		leaf:   make([]int32, n),
		nodes:  make([]box, 2*leaves),
		ranks:  make([]int32, n),
		from:   make([]int32, 1, leaves+1),
	}
	for rank, i := range s.ids {
		x.lo[rank], x.hi[rank] = s.lo[i], s.hi[i]
		x.ranks[rank] = int32(rank)
	}
	x.build(1, x.ranks, leaves, x.lo, x.hi)
	return x
}

// build splits the ranks at the median of one coordinate, then of the other.
func (x *index) build(node int32, ranks []int32, leaves int32, by, then []int32) {
	b := box{minLo: none, minHi: none, first: none}
	for _, r := range ranks {
		b.minLo, b.maxLo = min(b.minLo, x.lo[r]), max(b.maxLo, x.lo[r])
		b.minHi, b.maxHi = min(b.minHi, x.hi[r]), max(b.maxHi, x.hi[r])
		b.first = min(b.first, r)
	}
	x.nodes[node] = b
	if leaves == 1 {
		for _, r := range ranks {
			x.leaf[r] = int32(len(x.from) - 1)
		}
		x.from = append(x.from, x.from[len(x.from)-1]+int32(len(ranks)))
		return
	}
	slices.SortFunc(ranks, func(a, b int32) int {
		return cmp.Or(cmp.Compare(by[a], by[b]), cmp.Compare(a, b))
	})
	mid := len(ranks) / 2
	x.build(2*node, ranks[:mid], leaves/2, then, by)
	x.build(2*node+1, ranks[mid:], leaves/2, then, by)
}

// first returns the least rank that is not placed and whose sections lie in
// [lo, hi), or -1.
func (x *index) first(lo, hi int32) int32 {
	if r := x.search(1, lo, hi, none); r < none {
		return r
	}
	return -1
}

func (x *index) search(node, lo, hi, best int32) int32 {
	b := &x.nodes[node]
	if b.first >= best || b.maxLo < lo || b.minHi > hi {
		return best
	}
	if b.minLo >= lo && b.maxHi <= hi {
		return b.first
	}
	if leaf := node - int32(len(x.nodes)/2); leaf >= 0 {
		for _, r := range x.ranks[x.from[leaf]:x.from[leaf+1]] {
			if r < best && !x.placed[r] && x.lo[r] >= lo && x.hi[r] <= hi {
				best = r
			}
		}
		return best
	}
	best = x.search(2*node, lo, hi, best)
	return x.search(2*node+1, lo, hi, best)
}

// remove marks a rank as placed.
func (x *index) remove(rank int32) {
	x.placed[rank] = true
	leaf := x.leaf[rank]
	first := int32(none)
	for _, r := range x.ranks[x.from[leaf]:x.from[leaf+1]] {
		if !x.placed[r] {
			first = min(first, r)
		}
	}
	for node := leaf + int32(len(x.nodes)/2); x.nodes[node].first == rank; node /= 2 {
		if node < int32(len(x.nodes)/2) {
			first = min(x.nodes[2*node].first, x.nodes[2*node+1].first)
		}
		x.nodes[node].first = first
		if node == 1 {
			break
		}
	}
}
