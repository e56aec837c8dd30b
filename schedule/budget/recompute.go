package budget

import (
	"slices"
)

// recompute says that a plan recomputes a buffer in a slot.
type recompute uint64

func newRecompute(slot, buffer int32) recompute {
	return recompute(slot)<<32 | recompute(uint32(buffer))
}
func (r recompute) slot() int32   { return int32(r >> 32) }
func (r recompute) buffer() int32 { return int32(uint32(r)) }

// recomputeSet is a plan: a set of recomputes, ascending by slot, then by buffer. The
// set determines the lifetimes of all instances. Every set that recomputes no buffer
// later than line.until allows is a valid plan, because the first run of each node
// always makes an instance to read.
type recomputeSet []recompute

// add adds m to the set and reports whether it was absent.
func (s *recomputeSet) add(m recompute) bool {
	i, found := slices.BinarySearch(*s, m)
	if !found {
		*s = slices.Insert(*s, i, m)
	}
	return !found
}

func (s *recomputeSet) remove(m recompute) {
	if i, found := slices.BinarySearch(*s, m); found {
		*s = slices.Delete(*s, i, i+1)
	}
}

// later returns the next recompute of m's buffer in a slot after m's.
func (s recomputeSet) later(m recompute) (recompute, bool) {
	i, _ := slices.BinarySearch(s, newRecompute(m.slot()+1, 0))
	for _, x := range s[i:] {
		if x.buffer() == m.buffer() {
			return x, true
		}
	}
	return 0, false
}

// unroll returns the nodes in the order in which the plan runs them.
func (l *line) unroll(s recomputeSet) []int {
	steps := make([]int, 0, len(l.order)+len(s))
	var slot []int32
	for i, v := range l.order {
		slot = slot[:0]
		for len(s) > 0 && s[0].slot() == int32(i) {
			l.unit(s[0].buffer(), int32(i), func(j int32) { slot = append(slot, j) })
			s = s[1:]
		}
		slices.Sort(slot)
		for _, j := range slices.Compact(slot) {
			steps = append(steps, int(l.order[j]))
		}
		steps = append(steps, int(v))
	}
	return steps
}

// entry is a finished plan.
type entry struct {
	line int32
	set  recomputeSet
	peak int64
	cost int64
}

// archive holds the Pareto front of the plans found, by ascending peak: no plan in it
// is beaten in both peak and cost. The plan for a limit is the cheapest one whose peak
// is within the limit. A larger limit chooses from a superset, so it never costs more,
// whatever searches filled the archive.
type archive []entry

// put adds a plan unless another is as good in both peak and cost.
func (a *archive) put(x entry) {
	i, _ := slices.BinarySearchFunc(*a, x.peak+1, func(e entry, peak int64) int {
		if e.peak < peak {
			return -1
		}
		return 1
	})
	if i > 0 && (*a)[i-1].cost <= x.cost {
		return
	}
	x.set = slices.Clone(x.set)
	for i > 0 && (*a)[i-1].peak == x.peak {
		i--
	}
	j := i
	for j < len(*a) && (*a)[j].cost >= x.cost {
		j++
	}
	*a = slices.Replace(*a, i, j, x)
}

// cheapest returns the cheapest plan within a limit, or nil.
func (a archive) cheapest(limit int64) *entry {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i].peak <= limit {
			return &a[i]
		}
	}
	return nil
}

// lowest returns the smallest peak of all plans, or 0 without plans.
func (a archive) lowest() int64 {
	if len(a) == 0 {
		return 0
	}
	return a[0].peak
}
