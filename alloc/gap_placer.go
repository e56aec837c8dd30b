package alloc

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// maxConflicts is the number of conflicts up to which gaps are used: each takes 32
// bytes in the lists.
const maxConflicts = 4_000_000

// placeInGaps looks for a smaller arena with buffers in the gaps of others, before the
// searches, which ignore gaps. It places the buffers one by one, in the order of the
// best offsets so far, each at the lowest offset where it overlaps none of those before
// it.
func (v *solver) placeInGaps(g *gapPlacer) { v.offer(g.place(g.byOffset(v.best.Offsets)), "gaps") }

// climbInGaps improves the best placement after the searches, by hill climbing over
// the order in which buffers are placed. It starts from the order of the best
// offsets, which makes no arena larger: each buffer lies at its offset or below.
// Each move puts a buffer that ends highest at an earlier place in the order, and is
// kept unless the arena grows. It ends at the lower bound, when the placer's work is
// spent, or with the context.
func (v *solver) climbInGaps(g *gapPlacer) {
	best := g.byOffset(v.best.Offsets)
	v.offer(g.place(best), "gaps")
	arena := v.best.Arena
	var r random
	order, before := slices.Clone(best), slices.Clone(g.offset)
	for g.work > 0 && !v.done() && context.Cause(v.ctx) == nil {
		var highest []int // places in the order
		for k, i := range best {
			if k > 0 && g.offset[i]+g.p.size(i) == arena {
				highest = append(highest, k)
			}
		}
		if len(highest) == 0 {
			return // only the first buffer of the order is that high, or a fixed one
		}
		from := highest[r.below(len(highest))]
		to := r.below(from)
		copy(order, best)
		copy(order[to+1:from+1], best[to:from])
		order[to] = best[from]
		copy(before, g.offset)
		top, fits := g.placeFrom(order, to, arena)
		if !fits {
			copy(g.offset, before)
			continue
		}
		best, order, arena = order, best, top
		if arena < v.best.Arena {
			v.offer(Placement{slices.Clone(g.offset), arena}, "gaps")
		}
	}
}

// conflict is two areas that are live together, seen from one of their buffers: if
// the other buffer is at offset 0, this one cannot be strictly between low and high.
type conflict struct {
	other     int
	low, high int64
}

// gapPlacer places the buffers of a problem in a given order.
type gapPlacer struct {
	p         Problem
	ids       []int // the buffers of more than 0 bytes without fixed offsets
	fixed     []int // the ones with fixed offsets
	conflicts [][]conflict
	work      int // conflicts that it may still visit

	offset    []int64
	placed    []bool
	forbidden []byteRange
}

// newGapPlacer lists the conflicts, or returns nil if there are too many. It takes
// O(n log n) beside the conflicts.
func newGapPlacer(p Problem, work int) *gapPlacer {
	n := len(p.Buffers)
	g := &gapPlacer{p: p, conflicts: make([][]conflict, n), work: work, offset: make([]int64, n), placed: make([]bool, n)}
	var all []placedArea
	for i, b := range p.Buffers {
		switch {
		case b.Size == 0:
			continue
		case b.Fixed != nil:
			g.fixed = append(g.fixed, i)
		default:
			g.ids = append(g.ids, i)
		}
		for _, x := range p.areas(i) {
			all = append(all, placedArea{x, i})
		}
	}
	slices.SortStableFunc(all, func(a, b placedArea) int { return cmp.Compare(a.first, b.first) })
	if conflictsOf(all) > maxConflicts {
		return nil
	}
	var live []placedArea
	for _, x := range all {
		live = slices.DeleteFunc(live, func(y placedArea) bool { return y.last < x.first })
		for _, y := range live {
			if x.buffer != y.buffer {
				g.conflicts[x.buffer] = append(g.conflicts[x.buffer], conflict{y.buffer, y.from - x.to, y.to - x.from})
				g.conflicts[y.buffer] = append(g.conflicts[y.buffer], conflict{x.buffer, x.from - y.to, x.to - y.from})
			}
		}
		live = append(live, x)
	}
	return g
}

// conflictsOf returns the number of pairs of areas that are live at once. The areas begin one after the other.
func conflictsOf(all []placedArea) (count int) {
	ends := make([]int, len(all)) // ascending
	for i, x := range all {
		ends[i] = x.last
	}
	slices.Sort(ends)
	over := 0 // areas that have ended
	for i, x := range all {
		for over < len(ends) && ends[over] < x.first {
			over++
		}
		count += i - over
	}
	return count
}

// byOffset returns the buffers without fixed offsets in the order of their offsets.
func (g *gapPlacer) byOffset(offsets []int64) []int {
	order := slices.Clone(g.ids)
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(offsets[i], offsets[j]) })
	return order
}

// place places the buffers in an order, after those with fixed offsets.
func (g *gapPlacer) place(order []int) Placement {
	arena, _ := g.placeFrom(order, 0, math.MaxInt64)
	return Placement{slices.Clone(g.offset), arena}
}

// placeFrom places the buffers of an order from a place in it on; those before it keep
// their offsets. It ends, and returns false, at the first that ends above most. Its work is
// counted as that of all buffers.
func (g *gapPlacer) placeFrom(order []int, from int, most int64) (arena int64, fits bool) {
	clear(g.placed)
	arena = g.p.fixedTop()
	for _, i := range g.fixed {
		g.offset[i], g.placed[i] = *g.p.Buffers[i].Fixed, true
	}
	for k, i := range order {
		g.work -= len(g.conflicts[i]) + 1
		if k < from {
			g.placed[i] = true
			arena = max(arena, g.offset[i]+g.p.size(i))
		}
	}
	for _, i := range order[from:] {
		g.offset[i], g.placed[i] = g.lowest(i), true
		if arena = max(arena, g.offset[i]+g.p.size(i)); arena > most {
			return arena, false
		}
	}
	return arena, true
}

// lowest returns the lowest aligned offset that no placed buffer forbids.
func (g *gapPlacer) lowest(i int) int64 {
	g.forbidden = g.forbidden[:0]
	for _, m := range g.conflicts[i] {
		if at := g.offset[m.other]; g.placed[m.other] && at+m.high > 0 {
			g.forbidden = append(g.forbidden, byteRange{at + m.low, at + m.high})
		}
	}
	// A few passes over what is left take less than sorting.
	var off int64
	for before := int64(-1); before < off; {
		before = off
		above := g.forbidden[:0]
		for _, x := range g.forbidden {
			switch {
			case off >= x.hi:
			case off > x.lo:
				off = roundUp(x.hi, g.p.align(i))
			default:
				above = append(above, x)
			}
		}
		g.forbidden = above
	}
	return off
}
