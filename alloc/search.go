package alloc

// limits is the work that an effort allows. The skyline search counts visited tree
// nodes, the exact search visited members of sections.
type limits struct {
	attempts  int   // of the skyline search
	treeNodes int   // of all its attempts
	decide    int64 // work of the exact search at the lower bound, or at the capacity
	halve     int64 // then on each capacity of the first pass above the bound
	quarter   int64 // and of the second pass
	total     int64 // on all capacities
}

var effortLimits = [...]limits{
	EffortDefault: {400, 900_000_000, 500_000_000, 150_000_000, 4_000_000_000, 12_000_000_000},
	EffortFast:    {9, 4_000_000, 10_000_000, 3_000_000, 0, 30_000_000},
	EffortMax:     {4000, 10_000_000_000, 5_000_000_000, 1_500_000_000, 40_000_000_000, 120_000_000_000},
}

// shortLimits are those of EffortDefault with Options.Short.
var shortLimits = limits{40, 60_000_000, 60_000_000, 15_000_000, 100_000_000, 300_000_000}

// maxSpans is the largest sum of the lifetimes, in sections, for the exact search.
// Beyond it, its lists would not fit into memory.
const maxSpans = 3_000_000

// exactFirst is the number of buffers up to which the exact search runs before the
// skyline search has made all its attempts: it takes less time.
const exactFirst = 2500

// largeTreeNodes is the limit of tree nodes beyond large buffers, a second of work.
// It is enough for a few attempts on 100,000 buffers, where the first strategy ends
// within half a per cent of the bound.
const largeTreeNodes = 60_000_000

// maxSearched is the number of buffers up to which there is a search, except with
// EffortMax. Beyond it, largeTreeNodes is not enough for one attempt.
const maxSearched = 1 << 18

func (v *solver) effort() limits {
	if v.opt.Short && v.opt.Effort == EffortDefault {
		return shortLimits
	}
	return effortLimits[v.opt.Effort]
}

// search goes beyond the strategies. First comes the skyline search, on large
// inputs also on the busiest sections alone. Then the exact search decides the
// capacity, or bisects between the lower bound and the best arena. A capacity that
// is proven too small raises the bound. A capacity that runs out of work is neither
// proven nor met, and the bound stays.
func (v *solver) search() {
	effort := v.effort()
	s := prepare(v.p)
	if len(s.ids) > maxSearched && v.opt.Effort != EffortMax {
		return
	}
	if len(s.ids) > large && v.opt.Effort != EffortMax {
		effort.treeNodes = min(effort.treeNodes, largeTreeNodes)
	}
	var spans int64
	for _, i := range s.ids {
		spans += int64(s.hi[i] - s.lo[i])
	}
	useExact := spans <= maxSpans && v.best.Arena < never
	if s.fixed == nil {
		l := newSkylineSearch(v.p, s)
		l.without = v.opt.without
		defer func() { v.opt.spend(int64(l.work())) }()
		v.runSkyline(l, len(basePriorities), effort.treeNodes)
		if len(s.ids) > exactFirst && len(s.ids) <= large && !v.opt.leavesOut("cores") {
			v.packCores(s, effort.attempts, effort.treeNodes/8)
		}
		if !useExact || len(s.ids) > exactFirst {
			v.runSkyline(l, effort.attempts, effort.treeNodes)
		}
	}
	if !useExact || v.done() {
		return
	}
	x := newExact(v.p, s)
	x.ctx = v.ctx
	x.leaveOut(v.opt.without)
	defer func() { v.opt.spend(x.allWork()) }()
	if v.opt.Capacity > 0 {
		v.decide(x, v.opt.Capacity, effort.decide)
		return
	}
	v.minimise(x, s.granularity(), effort)
}

// decide runs the exact search for one capacity and keeps what it finds or proves.
func (v *solver) decide(x *exact, capacity, budget int64) outcome {
	out, offsets := x.decide(capacity, budget)
	switch out {
	case fits:
		a := Placement{Offsets: make([]int64, len(v.p.Buffers))}
		for b, i := range x.ids {
			a.Offsets[i] = offsets[b]
			a.Arena = max(a.Arena, offsets[b]+x.size[b])
		}
		v.offer(a, "exact")
	case fails:
		if !v.p.hasGaps() { // the search counts the bytes in gaps, so it may fail without reason
			v.best.LowerBound = max(v.best.LowerBound, capacity+1)
			v.refuted = x.work
		}
	}
	return out
}

// minimise bisects with capacities that are multiples of the granularity, since
// every height is one, unless some offset needs rounding up. It decides the lower
// bound first. Then it goes down from the best arena in two passes: by half of the
// distance to the bound with little work for each capacity, and by a quarter with
// much, until the total is spent. A capacity just below one that took a second may
// take ten.
func (v *solver) minimise(x *exact, granularity int64, effort limits) {
	if x.rounds {
		granularity = 1
	}
	left := effort.total
	for _, pass := range [...]struct {
		name   string
		part   int64 // of the distance to the bound, for each step down
		budget int64 // for each capacity
	}{{"the bound", 1, effort.decide}, {"halves", 2, effort.halve}, {"quarters", 4, effort.quarter}} {
		if v.opt.leavesOut(pass.name) {
			continue
		}
		lowest := roundUp(v.best.LowerBound, granularity) // the least capacity that this pass has not given up
		for lowest < v.best.Arena && !v.done() && min(left, pass.budget) > 0 {
			capacity := max(lowest, v.best.Arena-max(granularity, (v.best.Arena-lowest)/pass.part/granularity*granularity))
			before := x.work
			if v.decide(x, capacity, min(pass.budget, left)) != fits {
				lowest = capacity + granularity
			}
			left -= 2 * (x.work - before) // the search in parallel takes as much
			if v.best.LowerBound > capacity {
				v.best.LowerBound = min(roundUp(v.best.LowerBound, granularity), v.best.Arena)
			}
			if pass.part == 1 {
				break
			}
		}
	}
}
