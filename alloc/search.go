package alloc

// limits is the work that an effort allows.
type limits struct {
	runs    int   // of the skyline search
	look    int   // tree nodes that all of them may look at
	decide  int64 // work of the exact search at the lower bound, or the capacity
	halve   int64 // and of each capacity above it, first
	quarter int64 // and then
	pool    int64 // work of all of them
}

var effortLimits = [...]limits{
	EffortDefault: {400, 900_000_000, 500_000_000, 150_000_000, 4_000_000_000, 12_000_000_000},
	EffortFast:    {9, 4_000_000, 10_000_000, 3_000_000, 0, 30_000_000},
	EffortMax:     {4000, 10_000_000_000, 5_000_000_000, 1_500_000_000, 40_000_000_000, 120_000_000_000},
}

// shortLimits are those of EffortDefault with Options.Short.
var shortLimits = limits{40, 60_000_000, 60_000_000, 15_000_000, 100_000_000, 300_000_000}

// mostSpans is the sum of the lifetimes, in sections, beyond which there is no
// exact search: its lists would not fit into memory.
const mostSpans = 3_000_000

// quickly is how many buffers the exact search decides in less time than the
// skyline search needs for all its runs.
const quickly = 2500

// lookLarge is the nodes that the skyline runs may look at beyond large buffers,
// a second of work: a few runs on 100,000 buffers, whose first strategy ends
// within half a per cent of the bound.
const lookLarge = 60_000_000

// mostBuffers is how many the searches take on, but for EffortMax: beyond it
// lookLarge is not enough for one run.
const mostBuffers = 1 << 18

func (v *solver) effort() limits {
	if v.opt.Short && v.opt.Effort == EffortDefault {
		return shortLimits
	}
	return effortLimits[v.opt.Effort]
}

// search goes beyond the strategies: skyline runs, on large inputs also of
// the busiest sections alone, then the exact search at the
// lower bound, and if that does not end it, a bisection between the bound and
// the best arena. A capacity that is refuted raises the bound; one that
// runs out of work is neither refuted nor met, and the bound stays.
func (v *solver) search() {
	effort := v.effort()
	s := prepare(v.p)
	if len(s.ids) > mostBuffers && v.opt.Effort != EffortMax {
		return
	}
	if len(s.ids) > large && v.opt.Effort != EffortMax {
		effort.look = min(effort.look, lookLarge)
	}
	var spans int64
	for _, i := range s.ids {
		spans += int64(s.hi[i] - s.lo[i])
	}
	exactly := spans <= mostSpans && v.best.Arena < never
	if s.fixed == nil {
		line := newLines(v.p, s)
		v.skylines(line, len(basePriorities), effort.look)
		if len(s.ids) > quickly && len(s.ids) <= large {
			v.cores(s, effort.runs, effort.look/8)
		}
		if !exactly || len(s.ids) > quickly {
			v.skylines(line, effort.runs, effort.look)
		}
	}
	if !exactly || v.done() {
		return
	}
	x := newExact(v.p, s)
	x.ctx = v.ctx
	if v.opt.Capacity > 0 {
		v.decide(x, v.opt.Capacity, effort.decide)
		return
	}
	v.minimise(x, s.grain(), effort)
}

// decide asks the exact search for one capacity.
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
		if !v.p.hasGaps() { // else the search has asked for more bytes than needed
			v.best.LowerBound = max(v.best.LowerBound, capacity+1)
			v.refuted = x.work
		}
	}
	return out
}

// minimise works in multiples of the grain, which divides every height if no
// offset needs rounding up. First the lower bound; then twice from the best
// arena down: by halves with little work each, and by quarters with much, until
// the pool is empty. One grain below an arena that took a second may take ten.
func (v *solver) minimise(x *exact, grain int64, effort limits) {
	if x.rounds {
		grain = 1
	}
	pool := effort.pool
	for _, pass := range [...]struct {
		part   int64 // of the gap, that each step goes down
		budget int64 // of each capacity
	}{{1, effort.decide}, {2, effort.halve}, {4, effort.quarter}} {
		open := roundUp(v.best.LowerBound, grain) // the least capacity not given up in this pass
		for open < v.best.Arena && !v.done() && min(pool, pass.budget) > 0 {
			at := max(open, v.best.Arena-max(grain, (v.best.Arena-open)/pass.part/grain*grain))
			begin := x.work
			if v.decide(x, at, min(pass.budget, pool)) != fits {
				open = at + grain
			}
			pool -= 2 * (x.work - begin)
			if v.best.LowerBound > at {
				v.best.LowerBound = min(roundUp(v.best.LowerBound, grain), v.best.Arena)
			}
			if pass.part == 1 {
				break
			}
		}
	}
}
