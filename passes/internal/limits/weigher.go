package limits

import (
	"context"

	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
)

// A mean is a way to need less memory than the best order does, at the cost of time. The search
// for the cheapest plan below a limit, that for the smallest peak within some time, the frontier,
// and the slices for pools read the table of them ([weigher]). Those that make graphs do so
// first. The others then work in the graph as it is, and in some of those that were made: the
// bases.
type mean struct {
	name, doc string

	// asked reports whether the options permit it.
	asked func(*Permits) bool
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

// weigher finds the cheapest plan below a limit with all means that the options permit
// ([mean]). It weighs
//
//   - the graphs that means make by themselves: regions in slices are chosen for targets on
//     a ladder,
//   - what means do within the graph as it is: recomputation and swaps,
//   - and in a few of those graphs, the bases: those with the smallest peak whose slices
//     cost little.
//
// After slices alone that cost next to nothing, only the graph as it is is searched. The ladder
// and the bases do not depend on the limit, and neither do the archives of the searches for
// recomputation, except at [schedule.EffortFast]. So a larger limit costs at most 0.5 % more
// (nextToNothing). Each mean only adds candidates, so one more never makes a plan dearer.
type weigher struct {
	s       Task
	means   []*mean // that the options permit
	ladders []*ladder
	inner   []*ladder // for regions inside of slices; nil: not known yet
	plain   *Base
	bases   []*Base // with slices; nil: not chosen yet
	least   plan.SliceBound
	relaxed plan.SliceBound // the same of plans with aliases, if there may be some
	floor   plan.SliceBound // that of the two which tells what is impossible
	shared  *planner.Region // the plan of the graph without slices with aliases; nil: that is not better
	lowest  int64           // the smallest limit that is known to have a way; 0: none
	most    float64         // share of the time: what takes more is of no use; 0: nothing is known of that
	best    *slicedModel    // the one with the smallest peak that slicesAlone has seen
}

// newWeigher orders the model without slices.
func newWeigher(ctx context.Context, of Task, means []*mean) (*weigher, error) {
	w := &weigher{s: of, means: means}
	s := &w.s
	s.asItIs = s.How.Traversal != nil || len(means) == 0
	s.Costs.Measured = s.Costs.Measure(s.Model.Graph)
	x, err := s.newSlicer(ctx, nil, 0)
	if err != nil {
		return nil, err
	}
	w.least = x.anySlices()
	slicers := []*slicer{x}
	for _, shrink := range slicing.ChainShrinks {
		if last := slicers[len(slicers)-1]; last.copies != nil && last.base.Time <= (1+slicing.ChainsCheap)*x.time {
			break // shorter chains save little time
		}
		own, err := s.newSlicer(ctx, slicers, shrink)
		if err != nil {
			return nil, err
		}
		if own != nil {
			slicers = append(slicers, own)
		}
	}
	for _, slack := range slacks {
		for _, x := range slicers {
			w.ladders = append(w.ladders, &ladder{x: x, slackness: slack, rungs: rungs})
		}
	}
	w.plain = &Base{s: s}
	if err := w.plain.order(ctx); err != nil {
		return nil, err
	}
	return w, w.shareFirst(ctx, x)
}

// shareFirst plans the graph without slices with aliases, if these are permitted: they take no
// time. x is the slicer of that graph.
func (w *weigher) shareFirst(ctx context.Context, x *slicer) (err error) {
	if w.floor = w.least; !w.s.Permits.Aliases {
		return nil
	}
	w.relaxed = x.anySlicesShared()
	if w.plain.Main.MovesBytes() {
		if w.shared, err = w.plain.Main.AliasesFirst(ctx, w.s.search().Silent()); err != nil {
			return err
		}
	}
	if w.shared != nil {
		w.reaches(w.shared.Loads.Peak)
	}
	if w.sharing() {
		w.floor = w.relaxed
	}
	return nil
}

// sharing reports whether what is said of limits holds for plans with aliases, too.
func (w *weigher) sharing() bool { return w.shared != nil || w.s.Permits.AliasesAgain }

// meets reports whether the graph without slices meets a limit as it is, in its best order or with
// aliases.
func (w *weigher) meets(limit int64) bool {
	return limit >= w.peak() || w.shared != nil && limit >= w.shared.Loads.Peak
}

// peak is that of the graph without slices, in its best order.
func (w *weigher) peak() int64 { return w.plain.Main.Loads.Peak }

// unlimited is the peak of the plan without a limit.
func (w *weigher) unlimited() int64 { return w.plain.unlimited() }

// sees notes a sliced model.
func (w *weigher) sees(m *slicedModel) {
	if m == nil {
		return
	}
	if w.best == nil || m.peak < w.best.peak {
		w.best = m
	}
	w.reaches(m.peak)
}

// reaches notes a limit that has a way.
func (w *weigher) reaches(limit int64) {
	if limit > 0 && (w.lowest == 0 || limit < w.lowest) {
		w.lowest = limit
	}
}

// forget drops what searches for regions have estimated.
func (w *weigher) forget() {
	for _, list := range [][]*ladder{w.ladders, w.inner} {
		for _, l := range list {
			l.x.search.Forget()
		}
	}
}

// useful returns a share of the time that slices may take by estimates, or the largest that is of
// use: estimates may be too large.
func (w *weigher) useful(cost float64) float64 {
	if w.most > 0 {
		return min(cost, overestimate*w.most)
	}
	return cost
}

// overestimate is the factor by which estimates of the time of slices may be too large.
const overestimate = 1.5

// nextToNothing is the share of the time that slices may cost without a search for
// something cheaper in graphs with slices, which takes longer than everything else.
const nextToNothing = 0.005
