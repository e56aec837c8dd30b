package alloc

import (
	"cmp"
	"slices"
)

// occupancy knows which bytes are occupied in which sections.
//
// It is a segment tree over the sections. Each tree node holds the union of the
// bytes that are occupied anywhere in its span, so a deep stack of buffers is one
// range there, and a few tree nodes answer for a long lifetime. Bytes that are
// occupied throughout a span are pending at its node: they are pushed down to the
// halves many at a time, and until then a query that descends below the node asks
// for them, too. Each leaf stands for about √n sections and has a plain list of the
// buffers that cover a part of it; this keeps the tree and its memory small.
type occupancy struct {
	work int // gaps and unions visited so far, by all calls of gaps

	width   int32 // sections per leaf
	leaves  int32 // a power of two; tree node 1 is the root, node x has halves 2x and 2x+1
	any     []byteSet
	pending []byteSet        // occupied throughout the span, and not yet in the halves
	whole   []byteSet        // by leaf: occupied throughout
	partial [][]partialRange // by leaf: by ascending offset

	// Buffers that queries reuse.
	found   []byteSet  // their union answers the query
	ends    [2]byteSet // of partial, for the leaf at either end of the lifetime
	current []byteRange
	spare   []byteRange
}

// partialRange is the bytes of a buffer that covers a part of a leaf.
type partialRange struct {
	byteRange
	sections span
}

// span is the sections [lo, hi).
type span struct{ lo, hi int32 }

func (s span) halves() (span, span) {
	mid := (s.lo + s.hi) / 2
	return span{s.lo, mid}, span{mid, s.hi}
}

func (s span) meets(x span) bool { return s.lo < x.hi && x.lo < s.hi }

func (s span) contains(x span) bool { return s.lo <= x.lo && x.hi <= s.hi }

func newOccupancy(sections int) *occupancy {
	o := &occupancy{leaves: 1}
	for int(o.leaves)*int(o.leaves) < sections {
		o.leaves *= 2
	}
	o.width = (int32(sections) + o.leaves - 1) / o.leaves
	o.any = make([]byteSet, 2*o.leaves)
	o.pending = make([]byteSet, 2*o.leaves)
	o.whole = make([]byteSet, o.leaves)
	o.partial = make([][]partialRange, o.leaves)
	return o
}

// all is the span of the root.
func (o *occupancy) all() span { return span{0, o.width * o.leaves} }

// add marks bytes as occupied in the sections [lo, hi).
func (o *occupancy) add(lo, hi int32, x byteRange) {
	o.addIn(1, o.all(), partialRange{x, span{lo, hi}})
}

func (o *occupancy) addIn(node int32, at span, x partialRange) {
	if !at.meets(x.sections) {
		return
	}
	o.any[node].add(x.byteRange)
	covered := x.sections.contains(at)
	switch leaf := node - o.leaves; {
	case leaf >= 0 && covered:
		o.whole[leaf].add(x.byteRange)
	case leaf >= 0:
		o.partial[leaf] = insertByOffset(o.partial[leaf], x)
	case covered:
		o.pending[node].add(x.byteRange)
	default:
		left, right := at.halves()
		o.addIn(2*node, left, x)
		o.addIn(2*node+1, right, x)
	}
}

func insertByOffset(list []partialRange, x partialRange) []partialRange {
	list = append(list, x)
	i := len(list) - 1
	for ; i > 0 && list[i-1].lo > x.lo; i-- {
		list[i] = list[i-1]
	}
	list[i] = x
	return list
}

// gaps returns the gaps of at least size bytes that are free in all of the
// sections [lo, hi), ascending, and the end of the highest occupied range. The gaps
// are valid until the next call.
//
// The sets that answer the query are not merged. The gaps of the smallest set are
// cut by the next one, and so on. Few gaps are large enough, so most of the larger
// sets are only searched. With 100,000 buffers by size, half of them long-lived,
// this takes a tenth of the time of a merge.
func (o *occupancy) gaps(lo, hi int32, size int64) (gaps []byteRange, top int64) {
	o.found = o.found[:0]
	o.collect(1, o.all(), span{lo, hi})
	slices.SortFunc(o.found, func(a, b byteSet) int { return cmp.Compare(len(a), len(b)) })
	for _, s := range o.found {
		top = max(top, s.top())
	}
	o.current = append(o.current[:0], byteRange{0, top})
	for _, s := range o.found {
		o.spare = s.gapsIn(o.spare[:0], o.current, size)
		o.current, o.spare = o.spare, o.current
		o.work += len(o.current) + 1
	}
	return o.current, top
}

