package folding

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
)

// FoldConstants replaces components by their results. It sets before, the figures of
// the model that was given, if it needs them, and returns the present ones. It returns
// nil if nothing changes.
func (f *Folder) FoldConstants(before *planner.Figures, now planner.Figures) (*Result, planner.Figures, error) {
	all, err := f.Foldable(f.Model)
	if err != nil {
		return nil, now, err
	}
	var chosen, doubtful []int
	for i, c := range all {
		if f.NoViews && slices.ContainsFunc(c.results, func(x *fixed) bool { return x.prepared }) {
			continue // the copy would be as large as what is saved
		}
		if c.grows(f.Round) <= 0 {
			chosen = append(chosen, i)
		} else if c.relevant(f.Round) {
			doubtful = append(doubtful, i)
		}
	}
	if len(chosen)+len(doubtful) == 0 {
		return nil, now, nil
	}
	if *before == (planner.Figures{}) {
		if *before, err = f.Estimate(nil, math.MaxInt64); err != nil {
			return nil, now, err
		}
	}
	if now == (planner.Figures{}) {
		now = *before
	}
	chosen, now, err = f.chooseFolds(now, chosen, doubtful)
	if err != nil || len(chosen) == 0 {
		return nil, now, err
	}
	m, done, err := f.folded(chosen)
	if err != nil {
		return nil, now, err
	}
	f.Model = m
	return done, now, nil
}

// Describe adds what was done to the description of the folding.
func (f *Folder) Describe(done *Result, before planner.Figures) {
	if f.Done == nil {
		f.Done = &Result{}
	}
	if done != nil {
		f.Done.Tensors, f.Done.Nodes = done.Tensors, f.Done.Nodes+done.Nodes
	}
	f.Done.Peak, f.Done.Total = before.Peak, before.Total
}

// Transposes counts the nodes that products no longer need.
func Transposes(list []Product) int {
	seen := map[*graph.Node]bool{}
	for _, p := range list {
		seen[p.transpose] = true
	}
	return len(seen)
}

// Saving is what a choice to fold more would save; see FoldHint.
type Saving struct {
	PeakBytes       int64
	TotalBytes      int64
	ExactPeakBytes  int64
	ExactTotalBytes int64
	Tensors         []string
}

// HintAny estimates what FoldAny would save. before is zero if nothing could be folded.
func (f *Folder) HintAny(before, now planner.Figures, products []Product, any func() (*Folder, error)) (*Saving, error) {
	if now == (planner.Figures{}) {
		var err error
		if now, err = f.Estimate(nil, math.MaxInt64); err != nil {
			return nil, err
		}
		before = now
	}
	t, err := any()
	if err != nil {
		return nil, err
	}
	with, err := t.Estimate(nil, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if _, with, err = t.FoldConstants(&before, with); err != nil {
		return nil, err
	}
	if with.Total*20 > now.Total*19 && with.Peak*20 > now.Peak*19 || with.Total > now.Total {
		return nil, nil
	}
	hint := &Saving{PeakBytes: with.Peak, TotalBytes: with.Total, ExactPeakBytes: now.Peak, ExactTotalBytes: now.Total}
	seen := map[*graph.Node]bool{}
	slices.SortStableFunc(products, func(a, b Product) int { return cmp.Compare(b.weight.Bytes, a.weight.Bytes) })
	for _, p := range products {
		if !seen[p.transpose] {
			seen[p.transpose] = true
			hint.Tensors = append(hint.Tensors, p.weight.Name)
		}
	}
	return hint, nil
}

// maxDoubtful limits the plans that the pass makes to decide about components that
// enlarge the resident pool.
const maxDoubtful = 4

// chooseFolds adds to the chosen components those of the doubtful ones that do not
// enlarge the total: all together, else each by itself, the largest first.
func (f *Folder) chooseFolds(now planner.Figures, chosen, doubtful []int) ([]int, planner.Figures, error) {
	try := func(more ...int) error {
		with := slices.Sorted(slices.Values(append(slices.Clone(chosen), more...)))
		e, err := f.Estimate(with, now.Total)
		if err == nil && e.Total <= now.Total {
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
func (f *Folder) folded(chosen []int) (*graph.Model, *Result, error) {
	m := *f.Model
	m.Graph = m.Graph.Clone()
	all, err := f.Foldable(&m)
	if err != nil {
		return nil, nil, err
	}
	from, err := f.Foldable(f.Model)
	if err != nil {
		return nil, nil, err
	}
	done := &Result{views: map[*graph.Node][]*graph.Node{}, names: map[string]bool{}}
	noteNames(m.Graph, done.names)
	var applied []*Component
	for _, i := range chosen {
		all[i].apply(from[i], done)
		applied = append(applied, all[i])
	}
	done.Nodes = sweep(m.Graph, applied, done.views)
	planner.DropGradients(&m, f.Model)
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

// Estimate plans a copy of the model with the chosen components folded, by the fast
// searches. A total above most may be a lower bound: where the peak alone leads to it,
// nothing is placed, which takes most of the time.
func (f *Folder) Estimate(chosen []int, most int64) (planner.Figures, error) {
	m, _, err := f.folded(chosen)
	if err != nil {
		return planner.Figures{}, err
	}
	return f.Plan(m, most)
}
