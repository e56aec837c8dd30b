package passes

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

// ranged is a box of dimensions and, once the pass range has run, what holds at all of its
// points.
type ranged struct {
	box     *dimrange.Box
	lengths map[string]string // of each dimension with a range, as they were given
	given   map[string]int64  // lengths of the other dimensions

	found   *box.Solution   // nil: the pass has not run
	follows map[string]bool // dimensions without a range whose length differs between points
	by      *rangeSolver    // that found it
}

// dims returns the lengths of all dimensions at a point.
func (r *ranged) dims(point int) map[string]int64 {
	dims := r.box.At(point)
	maps.Copy(dims, r.given)
	return dims
}

// again returns the box, for which a solution is sought.
func (r *ranged) again(s *box.Solution) *ranged {
	return &ranged{box: r.box, lengths: r.lengths, given: r.given, found: s}
}

// rangeSolver finds what a model has in common at all points of a box. It is the [box.Model].
type rangeSolver struct {
	*ranged
	*rules
	*search
	bind binding      // at the corner
	keep *box.Ceiling // of the main graph; nil: none

	model  *graph.Model
	given  *ops.Inference // of the corner
	graphs []*rangeGraph  // as graphsOf lists them: the main graph is the last one
	boxes  box.Graphs     // of these
	copies []*graph.Model // one for each worker
	common []sharing      // by node of all graphs: what holds on all of the grid

	bounded []sharing // by node of all graphs: what bounded lengths permit; nil: all points are enumerated

	aliases *rangeAliases // nil: no bytes are shared but by views and in-place results
}

// sharing is which outputs of a node may share the storage of an input.
type sharing struct{ views, inplace []graph.Alias }

func (s sharing) equal(t sharing) bool {
	return slices.Equal(s.views, t.views) && slices.Equal(s.inplace, t.inplace)
}

// infer infers a copy of the model at a point.
func (b *rangeSolver) infer(m *graph.Model, point int) ([]ops.BoundDim, error) {
	bind := b.bind.at(b.dims(point))
	found, err := bind.infer(m)
	if err != nil {
		return nil, err
	}
	return found.Dims, nil
}

// sharing returns what a node of an inferred model may share. An in-place result has the
// bytes of what it overwrites.
func (b *rangeSolver) sharing(g *graph.Graph, n *graph.Node) sharing {
	pairs := slices.DeleteFunc(slices.Clone(n.Semantics.Inplace), func(a graph.Alias) bool {
		in, out := n.Inputs[a.In], n.Outputs[a.Out]
		return in >= 0 && out >= 0 && b.round(g.Tensors[in].Bytes) != b.round(g.Tensors[out].Bytes)
	})
	return sharing{n.Semantics.Views, pairs}
}

// share replaces the sharing that inference found by what all points have.
func (b *rangeSolver) share(m *graph.Model) {
	i := 0
	for _, x := range graphsOf(m.Graph) {
		for _, n := range x.g.Nodes {
			n.Semantics.Views, n.Semantics.Inplace = slices.Clone(b.common[i].views), slices.Clone(b.common[i].inplace)
			i++
		}
	}
}

// problem returns the bare problem of the main graph of an inferred model, without workspaces.
func (b *rangeSolver) problem(m *graph.Model) (*schedule.Problem, error) {
	r, err := b.shared(m, b.given.Given, nil)
	if err != nil {
		return nil, err
	}
	return b.own(r)
}

// own returns the bare problem of a region for whose bound any order, and with aliases any
// choice of these, counts.
func (b *rangeSolver) own(r *region) (*schedule.Problem, error) {
	if b.aliases != nil && r.kind == mainGraph {
		q, err := r.relaxed()
		if err != nil {
			return nil, err
		}
		r = q
	}
	return r.problem(), nil
}

// regions returns the storages of all graphs of an inferred model.
func (b *rangeSolver) regions(m *graph.Model) ([]*region, error) {
	list, err := b.innerRegions(m)
	if err != nil {
		return nil, err
	}
	main, err := b.shared(m, b.given.Given, nil)
	return append(list, main), err
}

// each calls f for the numbers below n, on all cores, with a copy of the model for each.
// Errors are those of the first number that has one.
func (b *rangeSolver) each(ctx context.Context, n int, f func(m *graph.Model, i int) error) error {
	b.copy(box.Workers(n))
	return box.Each(ctx, n, func(worker, i int) error { return f(b.copies[worker], i) })
}

// copy makes a copy of the model for each of some workers.
func (b *rangeSolver) copy(workers int) {
	for len(b.copies) < workers {
		m := *b.model
		m.Graph = b.model.Graph.Clone()
		b.copies = append(b.copies, &m)
	}
}

// bound infers the model once, with lengths that are at most those of the corner. Sharing
// that is possible then is possible at all points. The bound of each tensor must be its
// size at the corner, so that no point needs more.
func (b *rangeSolver) bound() error {
	if _, err := b.infer(b.model, b.box.Corner()); err != nil {
		return err
	}
	var sizes []int64
	for _, x := range graphsOf(b.model.Graph) {
		for _, t := range x.g.Tensors {
			sizes = append(sizes, knownBytes(t))
		}
	}
	m := *b.model
	m.Graph = b.model.Graph.Clone()
	bind := b.bind.at(b.dims(b.box.Corner()))
	bind.given.AtMost = b.box.Names
	for k, name := range b.box.Names {
		if b.box.Lengths[k].At(0) > 0 {
			bind.given.Positive = append(bind.given.Positive, name)
		}
	}
	if _, err := bind.infer(&m); err != nil {
		return graph.Errorf("ranges of dimensions: %d points are too many to infer each, and with bounded lengths: %w", b.box.Points, err)
	}
	i := 0
	for _, x := range graphsOf(m.Graph) {
		for _, t := range x.g.Tensors {
			if knownBytes(t) != sizes[i] {
				e := graph.Errorf("ranges of dimensions: %d points are too many to infer each, and inference with bounded lengths does not show that this tensor is largest where all lengths are: expected fewer points, or a larger --points", b.box.Points)
				e.Tensor = t.Name
				return e
			}
			i++
		}
		for _, n := range x.g.Nodes {
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

// rangeAliases is the choice of nodes whose bytes are shared at all points.
type rangeAliases struct {
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
	region *region // of the parts
}
