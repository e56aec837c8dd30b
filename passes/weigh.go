package passes

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/budget"
)

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
	s       task
	means   []*mean // that the options permit
	ladders []*ladder
	inner   []*ladder // for regions inside of slices; nil: not known yet
	plain   *base
	bases   []*base // with slices; nil: not chosen yet
	least   plan.SliceBound
	relaxed plan.SliceBound // the same of plans with aliases, if there may be some
	floor   plan.SliceBound // that of the two which tells what is impossible
	shared  *planner.Region // the plan of the graph without slices with aliases; nil: that is not better
	lowest  int64           // the smallest limit that is known to have a way; 0: none
	best    *slicedModel    // the one with the smallest peak that slicesAlone has seen
}

// ladder has targets for the load of a graph, the largest first. Estimates of the peaks of
// regions may be too careful: they may exceed the target by a factor, the slack.
type ladder struct {
	x *slicer
	slackness
	rungs  int // the number of targets
	covers []*cover

	bound  int64   // of a ladder for regions inside of slices that may be followed by another one: see [weigher.again]; 0: it may not
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
	choices   []*slicing.Choice // nil: no regions meet the targets
	extra     float64           // of them, estimated, as a share of the time of a step
}

// base is a graph in its best order, in which nodes may run again and tensors may be
// swapped.
type base struct {
	s             *task
	planner.Trial                   // its main graph is in its best order, and nil until it is needed
	fixed         bool              // which is that in which the slices were written
	sliced        *slicedModel      // nil: the graph without slices
	problem       *schedule.Problem // of the main graph in the order of the file
	search        *limitSearch      // nil until it is needed
}

// way is a way to meet a limit.
type way struct {
	sliced *slicedModel // nil: no slices
	from   *base        // in which nodes run again or tensors are swapped; nil: the order meets the limit
	limit  int64
	extra  float64 // of everything, as a share of the time of the graph without slices
}

// newWeigher orders the model without slices.
func newWeigher(ctx context.Context, of task) (*weigher, error) {
	w := &weigher{s: of, means: meansOf(&of.opt)}
	s := &w.s
	s.costs.Measured = s.costs.Measure(s.model.Graph)
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
	w.plain = &base{s: s}
	if err := w.order(ctx, w.plain); err != nil {
		return nil, err
	}
	return w, w.shareFirst(ctx, x)
}

