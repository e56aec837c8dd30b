package limits

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/internal/mapped"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/passes/internal/slicing"
	"github.com/onnxmem/onnxmem/plan"
)

// slicer searches regions of the main graph to slice.
type slicer struct {
	s         *Task
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

// windowReach is the largest number of nodes of a window.
const windowReach = 120

// newSlicer orders a copy of the model. Values that depend on shapes alone are constants in
// it, since what is sliced has other shapes. earlier lists the slicers made so far, the first
// without copies. If it is not empty, cheap chains are copied for each reader (slicing.CopyChains,
// with shrink). The result is then nil unless that gives copies that earlier's last did not
// have.
func (s *Task) newSlicer(ctx context.Context, earlier []*slicer, shrink int64) (*slicer, error) {
	x := s.startSlicer()
	if len(earlier) > 0 {
		if err := x.prepare(earlier[0], shrink); err != nil || x.copies == nil && x.divided.Parts == nil {
			return nil, err
		}
		if last := earlier[len(earlier)-1]; last != earlier[0] && slices.Equal(last.copies, x.copies) {
			return nil, nil
		}
	}
	var err error
	if x.base, err = s.inOrder(ctx, x.base.Model, s.search().Quick()); err != nil {
		return nil, err
	}
	if x.time = x.base.Time; len(earlier) > 0 {
		x.time = earlier[0].time
	}
	p := x.program()
	if len(earlier) > 0 {
		p.Share(earlier[0].search.Program)
	}
	x.search = slicing.NewSearch(p, windowReach)
	return x, nil
}

// startSlicer returns a slicer of a copy of the model that has no order yet.
func (s *Task) startSlicer() *slicer {
	m := *s.Model
	m.Graph = s.Model.Graph.Clone()
	constants := settle(&m, s.Inference, s.Folds, s.elsewhere(s.Model))
	return &slicer{s: s, base: &planner.Trial{Model: &m}, constants: constants, divided: &slicing.Divided{}, models: map[string]*slicedModel{}}
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
func (s *Task) kept(r *planner.Region) map[string]bool {
	keep := map[string]bool{}
	maps.Copy(keep, r.Gradients)
	if s.Folds != nil {
		for _, t := range s.Folds.Tensors {
			keep[t.T.Name] = true
		}
	}
	return keep
}

// program describes the base in its order.
func (x *slicer) program() *slicing.Program {
	s, b, r := x.s, x.base, x.base.Main
	p := &slicing.Program{
		Model: b.Model, Inference: b.Inference, Of: r.StorageOf, Workspace: r.Workspace, Loads: r.Loads.Loads, Keep: s.kept(r), Align: s.Rules.Align, Sums: s.Permits.Sums,
		Cost: s.Costs.InSlices, Factors: s.Costs.Factors(b.Model.Graph),
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
	if b.Inference, err = x.s.Bind.Infer(b.Model); err != nil {
		return fmt.Errorf("slices: %w", err)
	}
	if x.copies, err = slicing.CopyChains(b.Model, peak, shrink); err != nil {
		return err
	}
	if x.copies != nil {
		if b.Inference, err = x.s.Bind.Infer(b.Model); err != nil {
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
	if x.s.Permits.Compact {
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
func (s *Task) inOrder(ctx context.Context, m *graph.Model, x *planner.Search) (*planner.Trial, error) {
	s.How.Log.Sliced += len(m.Graph.Nodes)
	t, err := s.Bind.Trial(ctx, m, s.Rules, x)
	if err == nil {
		err = t.Main.Order(ctx, x)
	}
	if err != nil {
		return nil, fmt.Errorf("slices: %w", err)
	}
	t.Time = s.Costs.Time(t.Main.G)
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
		m.weights = x.rowsOfSource(made.Model.Graph, made.Weights)
	}
	if m.calls == nil {
		return made.Model, nil
	}
	if _, err := x.s.Bind.Infer(made.Model); err != nil {
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

// size returns the number of nodes, about, of the model with regions in slices.
func (x *slicer) size(choices []*slicing.Pick) int {
	nodes := len(x.base.Main.G.Nodes)
	for _, c := range choices {
		nodes += (c.Slices - 1) * c.Nodes
	}
	return nodes
}

// slicedModel is a model in which regions run in slices.
type slicedModel struct {
	choices []*slicing.Choice
	weights []slicing.Weight
	rows    []slicing.Part // what slices make and take of tensors of the base
	calls   *slicing.Room  // of calls with nodes of slices; nil: there are none
	names   [][]string     // if there are: of each region, those to which functions refer
	from    *slicer
	size    int     // the number of nodes, about
	peak    int64   // by a fast search for the order
	bound   int64   // no order of the sliced graph has a smaller peak
	extra   float64 // share of the modelled time without slices
}

// outermost returns the model without what runs in slices inside of slices.
func (m *slicedModel) outermost() *slicedModel {
	for m.from.outer != nil {
		m = m.from.outer
	}
	return m
}

// regions returns the regions in the order of their numbers.
func (m *slicedModel) regions() []*slicing.Choice {
	if m.from.outer == nil {
		return m.choices
	}
	return slices.Concat(m.from.outer.regions(), m.choices)
}
