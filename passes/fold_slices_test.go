package passes_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestFoldedProductsBesideSlices: GPT-2's scores are a product of three axes that reads the
// words' embedding as it lies, between Reshapes to a shape that is a constant beside slices.
// The source does not have it, and the plan needs neither folds nor slices given up.
func TestFoldedProductsBesideSlices(t *testing.T) {
	sweep.Only(t)
	f, err := onnx.Open(datafolder.Glob(t, "zoo", "gpt2-dyn.onnx")[0], onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := passes.Optimize(t.Context(), f.Model, passes.Options{
		Dims: map[string]int64{"batch": 1, "sequence": 128}, Effort: schedule.EffortFast,
		Fold: passes.FoldAny, Slices: passes.SlicesExact, ExtraPercent: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Plan; len(r.GivenUp) > 0 || p.Slices == nil || p.Folded == nil || len(p.Folded.Products) == 0 {
		t.Errorf("expected slices and a product that reads a constant as it lies, found %+v and %+v, without %v", p.Slices, p.Folded, r.GivenUp)
	}
}
