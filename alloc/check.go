package alloc

import (
	"fmt"
	"math"
)

// Check returns nil if the placement is one of the problem: each offset is 0 or
// more and a multiple of the buffer's alignment, or the fixed one, no two buffers that are live
// together overlap, and the arena ends where the highest buffer ends. Else it
// names the first fault. It compares each buffer with each other and shares
// nothing with the strategies, nor with [Problem.CheckSweep]. O(n²).
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
			return fmt.Errorf("%s: offset: expected %d, where it is fixed, found %d", p.name(i), *p.Buffers[i].Fixed, off)
		}
		top = max(top, off+size)
		for j := range i {
			if p.Buffers[j].First <= p.Buffers[i].Last && p.Buffers[i].First <= p.Buffers[j].Last &&
				a.Offsets[j] < off+size && off < a.Offsets[j]+p.size(j) && p.clash(j, i, a.Offsets) {
				return p.overlap(a, j, i)
			}
		}
	}
	if a.Arena != top {
		return fmt.Errorf("arena: expected %d bytes, the end of the highest buffer, found %d", top, a.Arena)
	}
	return nil
}

// clash says whether two buffers, whose lifetimes and bytes meet, need a byte
// at the same step even with their gaps.
func (p Problem) clash(i, j int, offsets []int64) bool {
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

// overlap spells the overlap of two buffers.
func (p Problem) overlap(a Placement, i, j int) error {
	place := func(i int) string {
		b := p.Buffers[i]
		return fmt.Sprintf("%s (bytes %d-%d, steps %d-%d)", p.name(i), a.Offsets[i], a.Offsets[i]+p.size(i)-1, b.First, b.Last)
	}
	return fmt.Errorf("%s and %s overlap at step %d", place(i), place(j), max(p.Buffers[i].First, p.Buffers[j].First))
}
