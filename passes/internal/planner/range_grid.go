package planner

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// gridPoint is what the first pass over the grid finds at a point.
type gridPoint struct {
	index   int // of the point in the box
	refused bool
	shared  []sharing           // by node of all graphs
	own     []*schedule.Problem // of each graph, with the sharing of this point
	fixed   []bool              // by tensor of all graphs: it has a known size
	dims    []ops.BoundDim
}

// Choose sets what the points of the grid have in common: the sharing, the order and the
// stacking of each graph.
func (b *RangeSolver) Choose(ctx context.Context, list []int) (box.Graphs, error) {
	b.copy(box.Workers(b.Box.Points)) // for the proof, too
	found, err := b.inferGrid(ctx, list)
	if err != nil {
		return nil, err
	}
	before := b.common
	if err := b.setCommon(found); err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(p gridPoint) bool { return p.refused })
	if b.graphs == nil {
		for g, x := range GraphsOf(b.Model.Graph) {
			in := &rangeGraph{Inner: x, Graph: box.Graph{Index: g, Main: x.outer < 0, Outer: x.outer, Node: int32(x.node)}}
			b.graphs, b.Boxes = append(b.graphs, in), append(b.Boxes, &in.Graph)
		}
	}
	same := slices.EqualFunc(before, b.common, sharing.equal)
	for g, x := range b.Boxes {
		points := make([]box.Point, len(found))
		for i, p := range found {
			points[i] = box.Point{Index: p.index, Own: p.own[g], OwnSame: slices.EqualFunc(p.shared, b.common, sharing.equal)}
		}
		x.Set(points, same)
	}
	if err := b.setPoints(ctx, found); err != nil {
		return nil, err
	}
	if err := b.Boxes.Choose(ctx, &b.Search.Search); err != nil {
		var graphs []*graph.Graph
		for _, x := range b.graphs {
			graphs = append(graphs, x.G)
		}
		return nil, turned(err, graphs...)
	}
	return b.Boxes, nil
}

// inferGrid infers the model at the points of the grid.
func (b *RangeSolver) inferGrid(ctx context.Context, list []int) ([]gridPoint, error) {
	found := make([]gridPoint, len(list))
	return found, b.each(ctx, len(list), func(m *graph.Model, k int) (err error) {
		p := &found[k]
		p.index = list[k]
		if p.dims, err = b.infer(m, list[k]); err != nil {
			if p.refused = true; list[k] == b.Box.Corner() {
				return err
			}
			return nil
		}
		regions, err := b.regions(m)
		for _, r := range regions {
			own, err := b.own(r)
			if err != nil {
				return err
			}
			p.own = append(p.own, own)
			for _, n := range r.G.Nodes {
				p.shared = append(p.shared, b.sharing(r.G, n))
			}
			p.fixed = append(p.fixed, fixedSizes(r.G)...)
		}
		return err
	})
}

// setCommon finds the sharing that all points have, and the dimensions that follow from others.
func (b *RangeSolver) setCommon(found []gridPoint) error {
	corner := &found[len(found)-1]
	b.common, b.Follows = slices.Clone(corner.shared), map[string]bool{}
	for _, p := range found {
		if p.refused {
			continue
		}
		for i, d := range p.dims {
			if d.Value != corner.dims[i].Value && !slices.Contains(b.Box.Names, d.Name) {
				b.Follows[d.Name] = true
			}
		}
		for i, known := range p.fixed {
			if known != corner.fixed[i] {
				g, t := b.tensorAt(i)
				return b.otherTensors(g, t, p.index, known)
			}
		}
		for n, has := range p.shared {
			c := &b.common[n]
			if b.bounded != nil {
				c.views, c.inplace = intersect(c.views, b.bounded[n].views), intersect(c.inplace, b.bounded[n].inplace)
			}
			c.views, c.inplace = intersect(c.views, has.views), intersect(c.inplace, has.inplace)
		}
	}
	return nil
}

// setPoints sets the problems of all graphs at the points, with the sharing that all have.
func (b *RangeSolver) setPoints(ctx context.Context, found []gridPoint) error {
	var parts []aliasPoint
	if b.Aliases != nil {
		parts = make([]aliasPoint, len(found))
	}
	err := b.each(ctx, len(found), func(m *graph.Model, i int) error {
		if _, err := b.infer(m, found[i].index); err != nil {
			return err
		}
		b.Share(m)
		regions, err := b.regions(m)
		for g, r := range regions {
			b.setPoint(b.graphs[g], r, i)
			if parts != nil && r.kind == mainGraph {
				parts[i] = b.aliasPoint(r)
			}
		}
		return err
	})
	if err != nil || parts == nil {
		return err
	}
	return b.Aliases.choose(b, parts)
}

