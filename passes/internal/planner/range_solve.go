package planner

import (
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
)

// Solve chooses for all points, and proves it.
func (b *RangeSolver) Solve(ctx context.Context) error {
	if !b.Found.All {
		if err := b.bound(); err != nil {
			return err
		}
	}
	err := b.Found.Solve(ctx, &b.Search.Search, b)
	b.Log.TimedOut = b.Log.TimedOut || err == nil && b.TimeIsUp()
	return err
}

// WithAliases chooses and proves again, with aliases. It returns nil, and notes why, if the
// plan with aliases is not better: smaller at one point at least, or of the same sizes with
// fewer bytes to copy, and larger at none.
func (b *RangeSolver) WithAliases(ctx context.Context, note func(format string, args ...any)) (*RangeSolver, error) {
	if b.bounded != nil {
		note("none: %d points are too many to infer each, and bounded lengths do not say where parts begin: expected fewer points, or a larger --points", b.Box.Points)
		return nil, nil
	}
	c := &RangeSolver{
		Ranged: b.Ranged.Again(b.Found.Again()), Keep: b.Keep, Rules: b.Rules, Search: b.Search, Bind: b.Bind, Model: b.Model, Given: b.Given, Copies: b.Copies,
		Aliases: &RangeAliases{leave: map[int32]bool{}, some: map[int32]bool{}},
	}
	switch err := c.Solve(ctx); {
	case errors.Is(err, errNothingShared):
		if n := len(c.Aliases.some); n > 0 {
			note("none: of %d nodes that can share bytes with their operands, none can at all points", n)
		}
		return nil, nil
	case errors.Is(err, errManyParts):
		note("none: the bytes of the tensors have too many parts")
		return nil, nil
	case err != nil:
		return nil, err
	}
	for i, p := range c.Found.Proven {
		if q := b.Found.Proven[i]; p.Refused == "" && p.Arena > q.Arena {
			note("none: at %s the arena would be %s, and is %s without", graph.AtLengths(b.Box.At(b.Found.Points[i])), units.Bytes(p.Arena), units.Bytes(q.Arena))
			return nil, nil
		}
	}
	if n := len(c.Aliases.some); n > 0 {
		note("nodes that can share bytes with their operands at some points, but not at all, copy: %d", n)
	}
	return c, nil
}
