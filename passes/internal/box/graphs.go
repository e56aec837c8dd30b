package box

import (
	"context"
	"slices"

	"github.com/onnxmem/onnxmem/schedule"
)

// Graphs are those of a model: the bodies of nodes, inner ones first, and then the main graph.
type Graphs []*Graph

// Main is the main graph.
func (l Graphs) Main() *Graph { return l[len(l)-1] }

// Choose chooses for all graphs. The arena of a body is the workspace of its node, and the lower
// bound that of the node in the problem for whose bound any order of a body counts.
func (l Graphs) Choose(ctx context.Context, x *Search) error {
	for _, g := range l {
		if err := g.choose(ctx, x); err != nil {
			return err
		}
		if g.Outer < 0 {
			continue
		}
		for i := range g.Points {
			arena, err := g.Chosen.Arena(g.Points[i].Problem)
			if err != nil {
				return err
			}
			p := &l[g.Outer].Points[i]
			placed, own := &p.Problem.Nodes[g.Node].Workspace, &p.Own.Nodes[g.Node].Workspace
			*placed, *own = max(*placed, arena), max(*own, g.Points[i].Bound)
			p.works = true
		}
	}
	return nil
}

// choose sets the order and the stacking, the bounds of the points, and what proves them. The
// bodies of the nodes have been chosen.
func (g *Graph) choose(ctx context.Context, x *Search) error {
	bounds := make([]Bound, len(g.Points))
	err := Each(ctx, len(g.Points), func(_, i int) (err error) {
		p := &g.Points[i]
		has, known := g.bounds[p.Index]
		if !known || p.works {
			has, err = x.Bound(ctx, p.Own)
		}
		bounds[i] = has
		return err
	})
	if err != nil {
		return err
	}
	plain := x.Strategy == "" && x.Goal == schedule.GoalPeak && !g.Fixed && g.Precedence == nil
	for i := range g.Points {
		p := &g.Points[i]
		p.Bound, g.bounds[p.Index] = bounds[i].Bytes, bounds[i]
		if p.works {
			delete(g.orders, p.Index)
		}
		if plain && p.OwnSame && !p.works {
			g.orders[p.Index] = bounds[i].Orders // the problem is the same
		}
	}
	g.Known = nil
	for _, has := range bounds {
		if !slices.ContainsFunc(g.Known, func(c schedule.Certificate) bool { return Same(c, has.Proof) }) {
			g.Known = append(g.Known, has.Proof)
		}
	}
	return g.chooseStack(ctx, x)
}

// chooseStack sets the order and the stacking whose arena is closest to the bound at the point
// where it is farthest from it.
func (g *Graph) chooseStack(ctx context.Context, x *Search) error {
	l, err := g.List(ctx, x)
	if err != nil {
		return err
	}
	_, g.Chosen, err = Choose(g, x, l.Orders, func(order []int32, peaks Fit) (*Stack, Fit, error) {
		s, err := g.stackOrder(ctx, x, order, peaks.Worst)
		if err != nil {
			return nil, Fit{}, err
		}
		return s, s.fit, nil
	})
	if err != nil {
		return err
	}
	g.Chosen.Listing, g.Chosen.BestPeak = l.Listing(g.Chosen.Order), l.BestPeak
	return nil
}

// Placed is what the stackings take at a point, in bytes.
type Placed struct {
	Arenas []int64 // by graph
	Peak   int64   // the largest load of the main graph's buffers
	Sizes  []int64 // of the buffers of all graphs
}

// Place places the buffers of all graphs at a point. sizes returns those of the buffers of a graph
// whose nodes have the given workspaces.
func (l Graphs) Place(sizes func(g int, work []int64) ([]int64, error)) (p Placed, err error) {
	works := l.works()
	for i, g := range l {
		list, err := sizes(i, works[i])
		if err != nil {
			return p, err
		}
		arena, err := g.Chosen.Place(list)
		if err != nil {
			return p, err
		}
		p.Sizes, p.Arenas = append(p.Sizes, list...), append(p.Arenas, arena)
		if g.Outer < 0 {
			p.Peak = g.Chosen.Peak(list)
			break
		}
		works[g.Outer][g.Node] = max(works[g.Outer][g.Node], arena)
	}
	return p, nil
}

// BoundAt bounds all graphs at a point, up to their arenas. own are the problems with the sharing
// that is possible there; it gives them the workspaces that no order needs less than.
func (l Graphs) BoundAt(ctx context.Context, x *Search, own []*schedule.Problem, arenas []int64) ([]PointBound, error) {
	bounds, works := make([]PointBound, len(l)), l.works()
	for i, g := range l {
		for n, bytes := range works[i] {
			own[i].Nodes[n].Workspace = bytes
		}
		var err error
		if bounds[i], err = g.boundAt(ctx, x, own[i], arenas[i]); err != nil {
			return nil, err
		}
		if g.Outer >= 0 {
			works[g.Outer][g.Node] = max(works[g.Outer][g.Node], bounds[i].Bytes)
		}
	}
	return bounds, nil
}

// works returns a workspace of 0 bytes for each node of each graph.
func (l Graphs) works() [][]int64 {
	list := make([][]int64, len(l))
	for i, g := range l {
		list[i] = make([]int64, len(g.Corner().Problem.Nodes))
	}
	return list
}