// shareFirst plans the graph without slices with aliases, if these are permitted: they take no
// time. x is the slicer of that graph.
func (w *weigher) shareFirst(ctx context.Context, x *slicer) (err error) {
	if w.floor = w.least; !w.s.opt.mayAlias() {
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
func (w *weigher) sharing() bool { return w.shared != nil || w.s.opt.Aliases == AliasesOn }

// meets reports whether the graph without slices meets a limit as it is, in its best order or with
// aliases.
func (w *weigher) meets(limit int64) bool {
	return limit >= w.peak() || w.shared != nil && limit >= w.shared.Loads.Peak
}

// order orders a base as the pass order would, once.
func (w *weigher) order(ctx context.Context, b *base) error {
	if b.Main != nil {
		return nil
	}
	m := *w.s.model
	if b.sliced == nil {
		m.Graph = w.s.model.Graph.Clone()
	} else {
		sliced, err := b.sliced.from.rewrite(b.sliced)
		if err != nil {
			return err
		}
		m = *sliced
	}
	x := w.s.search()
	log := planner.SearchLog{}
	x.Progress, x.Known, x.Log, x.Fixed = nil, nil, &log, b.fixed
	t, err := w.s.shared(ctx, &m, x)
	if err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	b.problem = t.Main.Problem()
	if err := t.Main.Order(ctx, x); err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	w.s.log.TimedOut = w.s.log.TimedOut || log.TimedOut
	b.Trial = *t
	return nil
}

// peak is that of the graph without slices, in its best order.
func (w *weigher) peak() int64 { return w.plain.Main.Loads.Peak }

// shareOf is what the slices of a base cost.
func (b *base) shareOf() float64 {
	if b.sliced == nil {
		return 0
	}
	return b.sliced.extra
}

// with adds the extra time of a plan in the base to that of its slices.
func (b *base) with(percent float64) float64 {
	return plan.Together(100*b.shareOf(), percent) / 100
}

// searched returns the search for plans in the base below limits.
func (b *base) searched() (*limitSearch, error) {
	var err error
	if b.search == nil {
		part := int64(0)
		if b.sliced != nil {
			part = basePart
		}
		b.search, err = b.s.newLimitSearch(b.Main, b.s.opt.Host, part)
	}
	return b.search, err
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
	m, err := x.apply(ctx, r.choices)
	x.models[key] = m
	return m, err
}

// keyOf identifies a list of regions and their numbers of slices.
func keyOf(choices []*slicing.Choice) (key string) {
	for _, c := range choices {
		key += fmt.Sprint(c.Start, c.End, c.Seed, c.Axis, c.Slices, " ")
	}
	return key
}

// slicesAlone returns the cheapest graph of the means that make graphs whose peak meets a
// limit without anything else; nil if none was found. A mean whose graphs lie inside of those
// above is not asked if these cost next to nothing.
//
// Each ladder is bisected, whose covers get dearer with the rung. The middle does not
// depend on the limit, so a larger limit never costs more: take the first rung at which
// the search for the larger limit turns to the cheaper half, and the other does not. Either
// the larger limit is met there, or it is met at no more cost already; the other search goes
// on with dearer covers.
func (w *weigher) slicesAlone(ctx context.Context, limit int64) (best *slicedModel, err error) {
	for _, m := range w.means {
		if m.moves == nil || best != nil && best.extra <= nextToNothing {
			continue
		}
		ladders, err := m.moves(w, ctx)
		if err != nil {
			return nil, err
		}
		if best, err = w.cheapest(ctx, ladders, limit, best); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// cheapest returns the cheapest model of some ladders whose peak meets a limit; best, if none
// is cheaper.
func (w *weigher) cheapest(ctx context.Context, ladders []*ladder, limit int64, best *slicedModel) (*slicedModel, error) {
	ladders = slices.Clone(ladders)
	for i := 0; i < len(ladders); i++ {
		l := ladders[i]
		if l.x.outer != nil && best != nil && l.x.outer.extra >= best.extra {
			continue
		}
		second, err := w.again(ctx, l)
		if err != nil {
			return nil, err
		}
		if second != nil {
			ladders = append(ladders, second)
		}
		for low, high := 0, l.rungs; low < high; {
			mid := (low + high) / 2
			c := l.at(ctx, mid)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if c.choices == nil || best != nil && c.extra >= best.extra {
				high = mid
				continue
			}
			m, err := l.x.model(ctx, c)
			if err != nil {
				return nil, err
			}
			w.sees(m)
			if m.peak > limit {
				low = mid + 1
				continue
			}
			high = mid
			if best == nil || m.extra < best.extra {
				best = m
			}
		}
	}
	return best, nil
}

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

// error explains why there is no way to meet a limit.
func (w *weigher) error(ctx context.Context, limit int64) error {
	e := &LimitError{LimitBytes: limit, Arena: w.s.opt.Limit.Arena, PeakBytes: w.peak(), LowestBytes: w.lowest, // of an impossible limit: what happens to be known
		Slices: &SliceLimits{AnySlices: w.floor}}
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
func (w *weigher) sliceLimits(ctx context.Context) (*SliceLimits, error) {
	x := &SliceLimits{AnySlices: w.floor}
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

// baseCosts are the shares of the time that the slices of the bases may take. The last
// base is that of the smallest peak: it may meet limits that no other does.
var baseCosts = []float64{0.01, 0.05, 0.25, math.Inf(1)}

// basePart divides the work of the search for recomputation in a base with slices, of
// which there may be several.
const basePart = 2

// mostBaseNodes is the largest number of nodes of a base with slices: the search for
// recomputation is slow in larger graphs.
const mostBaseNodes = 6000

// slicedBases returns the bases with slices, the cheapest first.
func (w *weigher) slicedBases(ctx context.Context) ([]*base, error) {
	if w.bases != nil {
		return w.bases, nil
	}
	w.bases = []*base{}
	costs := baseCosts
	if w.s.opt.Effort == schedule.EffortFast {
		costs = []float64{costs[0], costs[len(costs)-1]}
	}
	for _, cost := range costs {
		var best *slicedModel
		for _, l := range w.ladders {
			rung := l.last(ctx, cost, func(r *cover) bool { return l.x.size(r.choices) <= mostBaseNodes })
			if rung < 0 {
				continue
			}
			m, err := l.x.model(ctx, l.at(ctx, rung))
			if err != nil {
				return nil, err
			}
			if best == nil || m.peak < best.peak {
				best = m
			}
		}
		if best == nil || best.peak >= w.peak() || slices.ContainsFunc(w.bases, func(b *base) bool { return b.sliced == best }) {
			continue
		}
		w.bases = append(w.bases, &base{s: &w.s, sliced: best})
	}
	return w.bases, nil
}

// all returns the graph without slices and the bases with slices.
func (w *weigher) all(ctx context.Context) ([]*base, error) {
	sliced, err := w.slicedBases(ctx)
	return append([]*base{w.plain}, sliced...), err
}

// nextToNothing is the share of the time that slices may cost without a search for
// something cheaper in graphs with slices, which takes longer than everything else.
const nextToNothing = 0.005

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
	list := []*base{w.plain}
	if best == nil || best.extra > nextToNothing {
		if list, err = w.all(ctx); err != nil {
			return nil, err
		}
	}
	for _, b := range list {
		if best != nil && b.shareOf() >= best.extra {
			continue
		}
		if err := w.order(ctx, b); err != nil {
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
		w.s.log.TimedOut = w.s.log.TimedOut || p.Ended != nil
		w.reaches(p.Lowest)
		if extra := b.with(p.ExtraPercent); p.Feasible == budget.Found && (best == nil || extra < best.extra) {
			best = &way{sliced: b.sliced, from: b, limit: limit, extra: extra}
		}
	}
	return best, nil
}

// below returns the cheapest plan of the base below a limit; nil if it is proven that
// none is cheaper than the way that is known.
func (b *base) below(ctx context.Context, limit int64, known *way) (*budget.SwapPlan, error) {
	search, err := b.searched()
	if err != nil {
		return nil, err
	}
	if search.solver != nil {
		percent, obstacle := search.solver.Bound(ctx, limit)
		if obstacle != nil || known != nil && b.with(percent) >= known.extra {
			return nil, nil
		}
	}
	return search.cheapest(ctx, limit), nil
}

// within returns the way of the base with the smallest peak that takes at most that percentage
// more time; nil if it is above most, or proven to be.
func (b *base) within(ctx context.Context, most int64, percent float64) (*way, error) {
	search, err := b.searched()
	if err != nil {
		return nil, err
	}
	fits := func(extra float64) bool { return b.with(extra) <= percent/100 }
	if search.solver != nil {
		if bound, obstacle := search.solver.Bound(ctx, most); obstacle != nil || !fits(bound) {
			return nil, nil
		}
	}
	limit := search.within(ctx, fits)
	if limit > most {
		return nil, nil
	}
	return &way{sliced: b.sliced, from: b, limit: limit, extra: b.with(search.cheapest(ctx, limit).ExtraPercent)}, nil
}

// within returns the way with the smallest peak that takes at most that percentage more
// time; nil if no way makes the peak smaller.
func (w *weigher) within(ctx context.Context, percent float64) (*way, error) {
	var best *way
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
		second, err := w.again(ctx, l)
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
	var list []*base
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
		if err := w.order(ctx, b); err != nil {
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
