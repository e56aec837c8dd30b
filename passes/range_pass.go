package passes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/dimrange"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/box"
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
	x := s.search()
	if x.traversal != nil {
		for _, in := range graphsOf(s.model.Graph) {
			if err := x.traversable(in.g); err != nil {
				return err
			}
		}
	}
	var keep *box.Ceiling // that the pass slice has chosen
	if l := s.choice.limit; l != nil {
		keep = &box.Ceiling{Bytes: l.Bytes, Arena: l.Arena}
	}
	return s.solveRanges(ctx, x, keep)
}

// solveRanges is ranges for the present graph. The main graph keeps a limit at the corner
// if some order that is found does; nil: there is none.
func (s *State) solveRanges(ctx context.Context, x *search, keep *box.Ceiling) error {
	how := s.rules()
	// States are those of the corner. They stay, so they have the same types everywhere.
	how.states, how.findStates = s.main.states, false
	m := *s.model // which the planner reorders
	m.Graph = s.model.Graph.Clone()
	found := box.NewSolution(s.ranged.box, s.opt.enumerates(s.ranged.box))
	found.Progress = s.opt.RangeProgress
	b := &rangeSolver{
		ranged: s.ranged.again(found), rules: how, search: x, bind: s.bind, keep: withPools(keep, how.pools),
		model: &m, given: s.inference, copies: []*graph.Model{&m},
	}
	if slices.Contains(s.opt.Disable, "order") {
		b.Strategy = "program"
	}
	if err := b.solve(ctx); err != nil {
		return err
	}
	if err := b.divide(ctx); err != nil {
		return err
	}
	return s.takeRanges(ctx, b)
}

// takeRanges makes what was found for all points that of the present graph, which is in the
// order of the file.
func (s *State) takeRanges(ctx context.Context, b *rangeSolver) error {
	s.ranged = b.ranged
	s.ranged.by = b
	found, err := s.infer(s.model)
	if err != nil {
		return s.atCorner(err)
	}
	s.inference = found
	own, err := b.problem(s.model)
	if err != nil {
		return err
	}
	b.share(s.model)
	r, err := b.shared(s.model, s.inference.Given, nil)
	if err != nil {
		return err
	}
	r.boxes = b.boxesOf(s.model)
	if err := r.planBodies(ctx, b.search); err != nil {
		return err
	}
	for n, bytes := range r.workspace {
		own.Nodes[n].Workspace = bytes
	}
	// The bound of the corner holds for all sharing that is possible there.
	solved, err := b.Within(ctx, own, schedule.Options{Effort: s.opt.Effort})
	if err != nil {
		return err
	}
	if solved.Ended != nil {
		b.atLeastProven(solved, own)
	}
	p := r.problem()
	solved.ProgramOrder = schedule.Program(p)
	if solved.ProgramEvaluation, err = p.Evaluate(solved.ProgramOrder); err != nil {
		return err
	}
	solved.ProgramPeak = solved.ProgramEvaluation.Peak
	solved.Solver = b.boxes.Main().Solver
	s.main, r.solved = r, solved
	if b.aliases != nil {
		s.main = b.joined(r, own)
	}
	return nil
}

// divideWithin divides the buffers of the main graph, which is placed, among the pools once more, so
// that all pools together keep a limit if they can.
func (s *State) divideWithin(ctx context.Context, limit int64, x *search) error {
	b := s.ranged.by
	b.keep = &box.Ceiling{Bytes: limit, Arena: true}
	if err := b.divide(ctx); err != nil {
		return err
	}
	return s.main.place(ctx, x)
}

// atLeastProven gives a search that the deadline ended the bound that was proven for the corner.
// own is the problem of it.
func (b *rangeSolver) atLeastProven(solved *schedule.Result, own *schedule.Problem) {
	has := b.found.Corner().Bounds
	c := b.boxes.Main().Proof(&has[len(has)-1])
	if c.Value = box.ProvedBy(own, c); c.Value >= solved.Bound {
		solved.Bound, solved.Certificates = c.Value, []schedule.Certificate{c}
	}
}

// aliasRanges shares the bytes of nodes at all points, if no point then needs more. The main
// graph is placed.
func (s *State) aliasRanges(ctx context.Context) error {
	if s.main.swaps() {
		return nil // another order would not fit the transfers
	}
	c, err := s.ranged.by.withAliases(ctx, func(format string, args ...any) {
		if s.opt.Aliases == AliasesOn { // else nobody asked
			s.Warn("aliases: "+format, args...)
		}
	})
	if err != nil || c == nil {
		return err
	}
	if l := s.choice.limit; l != nil && c.found.Corner().Peak > l.Bytes {
		return nil // the arena is smaller, the peak is not
	}
	if err := s.main.restore(); err != nil {
		return err
	}
	if err := s.takeRanges(ctx, c); err != nil {
		return err
	}
	x := s.search()
	if err := s.main.order(ctx, x); err != nil {
		return err
	}
	return s.main.place(ctx, x)
}

// planRanges adds to the plan of the corner what holds at the other points.
func (s *State) planRanges(p *plan.Plan) {
	g := s.ranged
	if g == nil {
		return
	}
	p.Version = plan.RangesVersion
	s.planLengths(p.Dims)
	found := g.found
	accepted, refusal := found.Accepted()
	smallest, worst, optimal := found.Extremes()
	row := func(i int) plan.RangePoint {
		q := &found.Proven[i]
		return plan.RangePoint{Dims: g.box.At(found.Points[i]), ArenaBytes: q.Arena, PeakBytes: q.Peak, LowerBoundBytes: q.Bound}
	}
	r := &plan.Ranges{
		Points: g.box.Points, Inferred: len(found.Points), Proof: plan.ProofEnumerated, Table: []plan.RangePoint{},
		Sizes: found.Sizes.List(), OptimalPoints: optimal, Smallest: row(smallest), Worst: row(worst),
		Refused: len(found.Points) - len(accepted), Refusal: refusal,
	}
	if len(found.Points) < g.box.Points {
		r.Proof = plan.ProofBounded
	}
	r.Stacking, r.SizeOf = g.planStacking(s.main)
	if r.Refused > 0 {
		for name, a := range g.box.Accepted(accepted) {
			if r.Accepted == nil {
				r.Accepted = map[string]plan.AcceptedLengths{}
			}
			r.Accepted[name] = plan.AcceptedLengths{Low: a.Low, High: a.High(), Step: a.Step}
		}
	}
	for _, q := range found.Graphs.Main().Points {
		i, _ := slices.BinarySearch(found.Points, q.Index)
		r.Table = append(r.Table, row(i))
	}
	r.Certificates = g.planProofs(s.main)
	p.Ranges = r
}

// planLengths writes the lengths of the ranges into the plan's dimensions. What has another
// length at another point, but no range, follows from those that do.
func (s *State) planLengths(dims map[string]plan.Dim) {
	g := s.ranged
	for k, name := range g.box.Names {
		d, l := dims[name], g.box.Lengths[k]
		if l.Values != nil {
			d.Values = slices.Clone(l.Values)
		} else {
			low := l.Low
			d.Low, d.Step = &low, l.Step
		}
		dims[name] = d
	}
	for name, d := range dims {
		if g.follows[name] {
			d.Follows = true
			dims[name] = d
		}
	}
}
