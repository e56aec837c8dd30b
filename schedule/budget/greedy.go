package budget

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// greed says how a greedy search goes about.
type greed struct {
	batch      float64    // the share of the excess that a round takes off at once; 0: one chain at a time
	thresholds []float64  // see chainer.link
	noise      float64    // the deviation of the logarithm of a score
	draw       *rand.Rand // for noise
	rounds     int
}

// candidate is a chain and what it is worth.
type candidate struct {
	chain
	benefit, score float64
}

// ranked is the place of a candidate in a list, to sort by.
type ranked struct {
	score float64
	place int32
}

// greedy adds makings to a plan until its peak is within the limit, and reports
// whether it got there. In each round it asks, for each buffer that is live at
// the peak but not used there, and read again later, what it takes to make it
// anew for that reader. A candidate is worth what it takes off the excess, summed
// over all positions above the limit (the peak alone stalls where many are
// equal), by the nanosecond. Ties fall to the smaller buffer.
//
// With a batch it takes several at once: any set of makings is valid, so that
// chains made for a stale state do no harm. Rounds fall from hundreds to some
// ten, and after pruning the plan is as good or better.
func (c *chainer) greedy(plan *makings, how greed) bool {
	barred := map[making]bool{}
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
		if !c.takeOne(plan, found, barred) {
			break
		}
	}
	c.sweep.run(*plan, false)
	return c.peak <= c.limit
}

// candidates lists chains for the peak of the plan that was swept last, best first.
// The next call reuses the list.
func (c *chainer) candidates(how greed, barred map[making]bool) []candidate {
	found := c.found[:0]
	c.kept, c.ranked = c.kept[:0], c.ranked[:0]
	for i := range c.size {
		t := int32(i)
		if c.until[t] < 0 || c.output[t] || len(c.events[t]) < 2 {
			continue
		}
		before, after := c.around(t, c.at)
		if before < 0 || after < 0 || after&1 == 1 || after>>1 == c.at {
			continue
		}
		slot := c.slot[after>>1]
		if c.until[t] < slot || before>>1 >= c.first[slot] || barred[newMaking(slot, t)] {
			continue
		}
		worth := c.hotArea(t, before>>1, after>>1)
		from := len(found)
		for _, threshold := range how.thresholds {
			x, ok := c.link(t, slot, c.at, threshold)
			benefit := worth - x.penalty
			if !ok || benefit <= 0 || len(found) > from && slices.Equal(x.adds, found[len(found)-1].adds) {
				continue
			}
			score := benefit / float64(x.cost+1)
			if how.noise > 0 {
				score *= math.Exp(how.noise * how.draw.NormFloat64())
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

// takeMany adds the best candidates until they are worth the batch, and reports
// whether the excess fell as it should; else nothing is added.
func (c *chainer) takeMany(plan *makings, found []candidate, batch float64) bool {
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
			plan.add(newMaking(x.slot, t))
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

// maxTries is how many candidates a round tries one by one.
const maxTries = 40

// takeOne adds the first candidate that lowers the excess; those before it are
// barred. It then leaves out the next making of each buffer that it added, if
// that has become needless.
func (c *chainer) takeOne(plan *makings, found []candidate, barred map[making]bool) bool {
	excess := c.excess
	for i := range found[:min(len(found), maxTries)] {
		x := &found[i]
		was := slices.Clone(*plan)
		var added []making
		for _, t := range x.adds {
			if m := newMaking(x.slot, t); plan.add(m) {
				added = append(added, m)
			}
		}
		c.sweep.run(*plan, false)
		if c.excess >= excess {
			*plan = was
			barred[newMaking(x.slot, x.target)] = true
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
