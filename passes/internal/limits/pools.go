package limits

import (
	"context"
	"errors"
	"math"

	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/pools"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
)

// insides are the shares of the fast pool that what a slice makes may take. What is left
// is for the inputs and outputs of regions: the estimates of the search do not tell how
// much of it they use.
var insides = []float64{1, 0.9, 0.75, 0.6}

// colds are the shares of the fast pool up to which loads count as fast. With a small one,
// regions also take in the nodes between them, which read what slices have written.
var colds = []float64{1, 0.2}

// exchanges are the shares of the slow traffic without slices that count as much as the
// time without slices. The first ones break ties and avoid halos that save little;
// the others are for a limit on the extra time.
var exchanges = []float64{1e-4, 1e-2, 0.1, 1, 10}

// SlicesForPools runs regions of the graph in slices, so that what slices make fits into the
// fast pool. If slices bring the whole peak below its capacity, nothing moves in the slow
// ones. Else it plans the graph without slices, and those of some searches, with all
// pools, and takes the one with the least slow traffic whose slices take at most
// Options.ExtraPercent more time, if that is set. Slices run one after the other, in the
// order in which they are written: what else lives meanwhile may lie in a slow pool. If
// nothing of that fits into all pools together, the smallest peak counts.
func SlicesForPools(ctx context.Context, of Task) (*Chosen, error) {
	w, err := newWeigher(ctx, of, meansOf(&of.Permits))
	if err != nil {
		return nil, err
	}
	s, c := &w.s, &Chosen{Measured: w.s.Costs.Measured}
	whole, err := slowTraffic(ctx, w.plain.Main, s.search().Quick())
	if err != nil {
		return nil, err
	}
	x, rates, extra := w.ladders[0].x, exchanges[:3], math.Inf(1)
	if s.Asked.Extra > 0 {
		rates, extra = exchanges, s.Asked.Extra/100
	}
	if whole > 0 {
		m, err := w.intoPools(ctx, s.Rules.Pools[:1], extra)
		if err != nil {
			return nil, err
		}
		if m != nil {
			return c, w.adopt(ctx, c, &way{sliced: m})
		}
	}
	best, seen := whole, map[string]bool{}
	var found *slicedModel
	for i := range len(rates) * len(insides) * len(colds) {
		rate, inside, cold := rates[i/len(colds)/len(insides)], insides[i/len(colds)%len(insides)], colds[i%len(colds)]
		if s.search().TimeIsUp() {
			s.How.Log.TimedOut = true
			break
		}
		choices := x.search.Traffic(ctx, s.Rules.Pools[0].Capacity, inside, cold, rate*float64(allTraffic(w.plain.Main))/x.time)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		key := keyOf(choices)
		if len(choices) == 0 || seen[key] {
			continue
		}
		seen[key] = true
		m, traffic, err := x.applyInPools(ctx, x.search.Choices(choices))
		if err != nil {
			return nil, err
		}
		if traffic < best && m.extra <= extra {
			best, found = traffic, m
		}
	}
	if found == nil && whole == math.MaxInt64 {
		m, err := w.intoPools(ctx, s.Rules.Pools, extra)
		if err != nil {
			return nil, err
		}
		if m != nil {
			return c, w.adopt(ctx, c, &way{sliced: m})
		}
		return nil, w.poolError(ctx)
	}
	if found != nil {
		less, err := w.movesLess(ctx, found)
		if err != nil {
			return nil, err
		}
		if less {
			c.Fixed = true
			return c, w.adopt(ctx, c, &way{sliced: found})
		}
	}
	c.Known = w.plain
	return c, nil
}

