package planner

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/passes/internal/alias"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// leastStake is the part of the peak that must be at stake, in 1/leastStake, for nodes to be
// left out one by one: each takes a search for an order. Less was never found.
const leastStake = 100

// mostLeftOut is how many nodes are left out one by one to look for a smaller peak.
const mostLeftOut = 24

// PlannedOrder is the present order of the nodes, by their indices in the file.
func (r *Region) PlannedOrder() []int32 {
	order := make([]int32, len(r.StepOf))
	for i, step := range r.StepOf {
		order[step] = int32(i)
	}
	return order
}

// AliasChoice is a set of nodes whose bytes are shared, with its best orders.
type AliasChoice struct {
	Region *Region
	saved  int64 // bytes that nodes need not copy
	orders [][]int32
	peak   int64
	lost   []alias.Pair
}

// Place plans a choice, and reports whether that is better than the plan without. The nodes
// must be in the order of the file.
func (c *AliasChoice) Place(ctx context.Context, plain *Region, x *Search) (better bool, err error) {
	q := c.Region
	if err := q.choose(ctx, q.onePoint(q.Problem(), x), c.orders, x); err != nil {
		return false, err
	}
	if err := q.Place(ctx, x); err != nil {
		return false, err
	}
	proven := func(r *Region) bool { return r.Loads.Peak == r.Solved.Bound }
	switch {
	case q.Loads.Peak != plain.Loads.Peak:
		better = q.Loads.Peak < plain.Loads.Peak
	case q.Arena != plain.Arena:
		better = q.Arena < plain.Arena
	default:
		better = c.saved > 0 && (proven(q) || !proven(plain))
	}
	return better && q.Arena <= plain.Arena, nil
}

// ChooseAliases looks for the set of nodes with the smallest peak, at most enough, which is
// the peak without aliases; arena is the arena without. It returns nil if it finds none.
func (r *Region) ChooseAliases(ctx context.Context, g *alias.Graph, enough, arena int64, x *Search) (*AliasChoice, error) {
	pairs := r.AliasPairs()
	relaxed := g.Relax()
	pieces := relaxed.Pieces(pairs)
	if pieces == nil {
		return nil, nil
	}
	bound, _ := r.Aliased(relaxed, pieces, pairs)
	a := &aliasSearch{Search: x, r: r, g: g, pairs: pairs, relaxed: bound.Problem()}
	var err error
	if a.solved, err = a.reuse(a.relaxed, r.Solved, enough); err != nil {
		return nil, err
	}
	if a.solved == nil {
		if a.solved, err = bound.solve(ctx, a.relaxed, x); err != nil {
			return nil, err
		}
	}
	solved := a.solved
	best, err := a.try(ctx, nil)
	if err != nil {
		return nil, err
	}
	// A plan of the same peak and the same arena is worse if it loses the proof.
	mustFall := r.Solved.Bound == enough && solved.Bound < enough && arena == enough
	gain := min(best.peak, enough) - solved.Bound
	worth := gain > 0 && gain >= enough/leastStake
	if lossy := a.touching(best.lost); len(lossy) > 0 && !x.TimeIsUp() && (worth || best.peak > enough && !mustFall) {
		leave := map[int32]bool{}
		for _, n := range lossy {
			leave[n] = true
		}
		c, err := a.try(ctx, leave)
		if err != nil {
			return nil, err
		}
		if c.peak < best.peak {
			best = c
		} else {
			clear(leave)
		}
		for k, n := range lossy {
			if !worth || k >= mostLeftOut || best.peak <= solved.Bound || x.TimeIsUp() {
				break
			}
			was := leave[n]
			leave[n] = !was
			if c, err = a.try(ctx, leave); err != nil {
				return nil, err
			}
			if c.peak < best.peak || c.peak == best.peak && c.saved > best.saved {
				best = c
			} else {
				leave[n] = was
			}
		}
	}
	if best.saved == 0 || best.peak > enough || best.peak == enough && mustFall {
		return nil, nil
	}
	q := best.Region
	q.Apart = r.Solved
	result := *q.Solved
	result.Bound = solved.Bound
	result.Certificates = slices.Clone(solved.Certificates)
	for _, proof := range solved.Certificates {
		if proof.Kind == schedule.KindSearch {
			if b := schedule.Bound(a.relaxed); b.Kind != schedule.KindSearch {
				result.Certificates = append(result.Certificates, b)
			}
		}
	}
	q.Solved = &result
	return best, nil
}

