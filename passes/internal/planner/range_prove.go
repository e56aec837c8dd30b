package planner

import (
	"context"
	"errors"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// Prove infers a point and proves what was chosen there.
func (b *RangeSolver) Prove(ctx context.Context, s *box.Solution, worker, point int) (p box.Proven, err error) {
	m := b.Copies[worker]
	if _, err := b.infer(m, point); err != nil {
		if b.bounded != nil {
			return p, graph.Errorf("ranges of dimensions: %d points are too many to infer each, and the model refuses %s: %s: expected lengths that it takes, such as LOW..HIGH:STEP, or a larger --points", b.Box.Points, graph.AtLengths(b.Box.At(point)), err)
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
	var parts *Region // of the main graph
	if b.Aliases != nil {
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
	s.Sizes.Check(b.Box.At(point), placed.Sizes, b.Round)
	p.Arena, p.Peak = placed.Arenas[len(placed.Arenas)-1], placed.Peak
	if p.Bounds, err = b.Boxes.BoundAt(ctx, &b.Search.Search, owns, placed.Arenas); err == nil {
		p.Bound = p.Bounds[len(p.Bounds)-1].Bytes
	}
	return p, err
}

// placeAt places the buffers of all graphs of a model that is inferred at a point. parts is the
// region of the parts of the main graph, with aliases.
func (b *RangeSolver) placeAt(m *graph.Model, point int, parts *Region) (box.Placed, error) {
	graphs := GraphsOf(m.Graph)
	return b.Boxes.Place(func(g int, work []int64) ([]int64, error) {
		x, q := b.graphs[g], parts
		if x.outer >= 0 {
			q = nil
		}
		return b.sizesAt(graphs[g].G, x, q, work, point)
	})
}

// hasCommon reports whether the common sharing is possible in an inferred model.
func (b *RangeSolver) hasCommon(m *graph.Model) bool {
	i := 0
	for _, x := range GraphsOf(m.Graph) {
		for _, n := range x.G.Nodes {
			c, has := b.common[i], b.sharing(x.G, n)
			if len(intersect(c.views, has.views)) < len(c.views) || len(intersect(c.inplace, has.inplace)) < len(c.inplace) {
				return false
			}
			i++
		}
	}
	return true
}

// errOtherSizes is the error for tensors of one buffer that differ in size at a point.
var errOtherSizes = errors.New("the tensors of a buffer differ in size")

// sizesAt returns the sizes of the buffers of a graph that is inferred at a point; work has
// the workspaces of its nodes. With aliases, q is the region of their parts.
func (b *RangeSolver) sizesAt(g *graph.Graph, x *rangeGraph, q *Region, work []int64, point int) ([]int64, error) {
	bytes := make([]int64, len(x.tensors)) // by storage
	for i, id := range x.tensors {
		if q != nil {
			bytes[i] = q.Storages[i].Bytes
		}
		if id == graph.None {
			continue
		}
		t := g.Tensors[id]
		if t.Dynamic != "" && t.Data == nil {
			return nil, b.otherTensors(x.Index, id, point, false)
		}
		if q == nil {
			bytes[i] = t.Bytes
		}
		if was, stays := x.stay[id]; stays && !was.permits(t.Type, b.Round(t.Bytes)) {
			e := graph.Errorf("ranges of dimensions: is %v for %s: expected %v, as for the largest lengths, since it stays from run to run", t.Type, graph.AtLengths(b.Box.At(point)), was.typ)
			if was.cache {
				e = graph.Errorf("ranges of dimensions: is %v for %s: expected a cache of no more bytes than for the largest lengths, %v", t.Type, graph.AtLengths(b.Box.At(point)), was.typ)
			}
			e.Tensor = t.Name
			return nil, e
		}
	}
	most, err := x.Chosen.SizesOf(x.Corner().Problem)
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(x.Chosen.Buffers))
	for i, buf := range x.Chosen.Buffers {
		if buf.Node >= 0 {
			sizes[i] = work[buf.Node]
		}
		for k, t := range buf.Tensors {
			n := b.Round(bytes[t])
			if k > 0 && n != sizes[i] {
				return nil, errOtherSizes
			}
			sizes[i] = n
		}
		if sizes[i] > most[i] {
			e := graph.Errorf("ranges of dimensions: has %d bytes for %s: expected at most the %d of the largest lengths", sizes[i], graph.AtLengths(b.Box.At(point)), most[i])
			if id := x.tensors[buf.Tensors[0]]; id != graph.None { // a workspace is no larger if no tensor is
				e.Tensor = g.Tensors[id].Name
			}
			return nil, e
		}
	}
	return sizes, nil
}
