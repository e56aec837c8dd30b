package alloc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Check returns nil if the placement is valid. Each offset is at least 0, a multiple of the
// buffer's alignment, and the fixed offset if there is one. No two buffers that are live
// together overlap. The arena is the end of the highest buffer. Otherwise the error names the
// first fault. Check compares each pair of buffers and shares nothing with the strategies or
// with [Problem.CheckSweep]. O(n²).
func (p Problem) Check(a Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(a.Offsets) != len(p.Buffers) {
		return fmt.Errorf("offsets: expected one for each of %d buffers, found %d", len(p.Buffers), len(a.Offsets))
	}
	var top int64
	for i, off := range a.Offsets {
		size := p.size(i)
		switch {
		case off < 0 || off > math.MaxInt64-size:
			return fmt.Errorf("%s: offset: expected 0 to %d, found %d", p.name(i), math.MaxInt64-size, off)
		case off%p.align(i) != 0:
			return fmt.Errorf("%s: offset: expected a multiple of %d, found %d", p.name(i), p.align(i), off)
		case size == 0 && off != 0:
			return fmt.Errorf("%s: offset: expected 0 for 0 bytes, found %d", p.name(i), off)
		case size > 0 && p.Buffers[i].Fixed != nil && off != *p.Buffers[i].Fixed:
			return fmt.Errorf("%s: offset: expected the fixed offset %d, found %d", p.name(i), *p.Buffers[i].Fixed, off)
		}
		top = max(top, off+size)
		for j := range i {
			if p.Buffers[j].First <= p.Buffers[i].Last && p.Buffers[i].First <= p.Buffers[j].Last &&
				a.Offsets[j] < off+size && off < a.Offsets[j]+p.size(j) && p.areasOverlap(j, i, a.Offsets) {
				return p.overlapError(a, j, i)
			}
		}
	}
	if a.Arena != top {
		return fmt.Errorf("arena: expected %d bytes, the end of the highest buffer, found %d", top, a.Arena)
	}
	return nil
}

// areasOverlap reports whether two buffers need the same byte at the same step,
// even with their gaps.
func (p Problem) areasOverlap(i, j int, offsets []int64) bool {
	for _, a := range p.areas(i) {
		for _, b := range p.areas(j) {
			if a.first <= b.last && b.first <= a.last &&
				a.from+offsets[i] < b.to+offsets[j] && b.from+offsets[j] < a.to+offsets[i] {
				return true
			}
		}
	}
	return false
}

func (p Problem) overlapError(a Placement, i, j int) error {
	place := func(i int) string {
		b := p.Buffers[i]
		return fmt.Sprintf("%s (bytes %d-%d, steps %d-%d)", p.name(i), a.Offsets[i], a.Offsets[i]+p.size(i)-1, b.First, b.Last)
	}
	return fmt.Errorf("%s and %s overlap at step %d", place(i), place(j), max(p.Buffers[i].First, p.Buffers[j].First))
}

// CheckSweep is [Problem.Check] in O(n log n). It may name another one of several
// overlaps. It visits the buffers by ascending offset and keeps the highest end so
// far at each step: a buffer overlaps one below it if and only if that end is above
// its offset at one of its steps. It shares only the sizes with the strategies.
func (p Problem) CheckSweep(a Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(a.Offsets) != len(p.Buffers) {
		return fmt.Errorf("offsets: expected one for each of %d buffers, found %d", len(p.Buffers), len(a.Offsets))
	}
	var areas []placedArea
	var top int64
	for i, off := range a.Offsets {
		size, align := p.size(i), p.align(i)
		if off < 0 || off > math.MaxInt64-size || off%align != 0 || size == 0 && off != 0 {
			return fmt.Errorf("%s: offset: expected a multiple of %d from 0 to %d, found %d", p.name(i), align, math.MaxInt64-size, off)
		}
		if size == 0 {
			continue
		}
		if fixed := p.Buffers[i].Fixed; fixed != nil && off != *fixed {
			return fmt.Errorf("%s: offset: expected the fixed offset %d, found %d", p.name(i), *fixed, off)
		}
		top = max(top, off+size)
		for _, x := range p.areas(i) {
			x.from += off
			x.to += off
			areas = append(areas, placedArea{x, i})
		}
	}
	if a.Arena != top {
		return fmt.Errorf("arena: expected %d bytes, the end of the highest buffer, found %d", top, a.Arena)
	}
	if i, j, found := firstOverlap(areas); found {
		return p.overlapError(a, i, j)
	}
	return nil
}

// placedArea is an area of a buffer with its bytes in the arena.
type placedArea struct {
	area
	buffer int
}

