package planner

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes/internal/box"
)

// Beside ranges of dimensions, each buffer has one pool at all points: the one that it gets at
// the corner, where all buffers are largest. The buffers of a pool are stacked like those of one
// arena, so a pool is nowhere larger than at the corner, where it keeps to its capacity.

// Divide divides the buffers of the main graph among the pools, and stacks those of each pool. The
// order has been chosen, and its bounds are proven.
func (b *RangeSolver) Divide(ctx context.Context) error {
	if len(b.Pools) == 0 {
		return nil
	}
	x := b.graphs[len(b.graphs)-1]
	r, err := b.dividedAtCorner(ctx)
	if err != nil {
		return err
	}
	at := r.stacked(x.Chosen)
	memory, sizes, offsets := make([]int, len(at)), make([]int64, len(at)), make([]int64, len(at))
	for i, k := range at {
		memory[i], sizes[i], offsets[i] = r.Buffers[k].Pool, r.Buffers[k].Bytes, r.Buffers[k].Offset
	}
	if err := x.Divide(memory, len(r.Pools), sizes, offsets); err != nil {
		return err
	}
	return b.each(ctx, len(b.Found.Points), func(m *graph.Model, i int) error {
		p, point := &b.Found.Proven[i], b.Found.Points[i]
		if p.Refused != "" {
			return nil
		}
		if _, err := b.infer(m, point); err != nil {
			return err
		}
		placed, err := b.placeAt(m, point, nil)
		if err != nil {
			return err
		}
		p.Arena = placed.Arenas[len(placed.Arenas)-1]
		return nil
	})
}

// WithPools returns a ceiling that is no higher than what several pools hold together; nil without
// either.
func WithPools(c *box.Ceiling, pools []Memory) *box.Ceiling {
	if len(pools) == 0 {
		return c
	}
	var sum int64
	for _, p := range pools {
		sum = units.Add(sum, p.Capacity)
	}
	if c != nil && c.Bytes <= sum {
		return c
	}
	return &box.Ceiling{Bytes: sum}
}

// dividedAtCorner returns the main graph at the corner, in the order that was chosen, with its
// buffers in the pools.
func (b *RangeSolver) dividedAtCorner(ctx context.Context) (*Region, error) {
	m := *b.Model
	m.Graph = b.Model.Graph.Clone()
	if _, err := b.infer(&m, b.Box.Corner()); err != nil {
		return nil, err
	}
	b.Share(&m)
	r, err := b.Shared(&m, b.Given.Given, nil)
	if err != nil {
		return nil, err
	}
	r.Boxes = b.BoxesOf(&m)
	if err := r.PlanBodies(ctx, b.Search); err != nil {
		return nil, err
	}
	if err := r.Order(ctx, b.Search); err != nil {
		return nil, err
	}
	r.Boxes = nil // its buffers have no places yet
	if b.Keep != nil && b.Keep.Arena {
		_, err := r.PlaceWithin(ctx, b.Keep.Bytes, b.Search)
		return r, err
	}
	return r, r.Place(ctx, b.Search)
}