// movesLess reports whether slices, in the order in which they are written, move less in the slow
// pools than the graph without them, where each is planned as the passes behind would. The passes
// behind then keep that order.
func (w *weigher) movesLess(ctx context.Context, m *slicedModel) (bool, error) {
	traffic := func(b *Base) (int64, error) {
		if err := b.order(ctx); err != nil {
			return 0, err
		}
		how := *w.s.search()
		how.Fixed = b.fixed
		p, err := pools.Best(ctx, &b.Trial, how, w.s.Permits.Pools)
		return ifItFits(err, func() int64 { return p.Traffic() })
	}
	whole, err := traffic(w.plain)
	if err != nil {
		return false, err
	}
	sliced, err := traffic(&Base{s: &w.s, sliced: m, fixed: true})
	return sliced < whole, err
}

// leaner are the shares of pools that are tried as limits for what must fit into them: no
// offsets may be found for what just fits.
var leaner = []float64{1, 0.9, 0.75}

// intoPools looks for slices that take at most that share of extra time and whose smallest
// peak fits into some pools, the fastest first; nil if none were found.
func (w *weigher) intoPools(ctx context.Context, memories []planner.Memory, extra float64) (*slicedModel, error) {
	capacity := 0.0
	for _, pool := range memories {
		capacity += float64(pool.Capacity)
	}
	for _, share := range leaner {
		limit := int64(min(share*capacity, float64(w.peak())))
		if limit < w.least.Bytes {
			return nil, nil
		}
		m, err := w.slicesAlone(ctx, limit)
		if err != nil || m == nil || m.extra > extra {
			return nil, err
		}
		t, err := m.from.ordered(ctx, m)
		if err != nil {
			return nil, err
		}
		traffic, err := slowTraffic(ctx, t.Main, w.s.search().Quick())
		if fits := traffic == 0 || traffic < math.MaxInt64 && len(memories) == len(w.s.Rules.Pools); err != nil || fits {
			return m, err
		}
	}
	return nil, nil
}

// poolError explains why neither the graph without slices nor slices fit into the pools.
func (w *weigher) poolError(ctx context.Context) error {
	_, err := w.plain.Main.DividePools(ctx, w.s.search().Quick())
	var full *planner.FullError
	if !errors.As(err, &full) {
		return err
	}
	lowest, err := w.sliceLimits(ctx)
	if err != nil {
		return err
	}
	return &PoolError{*full, lowest}
}

// applyInPools rewrites the model and returns its slow traffic.
func (x *slicer) applyInPools(ctx context.Context, choices []*slicing.Choice) (*slicedModel, int64, error) {
	made, err := x.search.Rewrite(choices, 0)
	if err != nil {
		return nil, 0, err
	}
	quick := x.s.search().Quick()
	quick.Fixed = true
	t, err := x.s.inOrder(ctx, made.Model, quick)
	if err != nil {
		return nil, 0, err
	}
	m := &slicedModel{
		choices: choices, weights: made.Weights, rows: made.Rows, from: x, peak: t.Main.Loads.Peak, bound: t.Main.Solved.Bound, extra: x.more(t),
	}
	traffic, err := slowTraffic(ctx, t.Main, quick)
	return m, traffic, err
}

// slowTraffic places an ordered graph in the pools and returns its slow traffic in bytes;
// the largest number if it does not fit.
func slowTraffic(ctx context.Context, r *planner.Region, x *planner.Search) (int64, error) {
	_, err := r.DividePools(ctx, x)
	return ifItFits(err, func() int64 { return r.Tiered().SlowTrafficBytes })
}

// ifItFits returns the slow traffic of a plan for pools, given the error of its making; the
// largest number if the buffers do not fit.
func ifItFits(err error, traffic func() int64) (int64, error) {
	var full *planner.FullError
	switch {
	case errors.As(err, &full):
		return math.MaxInt64, nil
	case err != nil:
		return 0, err
	}
	return traffic(), nil
}

// allTraffic returns what nodes read and write in all pools, in bytes.
func allTraffic(r *planner.Region) (bytes int64) {
	for _, t := range r.Tiers {
		bytes += t.ReadBytes + t.WrittenBytes
	}
	return max(1, bytes)
}
