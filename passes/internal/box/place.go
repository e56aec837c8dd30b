package box

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/alloc/stacking"
	"github.com/onnxmem/onnxmem/schedule"
)

// stackOrder returns the best stacking for an order. It ends as soon as one is as good as the
// order permits at its worst point.
func (g *Graph) stackOrder(ctx context.Context, x *Search, order []int32, least float64) (*Stack, error) {
	buffers, taken, err := g.buffers(order)
	if err != nil {
		return nil, err
	}
	chains := g.chains(buffers)
	lives := make([]stacking.Lifetime, len(buffers))
	for i, b := range buffers {
		lives[i] = stacking.Lifetime{First: b.First, Last: b.Last}
	}
	var best *Stack
	// The corner, the largest point, is last.
	for k := len(g.Points) - 1; k >= 0; k -= max(1, len(g.Points)/placedPoints) {
		sizes, err := sizesOf(g.Points[k].Problem, buffers)
		if err != nil {
			return nil, err
		}
		offsets, err := placeChains(ctx, sizes, buffers, chains, x.Placement)
		if err != nil {
			return nil, err
		}
		s := &Stack{Order: order, Buffers: buffers, Taken: taken, chains: chains}
		if s.Stack, err = stacking.NewChained(lives, stacking.RankChained(lives, offsets, sizes, chains), chains); err != nil {
			return nil, err
		}
		if err := g.measure(s); err != nil {
			return nil, err
		}
		if best == nil || s.fit.Compare(best.fit) < 0 || s.fit.Compare(best.fit) == 0 && s.arenas < best.arenas {
			best = s
		}
		if best.fit.Worst <= least && best.fit.Above == 0 || x.TimeIsUp() {
			break
		}
	}
	return best, nil
}

// measure finds out what a stacking takes at the points.
func (g *Graph) measure(s *Stack) error {
	for _, p := range g.Points {
		arena, err := s.Arena(p.Problem)
		if err != nil {
			return err
		}
		s.fit.Worst, s.arenas = max(s.fit.Worst, Ratio(arena, p.Bound)), s.arenas+arena
		if g.Keep != nil && g.Keep.Arena {
			s.fit.Above = g.above(arena)
		}
	}
	return nil
}

// chains returns the buffers of each parent.
func (g *Graph) chains(buffers []schedule.Lifetime) (chains [][]int) {
	if len(g.Parents) == 0 {
		return nil
	}
	of := map[int32]int{} // by tensor
	for i, b := range buffers {
		for _, t := range b.Tensors {
			of[t] = i
		}
	}
	for _, parent := range g.Parents {
		chain := make([]int, len(parent))
		for k, t := range parent {
			chain[k] = of[t]
		}
		chains = append(chains, chain)
	}
	return chains
}

// buffers returns the buffers of an order at any point, also those that have 0 bytes at the
// corner, as they may have some elsewhere, and the in-place pairs of the corner.
func (g *Graph) buffers(order []int32) ([]schedule.Lifetime, []schedule.Pair, error) {
	corner := g.Corner().Problem
	e, err := corner.Evaluate(order)
	if err != nil {
		return nil, nil, err
	}
	p := *corner
	p.Tensors = slices.Clone(p.Tensors)
	for i := range p.Tensors {
		covered := i < len(g.Covered) && g.Covered[i]
		if t := &p.Tensors[i]; t.Kind != "control" && !covered {
			t.Bytes = 1
		}
	}
	buffers, err := p.Lifetimes(order, e.Taken)
	return buffers, e.Taken, err
}
