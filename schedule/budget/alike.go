package budget

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/budget/internal/copies"
)

// alike says which recomputes of a line are the same in several copies of a stretch that repeats.
type alike struct {
	node, buffer         []int32 // step, buffer -> its role, or -1
	nodeCopy, bufferCopy []int32
}

// kind is what the recomputes of a role in all copies have in common.
type kind struct {
	slot, buffer int32 // roles, or -1 - the step or the buffer that is in no copy
	apart        int32 // the copies between them
}

func newAlike(l *line, c *copies.Copies) *alike {
	if c == nil {
		return nil
	}
	a := &alike{
		node: make([]int32, len(l.order)), nodeCopy: make([]int32, len(l.order)),
		buffer: make([]int32, len(l.size)), bufferCopy: make([]int32, len(l.size)),
	}
	for i, v := range l.order {
		a.node[i], a.nodeCopy[i] = c.Role[v], c.Copy[v]
	}
	for b, t := range l.tensor {
		a.buffer[b], a.bufferCopy[b] = c.TensorRole[t], c.TensorCopy[t]
	}
	return a
}

func (a *alike) kind(m recompute) kind {
	i, b := m.slot(), m.buffer()
	k := kind{a.node[i], a.buffer[b], 0}
	if k.slot < 0 {
		k.slot = -1 - i
	}
	if k.buffer < 0 {
		k.buffer = -1 - b
	}
	if k.slot >= 0 && k.buffer >= 0 {
		k.apart = a.nodeCopy[i] - a.bufferCopy[b]
	}
	return k
}

// noise returns a normal variate that depends on a kind and a seed alone.
func (k kind) noise(seed uint64) float64 {
	x := rand.NewPCG(seed, uint64(uint32(k.slot))<<40^uint64(uint32(k.buffer))<<16^uint64(uint32(k.apart)))
	return rand.New(x).NormFloat64()
}

// group holds the recomputes of one kind in a plan.
type group struct {
	kind
	all   []recompute // ascending
	worth float64     // nanoseconds for a byte
}

// groups lists those of a plan.
func (s *sweep) groups(plan recomputeSet) []*group {
	known := map[kind]*group{}
	var list []*group
	for _, m := range plan {
		k := s.alike.kind(m)
		g := known[k]
		if g == nil {
			var cost int64
			s.unit(m.buffer(), m.slot(), func(i int32) { cost += s.cost[i] })
			g = &group{kind: k, worth: float64(cost) / float64(s.size[m.buffer()])}
			known[k] = g
			list = append(list, g)
		}
		g.all = append(g.all, m)
	}
	return list
}

// pruneAlike removes the recomputes that the plan does not need to stay within the limit: those of one
// kind in all copies at once, or in as many copies as the limit permits. The kinds that take the most time
// for a byte come first; noise is the standard deviation of their logarithm. On Llama-3-8B's step this
// takes a seventh of the time of prune, and the plans are as good.
func (s *sweep) pruneAlike(plan *recomputeSet, noise float64, seed uint64) {
	list := s.groups(*plan)
	for _, g := range list {
		if noise > 0 {
			g.worth *= math.Exp(noise * g.noise(seed))
		}
	}
	slices.SortStableFunc(list, func(a, b *group) int { return cmp.Compare(b.worth, a.worth) })
	s.run(*plan, true)
	most := s.done + pruneWork
	for _, g := range list {
		if s.exhausted() || s.done > most {
			return
		}
		if s.allNeeded(*plan, g) {
			continue
		}
		was := *plan
		removes := func(n int) bool {
			x := without(was, g.all[:n])
			if !s.fits(x) {
				return false
			}
			*plan = x
			return true
		}
		// Between fits and fails removals lies what the limit permits.
		fits, fails := 0, len(g.all)+1
		for n := len(g.all); fits+1 < fails; n = (fits + fails) / 2 {
			if removes(n) {
				fits = n
			} else {
				fails = n
			}
		}
		s.run(*plan, true)
	}
}

// pruneWork bounds pruneAlike: a plan that was guided by a cut may have hundreds of kinds.
const pruneWork = 6_000_000

