package limits

import (
	"context"
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// ladder has targets for the load of a graph, the largest first. Estimates of the peaks of
// regions may be too careful: they may exceed the target by a factor, the slack.
type ladder struct {
	x *slicer
	slackness
	rungs  int // the number of targets
	covers []*cover

	bound  int64   // of a ladder for regions inside of slices that may be followed by another one: see [ladder.again]; 0: it may not
	asked  bool    // whether it is followed is known
	second *ladder // nil: by none
}

// slackness says how the estimates of a ladder are taken.
type slackness struct {
	slack float64
	apart bool // regions may run apart
}

// slacks are those of the ladders of a graph.
var slacks = []slackness{{slack: 1}, {slack: 1.25}, {slack: 1.75}, {slack: 1, apart: true}}

// A ladder has rungsPerHalving targets for each halving of the peak, and at most rungs.
const (
	rungsPerHalving = 64
	rungs           = 6 * rungsPerHalving
)

// cover has the cheapest regions for the targets from low to high.
type cover struct {
	low, high int64
	choices   []*slicing.Pick // nil: no regions meet the targets
	extra     float64         // of them, estimated, as a share of the time of a step
}

// at returns the cover of a rung: at 0 is the largest target.
func (l *ladder) at(ctx context.Context, rung int) *cover {
	target := int64(float64(l.x.base.Main.Loads.Peak) * math.Pow(2, -float64(rung+1)/rungsPerHalving))
	for _, c := range l.covers {
		if c.low <= target && target <= c.high {
			return c
		}
	}
	choices, load, peak, ok := l.x.search.Cover(ctx, target, int64(l.slack*float64(target)), l.apart)
	c := &cover{high: target}
	if ok && len(choices) > 0 {
		c.low, c.choices = max(load, int64(math.Ceil(float64(peak)/l.slack))), choices
		for _, r := range choices {
			c.extra += r.Extra / l.x.time
		}
	}
	if l.x.outer != nil || len(l.x.copies)+len(l.x.divided.Parts) > 0 {
		c.extra += l.x.base.Time/l.x.time - 1
	}
	l.covers = append(l.covers, c)
	return c
}

// last returns the last rung whose regions cost at most that share of the time, and fit a
// condition, which holds for all rungs before one for which it holds; -1 if there is
// none.
func (l *ladder) last(ctx context.Context, extra float64, fits func(*cover) bool) int {
	low, high := 0, l.rungs // rungs below low fit
	for low < high {
		mid := (low + high) / 2
		if c := l.at(ctx, mid); c.choices == nil || c.extra > extra || !fits(c) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low - 1
}

// model returns the model with the regions of a cover; nil if it has none.
func (x *slicer) model(ctx context.Context, r *cover) (*slicedModel, error) {
	if r.choices == nil {
		return nil, nil
	}
	key := keyOf(r.choices)
	m, known := x.models[key]
	if known {
		return m, nil
	}
	m, err := x.apply(ctx, x.search.Choices(r.choices))
	if err == nil {
		m.size = x.size(r.choices)
	}
	x.models[key] = m
	return m, err
}

// keyOf identifies a list of regions, their numbers of slices and whether they run apart.
func keyOf(choices []*slicing.Pick) (key string) {
	for _, c := range choices {
		key += fmt.Sprint(c.Start, c.End, c.Seed, c.Axis, c.Slices, c.Apart, " ")
	}
	return key
}

// newInner returns a ladder of a slicer whose regions lie inside of slices. Its last target
// is that at which a peak of the bound, which is for any number of the slices around them,
// would be too large.
func newInner(x *slicer, slack slackness, bound int64) *ladder {
	falls := math.Log2(float64(x.base.Main.Loads.Peak) * slack.slack / float64(max(bound, 1)))
	return &ladder{x: x, slackness: slack, rungs: min(int(math.Ceil(falls*rungsPerHalving)), rungs)}
}

// again returns a ladder for regions inside of the slices of a model that run in another
// order: that of the model with the lowest target of a ladder. It returns nil for other
// ladders, and if the estimates for that model are not much larger than its peak.
//
// An order for slices without regions inside need not be good for these. It may take the rows
// of an input for all slices at once, so that the input is there twice, where the slices need
// more than that. Then no region inside of the first slice is estimated below it. MobileNet
// v2 at batch 8 ends at 8.24 MiB so, and at 7.97 in the other order.
func (l *ladder) again(ctx context.Context) (*ladder, error) {
	if l.bound == 0 || l.asked {
		return l.second, nil
	}
	l.asked = true
	outer := l.x.outer
	rung := l.last(ctx, math.Inf(1), func(*cover) bool { return true })
	if rung < 0 || l.at(ctx, rung).extra > againMost {
		return nil, nil
	}
	m, err := l.x.model(ctx, l.at(ctx, rung))
	if err != nil || m == nil || m.peak >= outer.peak {
		return nil, err
	}
	estimate := int64(0)
	for _, c := range m.choices {
		estimate = max(estimate, c.Peak)
	}
	if float64(estimate) < (1+againLeast)*float64(m.peak) {
		return nil, nil
	}
	t, err := l.x.ordered(ctx, m)
	if err != nil {
		return nil, err
	}
	x, err := outer.from.newWithin(ctx, outer, t.Main.G, l.x)
	if err != nil {
		return nil, err
	}
	l.second = newInner(x, l.slackness, l.bound)
	return l.second, nil
}

// againLeast is the share of the peak by which estimates must be too large for a search in
// another order, which takes as long as the first one.
const againLeast = 0.1

// againMost is the share of the time that the lowest target of a ladder may cost for such a
// search: a ladder that ends at little cost ends by its estimates.
const againMost = 0.1
