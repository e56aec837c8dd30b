package passes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes/internal/costs"
	"github.com/onnxmem/onnxmem/passes/internal/folding"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
)

// SliceModes are the names of the values of Slices.
var SliceModes = map[string]Slices{"off": SlicesOff, "exact": SlicesExact, "any": SlicesAny}

// slicedState describes what the pass slice did.
type slicedState struct {
	*slicedModel
	plainPeak  int64 // of the best order without slices
	plainBound int64
	anyCount   plan.SliceBound // of the same regions in any number of slices
	anySlices  plan.SliceBound
	relaxed    plan.SliceBound // of any slices, with aliases
}

// WithAliases replaces the bounds, which are those of plans without aliases. In any number of
// slices, no more is known of regions than of all slices.
func (x *slicedState) withAliases() { x.anyCount, x.anySlices = x.relaxed, x.relaxed }

// slice runs regions of the graph in slices, so that the cheapest plan below the limit
// (Options.Limit) can be found or, without a limit, the smallest peak that the extra
// time allows (Options.ExtraPercent). It weighs slices against recomputation and swaps,
// which the pass limit adds. It also computes the frontier, if that is asked for. With
// several pools and without a limit, it looks for little traffic in the slow ones.
func slice(ctx context.Context, s *State) error {
	for _, n := range s.model.Graph.Nodes {
		if _, sliced := n.Prop(slicing.Prop); sliced { // of a plan of which the model is the result
			n.DropProp(slicing.Prop)
		}
	}
	search := chooseSlices
	switch {
	case s.opt.Slices == SlicesOff || s.opt.Limit == nil && s.opt.ExtraPercent <= 0 && !s.opt.Frontier && len(s.opt.Pools) == 0:
		return nil
	case len(s.opt.Pools) > 0 && s.opt.Limit == nil && !s.opt.Frontier:
		search = chooseSlicesInPools
	}
	found, err := search(ctx, s.task)
	if err != nil {
		return err
	}
	s.choice, s.known, s.fixed, s.costs.Measured, s.frontier, s.slices = found.choice, found.known, found.fixed, found.measured, found.frontier, found.slices
	if found.model != nil {
		s.Replace(found.model)
	}
	return nil
}

// slicesChoice is what a search for slices has chosen.
type slicesChoice struct {
	choice
	model    *graph.Model // nil: nothing runs in slices
	slices   *slicedState // what the plan says of them
	fixed    bool         // the nodes stay in the order of the model
	known    *base        // has searches for the model; nil: none were made
	measured *costs.Measured
	frontier []plan.FrontierPoint
}

// chooseSlices weighs slices against all other means.
func chooseSlices(ctx context.Context, of task) (*slicesChoice, error) {
	w, err := newWeigher(ctx, of)
	if err != nil {
		return nil, err
	}
	opt, c := &of.opt, &slicesChoice{measured: w.s.costs.Measured}
	if opt.Frontier {
		if c.frontier, err = w.frontier(ctx); err != nil {
			return nil, err
		}
	}
	var found *way
	switch {
	case opt.Limit != nil:
		limit := opt.Limit.of(w.peak())
		if found, err = w.keeping(ctx, limit); err == nil && found == nil {
			err = w.error(ctx, limit.Bytes)
		}
		if c.limit = limit; found != nil && limit.Arena {
			c.target = found.limit
		}
	case opt.ExtraPercent > 0:
		if found, err = w.within(ctx, opt.ExtraPercent); found != nil && (found.from != nil || found.sliced == nil) {
			c.limit = &Limit{Bytes: found.limit}
		}
	}
	if err != nil || found == nil {
		return c, err
	}
	return c, w.adopt(ctx, c, found)
}

// adopt chooses the graph of a way. The searches that have been made for it are kept for the passes
// that would make them again.
func (w *weigher) adopt(ctx context.Context, c *slicesChoice, found *way) error {
	if c.known = w.plain; found.from != nil {
		c.known = found.from
	}
	m := found.sliced
	if m == nil {
		return nil
	}
	anyCount, err := m.anyCount(ctx, w.least)
	if err != nil {
		return err
	}
	plain := w.plain.Main
	c.slices = &slicedState{m, plain.Loads.Peak, plain.Solved.Bound, anyCount, w.least, w.relaxed}
	if c.model, err = m.from.rewrite(m); err != nil {
		return err
	}
	return w.s.sameEverywhere(c.model)
}

