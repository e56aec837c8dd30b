package passes

import (
	"cmp"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// foldConstants replaces components by their results. It sets before, the figures of
// the model that was given, if it needs them, and returns the present ones. It returns
// nil if nothing changes.
func (f *folder) foldConstants(before *figures, now figures) (*foldState, figures, error) {
	all, err := f.foldable(f.model)
	if err != nil {
		return nil, now, err
	}
	var chosen, doubtful []int
	for i, c := range all {
		if f.noViews && slices.ContainsFunc(c.results, func(x *fixed) bool { return x.prepared }) {
			continue // the copy would be as large as what is saved
		}
		if c.grows(f.round) <= 0 {
			chosen = append(chosen, i)
		} else if c.relevant(f.round) {
			doubtful = append(doubtful, i)
		}
	}
	if len(chosen)+len(doubtful) == 0 {
		return nil, now, nil
	}
	if *before == (figures{}) {
		if *before, err = f.estimate(nil, math.MaxInt64); err != nil {
			return nil, now, err
		}
	}
	if now == (figures{}) {
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
	f.model = m
	return done, now, nil
}

// describe adds what was done to the description of the folding.
func (f *folder) describe(done *foldState, before figures) {
	if f.done == nil {
		f.done = &foldState{}
	}
	if done != nil {
		f.done.tensors, f.done.nodes = done.tensors, f.done.nodes+done.nodes
	}
	f.done.peak, f.done.total = before.peak, before.total
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
func (f *folder) hintAny(before, now figures, products []product, any func() (*folder, error)) (*FoldHint, error) {
	if now == (figures{}) {
		var err error
		if now, err = f.estimate(nil, math.MaxInt64); err != nil {
			return nil, err
		}
		before = now
	}
	t, err := any()
	if err != nil {
		return nil, err
	}
	with, err := t.estimate(nil, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if _, with, err = t.foldConstants(&before, with); err != nil {
		return nil, err
	}
	if with.total*20 > now.total*19 && with.peak*20 > now.peak*19 || with.total > now.total {
		return nil, nil
	}
	hint := &FoldHint{PeakBytes: with.peak, TotalBytes: with.total, ExactPeakBytes: now.peak, ExactTotalBytes: now.total}
	seen := map[*graph.Node]bool{}
	slices.SortStableFunc(products, func(a, b product) int { return cmp.Compare(b.weight.Bytes, a.weight.Bytes) })
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
func (f *folder) chooseFolds(now figures, chosen, doubtful []int) ([]int, figures, error) {
	try := func(more ...int) error {
		with := slices.Sorted(slices.Values(append(slices.Clone(chosen), more...)))
		e, err := f.estimate(with, now.total)
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
func (f *folder) folded(chosen []int) (*graph.Model, *foldState, error) {
	m := *f.model
	m.Graph = m.Graph.Clone()
	all, err := f.foldable(&m)
	if err != nil {
		return nil, nil, err
	}
	from, err := f.foldable(f.model)
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
	dropGradients(&m, f.model)
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

// estimate plans a copy of the model with the chosen components folded, by the fast
// searches. A total above most may be a lower bound: where the peak alone leads to it,
// nothing is placed, which takes most of the time.
func (f *folder) estimate(chosen []int, most int64) (figures, error) {
	m, _, err := f.folded(chosen)
	if err != nil {
		return figures{}, err
	}
	return f.plan(m, most)
}