// errManyParts is the error for a graph whose bytes have too many parts.
var errManyParts = errors.New("the plan has aliases with too many parts: expected one without (--no-aliases)")

// Relaxed returns a region in which all bytes are shared that nodes only move.
func (r *Region) Relaxed() (*Region, error) {
	pairs := r.AliasPairs()
	l := r.AliasGraph().Relax()
	pieces := l.Pieces(pairs)
	if pieces == nil {
		return nil, errManyParts
	}
	q, _ := r.Aliased(l, pieces, pairs)
	return q, nil
}

// aliasSearch looks for a good set of nodes.
type aliasSearch struct {
	*Search
	r       *Region
	g       *alias.Graph
	pairs   []alias.Pair
	relaxed *schedule.Problem
	solved  *schedule.Result // of the relaxed problem
}

// try orders the graph with all possible nodes but those to leave.
func (a *aliasSearch) try(ctx context.Context, leave map[int32]bool) (*AliasChoice, error) {
	l := a.g.Choose(func(n int32) bool { return leave[n] })
	q, lost := a.r.Aliased(l, l.Pieces(nil), a.pairs)
	c := &AliasChoice{Region: q, saved: l.Saved, lost: lost}
	p := q.Problem()
	if reflect.DeepEqual(p, a.relaxed) {
		q.Solved = a.solved
	} else if err := a.solve(ctx, q, p); err != nil {
		return nil, err
	}
	c.orders, c.peak = a.Orders(q.Solved), q.Solved.Evaluation.Peak
	return c, nil
}

// solve finds orders of a layout. No order has a peak below the bound of the relaxed
// problem, so orders of that problem that keep it here, too, are the best.
func (a *aliasSearch) solve(ctx context.Context, q *Region, p *schedule.Problem) error {
	best, err := withPeak(p, a.solved.Orders, a.solved.Bound)
	if err != nil {
		return err
	}
	if best == nil {
		q.Solved, err = q.solve(ctx, p, a.Search)
		return err
	}
	solved := *a.solved
	solved.Orders, solved.Order = best, best[0]
	solved.Evaluation, err = p.Evaluate(best[0])
	q.Solved = &solved
	return err
}

// reuse solves the relaxed problem p by what is known of the problem without aliases, where
// its peak cannot fall: a maximum flow proves that its bound holds for p, too. It returns
// nil if that is not so.
func (a *aliasSearch) reuse(p *schedule.Problem, plain *schedule.Result, peak int64) (*schedule.Result, error) {
	if plain.Ended != nil || plain.Bound < peak {
		return nil, nil
	}
	for _, c := range append(slices.Clip(plain.Certificates), schedule.Certificate{Kind: schedule.KindSearch}) {
		if c.Kind == schedule.KindSearch {
			c = schedule.Bound(p)
		}
		if c.Kind == schedule.KindSearch || box.ProvedBy(p, c) < peak {
			continue
		}
		orders, err := withPeak(p, plain.Orders, peak)
		if err != nil || orders == nil {
			return nil, err
		}
		r := *plain
		r.Certificates, r.Orders, r.Order = []schedule.Certificate{c}, orders, orders[0]
		r.Evaluation, err = p.Evaluate(r.Order)
		return &r, err
	}
	return nil, nil
}

// withPeak returns those of several orders of a problem that have the given peak.
func withPeak(p *schedule.Problem, orders [][]int32, peak int64) (list [][]int32, err error) {
	for _, order := range orders {
		e, err := p.Evaluate(order)
		if err != nil {
			return nil, err
		}
		if e.Peak == peak {
			list = append(list, order)
		}
	}
	return list, nil
}

// touching lists the nodes that share bytes of a storage of one of the pairs, in
// topological order.
func (a *aliasSearch) touching(pairs []alias.Pair) (list []int32) {
	in := map[int32]bool{}
	for _, p := range pairs {
		in[p.Result], in[p.Over] = true, true
	}
	for _, n := range a.g.Nodes {
		if slices.ContainsFunc(n.Ranges, func(x alias.Range) bool { return in[x.Out] || in[x.In] }) {
			list = append(list, n.ID)
		}
	}
	return list
}