// slicer searches regions of the main graph to slice.
type slicer struct {
	s         *task
	base      *planner.Trial // the model before, in its order
	search    *slicing.Search
	constants []string // tensors of the model that are initializers in base
	time      float64  // modelled time of all nodes, in nanoseconds, without copies of chains
	copies    []plan.SlicedCopy
	divided   *slicing.Divided        // what it has in the place of products that are split
	models    map[string]*slicedModel // by their regions

	outer *slicedModel            // the base is this model: regions lie inside of its slices; nil: the base runs whole
	rows  map[string]slicing.Part // what its slices make and take, by name
	given map[string]bool         // names of the tensors that the base had when it ran whole
}

// slicedModel is a model in which regions run in slices.
type slicedModel struct {
	choices []*slicing.Choice
	weights []slicing.Weight
	rows    []slicing.Part // what slices make and take of tensors of the base
	calls   *slicing.Room  // of calls with nodes of slices; nil: there are none
	names   [][]string     // if there are: of each region, those to which functions refer
	from    *slicer
	peak    int64   // by a fast search for the order
	bound   int64   // no order of the sliced graph has a smaller peak
	extra   float64 // share of the modelled time without slices
}

// windowReach is the largest number of nodes of a window.
const windowReach = 120

// newSlicer orders a copy of the model. Values that depend on shapes alone are constants in
// it, since what is sliced has other shapes. earlier lists the slicers made so far, the first
// without copies. If it is not empty, cheap chains are copied for each reader (slicing.CopyChains,
// with shrink). The result is then nil unless that gives copies that earlier's last did not
// have.
func (s *task) newSlicer(ctx context.Context, earlier []*slicer, shrink int64) (*slicer, error) {
	m := *s.model
	m.Graph = s.model.Graph.Clone()
	constants := settle(&m, s.inference, s.folds, s.elsewhere(s.model))
	x := &slicer{s: s, base: &planner.Trial{Model: &m}, constants: constants, divided: &slicing.Divided{}, models: map[string]*slicedModel{}}
	if len(earlier) > 0 {
		if err := x.prepare(earlier[0], shrink); err != nil || x.copies == nil && x.divided.Parts == nil {
			return nil, err
		}
		if last := earlier[len(earlier)-1]; last != earlier[0] && slices.Equal(last.copies, x.copies) {
			return nil, nil
		}
	}
	var err error
	if x.base, err = s.inOrder(ctx, &m, s.search().Quick()); err != nil {
		return nil, err
	}
	if x.time = x.base.Time; len(earlier) > 0 {
		x.time = earlier[0].time
	}
	x.search = slicing.NewSearch(x.program(), windowReach)
	return x, nil
}

// more returns the share of the time without slices that a sliced model takes more; 0 if nodes
// take no time by estimate without them.
func (x *slicer) more(t *planner.Trial) float64 {
	if x.time <= 0 {
		return 0
	}
	return t.Time/x.time - 1
}

// kept returns the names of the tensors of a region that the plan lists: gradients, and constants
// that are folded.
func (s *task) kept(r *planner.Region) map[string]bool {
	keep := map[string]bool{}
	maps.Copy(keep, r.Gradients)
	if s.folds != nil {
		for _, t := range s.folds.Tensors {
			keep[t.T.Name] = true
		}
	}
	return keep
}

// program describes the base in its order.
func (x *slicer) program() *slicing.Program {
	s, b, r := x.s, x.base, x.base.Main
	p := &slicing.Program{
		Model: b.Model, Inference: b.Inference, Of: r.StorageOf, Workspace: r.Workspace, Loads: r.Loads.Loads, Keep: s.kept(r), Align: s.opt.Align, Sums: s.opt.Slices == SlicesAny,
		Cost: s.costs.InSlices, Factors: s.costs.Factors(b.Model.Graph),
	}
	p.Rows, p.Elsewhere = rowsOf(b.Model), s.elsewhere(b.Model)
	for i := range r.Storages {
		st := &r.Storages[i]
		first, last := r.Lifetime(int32(i))
		p.Storages = append(p.Storages, slicing.Storage{
			Tensors: st.Tensors, Bytes: st.Bytes, First: first, Last: last, Resident: !r.Live(int32(i)), Input: st.Input, Output: st.Output,
		})
	}
	if x.outer != nil {
		p.Owners, p.Rows, p.Sums = slicing.Owners(b.Model.Graph, x.outer.regions(), x.rows, x.outer.weights), nil, false
	}
	p.Divided, p.Lists = map[graph.TensorID]int{}, map[graph.TensorID]bool{}
	along, lists := map[string]int{}, map[string]bool{}
	for _, name := range x.divided.Lists {
		lists[name] = true
	}
	for _, w := range x.divided.Weights {
		along[w.Tensor] = w.Axis
	}
	for id, t := range r.G.Tensors {
		if axis, part := along[t.Name]; part {
			p.Divided[graph.TensorID(id)] = axis
		}
		if lists[t.Name] || x.outer != nil && t.Data != nil && !x.given[t.Name] {
			p.Lists[graph.TensorID(id)] = true
		}
	}
	p.Prepare()
	return p
}