// firstOverlap returns two buffers whose areas overlap, if there are any: the
// buffer of the lowest area that overlaps one below it, and the buffer below it that
// ends highest. O(n log n).
func firstOverlap(areas []placedArea) (below, above int, found bool) {
	slices.SortFunc(areas, func(a, b placedArea) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.buffer, b.buffer))
	})
	steps := make([]int, 0, 2*len(areas))
	for _, x := range areas {
		steps = append(steps, x.first, x.last)
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	tops := newTopTree(len(steps))
	for _, x := range areas {
		first, _ := slices.BinarySearch(steps, x.first)
		last, _ := slices.BinarySearch(steps, x.last)
		if below := tops.highest(first, last); below.end > x.from {
			return below.buffer, x.buffer, true
		}
		tops.raise(first, last, top{x.to, x.buffer})
	}
	return 0, 0, false
}

// top is the end of a buffer.
type top struct {
	end    int64
	buffer int
}

// topTree keeps the highest top at each step. It is a segment tree of maxima whose
// queries go bottom up: tree node x has halves 2x and 2x+1, and the second half of
// the nodes are the steps.
type topTree struct {
	steps int   // a power of two
	whole []top // the highest that covers all steps of the tree node
	any   []top // the highest at any of its steps
}

func newTopTree(steps int) *topTree {
	n := 1
	for n < steps {
		n *= 2
	}
	return &topTree{n, make([]top, 2*n), make([]top, 2*n)}
}

// highest returns the highest top at the steps from first to last.
func (t *topTree) highest(first, last int) top {
	var highest top
	for l, r := first+t.steps, last+t.steps+1; l < r; l, r = l/2, r/2 {
		if l%2 == 1 {
			highest = higher(highest, t.any[l])
			l++
		}
		if r%2 == 1 {
			r--
			highest = higher(highest, t.any[r])
		}
	}
	for _, leaf := range [2]int{first + t.steps, last + t.steps} {
		for node := leaf; node >= 1; node /= 2 {
			highest = higher(highest, t.whole[node])
		}
	}
	return highest
}

// raise enters a top at the steps from first to last.
func (t *topTree) raise(first, last int, x top) {
	enter := func(node int) {
		t.whole[node] = higher(t.whole[node], x)
		t.any[node] = higher(t.any[node], x)
	}
	for l, r := first+t.steps, last+t.steps+1; l < r; l, r = l/2, r/2 {
		if l%2 == 1 {
			enter(l)
			l++
		}
		if r%2 == 1 {
			r--
			enter(r)
		}
	}
	for _, leaf := range [2]int{first + t.steps, last + t.steps} {
		for node := leaf / 2; node >= 1; node /= 2 {
			t.any[node] = higher(t.any[node], x)
		}
	}
}

func higher(a, b top) top {
	if b.end > a.end {
		return b
	}
	return a
}

// CheckObjects returns nil if the assignment is valid. Each buffer of more than 0 bytes is in
// an object, and no two in one object are live together. Each object is as large as its
// largest buffer, and the total is the sum of the objects. Otherwise the error names the
// first fault. CheckObjects compares each pair of buffers and shares nothing with the
// strategies. O(n²).
func (p Problem) CheckObjects(o Objects) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(o.Object) != len(p.Buffers) {
		return fmt.Errorf("objects: expected one for each of %d buffers, found %d", len(p.Buffers), len(o.Object))
	}
	largest := make([]int64, len(o.Sizes))
	for i, object := range o.Object {
		size := p.size(i)
		if size == 0 {
			if object != -1 {
				return fmt.Errorf("%s: object: expected -1 for 0 bytes, found %d", p.name(i), object)
			}
			continue
		}
		if object < 0 || object >= len(o.Sizes) {
			return fmt.Errorf("%s: object: expected 0 to %d, found %d", p.name(i), len(o.Sizes)-1, object)
		}
		largest[object] = max(largest[object], size)
		for j := range i {
			if o.Object[j] == object && p.Buffers[j].First <= p.Buffers[i].Last && p.Buffers[i].First <= p.Buffers[j].Last {
				return fmt.Errorf("%s and %s are both in object %d at step %d", p.name(j), p.name(i), object, max(p.Buffers[i].First, p.Buffers[j].First))
			}
		}
	}
	var total int64
	for object, size := range o.Sizes {
		if size != largest[object] {
			return fmt.Errorf("object %d: expected %d bytes, the size of its largest buffer, found %d", object, largest[object], size)
		}
		total += size
	}
	if o.Total != total {
		return fmt.Errorf("objects: expected a total of %d bytes, found %d", total, o.Total)
	}
	return nil
}
