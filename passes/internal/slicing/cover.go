package slicing

import (
	"context"
	"math"
	"slices"
)

// Cover returns regions with disjoint windows, of the least extra time, such that the load of
// every step outside of them is at most the limit, and their estimated peaks are at most the
// target. It also returns the largest of those loads and of those peaks; false if there are
// no such regions. It is exact for the windows that it looks at: from the first node to each
// node, it keeps the cheapest choice. So the regions are also those for a lower limit and
// target that the loads and the peaks do not exceed. If apart is set, regions may run apart,
// which is estimated to take fewer slices, or the same.
func (s *Search) Cover(ctx context.Context, limit, target int64, apart bool) (list []*Pick, load, peak int64, ok bool) {
	n := len(s.g.Nodes)
	if max(limit, target) < s.floor {
		return nil, 0, 0, false
	}
	hot := make([]int, n+1) // the number of nodes before v whose load is too large
	for v, load := range s.Loads {
		hot[v+1] = hot[v]
		if load > limit {
			hot[v+1]++
		}
	}
	cost := make([]float64, n+1)
	from := make([]*Pick, n+1)
	for v := range cost {
		cost[v] = math.Inf(1)
	}
	cost[0] = 0
	if hot[n] > 0 {
		for _, c := range s.entire() {
			at := &place{candidate: c, s: s}
			if e, ok := at.choose(target, cost[n], apart); ok {
				cost[n], from[n] = e.extra, at.pick(e)
			}
		}
	}
	for v := range n {
		if ctx.Err() != nil {
			return nil, 0, 0, false
		}
		if math.IsInf(cost[v], 1) || cost[v] >= cost[n] {
			continue // what lies behind is not cheaper than regions of the whole program
		}
		if hot[v+1] == hot[v] && cost[v] < cost[v+1] {
			cost[v+1], from[v+1] = cost[v], nil
		}
		if _, start := slices.BinarySearch(s.starts, v); !start {
			continue
		}
		across, seen := s.over(v), v // at the nodes before seen
		first, _ := slices.BinarySearch(s.ends, v)
		for to := first; to < len(s.ends); to++ {
			e := s.ends[to]
			if e-v >= s.Reach || s.until != nil && e > s.until[v] {
				break
			}
			if s.Owners != nil && s.Owners[e] < 0 {
				continue
			}
			if hot[e+1] == hot[v] || hot[v+1] == hot[v] && hot[min(v+s.Reach/2, n)] == hot[v] {
				continue
			}
			if s.worth(v, e) == 0 {
				continue
			}
			for ; seen <= e; seen++ {
				across -= s.dies(v, seen)
			}
			w := s.at(v, to)
			if w.held+across > target || w.least >= min(cost[e+1], cost[n])-cost[v] {
				continue
			}
			least := math.Inf(1)
			for _, c := range w.list {
				at := place{c, s, v, across}
				if t, ok := at.choose(target, min(cost[e+1], cost[n])-cost[v], apart); ok {
					cost[e+1], from[e+1] = cost[v]+t.extra, at.pick(t)
				}
				least = min(least, c.fastest())
			}
			w.least = least
		}
	}
	if math.IsInf(cost[n], 1) {
		return nil, 0, 0, false
	}
	for v := n; v > 0; {
		if c := from[v]; c != nil {
			list = append(list, c)
			peak = max(peak, c.Peak)
			v = c.Start
		} else {
			v--
			load = max(load, s.Loads[v])
		}
	}
	slices.Reverse(list)
	return list, load, peak, true
}
