package passes

import (
	"context"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
)

// Folds are the names of the values of Fold.
var Folds = map[string]Fold{"exact": FoldExact, "off": FoldOff, "any": FoldAny}

// fold replaces nodes that read only constants by initializers with their results,
// where that makes the memory of the plan no larger. With FoldAny, products read their
// second operand as it lies.
func fold(ctx context.Context, s *State) error {
	if s.opt.Fold == FoldOff {
		return nil
	}
	f := &folder{
		rules: s.rules(), given: s.given, trained: s.step != nil, runtime: s.opt.Runtime, limit: s.opt.FoldLimit,
		plan:  func(m *graph.Model, most int64) (figures, error) { return s.totalWithin(ctx, m, most) },
		model: s.model,
	}
	all, err := f.foldable(f.model)
	if err != nil {
		return err
	}
	products := f.products(f.model, all)
	if len(all)+len(products) == 0 {
		return nil
	}
	before, now := figures{}, figures{}
	any := func() (*folder, error) { // what folds once the products were replaced
		t := *f
		var done []foldedProduct
		t.model, done = multiply(s.model, products, len(s.inference.Dims)+len(s.inference.Given) > 0)
		t.values, t.done = nil, &foldState{products: done, nodes: transposes(products)}
		_, err := s.infer(t.model)
		return &t, err
	}
	if s.opt.Fold == FoldAny && len(products) > 0 {
		if before, err = f.estimate(nil, math.MaxInt64); err != nil {
			return err
		}
		t, err := any()
		if err != nil {
			return err
		}
		if now, err = t.estimate(nil, before.total); err != nil || now.total > before.total {
			return err
		}
		f, products = t, nil
	}
	did, now, err := f.foldConstants(&before, now)
	if err != nil {
		return err
	}
	var hint *FoldHint
	if s.opt.Fold == FoldExact && len(products) > 0 {
		if hint, err = f.hintAny(before, now, products, any); err != nil {
			return err
		}
	}
	s.hint = hint
	if did != nil || f.done != nil {
		f.describe(did, before)
		s.folds = f.done
	}
	if f.model != s.model {
		s.Replace(f.model)
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
	return nil
}

// totalWithin plans a model that was made of the present one, or finds that its total is
// larger than most.
func (s *State) totalWithin(ctx context.Context, m *graph.Model, most int64) (figures, error) {
	x := s.search().quick()
	t, err := s.shared(ctx, m, x)
	if err != nil {
		return figures{}, err
	}
	return t.figures(ctx, most, x)
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
		Mode: mode, Nodes: s.folds.nodes, Tensors: []plan.FoldedTensor{},
		UnfoldedPeakBytes: s.folds.peak, UnfoldedTotalBytes: s.folds.total,
	}
	subgraphs, paths := map[string]int{}, pathsIn(s.model.Graph)
	for g, i := range bodies {
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
