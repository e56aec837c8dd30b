package passes

import (
	"context"
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/schedule"
)

// Fold says what may be computed from constants when the model is planned.
type Fold int

// The values of Fold.
const (
	// FoldExact computes what changes no bit of any result in any runtime.
	FoldExact Fold = iota
	// FoldOff computes nothing.
	FoldOff
)

// Folds are the names of the values of Fold.
var Folds = map[string]Fold{"exact": FoldExact, "off": FoldOff}

// foldState describes what the pass fold did.
type foldState struct {
	tensors []foldedTensor
	nodes   int
	peak    int64 // of the best plan without folding that a fast search finds
	total   int64

	views map[*graph.Node][]*graph.Node // of results, by the node that made them
	names map[string]bool               // of all tensors
}

// fresh returns a name that no tensor has.
func (f *foldState) fresh(name string) string {
	unique := name
	for k := 2; f.names[unique]; k++ {
		unique = fmt.Sprintf("%s.%d", name, k)
	}
	f.names[unique] = true
	return unique
}

// foldedTensor is a new initializer.
type foldedTensor struct {
	g  *graph.Graph
	t  *graph.Tensor
	of string // the tensor of the model that it holds, if that has another name
}

// fold replaces nodes that read only constants by initializers with their results,
// where that makes the memory of the plan no larger.
func fold(ctx context.Context, s *State) (err error) {
	if s.opt.Fold == FoldOff {
		return nil
	}
	all, err := s.foldable(s.model)
	if err != nil || len(all) == 0 {
		return err
	}
	var chosen, doubtful []int
	for i, c := range all {
		if s.opt.NoViews && slices.ContainsFunc(c.results, func(f *fixed) bool { return f.prepared }) {
			continue // the copy would be as large as what is saved
		}
		if c.grows(s.round) <= 0 {
			chosen = append(chosen, i)
		} else if c.relevant(s) {
			doubtful = append(doubtful, i)
		}
	}
	if len(chosen)+len(doubtful) == 0 {
		return nil
	}
	before, err := s.estimate(ctx, nil)
	if err != nil {
		return err
	}
	chosen, err = s.chooseFolds(ctx, before, chosen, doubtful)
	if err != nil || len(chosen) == 0 {
		return err
	}
	m, done, err := s.folded(chosen)
	if err != nil {
		return err
	}
	done.peak, done.total = before.peak, before.total
	s.folds = done
	s.Replace(m)
	return nil
}

// maxDoubtful limits the plans that the pass makes to decide about components that
// enlarge the resident pool.
const maxDoubtful = 4

// chooseFolds adds to the chosen components those of the doubtful ones that do not
// enlarge the total: all together, else each by itself, the largest first.
func (s *State) chooseFolds(ctx context.Context, before estimated, chosen, doubtful []int) ([]int, error) {
	if len(doubtful) == 0 {
		return chosen, nil
	}
	now := before
	try := func(more ...int) error {
		with := slices.Sorted(slices.Values(append(slices.Clone(chosen), more...)))
		e, err := s.estimate(ctx, with)
		if err == nil && e.total <= now.total {
			chosen, now = with, e
		}
		return err
	}
	if len(chosen) > 0 {
		if err := try(); err != nil {
			return nil, err
		}
	}
	had := len(chosen)
	if err := try(doubtful...); err != nil || len(chosen) > had {
		return chosen, err
	}
	if len(doubtful) == 1 {
		return chosen, nil
	}
	for _, i := range doubtful[:min(len(doubtful), maxDoubtful)] {
		if err := try(i); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// folded returns a copy of the model with the chosen components replaced by their
// results.
func (s *State) folded(chosen []int) (*graph.Model, *foldState, error) {
	m := *s.model
	m.Graph = m.Graph.Clone()
	all, err := s.foldable(&m)
	if err != nil {
		return nil, nil, err
	}
	from, err := s.foldable(s.model)
	if err != nil {
		return nil, nil, err
	}
	done := &foldState{views: map[*graph.Node][]*graph.Node{}, names: map[string]bool{}}
	noteNames(m.Graph, done.names)
	var applied []*component
	for _, i := range chosen {
		all[i].apply(from[i], done)
		applied = append(applied, all[i])
	}
	done.nodes = sweep(m.Graph, applied, done.views)
	return &m, done, nil
}

// noteNames collects the names of all tensors of a graph and its bodies.
func noteNames(g *graph.Graph, names map[string]bool) {
	for _, t := range g.Tensors {
		names[t.Name] = true
	}
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				noteNames(b, names)
			}
		}
	}
}

// estimated holds the figures of a plan.
type estimated struct{ peak, total int64 }

// estimate plans a copy of the model with the chosen components folded, by the fast
// searches.
func (s *State) estimate(ctx context.Context, chosen []int) (estimated, error) {
	m, _, err := s.folded(chosen)
	if err != nil {
		return estimated{}, err
	}
	t := &State{opt: s.opt, given: s.given, model: m, step: s.step, calls: map[*graph.Call]*region{}, deadline: s.deadline}
	t.opt.Effort, t.opt.Progress, t.opt.Trace, t.opt.Limit, t.opt.Frontier = schedule.EffortFast, nil, nil, nil, false
	for _, run := range []func(context.Context, *State) error{infer, share, bodies, order, place} {
		if err := run(ctx, t); err != nil {
			return estimated{}, fmt.Errorf("estimate of folded constants: %w", err)
		}
	}
	return estimated{t.main.loads.Peak, t.main.arena + t.main.constants()}, nil
}

// constants is the size of the resident pool: the constants of a region and of its
// bodies.
func (r *region) constants() int64 {
	n := r.resident
	for _, b := range r.bodies {
		n += b.r.constants()
	}
	return n
}

// planFolded describes the folding in the plan.
func (s *State) planFolded(p *plan.Plan) {
	if s.folds == nil {
		return
	}
	p.Folded = &plan.Folded{
		Mode: "exact", Nodes: s.folds.nodes, Tensors: []plan.FoldedTensor{},
		UnfoldedPeakBytes: s.folds.peak, UnfoldedTotalBytes: s.folds.total,
	}
	for _, f := range s.folds.tensors {
		t := plan.FoldedTensor{Tensor: f.t.Name, Of: f.of, Bytes: f.t.Bytes}
		if i, inner := s.subgraphs[f.g]; inner {
			t.Subgraph = &i
		}
		p.Folded.Tensors = append(p.Folded.Tensors, t)
	}
}
