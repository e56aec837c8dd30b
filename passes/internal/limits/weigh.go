package limits

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/schedule/budget"
)

// error explains why there is no way to meet a limit.
func (w *weigher) error(ctx context.Context, limit int64) error {
	e := &Error{LimitBytes: limit, Arena: w.s.Asked.Limit.Arena, PeakBytes: w.peak(), LowestBytes: w.lowest, // of an impossible limit: what happens to be known
		Slices: &Lowest{AnySlices: w.floor}}
	impossible, err := w.impossible(ctx, limit)
	if err != nil {
		return err
	}
	if impossible {
		e.Impossible, e.NeedBytes, e.Tensors = true, w.floor.Bytes, w.floor.Tensors
		if len(w.floor.Nodes) > 0 {
			e.Node = w.floor.Nodes[0]
		}
		return e
	}
	if w.withinGraphs() {
		search, end := w.s.search().Context(ctx)
		defer end()
		plain, err := w.plain.searched()
		if err != nil {
			return err
		}
		w.reaches(plain.cheapest(search, limit).Lowest)
	}
	e.LowestBytes = w.lowest
	if e.Slices, err = w.sliceLimits(ctx); err != nil {
		return err
	}
	return e
}

// sliceLimits describes the lowest plan in slices alone that has been seen.
func (w *weigher) sliceLimits(ctx context.Context) (*Lowest, error) {
	x := &Lowest{AnySlices: w.floor}
	if w.best == nil {
		return x, nil
	}
	if x.PeakBytes = w.best.peak; w.sharing() {
		return x, nil // the bounds below are those of plans without
	}
	x.BoundBytes = w.best.bound
	var err error
	x.AnyCount, err = w.best.anyCount(ctx, w.least)
	return x, err
}

// at returns the cheapest way found to meet a limit; nil if none was found.
func (w *weigher) at(ctx context.Context, limit int64) (*way, error) {
	if w.meets(limit) {
		return &way{limit: limit}, nil
	}
	if impossible, err := w.impossible(ctx, limit); err != nil || impossible {
		return nil, err
	}
	var best *way
	m, err := w.slicesAlone(ctx, limit)
	if err != nil {
		return nil, err
	}
	if m != nil {
		best = &way{sliced: m, limit: limit, extra: m.extra}
	}
	if !w.withinGraphs() {
		return best, nil
	}
	list := []*Base{w.plain}
	if best == nil || best.extra > nextToNothing {
		if list, err = w.all(ctx); err != nil {
			return nil, err
		}
	}
	for _, b := range list {
		if best != nil && b.shareOf() >= best.extra {
			continue
		}
		if w.most > 0 && b.sliced != nil && best != nil && b.shareOf() >= best.extra-nextToNothing {
			continue // it saves next to nothing
		}
		if err := b.order(ctx); err != nil {
			return nil, err
		}
		w.reaches(b.Main.Loads.Peak)
		if b.Main.Loads.Peak <= limit {
			best = &way{sliced: b.sliced, limit: limit, extra: b.shareOf()}
			continue
		}
		search, end := w.s.search().Context(ctx)
		p, err := b.below(search, limit, best)
		end()
		if err != nil {
			return nil, err
		}
		if p == nil {
			continue
		}
		w.s.How.Log.TimedOut = w.s.How.Log.TimedOut || p.Ended != nil
		w.reaches(p.Lowest)
		if extra := b.with(p.ExtraPercent); p.Feasible == budget.Found && (best == nil || extra < best.extra) {
			best = &way{sliced: b.sliced, from: b, limit: limit, extra: extra}
		}
	}
	return best, nil
}

// within returns the way with the smallest peak that takes at most that percentage more
// time; nil if no way makes the peak smaller.
func (w *weigher) within(ctx context.Context, percent float64) (*way, error) {
	var best *way
	w.most = percent / 100
	peak := w.peak()
	if w.shared != nil && w.shared.Loads.Peak < peak {
		peak = w.shared.Loads.Peak
		best = &way{limit: peak}
	}
	var ladders []*ladder
	for _, m := range w.means {
		if m.moves == nil {
			continue
		}
		more, err := m.moves(w, ctx)
		if err != nil {
			return nil, err
		}
		ladders = slices.Concat(ladders, more)
	}
	for i := 0; i < len(ladders); i++ {
		l := ladders[i]
		if l.x.outer != nil && l.x.outer.extra >= percent/100 {
			continue
		}
		second, err := l.again(ctx)
		if err != nil {
			return nil, err
		}
		if second != nil {
			ladders = append(ladders, second)
		}
		last := l.last(ctx, percent/100, func(*cover) bool { return true })
		// Peaks do not always fall with the target, so some rungs before it are tried, too.
		for k, tries := last, 0; k >= 0 && tries < lastTries; tries++ {
			c := l.at(ctx, k)
			m, err := l.x.model(ctx, c)
			if err != nil {
				return nil, err
			}
			if m != nil && m.extra <= percent/100 && m.peak < peak {
				best, peak = &way{sliced: m, limit: m.peak, extra: m.extra}, m.peak
			}
			for k >= 0 && l.at(ctx, k) == c {
				k--
			}
		}
	}
	var list []*Base
	if w.withinGraphs() {
		var err error
		if list, err = w.all(ctx); err != nil {
			return nil, err
		}
	}
	for _, b := range list {
		if b.shareOf() > percent/100 {
			continue
		}
		if err := b.order(ctx); err != nil {
			return nil, err
		}
		if p := b.Main.Loads.Peak; p < peak {
			best, peak = &way{sliced: b.sliced, limit: p, extra: b.shareOf()}, p
		}
		search, end := w.s.search().Context(ctx)
		found, err := b.within(search, peak-1, percent)
		end()
		if err != nil {
			return nil, err
		}
		if found != nil {
			best, peak = found, found.limit
		}
	}
	if best == nil {
		return nil, nil
	}
	if cheaper, err := w.at(ctx, best.limit); err != nil || cheaper != nil && cheaper.extra < best.extra {
		return cheaper, err
	}
	return best, nil
}

// lastTries is the number of covers that are tried for the smallest peak.
const lastTries = 3
