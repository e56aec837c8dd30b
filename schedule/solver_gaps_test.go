package schedule

import (
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/ilp/solvers"
)

// TestSolverGaps prints what the solver ONNXMEM_SOLVER closes of what the search leaves
// open, with ONNXMEM_SOLVER_TIME (60s) for each row of the table in docs/results/solver-gaps.md.
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
	problems := map[string]*Problem{}
	names := []string{}
	add := func(name string, p *Problem) { names, problems[name] = append(names, name), p }
	for _, n := range []int{80, 120, 200, 1000} {
		add(fmt.Sprintf("tangled, %d nodes", n), tangled(n))
	}
	files, _ := filepath.Glob(filepath.Join(os.Getenv("ONNXMEM_DATA"), "open-orders", "*.json.gz"))
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ReadProblem(r)
		if err != nil {
			t.Fatal(err)
		}
		add(strings.TrimSuffix(filepath.Base(file), ".json.gz"), p)
	}
	for _, name := range names {
		p := problems[name]
		for _, effort := range []Effort{EffortFast, EffortDefault} {
			before, err := Solve(t.Context(), p, Options{Effort: effort})
			if err != nil {
				t.Fatal(err)
			}
			if before.Optimal {
				break // more effort has less to leave
			}
			after, err := Solve(t.Context(), p, Options{Effort: effort, Solver: s, SolverTime: limit})
			if err != nil {
				t.Fatal(err)
			}
			x := after.Solver
			gap := func(r *Result) float64 {
				return 100 * float64(r.Evaluation.Peak-r.Bound) / float64(r.Evaluation.Peak)
			}
			t.Logf("| %s | %s | %d | %d | %.2f %% | %d | %d | %.2f %% | %d | %d | %d | %.0f | %s |", name, [...]string{"default", "fast", "max"}[effort],
				before.Bound, before.Evaluation.Peak, gap(before), after.Bound, after.Evaluation.Peak, gap(after), x.Programs, x.Windows, x.Columns, x.Seconds, x.Why)
		}
	}
}
