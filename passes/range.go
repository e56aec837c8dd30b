package passes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// DefaultRangePoints is the largest number of points of Options.Ranges that are inferred
// one by one, unless Options.RangePoints says otherwise. Beyond that, one inference with
// bounded lengths proves what is shared and how large the buffers are, and the points of
// the grid alone are compared with their bounds.
const DefaultRangePoints = 65536

// maxRangePoints is the largest number of points of a plan.
const maxRangePoints = 1 << 40

// checkRanges checks the ranges of dimensions by themselves.
func (o *Options) checkRanges() error {
	if o.RangePoints < 0 {
		return fmt.Errorf("points of ranges: expected 0 or more, found %d", o.RangePoints)
	}
	if len(o.Ranges) == 0 {
		return nil
	}
	_, err := boxOf(o.Ranges, o.Dims)
	return err
}

// boxOf returns the box of ranges. The other dimensions have lengths.
func boxOf(ranges map[string]string, lengths map[string]int64) (*dimrange.Box, error) {
	dims := map[string]dimrange.Lengths{}
	for _, name := range slices.Sorted(maps.Keys(ranges)) {
		l, err := dimrange.Parse(ranges[name])
		if err != nil {
			return nil, fmt.Errorf("dimension %q: %w", graph.Short(name), err)
		}
		if _, twice := lengths[name]; twice {
			return nil, fmt.Errorf("dimension %q: expected a length or a range, found both", graph.Short(name))
		}
		dims[name] = l
	}
	return dimrange.NewBox(dims, maxRangePoints)
}

// enumerates reports whether all points of a box are inferred one by one.
func (o *Options) enumerates(box *dimrange.Box) bool {
	limit := o.RangePoints
	if limit == 0 {
		limit = DefaultRangePoints
	}
	return box.Points <= limit
}

// bindRanges binds the dimensions that have a range to their largest lengths, the corner
// of the box.
func (s *State) bindRanges() error {
	if len(s.opt.Ranges) == 0 {
		return nil
	}
	lengths := canonical(s.model, s.opt.Ranges, s.opt.Dims)
	box, err := boxOf(lengths, s.opt.Dims)
	if err != nil {
		return &OptionError{err}
	}
	s.ranged = &ranged{box: box, lengths: lengths, given: s.opt.Dims}
	s.bind.given.Dims = s.ranged.dims(box.Corner())
	return nil
}

// canonical returns the ranges with the name of each dimension that is given by its place,
// if it has one.
func canonical(m *graph.Model, ranges map[string]string, dims map[string]int64) map[string]string {
	list := maps.Clone(ranges)
	for _, id := range m.Graph.Inputs {
		t := m.Graph.Tensors[id]
		if t.Declared == nil {
			continue
		}
		for axis, symbol := range t.Declared.Symbols {
			place := fmt.Sprintf("%s[%d]", t.Name, axis)
			text, given := ranges[place]
			_, twice := list[symbol]
			_, fixed := dims[symbol]
			if given && symbol != "" && symbol != "?" && !twice && !fixed {
				delete(list, place)
				list[symbol] = text
			}
		}
	}
	return list
}

