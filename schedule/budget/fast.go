package budget

import "slices"

// fastWork is how many positions a plan at fast effort may sweep before it
// takes what it has.
const fastWork = 3_000_000

// fast makes a plan for each limit alone: greedy in batches, one order and one
// batch after the other, until one gets there and the work is done.
func (s *Solver) fast(w *work, limits []int64) {
	var all []*chainer
	for _, l := range s.lines[:min(len(s.lines), 2)] {
		c := newChainer(newSweep(l, w))
		c.record(&s.archive, nil)
		all = append(all, c)
	}
	s.bound.add(w, all[0].order[all[0].at])
	for _, limit := range limits {
		most := w.done + fastWork
		for i := range len(batches) * len(all) {
			if _, obstacle := s.bound.at(limit); limit >= s.best || obstacle != nil || w.halted() {
				break
			}
			if w.done > most && (s.archive.cheapest(limit) != nil || w.done > 4*most) {
				break
			}
			c := all[i%len(all)]
			c.limit = limit
			var plan makings
			if c.greedy(&plan, greed{batch: batches[i/len(all)], thresholds: plain, rounds: maxRounds}) {
				c.prune(&plan, nil)
				c.record(&s.archive, plan)
			}
		}
	}
}

// batches are the shares of the excess that a round of greedy may take off, best
// first; plain the thresholds without a cut.
var (
	batches = []float64{0.25, 0.5, 0.1, 0}
	plain   = []float64{0, 0.6}
	guided  = []float64{0, 0.6, byCut}
)

const maxRounds = 4000

// record evaluates a plan and puts it into an archive.
func (s *sweep) record(a *archive, plan makings) {
	s.run(plan, false)
	a.put(entry{s.index, slices.Clone(plan), s.peak, s.extra})
}
