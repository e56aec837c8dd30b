package passes

import (
	"cmp"
	"context"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/folding"
	"github.com/onnxmem/onnxmem/passes/internal/planner"
	"github.com/onnxmem/onnxmem/plan"
)

// Folds are the names of the values of Fold.
var Folds = map[string]Fold{"exact": FoldExact, "off": FoldOff, "any": FoldAny}

// DefaultFoldLimit is [Options].FoldLimit where it is 0: 1 GiB. The results are computed when
// the model is planned, verified and written, and make the file larger.
const DefaultFoldLimit = 1 << 30

// FoldHint says what FoldAny would save beyond FoldExact, if that is more than 5 %: an
// estimate by the fast searches.
type FoldHint struct {
	PeakBytes       int64    `json:"peak_bytes"` // with FoldAny
	TotalBytes      int64    `json:"total_bytes"`
	ExactPeakBytes  int64    `json:"exact_peak_bytes"`
	ExactTotalBytes int64    `json:"exact_total_bytes"`
	Tensors         []string `json:"tensors"` // constants that would be read as they lie, the largest first
}

// fold replaces nodes that read only constants by initializers with their results,
// where that makes the memory of the plan no larger. With FoldAny, products read their
// second operand as it lies.
func fold(ctx context.Context, s *State) error {
	if s.opt.Fold == FoldOff {
		return nil
	}
	f := &folding.Folder{
		Rules: s.rules(), Given: s.given, Trained: s.step != nil, Runtime: s.opt.Runtime, Limit: cmp.Or(s.opt.FoldLimit, DefaultFoldLimit),
		Plan:  func(m *graph.Model, most int64) (planner.Figures, error) { return s.totalWithin(ctx, m, most) },
		Model: s.model,
	}
	all, err := f.Foldable(f.Model)
	if err != nil {
		return err
	}
	products := f.Products(f.Model, all)
	if len(all)+len(products) == 0 {
		return nil
	}
	before, now := planner.Figures{}, planner.Figures{}
	any := func() (*folding.Folder, error) { // what folds once the products were replaced
		t := *f
		var done []folding.FoldedProduct
		t.Model, done = folding.Multiply(s.model, products, len(s.inference.Dims)+len(s.inference.Given) > 0)
		t.Values, t.Done = nil, &folding.Result{Products: done, Nodes: folding.Transposes(products)}
		_, err := s.infer(t.Model)
		return &t, err
	}
	if s.opt.Fold == FoldAny && len(products) > 0 {
		if before, err = f.Estimate(nil, math.MaxInt64); err != nil {
			return err
		}
		t, err := any()
		if err != nil {
			return err
		}
		if now, err = t.Estimate(nil, before.Total); err != nil || now.Total > before.Total {
			return err
		}
		f, products = t, nil
	}
	did, now, err := f.FoldConstants(&before, now)
	if err != nil {
		return err
	}
	var hint *folding.Saving
	if s.opt.Fold == FoldExact && len(products) > 0 {
		if hint, err = f.HintAny(before, now, products, any); err != nil {
			return err
		}
	}
	s.hint = (*FoldHint)(hint)
	if did != nil || f.Done != nil {
		f.Describe(did, before)
		s.folds = f.Done
	}
	if f.Model != s.model {
		s.Replace(f.Model)
	}
	if s.folds != nil {
		graphs, paths := folding.GraphsIn(s.model.Graph), folding.PathsIn(s.model.Graph)
		for i := range s.folds.Products {
			s.folds.Products[i].At = paths[graphs[s.folds.Products[i].In].G]
		}
		for i := range s.folds.Tensors {
			s.folds.Tensors[i].At = paths[s.folds.Tensors[i].G]
		}
	}
	return nil
}

// totalWithin plans a model that was made of the present one, or finds that its total is
// larger than most.
func (s *State) totalWithin(ctx context.Context, m *graph.Model, most int64) (planner.Figures, error) {
	x := s.search().Quick()
	t, err := s.shared(ctx, m, x)
	if err != nil {
		return planner.Figures{}, err
	}
	return t.Figures(ctx, most, x)
}

// planFolded describes the folding in the plan.
func (s *State) planFolded(p *plan.Plan, bodies map[*graph.Graph]int) {
	if s.folds == nil {
		return
	}
	mode := "exact"
	if s.opt.Fold == FoldAny {
		mode = "any"
	}
	p.Folded = &plan.Folded{
		Mode: mode, Nodes: s.folds.Nodes, Tensors: []plan.FoldedTensor{},
		UnfoldedPeakBytes: s.folds.Peak, UnfoldedTotalBytes: s.folds.Total,
	}
	subgraphs, paths := map[string]int{}, folding.PathsIn(s.model.Graph)
	for g, i := range bodies {
		if path := paths[g]; path != "" {
			subgraphs[path] = i
		}
	}
	for _, f := range s.folds.Tensors {
		t := plan.FoldedTensor{Tensor: f.T.Name, Of: f.Of, Bytes: f.T.Bytes}
		if i, inner := subgraphs[f.At]; inner {
			t.Subgraph = &i
		}
		p.Folded.Tensors = append(p.Folded.Tensors, t)
	}
	for _, f := range s.folds.Products {
		r := plan.FoldedProduct{Tensor: f.Result, Transposed: f.Transposed}
		if i, inner := subgraphs[f.At]; inner {
			r.Subgraph = &i
		}
		p.Folded.Products = append(p.Folded.Products, r)
	}
}