// allNeeded reports whether a plan certainly exceeds the limit without any one of some recomputes
// of a group.
func (s *sweep) allNeeded(plan recomputeSet, g *group) bool {
	n := len(g.all)
	for i := range min(n, maxSampled) {
		if !s.needed(plan, g.all[i*(n-1)/max(1, maxSampled-1)]) {
			return false
		}
	}
	return true
}

// maxSampled bounds the recomputes of a group that allNeeded looks at.
const maxSampled = 4

// without returns a plan without some of its recomputes, which are ascending.
func without(plan recomputeSet, out []recompute) recomputeSet {
	kept := make(recomputeSet, 0, len(plan)-len(out))
	for _, m := range plan {
		if len(out) > 0 && out[0] == m {
			out = out[1:]
			continue
		}
		kept = append(kept, m)
	}
	return kept
}

// trim prunes a plan: copies together, if there are some.
func (s *sweep) trim(plan *recomputeSet) {
	if s.alike != nil {
		s.pruneAlike(plan, 0, 0)
	} else {
		s.prune(plan, nil)
	}
}

// takeAlike adds the first kind of candidates that lowers the excess, in all copies, and bars those before it.
// A kind may do so although none of its candidates does alone, or too little to count.
func (c *chainer) takeAlike(plan *recomputeSet, found []candidate, barred map[recompute]bool) bool {
	c.sweep.run(*plan, false) // a batch may have failed before
	excess := c.excess
	kinds := map[kind][]int{}
	var order []kind
	for i := range found {
		k := c.alike.kind(newRecompute(found[i].slot, found[i].target))
		if kinds[k] == nil {
			order = append(order, k)
		}
		kinds[k] = append(kinds[k], i)
	}
	for _, k := range order[:min(len(order), maxTries)] {
		x := slices.Clone(*plan)
		for _, i := range kinds[k] {
			for _, t := range found[i].adds {
				x.add(newRecompute(found[i].slot, t))
			}
		}
		if c.sweep.run(x, false); c.excess < excess {
			*plan = x
			return true
		}
		for _, i := range kinds[k] {
			barred[newRecompute(found[i].slot, found[i].target)] = true
		}
	}
	return false
}

// neighboursAlike is neighbours with copies: what it removes, it removes in all copies or in the first or last
// of them, and the same noise is on the scores of all copies.
func (c *chainer) neighboursAlike(a *archive, from recomputeSet, stray float64, draw *rand.Rand, pace *pacer) {
	now := slices.Clone(from)
	c.run(now, false)
	cost := c.extra
	for idle := 0; idle < maxIdle && len(now) > 0 && !pace.spent() && !c.exhausted(); idle++ {
		plan := c.destroyAlike(now, draw)
		how := greedyOptions{batch: 0.5, thresholds: plain, noise: 0.1 + 0.4*draw.Float64(), seed: draw.Uint64(), rounds: 60}
		if draw.IntN(3) == 0 {
			how.batch = 0.25
		}
		if !c.greedy(&plan, how) {
			continue
		}
		c.pruneAlike(&plan, 0.5*draw.Float64(), draw.Uint64())
		c.run(plan, false)
		if float64(c.extra) <= float64(cost)*(1+stray*draw.Float64()*draw.Float64()) {
			if c.extra < cost {
				idle = 0
			}
			now, cost = plan, c.extra
			c.record(a, plan)
		}
	}
}

// destroyAlike returns the plan without some kinds of recomputes: without each with a certain probability,
// without one, or without one in some copies.
func (c *chainer) destroyAlike(plan recomputeSet, draw *rand.Rand) recomputeSet {
	list := c.groups(plan)
	g := list[draw.IntN(len(list))]
	out := g.all
	switch draw.IntN(4) {
	case 0:
		share := 0.02 + 0.3*draw.Float64()
		for _, x := range list {
			if draw.Float64() < share {
				out = append(slices.Clip(out), x.all...)
			}
		}
	case 1:
		out = out[:1+draw.IntN(len(out))]
	case 2:
		out = out[draw.IntN(len(out)):]
	default:
		x := list[draw.IntN(len(list))]
		out = append(slices.Clip(out), x.all...)
	}
	out = slices.Clone(out)
	slices.Sort(out)
	return without(plan, slices.Compact(out))
}

// planApart leaves copies out of account: each is planned by itself.
func (s *Solver) planApart(all []*chainer) {
	s.copies = nil
	for _, c := range all {
		c.alike = nil
	}
}
