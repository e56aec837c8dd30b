package limits

import (
	"cmp"
	"context"
	"slices"
)

// inside returns ladders for regions inside of the slices of a few models: the bases.
func (w *weigher) inside(ctx context.Context) ([]*ladder, error) {
	if w.inner != nil {
		return w.inner, nil
	}
	if w.inner = []*ladder{}; w.large() {
		return w.inner, nil // with slices, it has too many nodes
	}
	list, err := w.outers(ctx)
	if err != nil {
		return nil, err
	}
	var known *slicer
	for _, m := range list {
		x, err := m.from.newWithin(ctx, m, nil, known)
		if err != nil {
			return nil, err
		}
		known = x
		bound := m.from.least(m.choices)
		for _, slack := range withinSlacks {
			w.inner = append(w.inner, newInner(x, slack, bound))
		}
		w.inner[len(w.inner)-1].bound = max(bound, 1)
	}
	return w.inner, nil
}

// outerCosts are the shares of the time that the slices may take inside of which others are
// looked for.
var outerCosts = []float64{0.01, 0.02, 0.05, 0.25}

// withinSlacks are those of the ladders for regions inside of slices.
var withinSlacks = []slackness{{slack: 1}, {slack: 1.25}}

// leastGain is the part of its peak by which another model may be larger and have nearly the
// same one.
const leastGain = 1.0 / 128

// outers returns the models inside of whose slices regions are looked for: for each cost,
// the most promising one. If cheaper slices have nearly its peak, and no higher a bound for
// any number of slices, these are taken: what they save is left for the regions inside.
func (w *weigher) outers(ctx context.Context) (list []*slicedModel, err error) {
	for _, cost := range outerCosts {
		var found []*slicedModel
		for _, l := range w.ladders {
			rung := l.last(ctx, w.useful(cost), func(r *cover) bool { return l.x.size(r.choices) <= mostWithinNodes })
			if rung < 0 {
				continue
			}
			m, err := l.x.model(ctx, l.at(ctx, rung))
			if err != nil {
				return nil, err
			}
			if m != nil && m.peak < w.peak() {
				found = append(found, m)
			}
		}
		if len(found) == 0 {
			continue
		}
		best := promising(found)
		cheaper, err := w.cheapest(ctx, w.ladders, best.peak+int64(float64(best.peak)*leastGain), best)
		if err != nil {
			return nil, err
		}
		if cheaper != best && cheaper.size <= mostWithinNodes && cheaper.from.least(cheaper.choices) <= best.from.least(best.choices) {
			best = cheaper
		}
		if !slices.Contains(list, best) {
			list = append(list, best)
		}
	}
	return list, nil
}

// promising returns the cheapest of the models with the smallest peak. Of two with one peak
// and nearly one cost, it takes that whose lower bound for any number of slices is lower:
// regions inside of its slices can reach further. ResNet-50 at batch 8 has 10.9 MiB in slices
// for 1.2 and for 1.5 % of the time; regions inside reach 9.76 and 8.64 MiB. A model that
// costs more leaves less time for the regions inside: MobileNet v2 at batch 8 has 9.76 MiB
// for 2.3 and for 3.8 %, and they reach 7.97 and 8.18 MiB in 6 %.
func promising(models []*slicedModel) *slicedModel {
	cheapest := slices.MinFunc(models, func(a, b *slicedModel) int {
		return cmp.Or(cmp.Compare(a.peak, b.peak), cmp.Compare(a.extra, b.extra))
	})
	best, bound := cheapest, cheapest.from.least(cheapest.choices)
	for _, m := range models {
		if m == best || m.peak > cheapest.peak || m.extra > cheapest.extra+nextToNothing {
			continue
		}
		if b := m.from.least(m.choices); b < bound {
			best, bound = m, b
		}
	}
	return best
}
