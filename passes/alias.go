package passes

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/passes/internal/alias"
	"github.com/onnxmem/onnxmem/schedule"
)

// mostLeftOut is how many nodes are left out one by one to look for a smaller peak.
const mostLeftOut = 24

// aliases lets results of Concat, Split, Slice and Gather lie in the bytes of their
// operands, and operands in the bytes of their results, if that makes the plan of the main
// graph better: a smaller peak; the same peak and a smaller arena; or both the same, fewer
// bytes to copy, and an order that is proven optimal if it was before.
//
// The bound is that of all orders and all choices of such nodes: it is proven on the
// relaxed layout, in which memory may have two places at once.
func aliases(ctx context.Context, s *State) error {
	r := s.main
	if !s.opt.Aliases || s.ranged != nil || s.budget != nil || s.slices != nil || len(s.opt.Pools) > 0 || s.frontier != nil {
		return nil
	}
	g := s.aliasGraph(r)
	if len(g.Nodes) == 0 || g.Choose(nil).Saved == 0 {
		return nil
	}
	plain := *r
	planned := r.plannedOrder()
	if err := s.reorder(r, identity(len(planned))); err != nil {
		return err
	}
	c, err := s.chooseAliases(ctx, r, s.aliasGraph(r), plain.loads.Peak)
	if err != nil {
		return err
	}
	if c != nil {
		better, err := s.tryAliases(ctx, c, &plain)
		if err != nil || better {
			return err
		}
		if err := s.reorder(c.region, identity(len(planned))); err != nil {
			return err
		}
	}
	if err := s.reorder(r, planned); err != nil {
		return err
	}
	r.loads, r.buffers = plain.loads, plain.buffers
	return nil
}

// plannedOrder is the present order of the nodes, by their indices in the file.
func (r *region) plannedOrder() []int32 {
	order := make([]int32, len(r.stepOf))
	for i, step := range r.stepOf {
		order[step] = int32(i)
	}
	return order
}

// aliasChoice is a set of nodes whose bytes are shared, with its best orders.
type aliasChoice struct {
	region *region
	saved  int64 // bytes that nodes need not copy
	orders [][]int32
	peak   int64
	lost   []alias.Pair
}

// tryAliases places a choice and makes it the plan if it is better than the one without.
// The nodes must be in the order of the file.
func (s *State) tryAliases(ctx context.Context, c *aliasChoice, plain *region) (better bool, err error) {
	q := c.region
	if err := s.choose(ctx, q, c.orders); err != nil {
		return false, err
	}
	if err := s.place(ctx, q); err != nil {
		return false, err
	}
	proven := func(r *region) bool { return r.loads.Peak == r.solved.Bound }
	switch {
	case q.loads.Peak != plain.loads.Peak:
		better = q.loads.Peak < plain.loads.Peak
	case q.arena != plain.arena:
		better = q.arena < plain.arena
	default:
		better = c.saved > 0 && (proven(q) || !proven(plain))
	}
	if q.arena > plain.arena {
		better = false
	}
	if better {
		s.main = q
	}
	return better, nil
}

// chooseAliases looks for the set of nodes with the smallest peak, at most enough. It
// returns nil if it finds none.
func (s *State) chooseAliases(ctx context.Context, r *region, g *alias.Graph, enough int64) (*aliasChoice, error) {
	pairs := s.aliasPairs(r)
	relaxed := g.Relax()
	pieces := relaxed.Pieces(pairs)
	if pieces == nil {
		return nil, nil
	}
	bound, _ := s.aliased(r, relaxed, pieces, pairs)
	solved, err := s.solve(ctx, bound)
	if err != nil {
		return nil, err
	}
	a := &aliasSearch{s: s, r: r, g: g, pairs: pairs, solved: solved, relaxed: s.problem(bound)}
	best, err := a.try(ctx, nil)
	if err != nil {
		return nil, err
	}
	if lossy := a.touching(best.lost); best.peak > solved.Bound && len(lossy) > 0 && !s.timeIsUp() {
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
			if k >= mostLeftOut || best.peak <= solved.Bound || s.timeIsUp() {
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
	if best.saved == 0 || best.peak > enough {
		return nil, nil
	}
	q := best.region
	q.apart = r.solved
	result := *q.solved
	result.Bound, result.BoundNode = solved.Bound, solved.BoundNode
	result.Certificates = slices.Clone(solved.Certificates)
	for _, x := range solved.Certificates {
		if x.Kind == schedule.KindSearch {
			if b := schedule.Bound(a.relaxed); b.Kind != schedule.KindSearch {
				result.Certificates = append(result.Certificates, b)
			}
		}
	}
	q.solved = &result
	return best, nil
}

// relaxAliases makes the main graph one in which all bytes are shared that nodes only
// move.
func (s *State) relaxAliases() (err error) {
	s.main, err = s.relaxed(s.main)
	return err
}

// errManyParts is the error for a graph whose bytes have too many parts.
var errManyParts = errors.New("the plan has aliases with too many parts: expected one without (--no-aliases)")

// relaxed returns a region in which all bytes are shared that nodes only move.
func (s *State) relaxed(r *region) (*region, error) {
	pairs := s.aliasPairs(r)
	l := s.aliasGraph(r).Relax()
	pieces := l.Pieces(pairs)
	if pieces == nil {
		return nil, errManyParts
	}
	q, _ := s.aliased(r, l, pieces, pairs)
	return q, nil
}

// aliasSearch looks for a good set of nodes.
type aliasSearch struct {
	s       *State
	r       *region
	g       *alias.Graph
	pairs   []alias.Pair
	relaxed *schedule.Problem
	solved  *schedule.Result // of the relaxed problem
}

// try orders the graph with all possible nodes but those to leave.
func (a *aliasSearch) try(ctx context.Context, leave map[int32]bool) (*aliasChoice, error) {
	l := a.g.Choose(func(n int32) bool { return leave[n] })
	q, lost := a.s.aliased(a.r, l, l.Pieces(nil), a.pairs)
	c := &aliasChoice{region: q, saved: l.Saved, lost: lost}
	p := a.s.problem(q)
	if reflect.DeepEqual(p, a.relaxed) {
		q.solved = a.solved
	} else {
		var err error
		if q.solved, err = a.s.solve(ctx, q); err != nil {
			return nil, err
		}
	}
	c.orders, c.peak = a.s.orders(q.solved), q.solved.Evaluation.Peak
	return c, nil
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
