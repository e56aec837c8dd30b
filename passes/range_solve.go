package passes

import (
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/units"
)

// solve chooses for all points, and proves it.
func (b *rangeSolver) solve(ctx context.Context) error {
	if !b.found.All {
		if err := b.bound(); err != nil {
			return err
		}
	}
	err := b.found.Solve(ctx, &b.Search, b)
	b.log.timedOut = b.log.timedOut || err == nil && b.TimeIsUp()
	return err
}

// withAliases chooses and proves again, with aliases. It returns nil, and notes why, if the
// plan with aliases is not better: smaller at one point at least, or of the same sizes with
// fewer bytes to copy, and larger at none.
func (b *rangeSolver) withAliases(ctx context.Context, note func(format string, args ...any)) (*rangeSolver, error) {
	if b.bounded != nil {
		note("none: %d points are too many to infer each, and bounded lengths do not say where parts begin: expected fewer points, or a larger --points", b.box.Points)
		return nil, nil
	}
	c := &rangeSolver{
		ranged: b.ranged.again(b.found.Again()), keep: b.keep, rules: b.rules, search: b.search, bind: b.bind, model: b.model, given: b.given, copies: b.copies,
		aliases: &rangeAliases{leave: map[int32]bool{}, some: map[int32]bool{}},
	}
	switch err := c.solve(ctx); {
	case errors.Is(err, errNothingShared):
		if n := len(c.aliases.some); n > 0 {
			note("none: of %d nodes that can share bytes with their operands, none can at all points", n)
		}
		return nil, nil
	case errors.Is(err, errManyParts):
		note("none: the bytes of the tensors have too many parts")
		return nil, nil
	case err != nil:
		return nil, err
	}
	for i, p := range c.found.Proven {
		if q := b.found.Proven[i]; p.Refused == "" && p.Arena > q.Arena {
			note("none: at %s the arena would be %s, and is %s without", graph.AtLengths(b.box.At(b.found.Points[i])), units.Bytes(p.Arena), units.Bytes(q.Arena))
			return nil, nil
		}
	}
	if n := len(c.aliases.some); n > 0 {
		note("nodes that can share bytes with their operands at some points, but not at all, copy: %d", n)
	}
	return c, nil
}
