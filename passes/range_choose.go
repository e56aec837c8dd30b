package passes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/alloc/stacking"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/schedule"
)

// rangePoint is a graph at one point of a box of dimensions.
type rangePoint struct {
	index   int               // of the point in the box
	problem *schedule.Problem // with the sharing that holds at all points of the grid
	bound   int64             // bytes; proven for all orders with the sharing of this point
	bytes   []int64           // by storage, not rounded

	// Of the corner alone.
	tensors    []graph.TensorID          // by storage: the first; none: it is a part of a tensor
	covered    []bool                    // by storage: its tensors lie in others; nil: none does
	parents    [][]int32                 // storages that lie one behind the other
	stay       map[graph.TensorID]stayed // parameters, states, caches and their next values
	precedence [][2]int32                // that the options ask for
}

// stayed is a tensor that stays from run to run, as it is at the corner.
type stayed struct {
	typ   graph.Type
	bytes int64
	cache bool
}

const (
	orderCandidates = 4  // orders with the least worst peak for which stackings are tried
	placedPoints    = 12 // points of the grid whose best placement gives a stacking
)

// stackChoice is what a search for one order and one stacking is asked for.
type stackChoice struct {
	*search
	g      *graph.Graph
	points []rangePoint // the corner last
	fixed  bool         // the nodes stay in the order of the file
	keep   *ceiling     // that the corner keeps if it can; nil: none

	listings map[string][]int32 // with a traversal: the listing of an order
	bestPeak int64              // with one: the smallest peak of any order at the corner

	solved map[int][][]int32 // orders of points that were solved before; it gets those of the others
	corner *cornerSolver     // it is asked for more; nil: there is no solver
}

// orders lists the orders that are tried: program order, and the best orders of each point.
func (c *stackChoice) orders(ctx context.Context) (orders [][]int32, err error) {
	if c.fixed || c.strategy == "" || c.strategy == "program" {
		orders = append(orders, schedule.Program(c.points[0].problem))
	}
	if c.fixed {
		return orders, nil
	}
	precedence := c.points[len(c.points)-1].precedence
	for _, p := range c.points {
		if _, known := c.solved[p.index]; !known {
			r, err := c.within(ctx, p.problem, schedule.Options{Strategy: c.strategy, Effort: c.effort, Precedence: precedence})
			if err != nil {
				return nil, err
			}
			c.solved[p.index] = r.Orders
		}
		orders = append(orders, c.solved[p.index]...)
	}
	if c.corner != nil && c.strategy == "" && len(precedence) == 0 {
		found, err := c.corner.orders(ctx, c.points[len(c.points)-1].problem, c.search)
		if err != nil {
			return nil, err
		}
		orders = append(orders, found...)
	}
	if c.traversal != nil {
		return c.traversals(ctx)
	}
	return orders, nil
}

