package budget

// At fast effort a limit takes the plan that it has after fastWork, and goes
// without one after lastWork.
const (
	fastWork = 3_000_000
	lastWork = 200_000_000
)

// fast makes a plan for each limit alone: greedy in batches, one order and one
// batch after the other, until one gets there and the work is done.
func (s *Solver) fast(w *work, limits []int64) {
	all := s.chainers(w)
	s.bound.add(w, all[0].order[all[0].at])
	for _, limit := range limits {
		from := w.done
		w.most = from + lastWork
		for i := range len(batches) * len(all) {
			if _, obstacle := s.bound.at(limit); limit >= s.best || obstacle != nil || w.exhausted() {
				break
			}
			if w.done-from > fastWork && s.archive.cheapest(limit) != nil {
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
	a.put(entry{s.index, plan, s.peak, s.extra})
}
