package budget

import "slices"

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
