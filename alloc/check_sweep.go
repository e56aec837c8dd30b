package alloc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// CheckSweep answers as [Problem.Check] does, though it may name another of
// several overlaps, in O(n log n). It goes through the buffers upwards from
// offset 0 and keeps, for each step, the highest end so far: a buffer overlaps
// one below it if and only if that passes its offset at one of its steps. It
// shares nothing with the strategies but the sizes.
func (p Problem) CheckSweep(a Placement) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(a.Offsets) != len(p.Buffers) {
		return fmt.Errorf("offsets: expected one for each of %d buffers, found %d", len(p.Buffers), len(a.Offsets))
	}
	var upwards []upward
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
			return fmt.Errorf("%s: offset: expected %d, where it is fixed, found %d", p.name(i), *fixed, off)
		}
		top = max(top, off+size)
		for _, x := range p.areas(i) {
			x.from += off
			x.to += off
			upwards = append(upwards, upward{x, i})
		}
	}
	if a.Arena != top {
		return fmt.Errorf("arena: expected %d bytes, the end of the highest buffer, found %d", top, a.Arena)
	}
	if i, j, found := firstOverlap(upwards); found {
		return p.overlap(a, i, j)
	}
	return nil
}

// firstOverlap returns two buffers of which areas overlap, if there are any: the
// lowest area that lies on another, and the highest of those below it. O(n log n).
func firstOverlap(upwards []upward) (below, above int, found bool) {
	slices.SortFunc(upwards, func(a, b upward) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.buffer, b.buffer))
	})
	steps := make([]int, 0, 2*len(upwards))
	for _, x := range upwards {
		steps = append(steps, x.first, x.last)
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	h := newHighest(len(steps))
	for _, x := range upwards {
		first, _ := slices.BinarySearch(steps, x.first)
		last, _ := slices.BinarySearch(steps, x.last)
		if below := h.in(first, last); below.end > x.from {
			return below.buffer, x.buffer, true
		}
		h.raise(first, last, end{x.to, x.buffer})
	}
	return 0, 0, false
}

// upward is an area in the arena.
type upward struct {
	area
	buffer int
}

// end is the end of a buffer.
type end struct {
	end    int64
	buffer int
}

// highest keeps the highest end at each step: a tree of maxima, bottom up.
// Tree node x has halves 2x and 2x+1; the last half of the nodes are the steps.
type highest struct {
	steps int   // a power of two
	whole []end // the highest that covers all steps of the tree node
	any   []end // the highest at any of its steps
}

func newHighest(steps int) *highest {
	n := 1
	for n < steps {
		n *= 2
	}
	return &highest{n, make([]end, 2*n), make([]end, 2*n)}
}

// in returns the highest end at the steps from first to last.
func (h *highest) in(first, last int) end {
	var most end
	for l, r := first+h.steps, last+h.steps+1; l < r; l, r = l/2, r/2 {
		if l%2 == 1 {
			most = higher(most, h.any[l])
			l++
		}
		if r%2 == 1 {
			r--
			most = higher(most, h.any[r])
		}
	}
	for _, leaf := range [2]int{first + h.steps, last + h.steps} {
		for node := leaf; node >= 1; node /= 2 {
			most = higher(most, h.whole[node])
		}
	}
	return most
}

// raise enters an end at the steps from first to last.
func (h *highest) raise(first, last int, x end) {
	enter := func(node int) {
		h.whole[node] = higher(h.whole[node], x)
		h.any[node] = higher(h.any[node], x)
	}
	for l, r := first+h.steps, last+h.steps+1; l < r; l, r = l/2, r/2 {
		if l%2 == 1 {
			enter(l)
			l++
		}
		if r%2 == 1 {
			r--
			enter(r)
		}
	}
	for _, leaf := range [2]int{first + h.steps, last + h.steps} {
		for node := leaf / 2; node >= 1; node /= 2 {
			h.any[node] = higher(h.any[node], x)
		}
	}
}

func higher(a, b end) end {
	if b.end > a.end {
		return b
	}
	return a
}