// traversals lists the orders that the runtime's default traversal takes for some listings of
// the nodes: for the best that are found at some points. It depends on no size, so the order of
// a listing is the same at all points.
func (c *stackChoice) traversals(ctx context.Context) (orders [][]int32, err error) {
	search, end := c.context(ctx)
	defer end()
	c.listings = map[string][]int32{}
	turns, none := c.points[len(c.points)-1].precedence, error(nil)
	for k := len(c.points) - 1; k >= 0; k -= max(1, len(c.points)/placedPoints) {
		p := &c.points[k]
		best, err := bestPeak(p.problem, c.solved[p.index])
		if err != nil {
			return nil, err
		}
		if k == len(c.points)-1 {
			c.bestPeak = best
		}
		l := schedule.BestListing(search, p.problem, c.solved[p.index], best, c.effort, turns)
		if l.Peak == math.MaxInt64 {
			none = turnedError(c.g, turns, l.Order)
			continue
		}
		if key := fmt.Sprint(l.Order); c.listings[key] == nil {
			c.listings[key], orders = l.Nodes, append(orders, l.Order)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(orders) == 0 {
		return nil, none
	}
	return orders, nil
}

// bestPeak returns the smallest peak of some orders.
func bestPeak(p *schedule.Problem, orders [][]int32) (int64, error) {
	best := int64(math.MaxInt64)
	for _, order := range orders {
		e, err := p.Evaluate(order)
		if err != nil {
			return 0, err
		}
		best = min(best, e.Peak)
	}
	return best, nil
}

// choose returns the order and the stacking whose arena is closest to the bound at the point
// where it is farthest from it. The candidates are the best orders of each point and program
// order, then the best placements of a few points. The problems have the same nodes and
// tensors, and differ in sizes alone.
func (c *stackChoice) choose(ctx context.Context) (*oneStack, error) {
	orders, err := c.orders(ctx)
	if err != nil {
		return nil, err
	}
	type candidate struct {
		order []int32
		worst float64
		above int64 // bytes of the corner's peak above the limit
	}
	var list []candidate
	seen := map[string]bool{}
	for _, order := range orders {
		key := fmt.Sprint(order)
		if seen[key] {
			continue
		}
		seen[key] = true
		x := candidate{order: order}
		for _, p := range c.points {
			e, err := p.problem.Evaluate(order)
			if err != nil {
				return nil, err
			}
			x.worst, x.above = max(x.worst, ratio(e.Peak, p.bound)), c.above(e.Peak)
		}
		list = append(list, x)
	}
	// Stable: program order is first, so that nothing moves if nothing is gained.
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.above, b.above), cmp.Compare(a.worst, b.worst))
	})
	var best *oneStack
	for _, x := range list[:min(len(list), orderCandidates)] {
		if best != nil && (c.timeIsUp() || best.worst <= x.worst && best.above == 0 || x.above > 0 && list[0].above == 0) {
			break
		}
		found, err := c.stackOrder(ctx, x.order, x.worst)
		if err != nil {
			return nil, err
		}
		if best == nil || found.better(best) {
			best = found
		}
	}
	best.listing, best.bestPeak = c.listings[fmt.Sprint(best.order)], c.bestPeak
	return best, nil
}

// above returns the bytes of the corner's peak above the limit.
func (c *stackChoice) above(peak int64) int64 {
	if c.keep == nil {
		return 0
	}
	return max(0, peak-c.keep.bytes)
}

// cornerSolver asks Options.Solver for an order of the main graph at the corner, which is the
// largest problem.
type cornerSolver struct {
	report *schedule.SolverReport // what it did; nil: it was not asked
	found  [][]int32
}

// orders returns the orders of the corner that are known once the solver has worked on it. It
// does so once: a longer grid changes only what may be shared there.
func (c *cornerSolver) orders(ctx context.Context, p *schedule.Problem, x *search) ([][]int32, error) {
	if c.report != nil {
		return c.found, nil
	}
	r, err := x.within(ctx, p, schedule.Options{Effort: x.effort, Solver: x.solver.solver, SolverTime: x.solver.orderTime, Threads: x.solver.threads})
	if err != nil {
		return nil, err
	}
	c.report, c.found = r.Solver, r.Orders
	return c.found, nil
}

