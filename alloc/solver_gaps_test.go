package alloc

import (
	"os"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/ilp/solvers"
)

// TestSolverGaps prints what the solver ONNXMEM_SOLVER closes of the perfect packings that the
// search leaves open, with ONNXMEM_SOLVER_TIME (60s) for each row of the table in
// docs/results/solver-gaps.md.
func TestSolverGaps(t *testing.T) {
	name := os.Getenv("ONNXMEM_SOLVER")
	if name == "" {
		t.Skip("expected ONNXMEM_SOLVER=highs, cp-sat or scip: a measurement of minutes")
	}
	s, err := solvers.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	limit := time.Minute
	if text := os.Getenv("ONNXMEM_SOLVER_TIME"); text != "" {
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{60, 120, 200, 300, 500} {
		for _, kind := range kinds {
			p := perfect(0, n, kind.steps(n), kind.height, 0)
			before, err := Solve(t.Context(), p, Options{Effort: EffortFast})
			if err != nil {
				t.Fatal(err)
			}
			if before.Optimal {
				continue
			}
			after, err := Solve(t.Context(), p, Options{Effort: EffortFast, Solver: s, SolverTime: limit})
			if err != nil {
				t.Fatal(err)
			}
			x := after.Solver
			t.Logf("| perfect, %s, %d buffers | %d | %d | %d | %d | %.0f | %s |", kind.name, len(p.Buffers), before.LowerBound, before.Arena, after.Arena, x.Windows, x.Seconds, x.Why)
		}
	}
}
