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

// recasting is a plan of a main graph without a limit in which casts run again.
type recasting struct {
	peak  int64
	steps []int            // the nodes as they run, by step in the best order
	free  *schedule.Result // of the problem with casts apart, whose bound holds whichever run again
}

// recast looks for the plan of a main graph, which is in its best order, with casts that run again. It
// returns nil if none makes the peak smaller, or it is not permitted.
func (s *Task) recast(ctx context.Context, r *planner.Region) (*recasting, error) {
	casts := r.Casts()
	if !s.Permits.Recast || !slices.ContainsFunc(casts, func(c planner.Cast) bool { return len(c.Readers) > 1 }) {
		return nil, nil
	}
	p := r.ProblemApart(casts)
	if schedule.Bound(p).Value >= r.Loads.Peak {
		return nil, nil // whatever runs again
	}
	x, cost := s.search(), s.Costs.Of(r.G)
	found := &recasting{}
	var best *castOrder
	// In an order that is best whatever the updates, a reader may run behind one, and then holds its
	// cast from before it. That seldom raises the peak.
	for _, when := range []planner.CastTime{planner.AnyTime, planner.BeforeUpdates, planner.AsNodes} {
		solved, err := r.CastOrders(ctx, p, casts, when, x)
		if err != nil {
			return nil, err
		}
		if when == planner.AnyTime {
			found.free = solved
		}
		if best, err = bestCastOrder(r, p, casts, cost, solved.Orders, best); err != nil {
			return nil, err
		}
		if best.peak <= found.free.Bound {
			break
		}
	}
	if best.peak >= r.Loads.Peak {
		return nil, nil
	}
	found.peak, found.steps = best.peak, best.steps(r)
	return found, nil
}

// castOrder is an order of the nodes without casts, and where these run.
type castOrder struct {
	order []int32 // of nodes, without casts and views of them
	live  []int64 // parallel: the bytes that are live, of casts those that are decided to be
	casts []castRuns
	peak  int64
	extra int64 // nanoseconds of the runs after the first
}

// castRuns says at which of its readers a cast runs, in an order.
type castRuns struct {
	*planner.Cast
	bytes int64
	cost  int64
	at    []int  // positions of what reads it, ascending, with that of the first update if some follow it
	runs  []bool // parallel: the cast runs right before it
	late  int    // the number of those after the first update: they read what was cast before it
	held  bool   // the update is listed, and only holds the cast
}

// bestCastOrder returns the one with the smallest peak of some orders, then with the least time, and
// the first of equals. known is another one, or nil.
func bestCastOrder(r *planner.Region, p *schedule.Problem, casts []planner.Cast, cost []int64, orders [][]int32, known *castOrder) (*castOrder, error) {
	best := known
	for _, order := range orders {
		e, err := p.Evaluate(order)
		if err != nil {
			return nil, err
		}
		c := newCastOrder(r, casts, cost, order, e.Loads)
		if best == nil || cmp.Or(cmp.Compare(c.peak, best.peak), cmp.Compare(c.extra, best.extra)) < 0 {
			best = c
		}
	}
	return best, nil
}

// newCastOrder decides for an order of the problem with casts apart, with these loads, where casts
// run.
func newCastOrder(r *planner.Region, casts []planner.Cast, cost []int64, order []int32, loads []int64) *castOrder {
	c := &castOrder{}
	at := c.without(casts, order, loads)
	for i := range casts {
		x := runsOf(&casts[i], at)
		x.bytes, x.cost = r.Storages[x.Storage].Bytes, cost[x.Maker]
		c.casts = append(c.casts, x)
	}
	c.holdLate()
	c.peak = slices.Max(append([]int64{0}, c.live...))
	c.share()
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

// without takes the nodes of an order but casts and views of these. It returns the position of each node.
func (c *castOrder) without(casts []planner.Cast, order []int32, loads []int64) (at []int) {
	apart := map[int32]bool{}
	for _, x := range casts {
		apart[int32(x.Maker)] = true
		for _, v := range x.Views {
			apart[int32(v)] = true
		}
	}
	at = make([]int, len(order))
	for i, n := range order {
		if !apart[n] {
			at[n] = len(c.order)
			c.order, c.live = append(c.order, n), append(c.live, loads[i])
		}
	}
	return at
}

// hold keeps a cast between two positions, without these.
func (c *castOrder) hold(x *castRuns, from, to int) {
	for i := from + 1; i < to; i++ {
		c.live[i] += x.bytes
	}
}

// holdLate lets readers behind an update hold what was cast before it.
func (c *castOrder) holdLate() {
	for i := range c.casts {
		x := &c.casts[i]
		if x.late == 0 {
			continue
		}
		update := len(x.at) - x.late - 1
		if x.held {
			c.live[x.at[update]] += x.bytes
		}
		for k := update; k+1 < len(x.at); k++ {
			c.hold(x, x.at[k], x.at[k+1])
			x.runs[k+1] = false
		}
	}
}

// runsOf lists what reads a cast, which runs before each.
func runsOf(cast *planner.Cast, at []int) castRuns {
	x := castRuns{Cast: cast}
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
func (c *castOrder) share() {
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
		from, to := x.at[g.k-1], x.at[g.k]
		if fits := !slices.ContainsFunc(c.live[min(from+1, to):to], func(l int64) bool { return l+x.bytes > c.peak }); fits {
			c.hold(x, from, to)
			x.runs[g.k] = false
		}
	}
}

// steps lists the nodes of a main graph as they run: views of a cast behind its first run, before
// what reads them first. Views of later runs need no steps.
func (c *castOrder) steps(r *planner.Region) []int {
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
