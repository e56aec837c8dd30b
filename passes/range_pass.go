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
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
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

// lengths returns Dims with the dimensions whose range has one length, and the other ranges. A range
// that is wrong, or beside a length, is among the latter.
func (o *Options) lengths() (dims map[string]int64, ranges map[string]string) {
	dims = o.Dims
	for name, text := range o.Ranges {
		l, err := dimrange.Parse(text)
		if _, twice := o.Dims[name]; err != nil || l.Count != 1 || twice {
			if ranges == nil {
				ranges = map[string]string{}
			}
			ranges[name] = text
			continue
		}
		if len(dims) == len(o.Dims) { // it is the caller's
			if dims = maps.Clone(o.Dims); dims == nil {
				dims = map[string]int64{}
			}
		}
		dims[name] = l.Low
	}
	return dims, ranges
}

// ranged reports whether a dimension has several lengths.
func (o *Options) ranged() bool {
	_, ranges := o.lengths()
	return len(ranges) > 0
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
	if err := s.opt.checkPlaces(s.now.Model); err != nil {
		return s.named(err)
	}
	lengths := canonical(s.now.Model, s.opt.Ranges, s.opt.Dims)
	box, err := boxOf(lengths, s.opt.Dims)
	if err != nil {
		return &OptionError{err}
	}
	s.now.Ranged = &planner.Ranged{Box: box, Lengths: lengths, Given: s.opt.Dims, All: s.opt.enumerates(box), Progress: s.opt.RangeProgress}
	s.now.Bind.Given.Dims = s.now.Ranged.Dims(box.Corner())
	return nil
}

// checkPlaces refuses a range beside another range or a length of the same axis of an input, of which
// one is given by the axis' name and one by its place: the points would not be those of the names.
func (o *Options) checkPlaces(m *graph.Model) error {
	given := func(name string) (text string, isRange, ok bool) {
		if text, ok = o.Ranges[name]; ok {
			return name + "=" + text, true, true
		}
		n, ok := o.Dims[name]
		return fmt.Sprintf("%s=%d", name, n), false, ok
	}
	for _, id := range m.Graph.Inputs {
		t := m.Graph.Tensors[id]
		if t.Declared == nil {
			continue
		}
		for axis, symbol := range t.Declared.Symbols {
			byName, several, named := given(symbol)
			byPlace, too, placed := given(fmt.Sprintf("%s[%d]", t.Name, axis))
			if symbol != "" && symbol != "?" && named && placed && (several || too) {
				return graph.Errorf("axis %d of input %q: expected --dim %s or --dim %s, found both", axis, graph.Short(t.Name), byName, byPlace)
			}
		}
	}
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
	if s.now.Ranged == nil {
		return nil
	}
	for _, x := range planner.GraphsOf(s.now.Model.Graph) {
		for _, n := range x.G.Nodes {
			if n.Semantics.Call != nil {
				return graph.Errorf("ranges of dimensions: expected no call of a local function, since the pass inline replaces them").AtNode(n.Name)
			}
		}
	}
	for _, name := range s.now.Ranged.Box.Names {
		if !slices.ContainsFunc(s.now.Inference.Dims, func(d ops.BoundDim) bool { return d.Name == name }) {
			return graph.Errorf("range of dimension %q: expected the name of an open dimension of an input, whose length no other one gives", graph.Short(name))
		}
	}
	x := s.search()
	if x.Traversal != nil {
		for _, in := range planner.GraphsOf(s.now.Model.Graph) {
			if err := x.Traversable(in.G); err != nil {
				return err
			}
		}
	}
	var keep *box.Ceiling // that the pass slice has chosen
	if l := s.less.Limit; l != nil {
		keep = &box.Ceiling{Bytes: l.Bytes, Arena: l.Arena}
	}
	t := s.trial()
	if err := t.Solve(ctx, x, keep); err != nil {
		return err
	}
	s.take(t)
	return nil
}

// planRanges adds to the plan of the corner what holds at the other points.
func (s *State) planRanges(p *plan.Plan) {
	g := s.now.Ranged
	if g == nil {
		return
	}
	p.Version = plan.RangesVersion
	s.planLengths(p.Dims)
	found := g.Found
	accepted, refusal := found.Accepted()
	smallest, worst, optimal := found.Extremes()
	row := func(i int) plan.RangePoint {
		q := &found.Proven[i]
		return plan.RangePoint{Dims: g.Box.At(found.Points[i]), ArenaBytes: q.Arena, PeakBytes: q.Peak, LowerBoundBytes: q.Bound}
	}
	r := &plan.Ranges{
		Points: g.Box.Points, Inferred: len(found.Points), Proof: plan.ProofEnumerated, Table: []plan.RangePoint{},
		Sizes: found.Sizes.List(), OptimalPoints: optimal, Smallest: row(smallest), Worst: row(worst),
		Refused: len(found.Points) - len(accepted), Refusal: refusal,
	}
	if len(found.Points) < g.Box.Points {
		r.Proof = plan.ProofBounded
	}
	r.Stacking, r.SizeOf = g.PlanStacking(s.now.Main)
	if r.Refused > 0 {
		for name, a := range g.Box.Accepted(accepted) {
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
	r.Certificates = g.PlanProofs(s.now.Main)
	p.Ranges = r
}

// planLengths writes the lengths of the ranges into the plan's dimensions. What has another
// length at another point, but no range, follows from those that do.
func (s *State) planLengths(dims map[string]plan.Dim) {
	g := s.now.Ranged
	for k, name := range g.Box.Names {
		d, l := dims[name], g.Box.Lengths[k]
		if l.Values != nil {
			d.Values = slices.Clone(l.Values)
		} else {
			low := l.Low
			d.Low, d.Step = &low, l.Step
		}
		dims[name] = d
	}
	for name, d := range dims {
		if g.Follows[name] {
			d.Follows = true
			dims[name] = d
		}
	}
}