// prepare copies chains of cheap nodes for each reader, and divides products whose
// columns are split. of is the slicer without them.
func (x *slicer) prepare(of *slicer, shrink int64) (err error) {
	b, peak := x.base, of.base.Main.Loads.Peak
	if b.Inference, err = x.s.infer(b.Model); err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	if x.copies, err = slicing.CopyChains(b.Model, peak, shrink); err != nil {
		return err
	}
	if x.copies != nil {
		if b.Inference, err = x.s.infer(b.Model); err != nil {
			return fmt.Errorf("slices: %w", err)
		}
	}
	none := make([]int32, len(b.Model.Graph.Tensors))
	for t := range none {
		none[t] = planner.NoStorage
	}
	p := &slicing.Program{Model: b.Model, Inference: b.Inference, Of: none, Workspace: make([]int64, len(b.Model.Graph.Nodes)), Loads: make([]int64, len(b.Model.Graph.Nodes)), Keep: x.s.kept(of.base.Main), Rows: rowsOf(b.Model), Elsewhere: x.s.elsewhere(b.Model), States: true}
	p.Prepare()
	x.divided = p.Divide(peak / slicing.ChainLeast)
	return nil
}

// rowsOf returns what reads the elements of an initializer of a model.
func rowsOf(m *graph.Model) func(*graph.Data) func(func([]byte) error) error {
	return func(d *graph.Data) func(func([]byte) error) error {
		read := func(use func([]byte) error) (err error) {
			defer mapped.Recover(&err, mapped.Watch())
			files := constant.NewFiles(m)
			defer func() { err = errors.Join(err, files.Close()) }()
			t, err := files.Read(d)
			if err != nil {
				return err
			}
			return use(t.Raw)
		}
		if !constant.Holds(d.Type) || d.Generate == nil && read(func([]byte) error { return nil }) != nil {
			return nil
		}
		return read
	}
}

// apply rewrites the model and finds its peak by a fast search.
func (x *slicer) apply(ctx context.Context, choices []*slicing.Choice) (*slicedModel, error) {
	m := &slicedModel{choices: choices, from: x}
	t, err := x.peaked(ctx, m)
	if err != nil {
		return nil, err
	}
	m.extra = x.more(t)
	if x.s.opt.Compact {
		if t, err = x.compact(ctx, m, t.Main.Loads.Peak); err != nil {
			return nil, err
		}
	}
	m.peak, m.bound = t.Main.Loads.Peak, t.Main.Solved.Bound
	return m, nil
}

// ordered rewrites the model and orders it by a fast search.
func (x *slicer) ordered(ctx context.Context, m *slicedModel) (*planner.Trial, error) {
	return x.inOrder(ctx, m, false)
}

// peaked is like ordered where the peak is wanted, and not the order: of several orders
// with that peak, it does not look for the one with the smallest arena.
func (x *slicer) peaked(ctx context.Context, m *slicedModel) (*planner.Trial, error) {
	return x.inOrder(ctx, m, true)
}

func (x *slicer) inOrder(ctx context.Context, m *slicedModel, peakAlone bool) (*planner.Trial, error) {
	model, err := x.rewrite(m)
	if err != nil {
		return nil, err
	}
	quick := x.s.search().Quick()
	quick.PeakAlone = peakAlone
	return x.s.inOrder(ctx, model, quick)
}

// inOrder returns a model that was made of the present one in its order.
func (s *task) inOrder(ctx context.Context, m *graph.Model, x *planner.Search) (*planner.Trial, error) {
	s.log.Sliced += len(m.Graph.Nodes)
	t, err := s.shared(ctx, m, x)
	if err == nil {
		err = t.Main.Order(ctx, x)
	}
	if err != nil {
		return nil, fmt.Errorf("slices: %w", err)
	}
	t.Time = s.costs.Time(t.Main.G)
	return t, nil
}

