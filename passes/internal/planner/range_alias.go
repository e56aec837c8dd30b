package planner

import (
	"errors"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/alias"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// Aliases beside ranges of dimensions are the same at all points: the same nodes share the
// bytes of the same tensors, and the parts follow each other in the same way. Their sizes
// differ, so each buffer that consists of parts of tensors alone must have a polynomial.
// The order and the stacking are chosen as without aliases, for the problem whose tensors
// are the parts.

// aliasPoint is the main graph at a point, with the views and in-place pairs of all points.
type aliasPoint struct {
	r     *Region
	g     *alias.Graph
	pairs []alias.Pair
}

func (b *RangeSolver) aliasPoint(r *Region) aliasPoint {
	return aliasPoint{r, r.AliasGraph(), r.AliasPairs()}
}

// shape shares the bytes of all nodes but those to leave.
func (b *RangeSolver) shape(p aliasPoint) *aliasShape {
	l := p.g.Choose(func(n int32) bool { return b.Aliases.leave[n] })
	pieces := l.Pieces(nil)
	q, _ := p.r.Aliased(l, pieces, p.pairs)
	return &aliasShape{l, pieces, q}
}

// like reports whether two shapes differ in sizes alone.
func (a *aliasShape) like(b *aliasShape) bool {
	root := func(x, y alias.Root) bool { return x.Storage == y.Storage }
	span := func(x, y alias.Span) bool { return x.Root == y.Root }
	spans := func(x, y []alias.Span) bool { return slices.EqualFunc(x, y, span) }
	piece := func(x, y alias.Piece) bool { return x.Root == y.Root && slices.Equal(x.Over, y.Over) }
	return slices.EqualFunc(a.layout.Roots, b.layout.Roots, root) &&
		slices.EqualFunc(a.layout.Content, b.layout.Content, spans) &&
		slices.Equal(a.layout.Next, b.layout.Next) && slices.Equal(a.layout.Shared, b.layout.Shared) &&
		slices.EqualFunc(a.pieces.List, b.pieces.List, piece) &&
		slices.EqualFunc(a.pieces.Of, b.pieces.Of, slices.Equal[[]int32])
}

// choose leaves out the nodes that cannot share the same bytes at all points of the grid,
// and gives the points the problem of the parts.
func (a *RangeAliases) choose(b *RangeSolver, points []aliasPoint) error {
	corner := points[len(points)-1]
	for _, n := range corner.g.Nodes {
		for _, p := range points {
			i := slices.IndexFunc(p.g.Nodes, func(x alias.Node) bool { return x.ID == n.ID })
			if i < 0 || !slices.EqualFunc(n.Ranges, p.g.Nodes[i].Ranges, func(x, y alias.Range) bool { return x.Out == y.Out && x.In == y.In }) {
				a.leaveOut(n.ID)
				break
			}
		}
	}
	for _, p := range points {
		for _, n := range p.g.Nodes {
			if !slices.ContainsFunc(corner.g.Nodes, func(x alias.Node) bool { return x.ID == n.ID }) {
				a.leaveOut(n.ID)
			}
		}
	}
	var shapes []*aliasShape
	for again := true; again; {
		shapes, again = shapes[:0], false
		for _, p := range points {
			shapes = append(shapes, b.shape(p))
		}
		last := shapes[len(shapes)-1]
		for _, x := range shapes {
			if !x.like(last) {
				if !a.leaveUnlike(x, last, corner.g.Nodes) {
					return errNothingShared
				}
				again = true
				break
			}
		}
	}
	a.shape = shapes[len(shapes)-1]
	a.saved = a.shape.layout.Saved
	if a.saved == 0 {
		return errNothingShared
	}
	main := b.graphs[len(b.graphs)-1]
	for i, x := range shapes {
		p, q := &main.Points[i], x.region
		p.Problem = q.Problem()
		for id := len(p.Bytes); id < len(q.Storages); id++ {
			bytes, tensor := q.Storages[id].Bytes, graph.TensorID(graph.None)
			if list := q.Storages[id].Tensors; len(list) > 0 {
				tensor = list[0]
				bytes = points[i].g.Bytes[q.StorageOf[tensor]]
			}
			p.Bytes = append(p.Bytes, bytes)
			if i == len(shapes)-1 {
				main.tensors = append(main.tensors, tensor)
			}
		}
	}
	main.Parents, main.Covered = a.shape.region.parents, make([]bool, len(main.tensors))
	for id := range main.Covered {
		main.Covered[id] = a.shape.region.Storages[id].pieces != nil
	}
	return nil
}

var errNothingShared = errors.New("no node can share the same bytes at all points")

// leaveOut leaves out a node that could share bytes at some points.
func (a *RangeAliases) leaveOut(n int32) {
	a.leave[n], a.some[n] = true, true
}

// leaveUnlike leaves out nodes because of which two shapes differ: those that share bytes in
// one of them alone or, if there are none, the last one that shares bytes of a storage with
// other parts. Storages that get their parts from others come after these. It reports
// whether there were such nodes: lengths of 0 may differ without any.
func (a *RangeAliases) leaveUnlike(x, y *aliasShape, nodes []alias.Node) bool {
	found := false
	for _, pair := range [][2][]int32{{x.layout.Shared, y.layout.Shared}, {y.layout.Shared, x.layout.Shared}} {
		for _, n := range pair[0] {
			if !slices.Contains(pair[1], n) {
				a.leaveOut(n)
				found = true
			}
		}
	}
	unlike := func(i int32) bool {
		return len(x.pieces.Of[i]) != len(y.pieces.Of[i]) || len(x.layout.Content[i]) != len(y.layout.Content[i])
	}
	shares := func(n alias.Node) bool { return !a.leave[n.ID] && slices.Contains(x.layout.Shared, n.ID) }
	for _, all := range []bool{false, true} {
		for k := len(nodes) - 1; k >= 0 && !found; k-- {
			n := nodes[k]
			if shares(n) && (all || slices.ContainsFunc(n.Ranges, func(r alias.Range) bool { return unlike(r.Out) || unlike(r.In) })) {
				a.leaveOut(n.ID)
				found = true
			}
		}
	}
	return found
}

// leaveUnsized leaves out the nodes of which a buffer consists of parts of tensors, but has
// no polynomial. It reports whether there are such nodes.
func (a *RangeAliases) leaveUnsized(b *RangeSolver, sizes *box.Sizes) bool {
	main := b.graphs[len(b.graphs)-1]
	tensors := main.tensors
	unsized := map[int32]bool{} // storages
	for i, buf := range main.Chosen.Buffers {
		if len(buf.Tensors) > 0 && !sizes.Known(&main.Graph, i) && !slices.ContainsFunc(buf.Tensors, func(t int32) bool { return tensors[t] != graph.None }) {
			for _, t := range buf.Tensors {
				unsized[t] = true
			}
		}
	}
	if len(unsized) == 0 {
		return false
	}
	left := len(a.leave)
	q := a.shape.region
	for _, n := range a.shape.layout.Shared {
		node := q.G.Nodes[n]
		for _, list := range [][]graph.TensorID{node.Inputs, node.Outputs} {
			for _, t := range list {
				if t >= 0 && q.StorageOf[t] != NoStorage && slices.ContainsFunc(q.PiecesOf(q.StorageOf[t]), func(p int32) bool { return unsized[p] }) {
					a.leaveOut(n)
				}
			}
		}
	}
	return len(a.leave) > left
}

// partsAt returns the region of the parts of a model that is inferred at a point; nil if
// they are not those of the corner. It changes the sharing of the model's nodes.
func (b *RangeSolver) partsAt(m *graph.Model) (*Region, error) {
	b.Share(m)
	r, err := b.Shared(m, b.Given.Given, nil)
	if err != nil {
		return nil, err
	}
	x := b.shape(b.aliasPoint(r))
	if !x.like(b.Aliases.shape) {
		return nil, nil
	}
	return x.region, nil
}

// Joined returns the main graph of the corner, whose nodes are in the order of the file, with
// the parts as storages. relaxed is the problem for which its bound is proven.
func (b *RangeSolver) Joined(r *Region, relaxed *schedule.Problem) *Region {
	q := b.shape(b.aliasPoint(r)).region
	q.Apart = r.Solved
	solved := *r.Solved
	solved.Certificates = slices.Clone(solved.Certificates)
	for _, c := range r.Solved.Certificates {
		if c.Kind == schedule.KindSearch {
			if x := schedule.Bound(relaxed); x.Kind != schedule.KindSearch {
				solved.Certificates = append(solved.Certificates, x)
			}
		}
	}
	q.Solved = &solved
	return q
}

// Again leaves out aliases of which a buffer has no polynomial.
func (b *RangeSolver) Again(s *box.Solution) bool {
	return b.Aliases != nil && b.Aliases.leaveUnsized(b, s.Sizes)
}
