package alloc

import (
	"math"
	"slices"
)

// index finds the first unplaced buffer, in the order of s.ids, whose sections
// lie in a span. It is a static k-d tree over the points (lo, hi), in which
// each tree node knows the box around its points and its first unplaced one.
type index struct {
	nodes  []box   // node 1 is the root, node x has halves 2x and 2x+1
	points []point // those of a leaf stand together
	from   []int32 // leaf -> its first place in points
	at     []int32 // place in s.ids -> place in points
	leaf   []int32 // place in points -> its leaf
	of     []int32 // rank -> place in points
	work   int     // tree nodes looked at so far
}

type point struct{ lo, hi, rank int32 }

type box struct {
	minLo, maxLo, minHi, maxHi int32
	first                      point // the least rank, or none
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
		nodes:  make([]box, 2*leaves),
		points: make([]point, 0, n),
		from:   make([]int32, 1, leaves+1),
		at:     make([]int32, n),
		leaf:   make([]int32, 0, n),
		of:     make([]int32, n),
	}
	b := building{index: x, s: s, left: make([]bool, n)}
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

// building is the making of an index.
type building struct {
	*index
	s    prepared
	left []bool // by place in s.ids: in the left half of the split at hand
}

// split parts points at the median of one coordinate, their halves at that of
// the other. They come in the order of the one and in that of the other; spare
// is as long.
func (b *building) split(node, leaves int32, by, then, spare []int32) {
	x := box{minLo: none, minHi: none}
	for _, k := range by {
		i := b.s.ids[k]
		x.minLo, x.maxLo = min(x.minLo, b.s.lo[i]), max(x.maxLo, b.s.lo[i])
		x.minHi, x.maxHi = min(x.minHi, b.s.hi[i]), max(x.maxHi, b.s.hi[i])
	}
	b.nodes[node] = x
	if leaves == 1 {
		for _, k := range by {
			b.at[k] = int32(len(b.points))
			b.points = append(b.points, point{lo: b.s.lo[b.s.ids[k]], hi: b.s.hi[b.s.ids[k]]})
			b.leaf = append(b.leaf, int32(len(b.from)-1))
		}
		b.from = append(b.from, int32(len(b.points)))
		return
	}
	mid := len(by) / 2
	for k, place := range by {
		b.left[place] = k < mid
	}
	left, right := 0, mid
	for _, place := range then {
		if b.left[place] {
			spare[left] = place
			left++
		} else {
			spare[right] = place
			right++
		}
	}
	b.split(2*node, leaves/2, spare[:mid], by[:mid], then[:mid])
	b.split(2*node+1, leaves/2, spare[mid:], by[mid:], then[mid:])
}

// reset marks all as not placed, and ranks them anew: order lists the places in
// s.ids, and a rank is from now on a place in order. O(n).
func (x *index) reset(order []int32) {
	for rank, place := range order {
		x.of[rank] = x.at[place]
		x.points[x.at[place]].rank = int32(rank)
	}
	leaves := int32(len(x.nodes) / 2)
	for node := 2*leaves - 1; node > 0; node-- {
		if node < leaves {
			x.nodes[node].first = sooner(x.nodes[2*node].first, x.nodes[2*node+1].first)
		} else {
			x.nodes[node].first = x.firstOf(node - leaves)
		}
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
	if r := x.search(1, &in, none); r < none {
		return r
	}
	return -1
}

// search looks into the half with the sooner point first: it is the more likely
// to spare us the other.
func (x *index) search(node int32, in *box, best int32) int32 {
	x.work++
	b := &x.nodes[node]
	if b.first.rank >= best || b.maxLo < in.minLo || b.minLo > in.maxLo || b.minHi > in.maxHi || b.maxHi < in.minHi {
		return best
	}
	if in.holds(b.first) {
		return b.first.rank
	}
	if leaf := node - int32(len(x.nodes)/2); leaf >= 0 {
		for _, p := range x.points[x.from[leaf]:x.from[leaf+1]] {
			if p.rank < best && in.holds(p) {
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

// holds says that a point is in a box.
func (b *box) holds(p point) bool {
	return b.minLo <= p.lo && p.lo <= b.maxLo && b.minHi <= p.hi && p.hi <= b.maxHi
}

// sooner returns the point of the lesser rank.
func sooner(a, b point) point {
	if b.rank < a.rank {
		return b
	}
	return a
}

// firstOf returns the unplaced point of the least rank of a leaf, or one of
// rank none.
func (x *index) firstOf(leaf int32) point {
	first := point{rank: none}
	for _, p := range x.points[x.from[leaf]:x.from[leaf+1]] {
		first = sooner(first, p)
	}
	return first
}

// remove marks a rank as placed.
func (x *index) remove(rank int32) {
	x.points[x.of[rank]].rank = none
	leaf := x.leaf[x.of[rank]]
	node := leaf + int32(len(x.nodes)/2)
	if x.nodes[node].first.rank != rank {
		return
	}
	x.nodes[node].first = x.firstOf(leaf)
	for node /= 2; node > 0 && x.nodes[node].first.rank == rank; node /= 2 {
		x.nodes[node].first = sooner(x.nodes[2*node].first, x.nodes[2*node+1].first)
	}
}