// compactSlack is the share by which calls may raise the peak before they are made
// smaller: 1/compactSlack.
const compactSlack = 32

// compactAttempts is the largest number of attempts to find calls that need little memory.
const compactAttempts = 3

// compact decides how much memory calls with nodes of slices may need, where the peak
// without calls is known. What they may need in a region follows from estimates. If the
// peak shows that these were too large, the next attempt takes the difference off. It
// returns the attempt with the smallest peak.
func (x *slicer) compact(ctx context.Context, m *slicedModel, peak int64) (best *planner.Trial, err error) {
	room, tried := slicing.Room{Peak: peak}, *m
	for range compactAttempts {
		now := room
		tried.calls = &now
		t, err := x.peaked(ctx, &tried)
		if err != nil {
			return nil, err
		}
		found := t.Main.Loads.Peak
		if best == nil || found < best.Main.Loads.Peak {
			*m, best = tried, t
		}
		if found <= peak+peak/compactSlack {
			break
		}
		room.Less += found - peak
	}
	return best, nil
}

// rewrite returns the model in which regions run in slices, and notes what the plan says
// of them.
func (x *slicer) rewrite(m *slicedModel) (*graph.Model, error) {
	first := 0
	if x.outer != nil {
		first = len(x.outer.regions())
	}
	made, err := x.search.Rewrite(m.choices, first)
	if err != nil {
		return nil, err
	}
	if m.rows = made.Rows; x.outer != nil {
		m.weights = x.outer.weights
	} else {
		m.weights = x.rowsOfSource(made.Graph, made.Weights)
	}
	if m.calls == nil {
		return made.Model, nil
	}
	if _, err := x.s.infer(made.Model); err != nil {
		return nil, fmt.Errorf("slices: %w", err)
	}
	model := made.Model
	model, m.names, err = x.search.Compact(model, m.regions(), *m.calls)
	return model, err
}

// rowsOfSource lists the initializers of a rewritten graph that hold rows of an
// initializer of the source: those that the regions read in parts, which may be parts of
// parts, and the parts that the base has.
func (x *slicer) rowsOfSource(g *graph.Graph, cut []slicing.Weight) (list []slicing.Weight) {
	parts, there := map[string]slicing.Weight{}, map[string]bool{}
	for _, t := range g.Tensors {
		there[t.Name] = t.Data != nil
	}
	for _, w := range x.divided.Weights {
		if parts[w.Tensor] = w; there[w.Tensor] {
			list = append(list, w)
		}
	}
	for _, w := range cut {
		if of, part := parts[w.Of]; part {
			w.Of, w.Lo, w.Hi = of.Of, of.Lo+w.Lo, of.Lo+w.Hi
		}
		list = append(list, w)
	}
	return list
}

// integerData returns an initializer with these elements in the place of a tensor.
func integerData(t *graph.Tensor, elements []int64) *graph.Data {
	d := &graph.Data{Name: t.Name, Type: t.Type.Elem, Dims: make([]int64, len(t.Type.Shape)), Raw: []byte{}}
	for i, n := range t.Type.Shape {
		d.Dims[i] = int64(n)
	}
	for _, v := range elements {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], uint64(v))
		d.Raw = append(d.Raw, word[:d.Type.Bits()/8]...)
	}
	d.Bytes = int64(len(d.Raw))
	return d
}

// unsliced summarises what the slices save and cost. l is nil without a limit.
func (x *slicedState) unsliced(l *plan.Limited) *plan.Unsliced {
	u := &plan.Unsliced{
		UnslicedPeakBytes: x.plainPeak, UnslicedBoundBytes: x.plainBound, AnyCountBoundBytes: x.anyCount.Bytes, AnySlicesBoundBytes: x.anySlices.Bytes,
		SliceCostPercent: 100 * x.extra,
	}
	u.TotalCostPercent = u.SliceCostPercent
	if l != nil {
		u.TotalCostPercent = plan.Together(u.SliceCostPercent, l.ExtraCostPercent)
	}
	return u
}

// keptConstants lists those of the named initializers that the model still has: regions may
// read one in parts alone.
func (s *State) keptConstants(names []string) []string {
	there := map[string]bool{}
	for _, t := range s.model.Graph.Tensors {
		there[t.Name] = t.Data != nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !there[name] })
}

