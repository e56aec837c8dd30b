package alloc

import (
	"cmp"
	"context"
	"slices"
)

// infeasible returns buffers that alone do not fit into a capacity which is
// proven to be too small, by ascending index: one that is fixed too high; else
// the largest of a step whose load is too large; else all. Then it leaves out
// what the search can spare: what ends early or begins late, by bisection, and
// at last one by one, so that no one can be left out, unless sixteen times the
// work of the proof was not enough to see it.
func (v *solver) infeasible(capacity int64) []int32 {
	for i, b := range v.p.Buffers {
		if b.Fixed != nil && b.Size > 0 && *b.Fixed+v.p.size(i) > capacity {
			return []int32{int32(i)}
		}
	}
	c := core{
		p: v.p, capacity: capacity, ctx: v.ctx,
		budget: max(v.refuted, coreWork/8),
		left:   max(16*v.refuted, coreWork),
	}
	if v.p.MaxLoad() > capacity {
		c.ids = v.p.overload(capacity)
		if s := prepare(v.p); s.fixed == nil && !s.rounds() {
			return c.ids // any fewer of them fit
		}
	} else {
		for i := range v.p.Buffers {
			if v.p.Buffers[i].Size > 0 {
				c.ids = append(c.ids, int32(i))
			}
		}
		c.shrinkTime()
	}
	c.drop()
	return c.ids
}

// coreWork is the least work that goes into a smaller set, half a second's.
const coreWork = 50_000_000

// overload returns the fewest buffers of the busiest step that do not fit into
// the capacity together.
func (p Problem) overload(capacity int64) []int32 {
	step := p.busiest()
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

// core is a set of buffers that is proven not to fit into the capacity, and
// gets smaller.
type core struct {
	p        Problem
	capacity int64
	ctx      context.Context
	ids      []int32 // ascending
	budget   int64   // work that a refutation may take
	left     int64   // work that all of them may take
}

// refutes says that the search proves that these buffers do not fit; if so,
// they are the core from now on.
func (c *core) refutes(ids []int32) bool {
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
		return false // the search asks for more bytes than needed
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

// shrinkTime leaves out what ends early, then what begins late: as much as
// possible, by bisection.
func (c *core) shrinkTime() {
	shrink := func(before func(a, b int32) int) {
		order := slices.Clone(c.ids)
		slices.SortStableFunc(order, before)
		for lo, hi := 0, len(order); hi-lo > 1; { // lo can be spared
			mid := (lo + hi) / 2
			ids := slices.Clone(order[mid:])
			slices.Sort(ids)
			if c.refutes(ids) {
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

// drop leaves out what it can, the smallest first, many at a time and in the
// end one by one.
func (c *core) drop() {
	order := slices.Clone(c.ids)
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(c.p.size(int(i)), c.p.size(int(j))) })
	for many := max(1, len(order)/4); ; many /= 2 {
		for from := 0; from < len(order); {
			to := min(from+many, len(order))
			rest := slices.Concat(order[:from], order[to:])
			ids := slices.Clone(rest)
			slices.Sort(ids)
			if c.refutes(ids) {
				order = rest
			} else {
				from = to
			}
		}
		if many == 1 {
			return
		}
	}
}