// stackOrder returns the best stacking for an order. It ends as soon as one is as good as
// the order permits at its worst point.
func (c *stackChoice) stackOrder(ctx context.Context, order []int32, least float64) (*oneStack, error) {
	points, corner := c.points, &c.points[len(c.points)-1]
	buffers, taken, err := rangeBuffers(corner, order)
	if err != nil {
		return nil, err
	}
	chains := corner.chains(buffers)
	lives := make([]stacking.Lifetime, len(buffers))
	for i, b := range buffers {
		lives[i] = stacking.Lifetime{First: b.First, Last: b.Last}
	}
	var best *oneStack
	// The corner, the largest point, is last.
	for k := len(points) - 1; k >= 0; k -= max(1, len(points)/placedPoints) {
		sizes, err := bufferSizes(points[k].problem, buffers)
		if err != nil {
			return nil, err
		}
		offsets, err := placeChains(ctx, sizes, buffers, chains, c.placement)
		if err != nil {
			return nil, err
		}
		x := &oneStack{order: order, buffers: buffers, taken: taken, chains: chains}
		if x.stack, err = stacking.NewChained(lives, stacking.RankChained(lives, offsets, sizes, chains), chains); err != nil {
			return nil, err
		}
		for _, p := range points {
			arena, err := x.arena(p.problem)
			if err != nil {
				return nil, err
			}
			x.worst, x.arenas = max(x.worst, ratio(arena, p.bound)), x.arenas+arena
			if c.keep != nil && c.keep.arena {
				x.above = c.above(arena)
			}
		}
		if best == nil || x.better(best) || !best.better(x) && x.arenas < best.arenas {
			best = x
		}
		if best.worst <= least && best.above == 0 || c.timeIsUp() {
			break
		}
	}
	return best, nil
}

// placeChains returns offsets of buffers of which some lie one behind the other.
func placeChains(ctx context.Context, sizes []int64, buffers []schedule.Lifetime, chains [][]int, placement string) ([]int64, error) {
	var p alloc.Problem
	for i, b := range buffers {
		p.Buffers = append(p.Buffers, alloc.Buffer{Size: sizes[i], First: b.First, Last: b.Last})
	}
	single := make([]int, 0, len(buffers)) // those that are in no chain
	if len(chains) > 0 {
		all := p.Buffers
		p.Buffers = nil
		chained := make([]bool, len(buffers))
		for _, chain := range chains {
			for _, i := range chain {
				chained[i] = true
			}
		}
		for i := range all {
			if !chained[i] {
				single = append(single, i)
				p.Buffers = append(p.Buffers, all[i])
			}
		}
		for _, chain := range chains {
			parts := make([]alloc.Buffer, len(chain))
			for k, i := range chain {
				parts[k] = all[i]
			}
			p.Buffers = append(p.Buffers, joined(parts))
		}
	}
	placed, err := alloc.Solve(ctx, p, alloc.Options{Strategy: placement, Effort: alloc.EffortFast, Short: true})
	if err != nil || len(chains) == 0 {
		return placed.Offsets, err
	}
	offsets := make([]int64, len(buffers))
	for k, i := range single {
		offsets[i] = placed.Offsets[k]
	}
	for c, chain := range chains {
		at := placed.Offsets[len(single)+c]
		for _, i := range chain {
			offsets[i] = at
			at += sizes[i]
		}
	}
	return offsets, nil
}

// chains returns the buffers of each parent.
func (p *rangePoint) chains(buffers []schedule.Lifetime) (chains [][]int) {
	if len(p.parents) == 0 {
		return nil
	}
	of := map[int32]int{} // by storage
	for i, b := range buffers {
		for _, t := range b.Tensors {
			of[t] = i
		}
	}
	for _, parent := range p.parents {
		chain := make([]int, len(parent))
		for k, t := range parent {
			chain[k] = of[t]
		}
		chains = append(chains, chain)
	}
	return chains
}

// rangeBuffers returns the buffers of an order at any point, also those that have 0 bytes
// at the corner, as they may have some elsewhere, and the in-place pairs of the corner.
func rangeBuffers(corner *rangePoint, order []int32) ([]schedule.Lifetime, []schedule.Pair, error) {
	e, err := corner.problem.Evaluate(order)
	if err != nil {
		return nil, nil, err
	}
	p := *corner.problem
	p.Tensors = slices.Clone(p.Tensors)
	for i := range p.Tensors {
		covered := i < len(corner.covered) && corner.covered[i]
		if t := &p.Tensors[i]; t.Kind != "control" && !covered {
			t.Bytes = 1
		}
	}
	buffers, err := p.Lifetimes(order, e.Taken)
	return buffers, e.Taken, err
}

// ratio is bytes / bound; 1 if both are 0.
func ratio(bytes, bound int64) float64 { return float64(max(1, bytes)) / float64(max(1, bound)) }
