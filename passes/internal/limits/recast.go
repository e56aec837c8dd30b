package limits

import (
	"cmp"
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/schedule"
)

// A step in 16 bits casts each parameter once, for the forward and for the backward pass, and so
// holds all of its 16-bit copies at once. A framework fixes that; here it is decided for each gap
// between two readers of a cast, together with the order: the cast is kept, or it runs again, which
// takes one pass over the parameter. See planner.Region.ProblemApart for why no choice has a smaller
// peak than the bound that is found on the way.

// Recast plans the main graph, which is in its best order, with casts that run again, if that makes
// its peak smaller. It returns nil if it does not.
func Recast(ctx context.Context, s Task) (*Kept, error) {
	r := s.Main
	casts := r.Casts()
	if !slices.ContainsFunc(casts, func(c planner.Cast) bool { return len(c.Readers) > 1 }) {
		return nil, nil
	}
	p := r.ProblemApart(casts)
	if schedule.Bound(p).Value >= r.Loads.Peak {
		return nil, nil // whatever runs again
	}
	x, cost := s.search(), s.Costs.Of(r.G)
	free, err := r.CastOrders(ctx, p, casts, planner.AnyTime, x)
	if err != nil {
		return nil, err
	}
	var best *recasting
	// In an order that is best whatever the updates, a reader may run behind one, and then holds its
	// cast from before it. That seldom raises the peak.
	for _, when := range []planner.CastTime{planner.AnyTime, planner.BeforeUpdates, planner.AsNodes} {
		orders := free.Orders
		if when != planner.AnyTime {
			kept, err := r.CastOrders(ctx, p, casts, when, x)
			if err != nil {
				return nil, err
			}
			orders = kept.Orders
		}
		if best, err = bestRecasting(r, p, casts, cost, orders, best); err != nil {
			return nil, err
		}
		if best.peak <= free.Bound {
			break
		}
	}
	if best.peak >= r.Loads.Peak {
		return nil, nil
	}
	s.asItIs = true
	b, err := s.newSearch(r, nil, 0, nil)
	if err != nil {
		return nil, err
	}
	x.Fixed, x.FixedBodies = true, true
	k := &Kept{Search: b}
	if k.Trial, err = b.Turned(ctx, &s.Trial, best.steps(r), nil, x, nil); err != nil || k.Main.Loads.Peak >= r.Loads.Peak {
		return nil, err
	}
	b.found, b.limit, b.recast = b.asItIs(k.Main.Loads.Peak), &Limit{Bytes: k.Main.Loads.Peak}, true
	b.TakeBound(k.Main, free)
	return k, nil
}

// recasting is an order of the nodes without casts, and where these run.
type recasting struct {
	order []int32 // of nodes, without casts and views of them
	casts []castRuns
	peak  int64
	extra int64 // nanoseconds of the runs after the first
}

// castRuns says at which of its readers a cast runs, in an order.
type castRuns struct {
	*planner.Cast
	cost int64
	at   []int  // positions of what reads it, ascending, with that of the first update if some follow it
	runs []bool // parallel: the cast runs right before it
	late int    // the number of those after the first update: they read what was cast before it
	held bool   // the update is listed, and only holds the cast
}

// bestRecasting returns the recasting with the smallest peak of some orders, then with the least time, and
// the first of equals. known is another one, or nil.
func bestRecasting(r *planner.Region, p *schedule.Problem, casts []planner.Cast, cost []int64, orders [][]int32, known *recasting) (*recasting, error) {
	best := known
	for _, order := range orders {
		e, err := p.Evaluate(order)
		if err != nil {
			return nil, err
		}
		c := newRecasting(casts, cost, order, e.Loads, p, r)
		if best == nil || cmp.Or(cmp.Compare(c.peak, best.peak), cmp.Compare(c.extra, best.extra)) < 0 {
			best = c
		}
	}
	return best, nil
}

