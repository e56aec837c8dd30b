package budget

import "slices"

// prove computes hulls as long as the work lasts. It begins with the node at the peak,
// which nearly always has the best hull. Then it climbs from there to nodes with better
// hulls, in step widths that halve. Finally it takes the node of the highest load in
// each half, quarter, eighth and so on of the order.
func (s *Solver) prove(w *work, c *chainer, limits []int64, most int64) {
	c.run(nil, false)
	most += w.done
	load, at := slices.Clone(c.load), int(c.at)
	best := s.worth(s.bound.add(w, c.order[at]), c.plain, limits)
	if s.opt.NoBound {
		return
	}
	n := len(load)
	enough := func(at int) bool { return load[at] <= s.best/10 || w.done > most || w.exhausted() }
	for step := n / 4; step >= max(1, n/256); step /= 2 {
		for _, to := range [2]int{at - step, at + step} {
			to = highest(load, max(0, to-step/2), min(n, to+step/2+1))
			if to < 0 || enough(to) {
				continue
			}
			if x := s.worth(s.bound.add(w, c.order[to]), c.plain, limits); x > best {
				best, at = x, to
			}
		}
	}
	for parts := 2; parts <= n; parts *= 2 {
		for k := range parts {
			at := highest(load, k*n/parts, (k+1)*n/parts)
			if w.done > most || w.exhausted() {
				return
			}
			if !enough(at) {
				s.bound.add(w, c.order[at])
			}
		}
	}
}

// worth returns the sum of a hull's lower bounds at some limits, in nanoseconds, or -1
// without a hull.
func (s *Solver) worth(h *hull, plain int64, limits []int64) (sum int64) {
	if h == nil {
		return -1
	}
	for _, limit := range limits {
		sum += min(h.at(limit), plain)
	}
	return sum
}

// highest returns the first step of the highest load in [from, to), or -1.
func highest(load []int64, from, to int) int {
	at := -1
	for i := from; i < to; i++ {
		if at < 0 || load[i] > load[at] {
			at = i
		}
	}
	return at
}
