package passes_test

import (
	"context"
	"errors"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/passes"
)

// tooHigh is a solver whose bounds are above its solutions.
type tooHigh struct{ bruteSolver }

func (s tooHigh) Solve(ctx context.Context, p *ilp.Program, opt ilp.Options) (ilp.Answer, error) {
	a, err := s.bruteSolver.Solve(ctx, p, opt)
	a.Bound++
	return a, err
}

// TestSolver: a solver confirms the order of a model, and is not believed if it lies.
func TestSolver(t *testing.T) {
	plain, err := passes.Optimize(t.Context(), twoBranches(t), passes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), twoBranches(t), passes.Options{Solver: bruteSolver{}})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.OrderSolver; s == nil || s.Status != ilp.Optimal || !s.Whole || s.Bound != r.Plan.Summary.PeakBytes || r.Plan.ClaimedBy() != "" {
		t.Errorf("expected a confirmation of %d bytes, found %+v", r.Plan.Summary.PeakBytes, s)
	}
	if r.Plan.Summary != plain.Plan.Summary {
		t.Errorf("with a solver %+v, without %+v", r.Plan.Summary, plain.Plan.Summary)
	}
	_, err = passes.Optimize(t.Context(), twoBranches(t), passes.Options{Solver: tooHigh{}})
	if wrong := (*ilp.WrongError)(nil); !errors.As(err, &wrong) {
		t.Errorf("expected a wrong answer, found %v", err)
	}
}

// TestSolverBesideRanges: beside ranges of dimensions, a solver works on the order of the
// largest lengths.
func TestSolverBesideRanges(t *testing.T) {
	plan := func(opt passes.Options) *passes.Result {
		b := graph.NewBuilder("two branches", 17)
		x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, 64), "n")
		b.Output(b.Node("Add", "y", b.Node("Relu", "left", x), b.Node("Exp", "right", b.Node("Tanh", "inner", x))))
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		opt.Ranges = map[string]string{"n": "1..3"}
		r, err := passes.Optimize(t.Context(), m, opt)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain, r := plan(passes.Options{}), plan(passes.Options{Solver: bruteSolver{}})
	if s := r.OrderSolver; s == nil || s.Status != ilp.Optimal || s.Bound != plain.Plan.Summary.PeakBytes || len(r.GivenUp) > 0 {
		t.Errorf("expected a confirmation of %d bytes, found %+v", plain.Plan.Summary.PeakBytes, s)
	}
	if r.Plan.Summary != plain.Plan.Summary {
		t.Errorf("with a solver %+v, without %+v", r.Plan.Summary, plain.Plan.Summary)
	}
}