// newRecasting decides for an order of the problem with casts apart, with these loads, where casts
// run.
func newRecasting(casts []planner.Cast, cost []int64, order []int32, loads []int64, p *schedule.Problem, r *planner.Region) *recasting {
	c := &recasting{}
	apart := map[int32]bool{} // nodes that are no part of the order
	for _, x := range casts {
		apart[int32(x.Maker)] = true
		for _, v := range x.Views {
			apart[int32(v)] = true
		}
	}
	var live []int64
	at := make([]int, len(order))
	for i, n := range order {
		if !apart[n] {
			at[n] = len(c.order)
			c.order, live = append(c.order, n), append(live, loads[i])
		}
	}
	for i := range casts {
		c.casts = append(c.casts, runsOf(&casts[i], cost, at))
	}
	// Readers behind an update hold what was cast before it.
	hold := func(x *castRuns, from, to int) { // between two positions, without these
		bytes := r.Storages[x.Storage].Bytes
		for i := from + 1; i < to; i++ {
			live[i] += bytes
		}
	}
	for i := range c.casts {
		if x := &c.casts[i]; x.late > 0 {
			update := len(x.at) - x.late - 1
			if x.held {
				live[x.at[update]] += r.Storages[x.Storage].Bytes
			}
			for k := update; k+1 < len(x.at); k++ {
				hold(x, x.at[k], x.at[k+1])
				x.runs[k+1] = false
			}
		}
	}
	for _, l := range live {
		c.peak = max(c.peak, l)
	}
	c.share(live, hold, r)
	for i := range c.casts {
		x := &c.casts[i]
		runs := 0
		for _, is := range x.runs {
			if is {
				runs++
			}
		}
		c.extra += int64(max(0, runs-1)) * x.cost
	}
	return c
}

// runsOf lists what reads a cast, which runs before each.
func runsOf(cast *planner.Cast, cost []int64, at []int) castRuns {
	x := castRuns{Cast: cast, cost: cost[cast.Maker]}
	for _, n := range cast.Readers {
		x.at = append(x.at, at[n])
	}
	slices.Sort(x.at)
	first := -1
	for _, n := range cast.Until {
		if first < 0 || at[n] < first {
			first = at[n]
		}
	}
	if first >= 0 {
		k, found := slices.BinarySearch(x.at, first)
		if found { // the update reads it
			k++
		}
		if x.late = len(x.at) - k; x.late > 0 && !found {
			x.at, x.held = slices.Insert(x.at, k, first), true
		}
	}
	x.runs = make([]bool, len(x.at))
	for k := range x.runs {
		x.runs[k] = true
	}
	return x
}

// share keeps casts between readers instead of running them again, where that does not raise the
// peak: first those that take the most time, and of these the ones whose readers are nearest.
func (c *recasting) share(live []int64, hold func(x *castRuns, from, to int), r *planner.Region) {
	type gap struct{ cast, k int } // between readers k-1 and k
	var gaps []gap
	for i := range c.casts {
		for k := 1; k < len(c.casts[i].at); k++ {
			if c.casts[i].runs[k] {
				gaps = append(gaps, gap{i, k})
			}
		}
	}
	length := func(g gap) int { x := &c.casts[g.cast]; return x.at[g.k] - x.at[g.k-1] }
	slices.SortStableFunc(gaps, func(a, b gap) int {
		return cmp.Or(cmp.Compare(c.casts[b.cast].cost, c.casts[a.cast].cost), cmp.Compare(length(a), length(b)))
	})
	for _, g := range gaps {
		x := &c.casts[g.cast]
		from, to, bytes := x.at[g.k-1], x.at[g.k], r.Storages[x.Storage].Bytes
		if fits := !slices.ContainsFunc(live[min(from+1, to):to], func(l int64) bool { return l+bytes > c.peak }); fits {
			hold(x, from, to)
			x.runs[g.k] = false
		}
	}
}

// steps lists the nodes of a main graph as they run: views of a cast behind its first run, before
// what reads them first. Views of later runs need no steps.
func (c *recasting) steps(r *planner.Region) []int {
	runs := make([][]*planner.Cast, len(c.order)) // by position: the casts that run there
	views := map[graph.NodeID]bool{}              // of casts, that have not run
	for i := range c.casts {
		x := &c.casts[i]
		for _, v := range x.Views {
			views[v] = true
		}
		for k, at := range x.at {
			if x.runs[k] {
				runs[at] = append(runs[at], x.Cast)
			}
		}
	}
	var steps []int
	var view func(t graph.TensorID)
	view = func(t graph.TensorID) {
		if m := r.G.Tensors[t].Maker; m >= 0 && views[m] {
			delete(views, m)
			r.G.Nodes[m].Reads(view)
			steps = append(steps, int(m))
		}
	}
	for at, n := range c.order {
		for _, x := range runs[at] {
			steps = append(steps, int(x.Maker))
		}
		r.G.Nodes[n].Reads(view)
		steps = append(steps, int(n))
	}
	for i := range c.casts { // what nobody reads
		for _, v := range c.casts[i].Views {
			for _, t := range r.G.Nodes[v].Outputs {
				if t >= 0 {
					view(t)
				}
			}
		}
	}
	return steps
}