// setPoint sets the problem of a graph at a point of the grid, with the sharing that all have.
// r is the graph there.
func (b *RangeSolver) setPoint(x *rangeGraph, r *Region, i int) {
	p := &x.Points[i]
	p.Problem = r.Problem()
	for k := range r.Storages {
		p.Bytes = append(p.Bytes, r.G.Tensors[r.Storages[k].Tensors[0]].Bytes)
	}
	if p.Index != b.Box.Corner() {
		return
	}
	x.tensors, x.stay = nil, map[graph.TensorID]stayed{}
	for k := range r.Storages {
		x.tensors = append(x.tensors, r.Storages[k].Tensors[0])
	}
	for _, c := range r.UpdateChains {
		for _, k := range c.Storages {
			t := r.Storages[k].Tensors[0]
			x.stay[t] = stayed{r.G.Tensors[t].Type, r.Storages[k].Bytes, c.kind == plan.KindCache}
		}
	}
	x.Listed, x.Fixed, x.Precedence = b.Traversal != nil, b.fixes(r.kind), nil
	if x.Fixed {
		return // in the order of the file
	}
	x.Precedence = b.precedence(r, p.Problem)
	if r.kind == mainGraph {
		x.Keep = b.Keep
	}
}

// fixedSizes says which tensors of an inferred graph have a known size.
func fixedSizes(g *graph.Graph) []bool {
	list := make([]bool, len(g.Tensors))
	for i, t := range g.Tensors {
		list[i] = t.Dynamic == ""
	}
	return list
}

// tensorAt returns the graph and the tensor of an index into gridPoint.fixed.
func (b *RangeSolver) tensorAt(i int) (g int, t graph.TensorID) {
	for g, x := range GraphsOf(b.Model.Graph) {
		if i < len(x.G.Tensors) {
			return g, graph.TensorID(i)
		}
		i -= len(x.G.Tensors)
	}
	panic("a tensor of no graph")
}

// intersect returns a list of what both have, in the order of a.
func intersect[E comparable](a, b []E) (both []E) {
	for _, x := range a {
		if slices.Contains(b, x) {
			both = append(both, x)
		}
	}
	return both
}

// otherTensors is the error for a point at which another tensor has a known size than at
// the corner: it names the tensor, and the node in whose body it is. known says at which of
// the two it has one.
func (b *RangeSolver) otherTensors(g int, t graph.TensorID, point int, known bool) error {
	with, without := point, b.Box.Corner()
	if !known {
		with, without = without, with
	}
	at := func(point int) string { return graph.AtLengths(b.Box.At(point)) }
	all := GraphsOf(b.Model.Graph)
	x := all[g]
	if x.outer < 0 {
		e := graph.Errorf("ranges of dimensions: has a known size with %s and none with %s: expected one for all lengths, or none: plan these lengths apart", at(with), at(without))
		e.Tensor = x.G.Tensors[t].Name
		return e
	}
	n := all[x.outer].G.Nodes[x.node]
	what := fmt.Sprintf("tensor %q of its %s", graph.Short(x.G.Tensors[t].Name), x.attr)
	if ops.Branches(n) {
		return graph.Errorf("ranges of dimensions: its %s may run with %s and cannot with %s (%s has a known size with the first lengths alone): expected the same branches for all lengths: plan these lengths apart", x.attr, at(with), at(without), what).AtNode(all[x.outer].G.Label(x.node))
	}
	return graph.Errorf("ranges of dimensions: %s has a known size with %s and none with %s: expected one for all lengths, or none: plan these lengths apart", what, at(with), at(without)).AtNode(all[x.outer].G.Label(x.node))
}

// BoxesOf returns the graphs of a copy of the model at the points of the box.
func (b *RangeSolver) BoxesOf(m *graph.Model) map[*graph.Graph]*box.Graph {
	boxes := map[*graph.Graph]*box.Graph{}
	for g, x := range GraphsOf(m.Graph) {
		boxes[x.G] = b.Boxes[g]
	}
	return boxes
}