// planSlices describes the slices in the plan.
func (s *State) planSlices(p *plan.Plan) {
	if s.slices == nil {
		return
	}
	mode := "exact"
	if s.opt.Slices == SlicesAny {
		mode = "any"
	}
	p.Slices = &plan.Slices{
		Mode: mode, Constants: s.keptConstants(s.slices.from.constants), Regions: []plan.SlicedRegion{}, AnyCount: s.slices.anyCount, AnySlices: s.slices.anySlices,
	}
	for i, c := range s.slices.regions() {
		r := c.Describe()
		if x := s.slices.from; x.outer != nil && i >= len(x.outer.regions()) {
			r.Within = x.within(c)
		}
		if s.slices.names != nil {
			r.Names = s.slices.names[i]
		}
		p.Slices.Regions = append(p.Slices.Regions, r)
	}
	p.Slices.Copies = s.slices.from.copies
	for _, w := range s.slices.from.divided.Weights {
		p.Slices.Parts = append(p.Slices.Parts, plan.SlicedPart{Tensor: w.Tensor, Of: w.Of, Axis: w.Axis, From: w.Lo, Rows: w.Hi - w.Lo})
	}
	for _, x := range s.slices.from.divided.Parts {
		p.Slices.Parts = append(p.Slices.Parts, plan.SlicedPart{Tensor: x.Tensor, Of: x.Of, Axis: x.Axis, From: x.Lo, Rows: x.Hi - x.Lo})
	}
	for _, w := range s.slices.weights {
		p.Slices.Weights = append(p.Slices.Weights, plan.SlicedWeight{Tensor: w.Tensor, Of: w.Of, Axis: w.Axis, From: w.Lo})
	}
}

// settle replaces small integer tensors whose elements inference knows by constants,
// and drops the nodes that nobody reads then, but for those in which the plan lists folded
// constants. Their elements must be the same at other points, too. It returns the names of the
// tensors that are left.
func settle(m *graph.Model, inf *ops.Inference, folds *folding.Result, points []slicing.Elsewhere) (names []string) {
	g := m.Graph
	listed, bodies := folds.Listed()
	var settled []*graph.Tensor
	for id, v := range inf.Values {
		t := g.Tensors[id]
		elements, known := v.Ints()
		if !known || t.Maker < 0 || t.Output || t.Type.Kind != graph.KindTensor || !t.Type.Exact() || !t.Type.Elem.Integer() && t.Type.Elem != graph.Bool || t.Type.Elem.Bits() < 8 || ops.IsConstant(g.Nodes[t.Maker]) {
			continue
		}
		d := integerData(t, elements)
		n := g.Nodes[t.Maker]
		if n.Semantics.Random || len(n.Outputs) != 1 || !settledEverywhere(id, elements, points) {
			continue
		}
		t.Data = d
		n.Outputs = []graph.TensorID{graph.None}
		settled = append(settled, t)
	}
	live := make([]bool, len(g.Tensors))
	for _, t := range g.Outputs {
		live[t] = true
	}
	for i, t := range g.Tensors {
		live[i] = live[i] || listed[t.Name]
	}
	order, err := g.Topological()
	if err != nil {
		return nil // inference found the order, so there is one
	}
	keep := make([]bool, len(g.Nodes))
	for i := len(order) - 1; i >= 0; i-- {
		n := g.Nodes[order[i]]
		needed := n.Semantics.Random || bodies && len(n.Bodies()) > 0 || ops.Copies(n) && listed[g.Tensors[n.Inputs[0]].Name]
		for _, t := range n.Outputs {
			needed = needed || t >= 0 && live[t]
		}
		if keep[order[i]] = needed; needed {
			n.Reads(func(t graph.TensorID) { live[t] = true })
		}
	}
	nodes := g.Nodes[:0:0]
	for i, n := range g.Nodes {
		if keep[i] {
			nodes = append(nodes, n)
		}
	}
	g.Nodes = nodes
	dead := make([]bool, len(g.Tensors))
	for i, t := range g.Tensors {
		dead[i] = !live[i] && !t.Input && t.Maker >= 0 || t.Data != nil && !live[i] && !t.Input && !t.Output
	}
	for _, n := range g.Nodes {
		for _, t := range n.Outputs {
			if t >= 0 {
				dead[t] = false
			}
		}
	}
	for _, t := range settled {
		if live[slices.Index(g.Tensors, t)] {
			names = append(names, t.Name)
		}
	}
	g.DropTensors(func(t graph.TensorID) bool { return dead[t] })
	g.Link()
	return names
}
