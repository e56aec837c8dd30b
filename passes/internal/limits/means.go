package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

var means = []mean{
	{
		name: "recompute", doc: "run nodes again, in the place of keeping what they make",
		asked: func(p *Permits) bool { return p.Recompute },
		cost:  costIn(func(*Permits) *host { return nil }),
		field: func(a *plan.FrontierAlone) **float64 { return &a.Recompute },
		bound: boundIn,
	},
	{
		name: "swap", doc: "copy tensors to the host, and back before they are read",
		asked: func(p *Permits) bool { return p.Link > 0 },
		cost:  costIn(func(p *Permits) *host { return &host{p.Link, true} }),
		field: func(a *plan.FrontierAlone) **float64 { return &a.Swap },
		bound: boundIn,
	},
	{
		name: "slices", doc: "run regions in slices, along axes whose rows do not depend on each other",
		asked: func(p *Permits) bool { return p.Slices },
		moves: func(w *weigher, _ context.Context) ([]*ladder, error) { return w.ladders, nil },
		cost:  (*weigher).costOfGraphs,
		field: func(a *plan.FrontierAlone) **float64 { return &a.Slices },
		bound: boundOfSlices,
	},
	{
		name: "slices inside of slices", doc: "run regions of one slice in slices along another axis",
		asked: func(p *Permits) bool { return p.Slices && p.Inside },
		moves: (*weigher).inside,
		bound: boundOfSlices,
	},
}

// meansOf returns the means that are permitted, in the order of the table.
func meansOf(p *Permits) (list []*mean) {
	for i := range means {
		if m := &means[i]; m.asked(p) {
			list = append(list, m)
		}
	}
	return list
}

// stays reports whether nothing makes the peak of the best order smaller: the runtime takes the
// order from the graph, or no mean is permitted. Then a limit only says what the plan must keep,
// extra time gives the plan as it is, and the frontier has its peak alone.
func (s *Task) stays() bool { return s.How.Traversal != nil || len(meansOf(&s.Permits)) == 0 }

// boundIn is the bound of the search in the graph without slices.
func boundIn(w *weigher, ctx context.Context, limit int64) (bool, error) {
	search, err := w.plain.searched()
	if err != nil || search.solver == nil {
		return false, err
	}
	_, obstacle := search.solver.Bound(ctx, limit)
	return obstacle != nil, nil
}

// boundOfSlices is that of any slices.
func boundOfSlices(w *weigher, _ context.Context, limit int64) (bool, error) {
	return limit < w.floor.Bytes, nil
}

// costIn returns the costs of limits in the graph without slices, with such a host.
func costIn(host func(*Permits) *host) func(*weigher, context.Context, []int64) ([]*float64, error) {
	return func(w *weigher, ctx context.Context, limits []int64) ([]*float64, error) {
		with := w.plain.searched
		if w.s.Permits.Link > 0 { // that search does more than this mean alone
			with = func() (*Search, error) { return w.s.newSearch(w.plain.Main, w.plain.casts, host(&w.s.Permits), 0, nil) }
		}
		search, err := with()
		if err != nil {
			return nil, err
		}
		list := make([]*float64, len(limits))
		for i, p := range search.plans(ctx, limits) {
			if p.Feasible == budget.Found {
				list[i] = &p.ExtraPercent
			}
		}
		return list, nil
	}
}

// costOfGraphs returns the costs of limits by the means that make graphs, and by no other.
func (w *weigher) costOfGraphs(ctx context.Context, limits []int64) ([]*float64, error) {
	list := make([]*float64, len(limits))
	for i, limit := range limits {
		m, err := w.slicesAlone(ctx, limit)
		if err != nil {
			return nil, err
		}
		if m != nil {
			percent := 100 * max(m.extra, 0)
			list[i] = &percent
		}
	}
	return list, nil
}
