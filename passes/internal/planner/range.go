package planner

import (
	"context"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/alias"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// Ranged is a box of dimensions and, once the pass range has run, what holds at all of its
// points.
type Ranged struct {
	Box     *dimrange.Box
	Lengths map[string]string // of each dimension with a range, as they were given
	Given   map[string]int64  // lengths of the other dimensions

	All      bool                   // each point is inferred; else those of a grid, and the others once, with bounded lengths
	Progress func(done, points int) // may be nil

	Found   *box.Solution   // nil: the pass has not run
	Follows map[string]bool // dimensions without a range whose length differs between points
	By      *RangeSolver    // that found it
}

// Dims returns the lengths of all dimensions at a point.
func (r *Ranged) Dims(point int) map[string]int64 {
	dims := r.Box.At(point)
	maps.Copy(dims, r.Given)
	return dims
}

// Again returns the box, for which a solution is sought.
func (r *Ranged) Again(s *box.Solution) *Ranged {
	again := *r
	again.Found, again.Follows, again.By = s, nil, nil
	return &again
}

// RangeSolver finds what a model has in common at all points of a box. It is the [box.Model].
type RangeSolver struct {
	*Ranged
	*Rules
	*Search
	Bind Binding      // at the corner
	Keep *box.Ceiling // of the main graph; nil: none

	Model  *graph.Model
	Given  *ops.Inference // of the corner
	graphs []*rangeGraph  // as GraphsOf lists them: the main graph is the last one
	Boxes  box.Graphs     // of these
	Copies []*graph.Model // one for each worker
	common []sharing      // by node of all graphs: what holds on all of the grid

	bounded []sharing // by node of all graphs: what bounded lengths permit; nil: all points are enumerated

	Aliases *RangeAliases // nil: no bytes are shared but by views and in-place results
}

// sharing is which outputs of a node may share the storage of an input.
type sharing struct{ views, inplace []graph.Alias }

func (s sharing) equal(t sharing) bool {
	return slices.Equal(s.views, t.views) && slices.Equal(s.inplace, t.inplace)
}

// infer infers a copy of the model at a point.
func (b *RangeSolver) infer(m *graph.Model, point int) ([]ops.BoundDim, error) {
	bind := b.Bind.At(b.Dims(point))
	found, err := bind.Infer(m)
	if err != nil {
		return nil, err
	}
	return found.Dims, nil
}

// sharing returns what a node of an inferred model may share. An in-place result has the
// bytes of what it overwrites.
func (b *RangeSolver) sharing(g *graph.Graph, n *graph.Node) sharing {
	pairs := slices.DeleteFunc(slices.Clone(n.Semantics.Inplace), func(a graph.Alias) bool {
		in, out := n.Inputs[a.In], n.Outputs[a.Out]
		return in >= 0 && out >= 0 && b.Round(g.Tensors[in].Bytes) != b.Round(g.Tensors[out].Bytes)
	})
	return sharing{n.Semantics.Views, pairs}
}

// Share replaces the sharing that inference found by what all points have.
func (b *RangeSolver) Share(m *graph.Model) {
	i := 0
	for _, x := range GraphsOf(m.Graph) {
		for _, n := range x.G.Nodes {
			n.Semantics.Views, n.Semantics.Inplace = slices.Clone(b.common[i].views), slices.Clone(b.common[i].inplace)
			i++
		}
	}
}

// Problem returns the bare problem of the main graph of an inferred model, without workspaces.
func (b *RangeSolver) Problem(m *graph.Model) (*schedule.Problem, error) {
	r, err := b.Shared(m, b.Given.Given, nil)
	if err != nil {
		return nil, err
	}
	return b.own(r)
}

// own returns the bare problem of a region for whose bound any order, and with aliases any
// choice of these, counts.
func (b *RangeSolver) own(r *Region) (*schedule.Problem, error) {
	if b.Aliases != nil && r.kind == mainGraph {
		q, err := r.Relaxed()
		if err != nil {
			return nil, err
		}
		r = q
	}
	return r.Problem(), nil
}

// regions returns the storages of all graphs of an inferred model.
func (b *RangeSolver) regions(m *graph.Model) ([]*Region, error) {
	list, err := b.innerRegions(m)
	if err != nil {
		return nil, err
	}
	main, err := b.Shared(m, b.Given.Given, nil)
	return append(list, main), err
}

// each calls f for the numbers below n, on all cores, with a copy of the model for each.
// Errors are those of the first number that has one.
func (b *RangeSolver) each(ctx context.Context, n int, f func(m *graph.Model, i int) error) error {
	b.copy(box.Workers(n))
	return box.Each(ctx, n, func(worker, i int) error { return f(b.Copies[worker], i) })
}

// copy makes a copy of the model for each of some workers.
func (b *RangeSolver) copy(workers int) {
	for len(b.Copies) < workers {
		m := *b.Model
		m.Graph = b.Model.Graph.Clone()
		b.Copies = append(b.Copies, &m)
	}
}

// bound infers the model once, with lengths that are at most those of the corner. Sharing
// that is possible then is possible at all points. The bound of each tensor must be its
// size at the corner, so that no point needs more.
func (b *RangeSolver) bound() error {
	if _, err := b.infer(b.Model, b.Box.Corner()); err != nil {
		return err
	}
	var sizes []int64
	for _, x := range GraphsOf(b.Model.Graph) {
		for _, t := range x.G.Tensors {
			sizes = append(sizes, knownBytes(t))
		}
	}
	m := *b.Model
	m.Graph = b.Model.Graph.Clone()
	bind := b.Bind.At(b.Dims(b.Box.Corner()))
	bind.Given.AtMost = b.Box.Names
	for k, name := range b.Box.Names {
		if b.Box.Lengths[k].At(0) > 0 {
			bind.Given.Positive = append(bind.Given.Positive, name)
		}
	}
	if _, err := bind.Infer(&m); err != nil {
		return graph.Errorf("ranges of dimensions: %d points are too many to infer each, and with bounded lengths: %w", b.Box.Points, err)
	}
	i := 0
	for _, x := range GraphsOf(m.Graph) {
		for _, t := range x.G.Tensors {
			if knownBytes(t) != sizes[i] {
				e := graph.Errorf("ranges of dimensions: %d points are too many to infer each, and inference with bounded lengths does not show that this tensor is largest where all lengths are: expected fewer points, or a larger --points", b.Box.Points)
				e.Tensor = t.Name
				return e
			}
			i++
		}
		for _, n := range x.G.Nodes {
			b.bounded = append(b.bounded, sharing{n.Semantics.Views, n.Semantics.Inplace})
		}
	}
	return nil
}

// knownBytes is the size of a tensor, or -1 if it has none.
func knownBytes(t *graph.Tensor) int64 {
	if t.Dynamic != "" {
		return -1
	}
	return t.Bytes
}

// RangeAliases is the choice of nodes whose bytes are shared at all points.
type RangeAliases struct {
	leave map[int32]bool // nodes that share no bytes
	some  map[int32]bool // of these: those that could at some points
	shape *aliasShape    // of the corner
	saved int64          // bytes that nodes need not copy at the corner
}

// aliasShape says which parts the storages of the main graph have. It differs between
// points in sizes alone.
type aliasShape struct {
	layout *alias.Layout
	pieces *alias.Pieces
	region *Region // of the parts
}
