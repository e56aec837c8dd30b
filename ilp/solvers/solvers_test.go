package solvers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/ilp"
)

// knapsack is a program whose optimum is known: at least 13 of weights 5, 4, 3 at costs 7, 5, 4.
func knapsack() *ilp.Program {
	p := &ilp.Program{Name: "knapsack"}
	row := ilp.Row{Name: "weight", Lower: 13, Upper: ilp.Unbounded}
	for i, c := range [][2]int64{{5, 7}, {4, 5}, {3, 4}} {
		p.Add(ilp.Column{Name: string(rune('a' + i)), Upper: 9, Integer: true, Objective: c[1]})
		row.Terms = append(row.Terms, ilp.Term{Column: i, Coefficient: c[0]})
	}
	p.Rows = []ilp.Row{row}
	return p
}

// here opens a solver, or skips the test where its library is not installed.
func here(t *testing.T, name string) ilp.Solver {
	t.Helper()
	s, err := Open(name)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSolve(t *testing.T) {
	for _, name := range Names {
		t.Run(name, func(t *testing.T) {
			s := here(t, name)
			for _, start := range [][]int64{nil, {0, 0, 9}} {
				r, err := ilp.Solve(t.Context(), s, knapsack(), ilp.Options{Start: start, Threads: 1})
				if err != nil || r.Status != ilp.Optimal || r.Value != 17 || r.Ended {
					t.Errorf("start %v: expected the optimum 17, found %+v, %v", start, r, err)
				}
			}
			sixteen := int64(16)
			r, err := ilp.Solve(t.Context(), s, knapsack(), ilp.Options{Bound: &sixteen})
			if err != nil || r.Value != 17 {
				t.Errorf("with a bound: expected 17, found %+v, %v", r, err)
			}
			none := knapsack()
			none.Rows[0].Lower = 200
			if r, err := ilp.Solve(t.Context(), s, none, ilp.Options{}); err != nil || r.Status != ilp.Infeasible {
				t.Errorf("expected no solution, found %+v, %v", r, err)
			}
			large := knapsack()
			large.Columns[0].Objective = 1 << 61
			if _, err := ilp.Solve(t.Context(), s, large, ilp.Options{}); err == nil {
				t.Error("expected an error for a number that is too large")
			}
		})
	}
}

// TestSolveEnds: a solver ends with the context, with the solution that it began with.
func TestSolveEnds(t *testing.T) {
	for _, name := range Names {
		t.Run(name, func(t *testing.T) {
			s := here(t, name)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r, err := ilp.Solve(ctx, s, knapsack(), ilp.Options{Start: []int64{0, 0, 9}})
			if err != nil || r.Values == nil {
				t.Errorf("expected the start, found %+v, %v", r, err)
			}
		})
	}
}

// TestSolvePacking places four buffers of which no two fit side by side into 12, but all do
// into 14.
func TestSolvePacking(t *testing.T) {
	s, ok := here(t, "cp-sat").(ilp.PackingSolver)
	if !ok {
		t.Fatal("expected a solver of packings")
	}
	p := &ilp.Packing{Most: 20, Rectangles: []ilp.Rectangle{
		{First: 0, Last: 3, Size: 5, Upper: 15, Align: 1},
		{First: 0, Last: 1, Size: 4, Upper: 16, Align: 4},
		{First: 1, Last: 4, Size: 4, Upper: 16, Align: 1},
		{First: 4, Last: 6, Size: 9, Upper: 11, Align: 1},
	}}
	r, err := ilp.SolvePacking(t.Context(), s, p, ilp.Options{Start: []int64{8, 4, 0, 4}})
	if err != nil || r.Status != ilp.Optimal || r.Value != 13 {
		t.Errorf("expected the optimum 13, found %+v, %v", r, err)
	}
}

func TestMissing(t *testing.T) {
	if _, err := Open("gurobi"); err == nil || !strings.Contains(err.Error(), `solver "gurobi": unknown: expected one of highs, cp-sat, scip`) {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "libhighs.so")
	if err := os.WriteFile(file, []byte("not a library"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + ".none"} {
		t.Setenv(placeOfHiGHS.variable, path)
		if _, err := placeOfHiGHS.open(nil); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "ONNXMEM_HIGHS") {
			t.Errorf("%s: %v", path, err)
		}
	}
	none := place{solver: "None", variable: "ONNXMEM_NONE", names: []string{"libonnxmemnone.so"}, command: "pip install none"}
	if _, err := none.open(nil); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "`pip install none`") && !errors.Is(err, errBuild) {
		t.Error(err)
	}
}
