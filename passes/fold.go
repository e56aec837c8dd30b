package passes

import (
	"cmp"
	"context"
	"fmt"
	"math"
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
	// FoldAny also lets a product read a constant as it lies instead of transposed,
	// which may change the last bit of the product in some runtimes.
	FoldAny
)

// Folds are the names of the values of Fold.
var Folds = map[string]Fold{"exact": FoldExact, "off": FoldOff, "any": FoldAny}

// foldState describes what the pass fold did.
type foldState struct {
	tensors  []foldedTensor
	products []foldedProduct
	nodes    int
	peak     int64 // of the best plan without folding that a fast search finds
	total    int64

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

// listed returns the names of the tensors that the plan lists as folded and of the results of
// products that it lists, and whether some of them may be in bodies. f may be nil.
func (f *foldState) listed() (names map[string]bool, bodies bool) {
	if f == nil {
		return nil, false
	}
	names = map[string]bool{}
	for _, t := range f.tensors {
		names[t.t.Name] = true
		bodies = bodies || t.at != ""
	}
	for _, p := range f.products {
		names[p.result] = true
		bodies = bodies || p.at != ""
	}
	return names, bodies
}

// foldedTensor is a new initializer.
type foldedTensor struct {
	g  *graph.Graph
	t  *graph.Tensor
	of string // the tensor of the model that it holds, if that has another name
	at string // the path of the graph, as in pathsIn: passes behind this one copy graphs
}

// fold replaces nodes that read only constants by initializers with their results,
// where that makes the memory of the plan no larger. With FoldAny, products read their
// second operand as it lies.
func fold(ctx context.Context, s *State) error {
	if s.opt.Fold == FoldOff {
		return nil
	}
	s.shapesOf = nil
	all, err := s.foldable(s.model)
	if err != nil {
		return err
	}
	products := s.products(s.model, all)
	if len(all)+len(products) == 0 {
		return nil
	}
	before, now := estimated{}, estimated{}
	read := s.model
	any := func() (*State, error) { // the state after the products were replaced
		t := s.copy()
		var done []foldedProduct
		t.model, done = s.multiply(read, products, len(s.inference.Dims)+len(s.inference.Given) > 0)
		t.foldValues, t.folds = nil, &foldState{products: done, nodes: transposes(products)}
		return t, infer(ctx, t)
	}
	if s.opt.Fold == FoldAny && len(products) > 0 {
		if before, err = s.estimate(ctx, nil, math.MaxInt64); err != nil {
			return err
		}
		t, err := any()
		if err != nil {
			return err
		}
		if now, err = t.estimate(ctx, nil, before.total); err != nil || now.total > before.total {
			return err
		}
		s.inference, s.foldValues, s.folds = t.inference, nil, t.folds
		s.Replace(t.model)
		products = nil
	}
	did, now, err := s.foldConstants(ctx, &before, now)
	if err != nil {
		return err
	}
	if did != nil || s.folds != nil {
		s.describe(did, before)
	}
	if s.folds != nil {
		graphs, paths := graphsIn(s.model.Graph), pathsIn(s.model.Graph)
		for i := range s.folds.products {
			s.folds.products[i].at = paths[graphs[s.folds.products[i].in].g]
		}
		for i := range s.folds.tensors {
			s.folds.tensors[i].at = paths[s.folds.tensors[i].g]
		}
	}
	if s.opt.Fold == FoldExact && len(products) > 0 {
		return s.hintAny(ctx, before, now, products, any)
	}
	return nil
}

// foldConstants replaces components by their results. It sets before, the figures of
// the model that was given, if it needs them, and returns the present ones. It returns
// nil if nothing changes.
func (s *State) foldConstants(ctx context.Context, before *estimated, now estimated) (*foldState, estimated, error) {
	all, err := s.foldable(s.model)
	if err != nil {
		return nil, now, err
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
		return nil, now, nil
	}
	if *before == (estimated{}) {
		if *before, err = s.estimate(ctx, nil, math.MaxInt64); err != nil {
			return nil, now, err
		}
	}
	if now == (estimated{}) {
		now = *before
	}
	chosen, now, err = s.chooseFolds(ctx, now, chosen, doubtful)
	if err != nil || len(chosen) == 0 {
		return nil, now, err
	}
	m, done, err := s.folded(chosen)
	if err != nil {
		return nil, now, err
	}
	s.Replace(m)
	return done, now, nil
}

// describe adds what was done to the description of the folding.
func (s *State) describe(done *foldState, before estimated) {
	if s.folds == nil {
		s.folds = &foldState{}
	}
	if done != nil {
		s.folds.tensors, s.folds.nodes = done.tensors, s.folds.nodes+done.nodes
	}
	s.folds.peak, s.folds.total = before.peak, before.total
}

// transposes counts the nodes that products no longer need.
func transposes(list []product) int {
	seen := map[*graph.Node]bool{}
	for _, p := range list {
		seen[p.transpose] = true
	}
	return len(seen)
}

// FoldHint says what FoldAny would save beyond FoldExact, if that is more than 5 %: an
// estimate by the fast searches.
type FoldHint struct {
	PeakBytes       int64    `json:"peak_bytes"` // with FoldAny
	TotalBytes      int64    `json:"total_bytes"`
	ExactPeakBytes  int64    `json:"exact_peak_bytes"`
	ExactTotalBytes int64    `json:"exact_total_bytes"`
	Tensors         []string `json:"tensors"` // constants that would be read as they lie, the largest first
}

// hintAny estimates what FoldAny would save. before is zero if nothing could be folded.
func (s *State) hintAny(ctx context.Context, before, now estimated, products []product, any func() (*State, error)) error {
	if now == (estimated{}) {
		var err error
		if now, err = s.estimate(ctx, nil, math.MaxInt64); err != nil {
			return err
		}
		before = now
	}
	t, err := any()
	if err != nil {
		return err
	}
	with, err := t.estimate(ctx, nil, math.MaxInt64)
	if err != nil {
		return err
	}
	if _, with, err = t.foldConstants(ctx, &before, with); err != nil {
		return err
	}
	if with.total*20 > now.total*19 && with.peak*20 > now.peak*19 || with.total > now.total {
		return nil
	}
	s.hint = &FoldHint{PeakBytes: with.peak, TotalBytes: with.total, ExactPeakBytes: now.peak, ExactTotalBytes: now.total}
	seen := map[*graph.Node]bool{}
	slices.SortStableFunc(products, func(a, b product) int { return cmp.Compare(b.weight.Bytes, a.weight.Bytes) })
	for _, p := range products {
		if !seen[p.transpose] {
			seen[p.transpose] = true
			s.hint.Tensors = append(s.hint.Tensors, p.weight.Name)
		}
	}
	return nil
}

// copy returns a state with the options and the model of s, for an estimate.
func (s *State) copy() *State {
	t := &State{opt: s.opt, given: s.given, model: s.model, step: s.step, calls: map[*graph.Call]*region{}, foldBudget: s.foldBudget, measured: s.measured, deadline: s.deadline}
	t.opt.Effort, t.opt.Progress, t.opt.Trace, t.opt.Limit, t.opt.Frontier, t.opt.Workspaces = schedule.EffortFast, nil, nil, nil, false, nil
	return t
}

// maxDoubtful limits the plans that the pass makes to decide about components that
// enlarge the resident pool.
const maxDoubtful = 4

// chooseFolds adds to the chosen components those of the doubtful ones that do not
// enlarge the total: all together, else each by itself, the largest first.
func (s *State) chooseFolds(ctx context.Context, now estimated, chosen, doubtful []int) ([]int, estimated, error) {
	try := func(more ...int) error {
		with := slices.Sorted(slices.Values(append(slices.Clone(chosen), more...)))
		e, err := s.estimate(ctx, with, now.total)
		if err == nil && e.total <= now.total {
			chosen, now = with, e
		}
		return err
	}
	if free := chosen; len(free) > 0 {
		chosen = nil
		if err := try(free...); err != nil {
			return nil, now, err
		}
	}
	if len(doubtful) == 0 {
		return chosen, now, nil
	}
	had := len(chosen)
	if err := try(doubtful...); err != nil || len(chosen) > had || len(doubtful) == 1 {
		return chosen, now, err
	}
	for _, i := range doubtful[:min(len(doubtful), maxDoubtful)] {
		if err := try(i); err != nil {
			return nil, now, err
		}
	}
	return chosen, now, nil
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
	dropGradients(&m, s.model)
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
// searches. A total above most may be a lower bound: where the peak alone leads to it,
// nothing is placed, which takes most of the time.
func (s *State) estimate(ctx context.Context, chosen []int, most int64) (estimated, error) {
	m, _, err := s.folded(chosen)
	if err != nil {
		return estimated{}, err
	}
	t := s.copy()
	t.model = m
	e, err := t.totalWithin(ctx, most)
	if err != nil {
		return estimated{}, fmt.Errorf("estimate of folded constants: %w", err)
	}
	return e, nil
}

// totalWithin plans the model of a state, or finds that its total is larger than most.
func (s *State) totalWithin(ctx context.Context, most int64) (estimated, error) {
	for _, run := range []func(context.Context, *State) error{infer, share, bodies} {
		if err := run(ctx, s); err != nil {
			return estimated{}, err
		}
	}
	r := s.main
	p := s.problem(r)
	if err := s.findOrders(ctx, r, p); err != nil {
		return estimated{}, err
	}
	buffers, err := r.chains(nil)
	if err != nil {
		return estimated{}, err
	}
	for i := range buffers {
		if buffers[i].resident {
			r.resident += buffers[i].bytes
		}
	}
	least := r.solved.Evaluation.Peak
	if s.opt.RuntimeOrder { // another order is chosen
		least = r.solved.Bound
	}
	if e := (estimated{least, least + r.constants()}); e.total > most {
		return e, nil
	}
	if err := s.arrange(ctx, r, p); err != nil {
		return estimated{}, err
	}
	if err := place(ctx, s); err != nil {
		return estimated{}, err
	}
	return estimated{r.loads.Peak, r.arena + r.constants()}, nil
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
	mode := "exact"
	if s.opt.Fold == FoldAny {
		mode = "any"
	}
	p.Folded = &plan.Folded{
		Mode: mode, Nodes: s.folds.nodes, Tensors: []plan.FoldedTensor{},
		UnfoldedPeakBytes: s.folds.peak, UnfoldedTotalBytes: s.folds.total,
	}
	subgraphs, paths := map[string]int{}, pathsIn(s.model.Graph)
	for g, i := range s.subgraphs {
		if path := paths[g]; path != "" {
			subgraphs[path] = i
		}
	}
	for _, f := range s.folds.tensors {
		t := plan.FoldedTensor{Tensor: f.t.Name, Of: f.of, Bytes: f.t.Bytes}
		if i, inner := subgraphs[f.at]; inner {
			t.Subgraph = &i
		}
		p.Folded.Tensors = append(p.Folded.Tensors, t)
	}
	for _, f := range s.folds.products {
		r := plan.FoldedProduct{Tensor: f.result, Transposed: f.transposed}
		if i, inner := subgraphs[f.at]; inner {
			r.Subgraph = &i
		}
		p.Folded.Products = append(p.Folded.Products, r)
	}
}
