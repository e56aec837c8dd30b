package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// maxBuckets is the largest number of buckets of one plan.
const maxBuckets = 4096

// Buckets returns the plans of all combinations of some lengths, the smaller arenas first:
// each serves all points whose lengths are not larger. A dimension without a list has its
// largest length. at returns the plan of a point, as [Plan.At] does.
func (p *Plan) Buckets(lengths map[string][]int64, at func(dims map[string]int64) (*Plan, error)) ([]*Plan, error) {
	names, _ := p.Box()
	for name := range lengths {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("buckets of dimension %q: expected one of those with several lengths, %q", graph.Short(name), names)
		}
	}
	points := []map[string]int64{{}}
	for _, name := range names {
		list := lengths[name]
		if list == nil {
			list = []int64{p.Dims[name].Value}
		}
		var more []map[string]int64
		for _, point := range points {
			for _, n := range list {
				next := map[string]int64{name: n}
				for other, length := range point {
					next[other] = length
				}
				more = append(more, next)
			}
		}
		if points = more; len(points) > maxBuckets {
			return nil, fmt.Errorf("expected at most %d buckets", maxBuckets)
		}
	}
	var list []*Plan
	for _, point := range points {
		b, err := at(point)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	slices.SortStableFunc(list, func(a, b *Plan) int { return cmp.Compare(a.Summary.ArenaBytes, b.Summary.ArenaBytes) })
	return list, nil
}

// FewestBuckets returns the fewest buckets in which the arena exceeds the lower bound of
// each point by at most waste per cent, the smallest first, and the largest ratio of both.
// Arenas do not shrink as a length grows, so taking each bucket as wide as it may be, from
// the largest length down, is optimal. The plan must have one dimension with several
// lengths; lengths that the model refuses are left out. The waste cannot be kept where the
// plan's own ratio is above it: then the bucket has one length alone.
func (p *Plan) FewestBuckets(waste float64, at func(dims map[string]int64) (*Plan, error)) (buckets []*Plan, worst float64, err error) {
	names, lengths := p.Box()
	if len(names) != 1 {
		return nil, 0, fmt.Errorf("fewest buckets: expected one dimension with several lengths, found %d", len(names))
	}
	worst = 1
	for i := len(lengths[0]) - 1; i >= 0; i-- {
		point := map[string]int64{names[0]: lengths[0][i]}
		b, err := at(point)
		if err != nil {
			if p.CheckPoint(point) != nil || p.Ranges.Refused > 0 && len(p.Ranges.Accepted) == 0 {
				continue // the model refuses it
			}
			return nil, 0, err
		}
		if len(buckets) > 0 {
			top := RangePoint{ArenaBytes: buckets[len(buckets)-1].Summary.ArenaBytes, LowerBoundBytes: b.Summary.LowerBoundBytes}
			if r := top.Ratio(); r <= 1+waste/100 {
				worst = max(worst, r)
				continue
			}
		}
		own := RangePoint{ArenaBytes: b.Summary.ArenaBytes, LowerBoundBytes: b.Summary.LowerBoundBytes}
		worst = max(worst, own.Ratio())
		if buckets = append(buckets, b); len(buckets) > maxBuckets {
			return nil, 0, fmt.Errorf("expected at most %d buckets", maxBuckets)
		}
	}
	slices.Reverse(buckets)
	return buckets, worst, nil
}
