package alloc

import (
	"cmp"
	"context"
	"slices"
)

// mostMeetings is how many pairs of areas may be live together in a problem
// whose gaps are used: their list takes 32 bytes for each.
const mostMeetings = 4_000_000

// useGaps looks for a smaller arena in which buffers lie in the gaps of others,
// before or after the searches that know of none. Buffers are placed one by one,
// each at the lowest offset at which it overlaps none of those placed before it in
// any step: in the orders of gapOrders before, and in that of the best offsets so
// far, which makes no arena larger, as each lies at its offset or below.
//
// After the searches a buffer that ends highest moves to an earlier place in the
// order, again and again; what is not worse is kept. It ends at the bound, when
// the placer's work is spent, or with the context.
func (v *solver) useGaps(g *gapPlacer, searched bool) {
	best := slices.Clone(g.ids)
	slices.SortStableFunc(best, func(i, j int) int { return cmp.Compare(v.best.Offsets[i], v.best.Offsets[j]) })
	v.offer(g.place(best), "gaps")
	if !searched {
		for _, by := range gapOrders {
			if v.done() || g.work <= 0 {
				return
			}
			order := slices.Clone(g.ids)
			slices.SortStableFunc(order, func(i, j int) int { return by(&g.p.Buffers[i], &g.p.Buffers[j]) })
			v.offer(g.place(order), "gaps")
		}
		return
	}
	arena := v.best.Arena
	draw := climber{}
	for g.work > 0 && !v.done() && context.Cause(v.ctx) == nil {
		var highest []int // places in the order
		for k, i := range best {
			if k > 0 && g.offset[i]+g.p.size(i) == arena {
				highest = append(highest, k)
			}
		}
		if len(highest) == 0 {
			return // the first of the order alone is that high, or a fixed one
		}
		from := highest[draw.draw(len(highest))]
		to := draw.draw(from)
		order := slices.Clone(best)
		copy(order[to+1:from+1], best[to:from])
		order[to] = best[from]
		was := slices.Clone(g.offset)
		a := g.place(order)
		if a.Arena > arena {
			g.offset = was
			continue
		}
		best, arena = order, a.Arena
		v.offer(a, "gaps")
	}
}

// gapOrders are the orders that are tried first; ties fall to the smaller index.
var gapOrders = []func(a, b *Buffer) int{
	func(a, b *Buffer) int { return -cmp.Compare(a.Size, b.Size) },
	func(a, b *Buffer) int { return -cmp.Compare(duration(*a), duration(*b)) },
	func(a, b *Buffer) int {
		return -cmp.Compare(float64(a.Size)*float64(duration(*a)+1), float64(b.Size)*float64(duration(*b)+1))
	},
	func(a, b *Buffer) int { return cmp.Compare(a.First, b.First) },
}

// meeting is what a buffer placed at offset 0 forbids to another: the offsets
// between low and high, both excluded.
type meeting struct {
	other     int
	low, high int64
}

// gapPlacer places the buffers of a problem in a given order.
type gapPlacer struct {
	p        Problem
	ids      []int // the buffers without fixed offsets, of more than 0 bytes
	fixed    []int // those with
	meetings [][]meeting
	work     int // meetings that it may still look at

	offset []int64
	placed []bool
	taken  []run
}

// newGapPlacer lists what meets what; nil where that is too much. O(n log n) and
// the meetings.
func newGapPlacer(p Problem, work int) *gapPlacer {
	n := len(p.Buffers)
	g := &gapPlacer{p: p, meetings: make([][]meeting, n), work: work, offset: make([]int64, n), placed: make([]bool, n)}
	var all []upward
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
			all = append(all, upward{x, i})
		}
	}
	slices.SortStableFunc(all, func(a, b upward) int { return cmp.Compare(a.first, b.first) })
	var live []upward
	count := 0
	for _, x := range all {
		live = slices.DeleteFunc(live, func(y upward) bool { return y.last < x.first })
		if count += len(live); count > mostMeetings {
			return nil
		}
		for _, y := range live {
			if x.buffer != y.buffer {
				g.meetings[x.buffer] = append(g.meetings[x.buffer], meeting{y.buffer, y.from - x.to, y.to - x.from})
				g.meetings[y.buffer] = append(g.meetings[y.buffer], meeting{x.buffer, x.from - y.to, x.to - y.from})
			}
		}
		live = append(live, x)
	}
	return g
}

// place lays the buffers in an order, after those with fixed offsets.
func (g *gapPlacer) place(order []int) Placement {
	clear(g.placed)
	arena := g.p.fixedTop()
	for _, i := range g.fixed {
		g.offset[i], g.placed[i] = *g.p.Buffers[i].Fixed, true
	}
	for _, i := range order {
		g.offset[i], g.placed[i] = g.lowest(i), true
		arena = max(arena, g.offset[i]+g.p.size(i))
	}
	return Placement{slices.Clone(g.offset), arena}
}

// lowest returns the lowest aligned offset that no placed buffer forbids.
func (g *gapPlacer) lowest(i int) int64 {
	g.work -= len(g.meetings[i]) + 1
	g.taken = g.taken[:0]
	for _, m := range g.meetings[i] {
		if at := g.offset[m.other]; g.placed[m.other] && at+m.high > 0 {
			g.taken = append(g.taken, run{at + m.low, at + m.high})
		}
	}
	slices.SortFunc(g.taken, func(a, b run) int { return cmp.Compare(a.lo, b.lo) })
	var off int64
	for _, x := range g.taken {
		if off <= x.lo {
			break // and so for all that follow
		}
		if off < x.hi {
			off = roundUp(x.hi, g.p.align(i))
		}
	}
	return off
}
