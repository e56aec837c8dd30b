package budget

import "slices"

// entry is a finished plan.
type entry struct {
	line  int32
	again makings
	peak  int64
	cost  int64
}

// archive holds the plans that no other one beats in both peak and cost, by
// ascending peak. The plan for a limit is the cheapest with a peak within it: the
// larger the limit, the larger the set, so that of two limits the larger never
// costs more, whatever the searches that filled it did.
type archive []entry

// put keeps a plan if no other is as good.
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
	x.again = slices.Clone(x.again)
	for i > 0 && (*a)[i-1].peak == x.peak {
		i--
	}
	j := i
	for j < len(*a) && (*a)[j].cost >= x.cost {
		j++
	}
	*a = slices.Replace(*a, i, j, x)
}

// cheapest returns the plan for a limit, or nil.
func (a archive) cheapest(limit int64) *entry {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i].peak <= limit {
			return &a[i]
		}
	}
	return nil
}

// lowest returns the smallest peak.
func (a archive) lowest() int64 {
	if len(a) == 0 {
		return 0
	}
	return a[0].peak
}