// collect appends to found the sets whose union is occupied in the sections wanted.
func (o *occupancy) collect(node int32, at, want span) {
	if !at.meets(want) {
		return
	}
	if want.contains(at) {
		o.appendFound(o.any[node])
		return
	}
	if leaf := node - o.leaves; leaf >= 0 {
		o.appendFound(o.whole[leaf])
		o.appendFound(o.partialIn(leaf, at, want))
		return
	}
	if n := len(o.pending[node]); n > 8 && n > (len(o.any[2*node])+len(o.any[2*node+1]))/8 {
		o.pushDown(node)
	}
	o.appendFound(o.pending[node])
	left, right := at.halves()
	o.collect(2*node, left, want)
	o.collect(2*node+1, right, want)
}

func (o *occupancy) appendFound(s byteSet) {
	if len(s) > 0 {
		o.found = append(o.found, s)
	}
}

// partialIn returns the bytes that the partial ranges of a leaf occupy in the
// sections wanted. A lifetime has at most two such leaves, one at each end, so two
// sets are enough.
func (o *occupancy) partialIn(leaf int32, at, want span) byteSet {
	s := &o.ends[0]
	if want.lo <= at.lo {
		s = &o.ends[1]
	}
	*s = (*s)[:0]
	for _, x := range o.partial[leaf] {
		if x.sections.meets(want) {
			s.extend(x.byteRange)
		}
	}
	return *s
}

// pushDown adds the pending bytes of a tree node to its halves.
func (o *occupancy) pushDown(node int32) {
	for half := 2 * node; half <= 2*node+1; half++ {
		o.merge(&o.any[half], o.pending[node])
		if leaf := half - o.leaves; leaf >= 0 {
			o.merge(&o.whole[leaf], o.pending[node])
		} else {
			o.merge(&o.pending[half], o.pending[node])
		}
	}
	o.pending[node] = o.pending[node][:0]
}

func (o *occupancy) merge(s *byteSet, more byteSet) {
	o.spare = union(o.spare[:0], *s, more)
	*s = append((*s)[:0], o.spare...)
}

// byteRange is the bytes [lo, hi).
type byteRange struct{ lo, hi int64 }

// byteSet is a set of bytes: ascending ranges that do not touch.
type byteSet []byteRange

// add adds a range. O(log g) for g ranges, plus moving the ranges above it.
func (s *byteSet) add(x byteRange) {
	from := s.search(x.lo)
	to := from
	for to < len(*s) && (*s)[to].lo <= x.hi {
		x.lo = min(x.lo, (*s)[to].lo)
		x.hi = max(x.hi, (*s)[to].hi)
		to++
	}
	if to == from+1 {
		(*s)[from] = x
		return
	}
	*s = slices.Replace(*s, from, to, x)
}

// search returns the index of the first range that ends at off or above.
func (s byteSet) search(off int64) int {
	from, to := 0, len(s)
	for from < to {
		if mid := (from + to) / 2; s[mid].hi < off {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// top returns the end of the highest range.
func (s byteSet) top() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].hi
}

// extend adds a range that does not begin below the last one.
func (s *byteSet) extend(x byteRange) {
	if n := len(*s); n > 0 && x.lo <= (*s)[n-1].hi {
		(*s)[n-1].hi = max((*s)[n-1].hi, x.hi)
		return
	}
	*s = append(*s, x)
}

// union appends the bytes of a and b to dst, which is empty. O(a + b).
func union(dst, a, b byteSet) byteSet {
	for len(a) > 0 && len(b) > 0 {
		if a[0].lo <= b[0].lo {
			dst.extend(a[0])
			a = a[1:]
		} else {
			dst.extend(b[0])
			b = b[1:]
		}
	}
	for _, rest := range [2]byteSet{a, b} {
		for _, x := range rest {
			dst.extend(x)
		}
	}
	return dst
}

// gapsIn appends to dst the gaps of at least size bytes that the set leaves within
// the given gaps, which ascend.
func (s byteSet) gapsIn(dst, gaps []byteRange, size int64) []byteRange {
	i := 0
	for _, gap := range gaps {
		i += s[i:].search(gap.lo)
		off := gap.lo
		for ; i < len(s) && s[i].lo < gap.hi; i++ {
			if s[i].lo-off >= size {
				dst = append(dst, byteRange{off, s[i].lo})
			}
			off = s[i].hi
			if off >= gap.hi {
				break // this range may reach into the next gap
			}
		}
		if gap.hi-off >= size {
			dst = append(dst, byteRange{off, gap.hi})
		}
	}
	return dst
}
