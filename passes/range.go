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
	if _, err := o.box(); err != nil {
		return err
	}
	for _, c := range []struct {
		set  bool
		what string
	}{
		{o.Limit != nil, "limit"},
		{o.Frontier, "frontier"},
		{o.ExtraPercent != 0, "extra time"},
		{o.Slices != SlicesOff, "slices"},
		{len(o.Pools) > 0, "pools"},
		{o.KVCapacity > 0, "capacity of caches"},
		{o.Workspaces != nil, "recorded workspaces"},
		{o.TimeLimit != 0, "time limit"},
		{o.Solver != nil, "solver"},
	} {
		if c.set {
			return fmt.Errorf("ranges of dimensions: expected no %s, found both", c.what)
		}
	}
	return nil
}

// box returns the box of the ranges.
func (o *Options) box() (*dimrange.Box, error) {
	dims := map[string]dimrange.Lengths{}
	for _, name := range slices.Sorted(maps.Keys(o.Ranges)) {
		l, err := dimrange.Parse(o.Ranges[name])
		if err != nil {
			return nil, fmt.Errorf("dimension %q: %w", graph.Short(name), err)
		}
		if _, twice := o.Dims[name]; twice {
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
	s.opt.Ranges = canonical(s.model, s.opt.Ranges, s.opt.Dims)
	box, err := s.opt.box()
	if err != nil {
		return &OptionError{err}
	}
	s.ranged = &ranged{box: box, given: s.opt.Dims}
	s.opt.Dims = s.ranged.dims(box.Corner())
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
	box    *dimrange.Box
	given  map[string]int64 // lengths of the other dimensions
	grid   []rangePoint     // the points at which sharing, order and stacking were chosen, the corner last
	chosen *oneStack        // nil: the pass has not run
	sizes  *rangeSizes
	points []int         // those that were inferred, ascending: all, or with bounded lengths those of the grid
	proven []provenPoint // of these
	known  []schedule.Certificate

	follows         map[string]bool // dimensions without a range whose length differs between points
	accepted        []int           // the points that the model does not refuse
	smallest, worst int             // those of the smallest arena and of the largest ratio, as indices into points
	peaks           map[int]int64   // the largest load of the buffers: at the points of the grid and these two
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
	for _, n := range s.model.Graph.Nodes {
		if len(n.Bodies()) > 0 || n.Semantics.Call != nil {
			return graph.Errorf("ranges of dimensions: expected no node with a body and no local function (--inline-functions replaces calls)").AtNode(n.Name)
		}
	}
	for _, name := range s.ranged.box.Names {
		if !slices.ContainsFunc(s.inference.Dims, func(d ops.BoundDim) bool { return d.Name == name }) {
			return graph.Errorf("range of dimension %q: expected the name of an open dimension of an input, whose length no other one gives", graph.Short(name))
		}
	}
	b := &rangeSolver{ranged: s.ranged, model: s.model, opt: s.opt, given: s.inference, join: map[int]bool{}, bounds: map[int]bound{}}
	// States are those of the corner. They stay, so they have the same types everywhere.
	s.opt.States, s.opt.StatesAuto = s.states, false
	b.opt.States, b.opt.StatesAuto = s.states, false
	if slices.Contains(s.opt.Disable, "order") {
		b.opt.Schedule = "program"
	}
	for _, i := range b.box.Grid() {
		b.join[i] = true
	}
	if err := b.solve(ctx); err != nil {
		return err
	}
	if err := b.sum(ctx); err != nil {
		return err
	}
	if err := infer(ctx, s); err != nil {
		return err
	}
	own, err := b.problem(ctx, s.model)
	if err != nil {
		return err
	}
	// The bound of the corner holds for all sharing that is possible there.
	solved, err := schedule.Solve(ctx, own, schedule.Options{Effort: s.opt.Effort})
	if err != nil {
		return err
	}
	b.share(s.model)
	if err := share(ctx, s); err != nil {
		return err
	}
	p := s.problem(s.main)
	solved.ProgramOrder = schedule.Program(p)
	if solved.ProgramEvaluation, err = p.Evaluate(solved.ProgramOrder); err != nil {
		return err
	}
	solved.ProgramPeak = solved.ProgramEvaluation.Peak
	s.main.solved = solved
	return solved.Ended
}

// joinAtOnce is the largest number of points without the chosen sharing, or with a larger
// ratio than the grid, that join the grid in one round: what one of them lacks, its
// neighbours usually lack, too.
const joinAtOnce = 8

// rangeSolver finds what a model has in common at all points of a box.
type rangeSolver struct {
	*ranged
	model  *graph.Model
	opt    Options
	given  *ops.Inference // of the corner
	join   map[int]bool   // the points of the grid
	copies []*graph.Model // one for each worker
	common []sharing      // by node: what holds on all of the grid
	bounds map[int]bound  // of the points of the grid, with their own sharing
	orders *orders        // of the points of the grid, with the common sharing

	bounded []sharing // by node: what bounded lengths permit; nil: all points are enumerated
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

// orders are the best orders of points with a sharing.
type orders struct {
	common []sharing
	of     map[int][][]int32
}

// infer infers a copy of the model at a point.
func (b *rangeSolver) infer(m *graph.Model, point int) ([]ops.BoundDim, error) {
	inf, err := ops.Infer(m, b.inference(point))
	if err != nil {
		return nil, err
	}
	return inf.Dims, nil
}

// sharing returns what a node of an inferred model may share. An in-place result has the
// bytes of what it overwrites.
func (b *rangeSolver) sharing(m *graph.Model, n *graph.Node) sharing {
	s := State{opt: b.opt}
	pairs := slices.DeleteFunc(slices.Clone(n.Semantics.Inplace), func(a graph.Alias) bool {
		in, out := n.Inputs[a.In], n.Outputs[a.Out]
		return in >= 0 && out >= 0 && s.round(m.Graph.Tensors[in].Bytes) != s.round(m.Graph.Tensors[out].Bytes)
	})
	return sharing{n.Semantics.Views, pairs}
}

// share replaces the sharing that inference found by what all points have.
func (b *rangeSolver) share(m *graph.Model) {
	for n, c := range b.common {
		m.Graph.Nodes[n].Semantics.Views, m.Graph.Nodes[n].Semantics.Inplace = slices.Clone(c.views), slices.Clone(c.inplace)
	}
}

// problem returns the bare problem of an inferred model.
func (b *rangeSolver) problem(ctx context.Context, m *graph.Model) (*schedule.Problem, error) {
	r, err := b.region(ctx, m)
	if err != nil {
		return nil, err
	}
	return (&State{opt: b.opt}).problem(r), nil
}

// region returns the storages of an inferred model.
func (b *rangeSolver) region(ctx context.Context, m *graph.Model) (*region, error) {
	s := &State{opt: b.opt, given: m, model: m, inference: b.given}
	err := share(ctx, s)
	return s.main, err
}

// regionAt returns the storages at a point, with the sharing that all points have.
func (b *rangeSolver) regionAt(ctx context.Context, m *graph.Model, point int) (*region, error) {
	if _, err := b.infer(m, point); err != nil {
		return nil, err
	}
	b.share(m)
	return b.region(ctx, m)
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
	if !b.opt.enumerates(b.box) {
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
				return graph.Errorf("ranges of dimensions: %d points are too many to infer each, and the model refuses %v: %s: expected lengths that it takes, such as LOW..HIGH:STEP, or a larger --points", b.box.Points, b.box.At(b.points[i]), p.refused)
			case p.refused != "":
			case p.unshared:
				unshared = append(unshared, i)
			case ratio(p.arena, p.bound) > b.chosen.worst && !b.join[b.points[i]]:
				worse = append(worse, i)
			}
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
	sizes := make([]int64, len(b.model.Graph.Tensors))
	for i, t := range b.model.Graph.Tensors {
		if sizes[i] = t.Bytes; t.Dynamic != "" {
			sizes[i] = -1
		}
	}
	m := *b.model
	m.Graph = b.model.Graph.Clone()
	opt := b.inference(b.box.Corner())
	opt.AtMost = b.box.Names
	for k, name := range b.box.Names {
		if b.box.Lengths[k].At(0) > 0 {
			opt.Positive = append(opt.Positive, name)
		}
	}
	if _, err := ops.Infer(&m, opt); err != nil {
		return graph.Errorf("ranges of dimensions: %d points are too many to infer each, and with bounded lengths: %w", b.box.Points, err)
	}
	for i, t := range m.Graph.Tensors {
		own := t.Bytes
		if t.Dynamic != "" {
			own = -1
		}
		if own != sizes[i] {
			e := graph.Errorf("ranges of dimensions: %d points are too many to infer each, and inference with bounded lengths does not show that this tensor is largest where all lengths are: expected fewer points, or a larger --points", b.box.Points)
			e.Tensor = t.Name
			return e
		}
	}
	b.bounded = make([]sharing, len(m.Graph.Nodes))
	for i, n := range m.Graph.Nodes {
		b.bounded[i] = sharing{n.Semantics.Views, n.Semantics.Inplace}
	}
	return nil
}

// inference returns the options of inference at a point.
func (b *rangeSolver) inference(point int) ops.Options {
	return ops.Options{Dims: b.dims(point), Values: b.opt.Values, StrictDims: b.opt.StrictDims, SpareDims: b.opt.SpareDims, Strict: b.opt.Strict}
}

// sum finds the accepted points, the smallest and the worst of them, and their peaks.
func (b *rangeSolver) sum(ctx context.Context) error {
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
	b.peaks = map[int]int64{}
	points := append([]rangePoint{}, b.grid...)
	for _, i := range []int{b.smallest, b.worst} {
		r, err := b.regionAt(ctx, b.copies[0], b.points[i])
		if err != nil {
			return err
		}
		points = append(points, rangePoint{index: b.points[i], problem: (&State{opt: b.opt}).problem(r)})
	}
	for _, p := range points {
		sizes, err := bufferSizes(p.problem, b.chosen.buffers)
		if err != nil {
			return err
		}
		b.peaks[p.index] = b.chosen.peak(sizes)
	}
	return nil
}

// gridPoint is what the first pass over the grid finds at a point.
type gridPoint struct {
	refused bool
	shared  []sharing // by node
	bound   int64
	proof   schedule.Certificate
	orders  [][]int32
	fixed   []bool // by tensor: it has a known size
	dims    []ops.BoundDim
}

// choose sets what the points of the grid have in common: the sharing, the order, the
// stacking and the sizes as polynomials.
func (b *rangeSolver) choose(ctx context.Context) error {
	list := slices.Sorted(maps.Keys(b.join))
	found := make([]gridPoint, len(list))
	known := b.bounds // of an earlier round; read by all workers
	err := b.each(ctx, len(list), func(m *graph.Model, k int) error {
		p := &found[k]
		var err error
		if p.dims, err = b.infer(m, list[k]); err != nil {
			if p.refused = true; list[k] == b.box.Corner() {
				return err
			}
			return nil
		}
		own, err := b.problem(ctx, m)
		if err != nil {
			return err
		}
		for _, n := range m.Graph.Nodes {
			p.shared = append(p.shared, b.sharing(m, n))
		}
		p.fixed = fixedSizes(m.Graph)
		has, solved := known[list[k]]
		if !solved {
			has, err = solveBound(ctx, own, b.opt)
		}
		p.bound, p.proof, p.orders = has.bound, has.proof, has.orders
		return err
	})
	if err != nil {
		return err
	}
	for k, i := range list {
		if !found[k].refused {
			b.bounds[i] = bound{found[k].bound, found[k].proof, found[k].orders}
		}
	}
	corner := &found[len(found)-1]
	b.common, b.known, b.grid, b.follows = corner.shared, nil, nil, map[string]bool{}
	for k, p := range found {
		if p.refused {
			continue
		}
		for i, d := range p.dims {
			if d.Value != corner.dims[i].Value && !slices.Contains(b.box.Names, d.Name) {
				b.follows[d.Name] = true
			}
		}
		if !slices.Equal(p.fixed, corner.fixed) {
			return b.otherTensors(list[k])
		}
		for n, has := range p.shared {
			c := &b.common[n]
			if b.bounded != nil {
				c.views, c.inplace = intersect(c.views, b.bounded[n].views), intersect(c.inplace, b.bounded[n].inplace)
			}
			c.views, c.inplace = intersect(c.views, has.views), intersect(c.inplace, has.inplace)
		}
		if !slices.ContainsFunc(b.known, func(c schedule.Certificate) bool { return sameProof(c, p.proof) }) {
			b.known = append(b.known, p.proof)
		}
		b.grid = append(b.grid, rangePoint{index: list[k], bound: p.bound})
	}
	err = b.each(ctx, len(b.grid), func(m *graph.Model, k int) error {
		p := &b.grid[k]
		r, err := b.regionAt(ctx, m, p.index)
		if err != nil {
			return err
		}
		p.problem = (&State{opt: b.opt}).problem(r)
		for i := range r.storages {
			p.bytes = append(p.bytes, m.Graph.Tensors[r.storages[i].tensors[0]].Bytes)
		}
		if p.index == b.box.Corner() {
			for i := range r.storages {
				p.tensors = append(p.tensors, r.storages[i].tensors[0])
			}
			p.stay = map[graph.TensorID]string{}
			for _, c := range r.updateChains {
				for _, i := range c.storages {
					t := r.storages[i].tensors[0]
					p.stay[t] = m.Graph.Tensors[t].Type.String()
				}
			}
			if b.opt.KeepRandomOrder {
				p.precedence = effectsInOrder(m.Graph, schedule.Program(p.problem))
			}
			if b.opt.UpdatesLast {
				p.precedence = append(p.precedence, updatesLast(m.Graph)...)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if b.orders == nil || !slices.EqualFunc(b.orders.common, b.common, sharing.equal) {
		b.orders = &orders{common: b.common, of: map[int][][]int32{}}
	}
	if b.opt.Schedule == "" && b.grid[len(b.grid)-1].precedence == nil {
		for k, i := range list {
			if !found[k].refused && slices.EqualFunc(found[k].shared, b.common, sharing.equal) {
				b.orders.of[i] = found[k].orders // the problem is the same
			}
		}
	}
	if b.chosen, err = chooseStack(ctx, b.grid, b.orders, b.opt); err != nil {
		return err
	}
	b.sizes = fitSizes(b.box, b.grid, b.chosen.buffers, b.opt.Align)
	return nil
}

// fixedSizes says which tensors of an inferred graph have a known size.
func fixedSizes(g *graph.Graph) []bool {
	list := make([]bool, len(g.Tensors))
	for i, t := range g.Tensors {
		list[i] = t.Dynamic == ""
	}
	return list
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

// otherTensors is the error for a point at which other tensors have a known size than at
// the corner.
func (b *rangeSolver) otherTensors(point int) error {
	return graph.Errorf("ranges of dimensions: at %v, expected the tensors of known size that the largest lengths have", b.box.At(point))
}

// solveBound returns the largest bound of a problem that maximum flows prove, what proves
// it, and the best orders.
func solveBound(ctx context.Context, p *schedule.Problem, opt Options) (bound, error) {
	r, err := schedule.Solve(ctx, p, schedule.Options{Effort: opt.Effort})
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
	known        int                  // the certificate that proves the bound: an index, or -1 for
	proof        schedule.Certificate // this one
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
		if n := int(done.Add(1)); b.opt.RangeProgress != nil && (n%64 == 0 || n == len(b.points)) {
			report.Lock()
			defer report.Unlock()
			b.opt.RangeProgress(n, len(b.points))
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
	for n, c := range b.common {
		has := b.sharing(m, m.Graph.Nodes[n])
		if len(intersect(c.views, has.views)) < len(c.views) || len(intersect(c.inplace, has.inplace)) < len(c.inplace) {
			return provenPoint{unshared: true}, nil
		}
	}
	corner := &b.grid[len(b.grid)-1]
	bytes := make([]int64, len(corner.tensors)) // by storage
	for i, t := range corner.tensors {
		if m.Graph.Tensors[t].Dynamic != "" && m.Graph.Tensors[t].Data == nil {
			return p, b.otherTensors(point)
		}
		bytes[i] = m.Graph.Tensors[t].Bytes
		if was := corner.stay[t]; was != "" && m.Graph.Tensors[t].Type.String() != was {
			e := graph.Errorf("ranges of dimensions: is %v for %v: expected %s, as for the largest lengths, since it stays from run to run", m.Graph.Tensors[t].Type, b.box.At(point), was)
			e.Tensor = m.Graph.Tensors[t].Name
			return p, e
		}
	}
	sizes := make([]int64, len(b.chosen.buffers))
	s := State{opt: b.opt}
	for i, buf := range b.chosen.buffers {
		for k, t := range buf.Tensors {
			if n := s.round(bytes[t]); k > 0 && n != sizes[i] {
				return provenPoint{unshared: true}, nil
			} else {
				sizes[i] = n
			}
		}
	}
	if p.arena, err = b.chosen.stack.Place(sizes, make([]int64, len(sizes))); err != nil {
		return p, err
	}
	b.sizes.check(b.box.At(point), sizes, s.round, wrong)
	own, err := b.problem(ctx, m)
	if err != nil {
		return p, err
	}
	for k, c := range b.known {
		if n := provedBy(own, c); n > p.bound || k == 0 {
			p.bound, p.known = n, k
		}
		if p.bound >= p.arena {
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
	if ratio(p.arena, p.bound) <= b.chosen.worst && b.chosen.worst > 1 {
		return p, nil
	}
	found, err := solveBound(ctx, own, b.opt)
	if err == nil {
		better(found.bound, found.proof)
	}
	return p, err
}
