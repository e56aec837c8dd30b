package passes

import (
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// Prove infers a point and proves what was chosen there.
func (b *rangeSolver) Prove(ctx context.Context, s *box.Solution, worker, point int) (p box.Proven, err error) {
	m := b.copies[worker]
	if _, err := b.infer(m, point); err != nil {
		if b.bounded != nil {
			return p, graph.Errorf("ranges of dimensions: %d points are too many to infer each, and the model refuses %s: %s: expected lengths that it takes, such as LOW..HIGH:STEP, or a larger --points", b.box.Points, graph.AtLengths(b.box.At(point)), err)
		}
		return box.Proven{Refused: err.Error()}, nil
	}
	if !b.hasCommon(m) {
		return box.Proven{Unshared: true}, nil
	}
	regions, err := b.regions(m)
	if err != nil {
		return p, err
	}
	owns := make([]*schedule.Problem, len(regions))
	for g, r := range regions {
		if owns[g], err = b.own(r); err != nil {
			return p, err
		}
	}
	var parts *region // of the main graph
	if b.aliases != nil {
		if parts, err = b.partsAt(m); parts == nil {
			return box.Proven{Unshared: true}, err
		}
	}
	placed, err := b.placeAt(m, point, parts)
	if errors.Is(err, errOtherSizes) {
		return box.Proven{Unshared: true}, nil
	}
	if err != nil {
		return p, err
	}
	s.Sizes.Check(b.box.At(point), placed.Sizes, b.round)
	p.Arena, p.Peak = placed.Arenas[len(placed.Arenas)-1], placed.Peak
	if p.Bounds, err = b.boxes.BoundAt(ctx, &b.Search, owns, placed.Arenas); err == nil {
		p.Bound = p.Bounds[len(p.Bounds)-1].Bytes
	}
	return p, err
}

// placeAt places the buffers of all graphs of a model that is inferred at a point. parts is the
// region of the parts of the main graph, with aliases.
func (b *rangeSolver) placeAt(m *graph.Model, point int, parts *region) (box.Placed, error) {
	graphs := graphsOf(m.Graph)
	return b.boxes.Place(func(g int, work []int64) ([]int64, error) {
		x, q := b.graphs[g], parts
		if x.outer >= 0 {
			q = nil
		}
		return b.sizesAt(graphs[g].g, x, q, work, point)
	})
}
