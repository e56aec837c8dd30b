package alloc

import (
	"cmp"
	"context"
	"slices"
)

// infeasible returns a set of buffers that do not fit into a capacity which is
// proven too small, by ascending index. It starts from a fixed buffer that ends too
// high, from the largest buffers of a step whose load is too large, or else from
// all buffers. Then it removes buffers without which the search still proves that
// the rest does not fit: those that end early or begin late, by bisection, then
// groups that are halved until they are single buffers. The set is minimal unless
// the proofs take more than sixteen times the work of the first one.
func (v *solver) infeasible(capacity int64) []int32 {
	for i, b := range v.p.Buffers {
		if b.Fixed != nil && b.Size > 0 && *b.Fixed+v.p.size(i) > capacity {
			return []int32{int32(i)}
		}
	}
	c := infeasibleSet{
		p: v.p, capacity: capacity, ctx: v.ctx,
		budget: max(v.refuted, coreWork/8),
		left:   max(16*v.refuted, coreWork),
	}
	if v.p.MaxLoad() > capacity {
		c.ids = v.p.overload(capacity)
		if s := prepare(v.p); s.fixed == nil && !s.rounds() {
			return c.ids // without any one of them, the others fit
		}
	} else {
		for i := range v.p.Buffers {
			if v.p.Buffers[i].Size > 0 {
				c.ids = append(c.ids, int32(i))
			}
		}
		c.shortenTime()
	}
	c.removeGroups()
	return c.ids
}

// coreWork is the least work that goes into a smaller set, half a second.
const coreWork = 50_000_000

// overload returns the fewest buffers of the busiest step that do not fit into
// the capacity together.
func (p Problem) overload(capacity int64) []int32 {
	step, _ := p.busiestStep()
	type part struct {
		i     int32
		bytes int64
	}
	var live []part
	for i := range p.Buffers {
		for _, x := range p.areas(i) {
			if x.first <= step && step <= x.last {
				live = append(live, part{int32(i), x.to - x.from})
			}
		}
	}
	slices.SortStableFunc(live, func(a, b part) int { return -cmp.Compare(a.bytes, b.bytes) })
	var ids []int32
	for load := int64(0); load <= capacity; live = live[1:] {
		load += live[0].bytes
		ids = append(ids, live[0].i)
	}
	slices.Sort(ids)
	return ids
}

// infeasibleSet is a set of buffers that is proven not to fit into the capacity. It
// shrinks as long as proofs succeed.
type infeasibleSet struct {
	p        Problem
	capacity int64
	ctx      context.Context
	ids      []int32 // ascending
	budget   int64   // work that a proof may take
	left     int64   // work that all proofs may still take
}

// shrinkTo makes the set smaller if the search proves that these buffers do not fit
// either. It reports whether it did.
func (c *infeasibleSet) shrinkTo(ids []int32) bool {
	if c.left <= 0 {
		return false
	}
	part := Problem{Alignment: c.p.Alignment}
	for _, i := range ids {
		part.Buffers = append(part.Buffers, c.p.Buffers[i])
	}
	if part.MaxLoad() > c.capacity {
		c.ids = ids
		return true
	}
	if part.hasGaps() {
		return false // the search counts the bytes in gaps, so its proof does not hold
	}
	x := newExact(part, prepare(part))
	x.ctx = c.ctx
	out, _ := x.decide(c.capacity, min(c.budget, c.left))
	c.left -= x.work + int64(len(x.table))
	if out == fails {
		c.ids = ids
	}
	return out == fails
}

// shortenTime removes the buffers that end early, then those that begin late: as
// many as possible, by bisection.
func (c *infeasibleSet) shortenTime() {
	shrink := func(before func(a, b int32) int) {
		order := slices.Clone(c.ids)
		slices.SortStableFunc(order, before)
		for lo, hi := 0, len(order); hi-lo > 1; { // the first lo buffers are not needed
			mid := (lo + hi) / 2
			ids := slices.Clone(order[mid:])
			slices.Sort(ids)
			if c.shrinkTo(ids) {
				lo = mid
			} else {
				hi = mid
			}
		}
	}
	b := c.p.Buffers
	shrink(func(i, j int32) int { return cmp.Compare(b[i].Last, b[j].Last) })
	shrink(func(i, j int32) int { return -cmp.Compare(b[i].First, b[j].First) })
}

// removeGroups removes groups of buffers that are not needed, the smallest buffers
// first. It begins with groups of a quarter of the set and ends with single buffers.
func (c *infeasibleSet) removeGroups() {
	order := slices.Clone(c.ids)
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(c.p.size(int(i)), c.p.size(int(j))) })
	for n := max(1, len(order)/4); ; n /= 2 {
		for from := 0; from < len(order); {
			to := min(from+n, len(order))
			rest := slices.Concat(order[:from], order[to:])
			ids := slices.Clone(rest)
			slices.Sort(ids)
			if c.shrinkTo(ids) {
				order = rest
			} else {
				from = to
			}
		}
		if n == 1 {
			return
		}
	}
}
