package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

// A mean is a way to need less memory than the best order does, at the cost of time. The search
// for the cheapest plan below a limit, that for the smallest peak within some time, the frontier,
// and the slices for pools read the table of them ([weigher]). Those that make graphs do so
// first. The others then work in the graph as it is, and in some of those that were made: the
// bases.
type mean struct {
	name, doc string

	// asked reports whether the options permit it.
	asked func(*Options) bool
	// moves returns the graphs that it makes, on ladders: each rung needs less memory, and
	// takes more time. nil: package budget moves tensors within a graph, below any limit.
	moves func(*weigher, context.Context) ([]*ladder, error)
	// cost returns the extra time of each limit by it alone, in per cent; nil: none was found.
	// field is where the frontier has that. nil: the row above speaks for it.
	cost  func(*weigher, context.Context, []int64) ([]*float64, error)
	field func(*plan.FrontierAlone) **float64
	// bound reports whether a limit is proven to be impossible by it and all rows above, in
	// any order.
	bound func(*weigher, context.Context, int64) (bool, error)
}

var means = []mean{
	{
		name: "recompute", doc: "run nodes again, in the place of keeping what they make",
		asked: func(o *Options) bool { return !o.NoRecompute && (o.Host == nil || !o.Host.NoRecompute) },
		cost:  costIn(func(*Options) *Host { return nil }),
		field: func(a *plan.FrontierAlone) **float64 { return &a.Recompute },
		bound: boundIn,
	},
	{
		name: "swap", doc: "copy tensors to the host, and back before they are read",
		asked: func(o *Options) bool { return o.Host != nil },
		cost:  costIn(func(o *Options) *Host { return &Host{Link: o.Host.Link, NoRecompute: true} }),
		field: func(a *plan.FrontierAlone) **float64 { return &a.Swap },
		bound: boundIn,
	},
	{
		name: "slices", doc: "run regions in slices, along axes whose rows do not depend on each other",
		asked: func(o *Options) bool { return o.Slices != SlicesOff },
		moves: func(w *weigher, _ context.Context) ([]*ladder, error) { return w.ladders, nil },
		cost:  (*weigher).costOfGraphs,
		field: func(a *plan.FrontierAlone) **float64 { return &a.Slices },
		bound: boundOfSlices,
	},
	{
		name: "slices inside of slices", doc: "run regions of one slice in slices along another axis",
		asked: func(o *Options) bool { return o.Slices != SlicesOff && !o.noInside },
		moves: (*weigher).inside,
		bound: boundOfSlices,
	},
}

// meansOf returns the means that the options permit, in the order of the table.
func meansOf(o *Options) (list []*mean) {
	for i := range means {
		if m := &means[i]; m.asked(o) {
			list = append(list, m)
		}
	}
	return list
}

// stays reports whether nothing makes the peak of the best order smaller: the runtime takes the
// order from the graph, or no mean is permitted. Then a limit only says what the plan must keep,
// extra time gives the plan as it is, and the frontier has its peak alone.
func (o *Options) stays() bool { return o.RuntimeOrder || len(meansOf(o)) == 0 }

// withinGraphs reports whether some mean works in a graph as it is.
func (w *weigher) withinGraphs() bool {
	for _, m := range w.means {
		if m.moves == nil {
			return true
		}
	}
	return false
}

// impossible reports whether a limit is proven to be impossible by all means that are permitted:
// the last one's bound is that of all.
func (w *weigher) impossible(ctx context.Context, limit int64) (bool, error) {
	if len(w.means) == 0 {
		return false, nil
	}
	return w.means[len(w.means)-1].bound(w, ctx, limit)
}

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
func costIn(host func(*Options) *Host) func(*weigher, context.Context, []int64) ([]*float64, error) {
	return func(w *weigher, ctx context.Context, limits []int64) ([]*float64, error) {
		with := w.plain.searched
		if w.s.opt.Host != nil { // that search does more than this mean alone
			with = func() (*limitSearch, error) { return w.s.newLimitSearch(w.plain.Main, host(&w.s.opt), 0) }
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
