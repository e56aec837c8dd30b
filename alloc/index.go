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
	lo, hi []int32 // by point, the place in s.ids
	rank   []int32 // by point; at first they are the same
	point  []int32 // by rank
	placed []bool  // by rank
	leaf   []int32 // point -> its leaf
	nodes  []box   // node 1 is the root, node x has halves 2x and 2x+1
	points []int32 // those of a leaf stand together
	from   []int32 // leaf -> its first place in points
	work   int     // tree nodes looked at so far
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
		rank:   make([]int32, n),
		point:  make([]int32, n),
		points: make([]int32, n),
		from:   make([]int32, 1, leaves+1),
	}
	for b, i := range s.ids {
		x.lo[b], x.hi[b] = s.lo[i], s.hi[i]
		x.rank[b], x.point[b], x.points[b] = int32(b), int32(b), int32(b)
	}
	x.build(1, x.points, leaves, x.lo, x.hi)
	return x
}

// build splits the points at the median of one coordinate, then of the other.
func (x *index) build(node int32, points []int32, leaves int32, by, then []int32) {
	b := box{minLo: none, minHi: none, first: none}
	for _, r := range points {
		b.minLo, b.maxLo = min(b.minLo, x.lo[r]), max(b.maxLo, x.lo[r])
		b.minHi, b.maxHi = min(b.minHi, x.hi[r]), max(b.maxHi, x.hi[r])
		b.first = min(b.first, r)
	}
	x.nodes[node] = b
	if leaves == 1 {
		for _, r := range points {
			x.leaf[r] = int32(len(x.from) - 1)
		}
		x.from = append(x.from, x.from[len(x.from)-1]+int32(len(points)))
		return
	}
	slices.SortFunc(points, func(a, b int32) int {
		return cmp.Or(cmp.Compare(by[a], by[b]), cmp.Compare(a, b))
	})
	mid := len(points) / 2
	x.build(2*node, points[:mid], leaves/2, then, by)
	x.build(2*node+1, points[mid:], leaves/2, then, by)
}

// reset marks all as not placed, and ranks them anew: order lists the places in
// s.ids, and a rank is from now on a place in order. O(n).
func (x *index) reset(order []int32) {
	clear(x.placed)
	for rank, point := range order {
		x.rank[point] = int32(rank)
		x.point[rank] = point
	}
	leaves := int32(len(x.nodes) / 2)
	for node := 2*leaves - 1; node > 0; node-- {
		if node < leaves {
			x.nodes[node].first = min(x.nodes[2*node].first, x.nodes[2*node+1].first)
			continue
		}
		x.nodes[node].first = x.firstOf(node - leaves)
	}
}

// first returns the least rank that is not placed and whose sections lie in
// [lo, hi), or -1.
func (x *index) first(lo, hi int32) int32 {
	return x.answer(box{minLo: lo, maxLo: none, minHi: 0, maxHi: hi})
}

// across returns the least rank that is not placed and whose sections lie in
// [lo, hi) and have c among them, or -1.
func (x *index) across(lo, c, hi int32) int32 {
	return x.answer(box{minLo: lo, maxLo: c, minHi: c + 1, maxHi: hi})
}

func (x *index) answer(in box) int32 {
	if r := x.search(1, in, none); r < none {
		return r
	}
	return -1
}

func (x *index) search(node int32, in box, best int32) int32 {
	x.work++
	b := &x.nodes[node]
	if b.first >= best || b.maxLo < in.minLo || b.minLo > in.maxLo || b.minHi > in.maxHi || b.maxHi < in.minHi {
		return best
	}
	if x.within(x.point[b.first], in) {
		return b.first
	}
	if leaf := node - int32(len(x.nodes)/2); leaf >= 0 {
		for _, point := range x.points[x.from[leaf]:x.from[leaf+1]] {
			if r := x.rank[point]; r < best && !x.placed[r] && x.within(point, in) {
				best = r
			}
		}
		return best
	}
	best = x.search(2*node, in, best)
	return x.search(2*node+1, in, best)
}

// within says that a point is in a box.
func (x *index) within(point int32, in box) bool {
	return in.minLo <= x.lo[point] && x.lo[point] <= in.maxLo && in.minHi <= x.hi[point] && x.hi[point] <= in.maxHi
}

// firstOf returns the least rank that is not placed of a leaf, or none.
func (x *index) firstOf(leaf int32) int32 {
	first := int32(none)
	for _, point := range x.points[x.from[leaf]:x.from[leaf+1]] {
		if r := x.rank[point]; !x.placed[r] {
			first = min(first, r)
		}
	}
	return first
}

// remove marks a rank as placed.
func (x *index) remove(rank int32) {
	x.placed[rank] = true
	leaf := x.leaf[x.point[rank]]
	first := x.firstOf(leaf)
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
