package passes

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// provenPoint is what was found at one point.
type provenPoint struct {
	refused      string // why inference refuses it; "" if it does not
	unshared     bool   // a view or an in-place pair that was chosen is not possible
	arena, bound int64
	peak         int64            // the largest load of the buffers
	bounds       []box.PointBound // of each graph, the main graph last
}

// enumerate infers every point of the box, compares the sharing, and computes the arena
// and the bound.
func (b *rangeSolver) enumerate(ctx context.Context) error {
	b.proven = make([]provenPoint, len(b.points))
	var done atomic.Int64
	var report sync.Mutex
	err := b.each(ctx, len(b.points), func(m *graph.Model, i int) error {
		p, err := b.prove(ctx, m, b.points[i])
		b.proven[i] = p
		if n := int(done.Add(1)); b.progress != nil && (n%64 == 0 || n == len(b.points)) {
			report.Lock()
			defer report.Unlock()
			b.progress(n, len(b.points))
		}
		return err
	})
	b.sizes.DropWrong()
	return err
}

// prove infers a point and proves what was chosen there.
func (b *rangeSolver) prove(ctx context.Context, m *graph.Model, point int) (p provenPoint, err error) {
	if _, err := b.infer(m, point); err != nil {
		return provenPoint{refused: err.Error()}, nil
	}
	if !b.hasCommon(m) {
		return provenPoint{unshared: true}, nil
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
			return provenPoint{unshared: true}, err
		}
	}
	s, err := b.stackAt(m, point, parts)
	if err != nil || !s.same {
		return provenPoint{unshared: !s.same}, err
	}
	p.arena, p.peak = s.arenas[len(s.arenas)-1], s.peak
	b.sizes.Check(b.box.At(point), s.sizes, b.round)
	works := b.noWorks() // that no order needs less than
	for g, x := range b.graphs {
		own := owns[g]
		for n, bytes := range works[g] {
			own.Nodes[n].Workspace = bytes
		}
		has, err := x.BoundAt(ctx, &b.Search, own, s.arenas[g])
		if err != nil {
			return p, err
		}
		p.bounds = append(p.bounds, has)
		if p.bound = has.Bytes; x.outer >= 0 {
			works[x.outer][x.node] = max(works[x.outer][x.node], has.Bytes)
		}
	}
	return p, nil
}

// stackedPoint is the stacking that was chosen, at a point.
type stackedPoint struct {
	same   bool    // else the tensors of a buffer differ in size, and the rest means nothing
	sizes  []int64 // of the buffers of all graphs
	arenas []int64 // by graph
	peak   int64   // of the main graph
}

// stackAt stacks the buffers of all graphs of a model that is inferred at a point. parts is the
// region of the parts of the main graph, with aliases.
func (b *rangeSolver) stackAt(m *graph.Model, point int, parts *region) (s stackedPoint, err error) {
	graphs, works := graphsOf(m.Graph), b.noWorks()
	s.arenas = make([]int64, len(b.graphs))
	for g, x := range b.graphs {
		var q *region
		if x.outer < 0 {
			q = parts
		}
		sizes, same, err := b.sizesAt(graphs[g].g, x, q, works[g], point)
		if s.same = same; err != nil || !same {
			return s, err
		}
		if s.arenas[g], err = x.Chosen.Place(sizes); err != nil {
			return s, err
		}
		s.sizes = append(s.sizes, sizes...)
		if x.outer >= 0 {
			works[x.outer][x.node] = max(works[x.outer][x.node], s.arenas[g])
		} else {
			s.peak = x.Chosen.Peak(sizes)
		}
	}
	return s, nil
}