// ranged is a box of dimensions and, once the pass range has run, what holds at all of its
// points.
type ranged struct {
	box     *dimrange.Box
	lengths map[string]string // of each dimension with a range, as they were given
	given   map[string]int64  // lengths of the other dimensions
	grid    []rangePoint      // the points at which sharing, order and stacking were chosen, the corner last
	chosen  *oneStack         // of the main graph; nil: the pass has not run
	sizes   *rangeSizes
	points  []int         // those that were inferred, ascending: all, or with bounded lengths those of the grid
	proven  []provenPoint // of these
	graphs  []*rangeGraph // as graphsOf lists them: the main graph is the last one

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

// ranges chooses one order and one stacking for all points of the ranges of dimensions,
// and proves by enumeration that every view and in-place pair that it uses is possible at
// every point. It leaves the graph as it is at the corner, with the sharing that holds
// everywhere.
func ranges(ctx context.Context, s *State) error {
	if s.ranged == nil {
		return nil
	}
	for _, x := range graphsOf(s.model.Graph) {
		for _, n := range x.g.Nodes {
			if n.Semantics.Call != nil {
				return graph.Errorf("ranges of dimensions: expected no call of a local function, since the pass inline replaces them").AtNode(n.Name)
			}
		}
	}
	for _, name := range s.ranged.box.Names {
		if !slices.ContainsFunc(s.inference.Dims, func(d ops.BoundDim) bool { return d.Name == name }) {
			return graph.Errorf("range of dimension %q: expected the name of an open dimension of an input, whose length no other one gives", graph.Short(name))
		}
	}
	x := s.rules()
	// States are those of the corner. They stay, so they have the same types everywhere.
	x.states, x.findStates = s.main.states, false
	b := &rangeSolver{
		ranged: s.ranged, rules: x, search: s.search(), bind: s.bind,
		all: s.opt.enumerates(s.ranged.box), progress: s.opt.RangeProgress,
		model: s.model, given: s.inference, join: map[int]bool{},
	}
	if slices.Contains(s.opt.Disable, "order") {
		b.strategy = "program"
	}
	for _, i := range b.box.Grid() {
		b.join[i] = true
	}
	if err := b.solve(ctx); err != nil {
		return err
	}
	if s.opt.mayAlias() {
		c, err := b.withAliases(ctx, s)
		if err != nil {
			return err
		}
		if c != nil {
			b, s.ranged = c, c.ranged
		}
	}
	b.sum()
	if err := infer(ctx, s); err != nil {
		return err
	}
	works, err := b.corner()
	if err != nil {
		return err
	}
	own, err := b.problem(s.model, works[len(works)-1])
	if err != nil {
		return err
	}
	// The bound of the corner holds for all sharing that is possible there.
	solved, err := schedule.Solve(ctx, own, schedule.Options{Effort: s.opt.Effort})
	if err != nil {
		return err
	}
	b.share(s.model)
	r, err := b.shared(s.model, s.inference.Given, nil)
	if err != nil {
		return err
	}
	if err := b.placeBodies(s.model, r, works); err != nil {
		return err
	}
	p := r.problem()
	solved.ProgramOrder = schedule.Program(p)
	if solved.ProgramEvaluation, err = p.Evaluate(solved.ProgramOrder); err != nil {
		return err
	}
	solved.ProgramPeak = solved.ProgramEvaluation.Peak
	solved.Solver = b.asked.report
	s.main, r.solved = r, solved
	if b.aliases != nil {
		s.main = b.joined(r, own)
	}
	return solved.Ended
}

// joinAtOnce is the largest number of points without the chosen sharing, or with a larger
// ratio than the grid, that join the grid in one round: what one of them lacks, its
// neighbours usually lack, too.
const joinAtOnce = 8

// rangeSolver finds what a model has in common at all points of a box.
type rangeSolver struct {
	*ranged
	*rules
	*search
	bind     binding // at the corner
	all      bool    // all points are inferred one by one
	progress func(done, points int)

	model  *graph.Model
	given  *ops.Inference // of the corner
	join   map[int]bool   // the points of the grid
	asked  cornerSolver
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

// bound is a lower bound of a point, for any order, and what proves it.
type bound struct {
	bound  int64
	proof  schedule.Certificate
	orders [][]int32 // the best that were found with it
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
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for w := range min(runtime.GOMAXPROCS(0), n) {
		if w == len(b.copies) {
			m := *b.model
			m.Graph = b.model.Graph.Clone()
			b.copies = append(b.copies, &m)
		}
		m := b.copies[w]
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil && !failed.Load(); i = int(next.Add(1)) - 1 {
				if errs[i] = f(m, i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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
			case ratio(p.arena, p.bound) > b.chosen.worst && !b.join[b.points[i]]:
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
				return cmp.Compare(ratio(q.arena, q.bound), ratio(p.arena, p.bound))
			})
			more = worse
		}
		if len(more) == 0 {
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
	b.smallest, b.worst = -1, -1
	for i, p := range b.proven {
		if p.refused != "" {
			continue
		}
		b.accepted = append(b.accepted, b.points[i])
		if b.smallest < 0 || p.arena < b.proven[b.smallest].arena {
			b.smallest = i
		}
		if b.worst < 0 || ratio(p.arena, p.bound) > ratio(b.proven[b.worst].arena, b.proven[b.worst].bound) {
			b.worst = i
		}
	}
}

// gridPoint is what the first pass over the grid finds at a point.
type gridPoint struct {
	refused bool
	shared  []sharing           // by node of all graphs
	own     []*schedule.Problem // of each graph, with the sharing of this point
	fixed   []bool              // by tensor of all graphs: it has a known size
	dims    []ops.BoundDim
}

// choose sets what the points of the grid have in common: the sharing, the order and the
// stacking of each graph, and the sizes as polynomials.
func (b *rangeSolver) choose(ctx context.Context) error {
	list := slices.Sorted(maps.Keys(b.join))
	found := make([]gridPoint, len(list))
	err := b.each(ctx, len(list), func(m *graph.Model, k int) (err error) {
		p := &found[k]
		if p.dims, err = b.infer(m, list[k]); err != nil {
			if p.refused = true; list[k] == b.box.Corner() {
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
			for _, n := range r.g.Nodes {
				p.shared = append(p.shared, b.sharing(r.g, n))
			}
			p.fixed = append(p.fixed, fixedSizes(r.g)...)
		}
		return err
	})
	if err != nil {
		return err
	}
	before := b.common
	corner := &found[len(found)-1]
	var grid []int // the points that are not refused
	b.common, b.follows = slices.Clone(corner.shared), map[string]bool{}
	for k, p := range found {
		if p.refused {
			continue
		}
		for i, d := range p.dims {
			if d.Value != corner.dims[i].Value && !slices.Contains(b.box.Names, d.Name) {
				b.follows[d.Name] = true
			}
		}
		for i, known := range p.fixed {
			if known != corner.fixed[i] {
				g, t := b.tensorAt(i)
				return b.otherTensors(g, t, list[k], known)
			}
		}
		for n, has := range p.shared {
			c := &b.common[n]
			if b.bounded != nil {
				c.views, c.inplace = intersect(c.views, b.bounded[n].views), intersect(c.inplace, b.bounded[n].inplace)
			}
			c.views, c.inplace = intersect(c.views, has.views), intersect(c.inplace, has.inplace)
		}
		grid = append(grid, k)
	}
	same := slices.EqualFunc(before, b.common, sharing.equal)
	if b.graphs == nil {
		for _, x := range graphsOf(b.model.Graph) {
			b.graphs = append(b.graphs, &rangeGraph{inner: x, bounds: map[int]bound{}})
		}
	}
	for _, x := range b.graphs {
		x.points, x.own, x.ordersOwn = make([]rangePoint, len(grid)), make([]*schedule.Problem, len(grid)), make([]bool, len(grid))
		if !same || x.orders == nil {
			x.orders = map[int][][]int32{}
		}
	}
	for i, k := range grid {
		is := slices.EqualFunc(found[k].shared, b.common, sharing.equal)
		for g, x := range b.graphs {
			x.own[i], x.ordersOwn[i] = found[k].own[g], is
		}
	}
	var parts []aliasPoint
	if b.aliases != nil {
		parts = make([]aliasPoint, len(grid))
	}
	err = b.each(ctx, len(grid), func(m *graph.Model, i int) error {
		point := list[grid[i]]
		if _, err := b.infer(m, point); err != nil {
			return err
		}
		b.share(m)
		regions, err := b.regions(m)
		for g, r := range regions {
			b.graphs[g].points[i] = b.pointOf(m, r, point)
			if parts != nil && r.kind == mainGraph {
				parts[i] = b.aliasPoint(r)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if parts != nil {
		if err := b.aliases.choose(b, parts); err != nil {
			return err
		}
	}
	for g := range b.graphs {
		if err := b.chooseGraph(ctx, g); err != nil {
			return err
		}
	}
	last := b.graphs[len(b.graphs)-1]
	b.grid, b.chosen = last.points, last.chosen
	b.sizes = fitSizes(b.box, b.graphs)
	return nil
}

// pointOf returns a graph at a point of the grid, with the sharing that all have.
func (b *rangeSolver) pointOf(m *graph.Model, r *region, point int) rangePoint {
	p := rangePoint{index: point, problem: r.problem()}
	for i := range r.storages {
		p.bytes = append(p.bytes, r.g.Tensors[r.storages[i].tensors[0]].Bytes)
	}
	if point != b.box.Corner() {
		return p
	}
	for i := range r.storages {
		p.tensors = append(p.tensors, r.storages[i].tensors[0])
	}
	p.stay = map[graph.TensorID]stayed{}
	for _, c := range r.updateChains {
		for _, i := range c.storages {
			t := r.storages[i].tensors[0]
			p.stay[t] = stayed{r.g.Tensors[t].Type, r.storages[i].bytes, c.kind == plan.KindCache}
		}
	}
	if b.keepRandom {
		p.precedence = effectsInOrder(r.g, schedule.Program(p.problem))
	}
	if b.updatesLast && r.kind == mainGraph {
		p.precedence = append(p.precedence, updatesLast(m.Graph)...)
	}
	return p
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
func (b *rangeSolver) tensorAt(i int) (g int, t graph.TensorID) {
	for g, x := range graphsOf(b.model.Graph) {
		if i < len(x.g.Tensors) {
			return g, graph.TensorID(i)
		}
		i -= len(x.g.Tensors)
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
func (b *rangeSolver) otherTensors(g int, t graph.TensorID, point int, known bool) error {
	with, without := point, b.box.Corner()
	if !known {
		with, without = without, with
	}
	at := func(point int) string { return graph.AtLengths(b.box.At(point)) }
	all := graphsOf(b.model.Graph)
	x := all[g]
	if x.outer < 0 {
		e := graph.Errorf("ranges of dimensions: has a known size with %s and none with %s: expected one for all lengths, or none: plan these lengths apart", at(with), at(without))
		e.Tensor = x.g.Tensors[t].Name
		return e
	}
	n := all[x.outer].g.Nodes[x.node]
	what := fmt.Sprintf("tensor %q of its %s", graph.Short(x.g.Tensors[t].Name), x.attr)
	if ops.Branches(n) {
		return graph.Errorf("ranges of dimensions: its %s may run with %s and cannot with %s (%s has a known size with the first lengths alone): expected the same branches for all lengths: plan these lengths apart", x.attr, at(with), at(without), what).AtNode(all[x.outer].g.Label(x.node))
	}
	return graph.Errorf("ranges of dimensions: %s has a known size with %s and none with %s: expected one for all lengths, or none: plan these lengths apart", what, at(with), at(without)).AtNode(all[x.outer].g.Label(x.node))
}

// solveBound returns the largest bound of a problem that maximum flows prove, what proves
// it, and the best orders.
func solveBound(ctx context.Context, p *schedule.Problem, effort schedule.Effort) (bound, error) {
	r, err := schedule.Solve(ctx, p, schedule.Options{Effort: effort})
	if err != nil {
		return bound{}, err
	}
	if r.Ended != nil {
		return bound{}, r.Ended
	}
	best := schedule.Certificate{Kind: schedule.KindSearch, Value: -1}
	for _, c := range r.Certificates {
		if c.Kind != schedule.KindSearch && c.Value > best.Value {
			best = c
		}
	}
	if best.Value < r.Bound {
		if c := schedule.Bound(p); c.Kind != schedule.KindSearch && c.Value > best.Value {
			best = c
		}
	}
	if best.Kind == schedule.KindSearch { // a graph without nodes
		return bound{r.Bound, best, r.Orders}, nil
	}
	return bound{best.Value, best, r.Orders}, nil
}

// sameProof reports whether two certificates differ in nothing but the value.
func sameProof(a, b schedule.Certificate) bool {
	return a.Kind == b.Kind && slices.Equal(a.Nodes, b.Nodes)
}

// provedBy returns the bound that the nodes of a certificate prove for a problem.
func provedBy(p *schedule.Problem, c schedule.Certificate) int64 {
	switch c.Kind {
	case schedule.KindCut:
		return schedule.CutBound(p, c.Nodes[0])
	case schedule.KindFirst:
		return schedule.FirstBound(p, c.Nodes)
	case schedule.KindLast:
		return schedule.LastBound(p, c.Nodes)
	}
	return 0
}

// provenPoint is what was found at one point.
type provenPoint struct {
	refused      string // why inference refuses it; "" if it does not
	unshared     bool   // a view or an in-place pair that was chosen is not possible
	arena, bound int64
	peak         int64        // the largest load of the buffers
	bounds       []pointBound // of each graph, the main graph last
}

// pointBound is a lower bound of a graph at a point, for any order there.
type pointBound struct {
	bound int64
	known int                  // the certificate that proves it: an index into rangeGraph.known, or -1 for
	proof schedule.Certificate // this one
}

// enumerate infers every point of the box, compares the sharing, and computes the arena
// and the bound.
func (b *rangeSolver) enumerate(ctx context.Context) error {
	b.proven = make([]provenPoint, len(b.points))
	wrong := make([]atomic.Bool, len(b.sizes.list))
	var done atomic.Int64
	var report sync.Mutex
	err := b.each(ctx, len(b.points), func(m *graph.Model, i int) error {
		p, err := b.prove(ctx, m, b.points[i], wrong)
		b.proven[i] = p
		if n := int(done.Add(1)); b.progress != nil && (n%64 == 0 || n == len(b.points)) {
			report.Lock()
			defer report.Unlock()
			b.progress(n, len(b.points))
		}
		return err
	})
	for i := range wrong {
		if wrong[i].Load() {
			b.sizes.drop(i)
		}
	}
	return err
}

// prove infers a point and proves what was chosen there.
func (b *rangeSolver) prove(ctx context.Context, m *graph.Model, point int, wrong []atomic.Bool) (p provenPoint, err error) {
	if _, err := b.infer(m, point); err != nil {
		return provenPoint{refused: err.Error()}, nil
	}
	if !b.hasCommon(m) {
		return provenPoint{unshared: true}, nil
	}
	var all []int64 // the sizes of the buffers of all graphs
	graphs, works := graphsOf(m.Graph), b.noWorks()
	arenas := make([]int64, len(b.graphs))
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
	for g, x := range b.graphs {
		var q *region
		if x.outer < 0 {
			q = parts
		}
		sizes, same, err := b.sizesAt(graphs[g].g, x, q, works[g], point)
		if err != nil || !same {
			return provenPoint{unshared: !same}, err
		}
		if arenas[g], err = x.chosen.stack.Place(sizes, make([]int64, len(sizes))); err != nil {
			return p, err
		}
		all = append(all, sizes...)
		if x.outer >= 0 {
			works[x.outer][x.node] = max(works[x.outer][x.node], arenas[g])
		} else {
			p.arena, p.peak = arenas[g], x.chosen.peak(sizes)
		}
	}
	b.sizes.check(b.box.At(point), all, b.round, wrong)
	works = b.noWorks() // that no order needs less than
	for g, x := range b.graphs {
		own := owns[g]
		for n, bytes := range works[g] {
			own.Nodes[n].Workspace = bytes
		}
		has, err := b.boundOf(ctx, x, own, arenas[g])
		if err != nil {
			return p, err
		}
		p.bounds = append(p.bounds, has)
		if p.bound = has.bound; x.outer >= 0 {
			works[x.outer][x.node] = max(works[x.outer][x.node], has.bound)
		}
	}
	return p, nil
}

// boundOf bounds a graph at a point, up to its arena.
func (b *rangeSolver) boundOf(ctx context.Context, x *rangeGraph, own *schedule.Problem, arena int64) (p pointBound, err error) {
	for k, c := range x.known {
		if n := provedBy(own, c); n > p.bound || k == 0 {
			p.bound, p.known = n, k
		}
		if p.bound >= arena {
			return p, nil
		}
	}
	better := func(bound int64, proof schedule.Certificate) {
		if bound > p.bound {
			p.bound, p.known, p.proof = bound, -1, proof
		}
	}
	// A flow takes milliseconds, a search that does not end with a proof seconds.
	if c := schedule.Bound(own); c.Kind != schedule.KindSearch {
		better(c.Value, c)
	}
	if ratio(arena, p.bound) <= x.chosen.worst && x.chosen.worst > 1 {
		return p, nil
	}
	found, err := solveBound(ctx, own, b.effort)
	if err == nil {
		better(found.bound, found.proof)
	}
	return p, err
}
