package passes

import (
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
	"github.com/onnxmem/onnxmem/passes/internal/box"
)

// Beside ranges of dimensions, each buffer has one pool at all points: the one that it gets at
// the corner, where all buffers are largest. The buffers of a pool are stacked like those of one
// arena, so a pool is nowhere larger than at the corner, where it keeps to its capacity.

// divide divides the buffers of the main graph among the pools, and stacks those of each pool. The
// order has been chosen, and its bounds are proven.
func (b *rangeSolver) divide(ctx context.Context) error {
	if len(b.pools) == 0 {
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
		memory[i], sizes[i], offsets[i] = r.buffers[k].pool, r.buffers[k].bytes, r.buffers[k].offset
	}
	if err := x.Divide(memory, len(r.pools), sizes, offsets); err != nil {
		return err
	}
	return b.each(ctx, len(b.found.Points), func(m *graph.Model, i int) error {
		p, point := &b.found.Proven[i], b.found.Points[i]
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

// withPools returns a ceiling that is no higher than what several pools hold together; nil without
// either.
func withPools(c *box.Ceiling, pools []memory) *box.Ceiling {
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
func (b *rangeSolver) dividedAtCorner(ctx context.Context) (*region, error) {
	m := *b.model
	m.Graph = b.model.Graph.Clone()
	if _, err := b.infer(&m, b.box.Corner()); err != nil {
		return nil, err
	}
	b.share(&m)
	r, err := b.shared(&m, b.given.Given, nil)
	if err != nil {
		return nil, err
	}
	r.boxes = b.boxesOf(&m)
	if err := r.planBodies(ctx, b.search); err != nil {
		return nil, err
	}
	if err := r.order(ctx, b.search); err != nil {
		return nil, err
	}
	r.boxes = nil // its buffers have no places yet
	if b.keep != nil && b.keep.Arena {
		_, err := r.placeWithin(ctx, b.keep.Bytes, b.search)
		return r, err
	}
	return r, r.place(ctx, b.search)
}
