package passes

import (
	"cmp"
	"context"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes/internal/folding"
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
	found, err := folding.Choose(ctx, folding.Task{
		Trial: *s.trial(), Rules: s.rules(), How: s.search(), Given: s.given,
		Trained: s.step != nil, Most: cmp.Or(s.opt.FoldLimit, DefaultFoldLimit), Products: s.opt.Fold == FoldAny,
	})
	if err != nil {
		return err
	}
	if s.folded = *found; found.Model != nil {
		s.Replace(found.Model)
	}
	return nil
}

// planFolded describes the folding in the plan.
func (s *State) planFolded(p *plan.Plan, bodies map[*graph.Graph]int) {
	if s.folded.Result == nil {
		return
	}
	mode := "exact"
	if s.opt.Fold == FoldAny {
		mode = "any"
	}
	p.Folded = &plan.Folded{
		Mode: mode, Nodes: s.folded.Result.Nodes, Tensors: []plan.FoldedTensor{},
		UnfoldedPeakBytes: s.folded.Result.Peak, UnfoldedTotalBytes: s.folded.Result.Total,
	}
	subgraphs, paths := map[string]int{}, folding.PathsIn(s.now.Model.Graph)
	for g, i := range bodies {
		if path := paths[g]; path != "" {
			subgraphs[path] = i
		}
	}
	for _, f := range s.folded.Result.Tensors {
		t := plan.FoldedTensor{Tensor: f.T.Name, Of: f.Of, Bytes: f.T.Bytes}
		if i, inner := subgraphs[f.At]; inner {
			t.Subgraph = &i
		}
		p.Folded.Tensors = append(p.Folded.Tensors, t)
	}
	for _, f := range s.folded.Result.Products {
		r := plan.FoldedProduct{Tensor: f.Result, Transposed: f.Transposed}
		if i, inner := subgraphs[f.At]; inner {
			r.Subgraph = &i
		}
		p.Folded.Products = append(p.Folded.Products, r)
	}
}
