package passes

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
	"github.com/onnxmem/onnxmem/schedule"
)

// ranged is a box of dimensions and, once the pass range has run, what holds at all of its
// points.
type ranged struct {
	box     *dimrange.Box
	lengths map[string]string // of each dimension with a range, as they were given
	given   map[string]int64  // lengths of the other dimensions
	grid    []box.Point       // the points at which sharing, order and stacking were chosen, the corner last
	chosen  *box.Stack        // of the main graph; nil: the pass has not run
	sizes   *box.Sizes
	points  []int         // those that were inferred, ascending: all, or with bounded lengths those of the grid
	proven  []provenPoint // of these
	graphs  []*rangeGraph // as graphsOf lists them: the main graph is the last one

	by *rangeSolver // that found it

	follows         map[string]bool // dimensions without a range whose length differs between points
	accepted        []int           // the points that the model does not refuse
	smallest, worst int             // those of the smallest arena and of the largest ratio, as indices into points
}

// dims returns the lengths of all dimensions at a point.
func (r *ranged) dims(point int) map[string]int64 {
	dims := r.box.At(point)
	maps.Copy(dims, r.given)
	return dims
}

// again returns the box alone.
func (r *ranged) again() *ranged { return &ranged{box: r.box, lengths: r.lengths, given: r.given} }

// joinAtOnce is the largest number of points without the chosen sharing, or with a larger
// ratio than the grid, that join the grid in one round: what one of them lacks, its
// neighbours usually lack, too.
const joinAtOnce = 8

// rangeSolver finds what a model has in common at all points of a box.
type rangeSolver struct {
	*ranged
	*rules
	*search
	bind     binding      // at the corner
	all      bool         // all points are inferred one by one
	keep     *box.Ceiling // of the main graph; nil: none
	progress func(done, points int)

	model  *graph.Model
	given  *ops.Inference // of the corner
	join   map[int]bool   // the points of the grid
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

// problem returns the bare problem of the main graph of an inferred model, whose nodes have
// the given workspaces.
func (b *rangeSolver) problem(m *graph.Model, work []int64) (*schedule.Problem, error) {
	r, err := b.shared(m, b.given.Given, nil)
	if err != nil {
		return nil, err
	}
	r.workspace = work
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
	for len(b.copies) < box.Workers(n) {
		m := *b.model
		m.Graph = b.model.Graph.Clone()
		b.copies = append(b.copies, &m)
	}
	return box.Each(ctx, n, func(worker, i int) error { return f(b.copies[worker], i) })
}

// solve chooses, proves, and chooses again with the points at which the proof fails, until
// it holds at all of them. It ends, because the box is finite.
func (b *rangeSolver) solve(ctx context.Context) error {
	if !b.all {
		if err := b.bound(); err != nil {
			return err
		}
	}
	for {
		if err := b.choose(ctx); err != nil {
			return err
		}
		b.points = slices.Sorted(maps.Keys(b.join))
		if b.bounded == nil {
			b.points = make([]int, b.box.Points)
			for i := range b.points {
				b.points[i] = i
			}
		}
		if err := b.enumerate(ctx); err != nil {
			return err
		}
		var unshared, worse []int
		for i, p := range b.proven {
			switch {
			case p.refused != "" && b.bounded != nil:
				return graph.Errorf("ranges of dimensions: %d points are too many to infer each, and the model refuses %s: %s: expected lengths that it takes, such as LOW..HIGH:STEP, or a larger --points", b.box.Points, graph.AtLengths(b.box.At(b.points[i])), p.refused)
			case p.refused != "":
			case p.unshared:
				unshared = append(unshared, i)
			case box.Ratio(p.arena, p.bound) > b.chosen.Worst() && !b.join[b.points[i]] && !b.TimeIsUp():
				worse = append(worse, i)
			}
		}
		if b.aliases != nil && len(unshared) == 0 && b.aliases.leaveUnsized(b) {
			continue
		}
		more := unshared
		if len(more) == 0 {
			slices.SortStableFunc(worse, func(i, j int) int {
				p, q := b.proven[i], b.proven[j]
				return cmp.Compare(box.Ratio(q.arena, q.bound), box.Ratio(p.arena, p.bound))
			})
			more = worse
		}
		if len(more) == 0 {
			b.log.timedOut = b.log.timedOut || b.TimeIsUp()
			return nil
		}
		for _, i := range more[:min(len(more), joinAtOnce)] {
			b.join[b.points[i]] = true
		}
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

// sum finds the accepted points, and the smallest and the worst of them.
func (b *rangeSolver) sum() {
	b.smallest, b.worst, b.accepted = -1, -1, nil
	for i, p := range b.proven {
		if p.refused != "" {
			continue
		}
		b.accepted = append(b.accepted, b.points[i])
		if b.smallest < 0 || p.arena < b.proven[b.smallest].arena {
			b.smallest = i
		}
		if b.worst < 0 || box.Ratio(p.arena, p.bound) > box.Ratio(b.proven[b.worst].arena, b.proven[b.worst].bound) {
			b.worst = i
		}
	}
}
