package budget

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// greedyOptions control a greedy search.
type greedyOptions struct {
	batch      float64    // the share of the excess that one round removes; 0: one chain a round
	thresholds []float64  // see chainer.chainFor
	noise      float64    // the standard deviation of the noise on the logarithm of a score
	draw       *rand.Rand // for noise; nil: it depends on seed and on the kind of recompute
	seed       uint64
	kinds      bool // with copies: what a batch leaves is done by kinds of candidates, and by single ones where these fail
	rounds     int
}

// candidate is a chain with its benefit (see greedy) and its score, the benefit per
// nanosecond.
type candidate struct {
	chain
	benefit, score float64
}

// ranked is a sort key for the candidate at a place in a list.
type ranked struct {
	score float64
	place int32
}

// greedy adds recomputes to a plan until its peak is within the limit, and reports
// whether it succeeded. In each round, the candidates are the buffers that are live
// but not used at the peak and that are read later: each with a chain that recomputes
// the buffer for that reader. The benefit of a candidate is the amount by which it
// lowers the excess, which is the load above the limit summed over all positions.
// (Lowering the peak alone stalls if many positions have the same load.) Candidates
// are ranked by benefit per nanosecond. Ties fall to the smaller buffer.
//
// With a batch, a round takes several candidates at once. Every recomputeSet is
// valid, so chains computed for a slightly different plan do no harm. This needs
// about ten rounds instead of hundreds, and after pruning the plan is as good or
// better.
func (c *chainer) greedy(plan *recomputeSet, how greedyOptions) bool {
	barred := map[recompute]bool{}
	for range how.rounds {
		c.sweep.run(*plan, true)
		if c.peak <= c.limit {
			return true
		}
		if c.exhausted() {
			return false
		}
		found := c.candidates(how, barred)
		if how.batch > 0 && len(found) > 8 && c.takeMany(plan, found, how.batch) {
			continue
		}
		if !c.takeNext(plan, found, how, barred) {
			break
		}
	}
	c.sweep.run(*plan, false)
	return c.peak <= c.limit
}

// candidates lists the candidates for the peak of the last swept plan, best first.
// The next call reuses the list.
func (c *chainer) candidates(how greedyOptions, barred map[recompute]bool) []candidate {
	found, peak := c.found[:0], c.momentAt(c.at)
	c.kept, c.ranked = c.kept[:0], c.ranked[:0]
	for i := range c.size {
		t := int32(i)
		if c.until[t] < 0 || c.output[t] || len(c.events[t]) < 2 {
			continue
		}
		before, after := c.around(t, peak)
		if before < 0 || after < 0 || after.makes() || after.moment() == peak {
			continue
		}
		slot := after.moment().slot()
		if c.until[t] < slot || before.moment().slot() >= slot || barred[newRecompute(slot, t)] {
			continue
		}
		worth := c.hotArea(t, c.place(before.moment()), c.place(after.moment()))
		from := len(found)
		for _, threshold := range how.thresholds {
			x, ok := c.chainFor(t, slot, c.at, threshold)
			benefit := worth - x.penalty
			if !ok || benefit <= 0 || len(found) > from && slices.Equal(x.adds, found[len(found)-1].adds) {
				continue
			}
			score := benefit / float64(x.cost+1)
			if how.noise > 0 {
				score *= math.Exp(how.noise * c.variate(how, newRecompute(slot, t)))
			}
			kept := len(c.kept)
			c.kept = append(c.kept, x.adds...)
			x.adds = c.kept[kept:]
			c.ranked = append(c.ranked, ranked{score, int32(len(found))})
			found = append(found, candidate{x, benefit, score})
		}
	}
	c.found = found
	slices.SortFunc(c.ranked, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.place, b.place))
	})
	c.best = c.best[:0]
	for _, x := range c.ranked {
		c.best = append(c.best, found[x.place])
	}
	return c.best
}

// takeNext adds a single candidate or, where there are copies, a kind of them, which are tried in the
// order that how says.
func (c *chainer) takeNext(plan *recomputeSet, found []candidate, how greedyOptions, barred map[recompute]bool) bool {
	if c.alike == nil {
		return c.takeOne(plan, found, barred)
	}
	if how.kinds {
		if c.takeAlike(plan, found, barred) {
			return true
		}
		c.sweep.run(*plan, false)
		return c.takeOne(plan, found, barred)
	}
	if c.takeOne(plan, found, barred) {
		return true
	}
	c.sweep.run(*plan, false)
	if large := c.large(found); how.batch > 0 && len(large) > 0 && c.takeMany(plan, large, how.batch) {
		return true
	}
	return c.takeAlike(plan, found, barred)
}

// large returns the candidates that lower the excess of the last swept plan by at least a part in
// largeParts, if others stand before them: of those there may be many that are cheap, and of no use.
func (c *chainer) large(found []candidate) (large []candidate) {
	for i := range found {
		if found[i].benefit*largeParts >= c.excess {
			large = append(large, found[i])
		}
	}
	if len(large) == len(found) {
		return nil
	}
	return large
}

const largeParts = 1024

// variate returns the normal variate for the score of a recompute.
func (c *chainer) variate(how greedyOptions, m recompute) float64 {
	if how.draw == nil {
		return c.alike.kind(m).noise(how.seed)
	}
	return how.draw.NormFloat64()
}

// takeMany adds the best candidates until their benefits reach the batch's share of
// the excess. It reports whether the excess fell by at least a quarter of that share;
// if not, it restores the plan.
func (c *chainer) takeMany(plan *recomputeSet, found []candidate, batch float64) bool {
	excess, worth := c.excess, 0.0
	used := map[int32]bool{}
	was := slices.Clone(*plan)
	for i := range found {
		x := &found[i]
		if used[x.target] || worth > 0 && x.score < found[0].score/3 {
			continue
		}
		for _, t := range x.adds {
			used[t] = true
			plan.add(newRecompute(x.slot, t))
		}
		if worth += x.benefit; worth > batch*excess {
			break
		}
	}
	c.sweep.run(*plan, false)
	if c.excess < excess*(1-batch/4) {
		return true
	}
	*plan = was
	return false
}

// maxTries bounds the number of candidates that a round tries one by one.
const maxTries = 40

// takeOne adds the first candidate that lowers the excess and bars the candidates
// before it. Then, for each buffer that it added, it removes the buffer's next
// recompute unless that raises the excess.
func (c *chainer) takeOne(plan *recomputeSet, found []candidate, barred map[recompute]bool) bool {
	excess := c.excess
	for i := range found[:min(len(found), maxTries)] {
		x := &found[i]
		was := slices.Clone(*plan)
		var added []recompute
		for _, t := range x.adds {
			if m := newRecompute(x.slot, t); plan.add(m) {
				added = append(added, m)
			}
		}
		c.sweep.run(*plan, false)
		if c.excess >= excess {
			*plan = was
			barred[newRecompute(x.slot, x.target)] = true
			continue
		}
		excess = c.excess
		for _, m := range added {
			if later, ok := plan.later(m); ok {
				plan.remove(later)
				if c.sweep.run(*plan, false); c.excess > excess {
					plan.add(later)
				} else {
					excess = c.excess
				}
			}
		}
		return true
	}
	return false
}
