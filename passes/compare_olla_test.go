package passes_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/ilp"
	"github.com/onnxmem/onnxmem/internal/ilptest"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// bruteSolver solves programs of some dozens of columns.
type bruteSolver struct{}

func (bruteSolver) Identity() (name, version string) { return "brute", "1.0" }

func (bruteSolver) Solve(_ context.Context, p *ilp.Program, _ ilp.Options) (ilp.Answer, error) {
	value, x, done := ilptest.Minimum(p, 1<<20)
	if !done || x == nil {
		return ilp.Answer{Status: ilp.Unknown, Bound: math.Inf(-1), Ended: true}, nil
	}
	a := ilp.Answer{Status: ilp.Optimal, Value: float64(value), Bound: float64(value)}
	for _, v := range x {
		a.Values = append(a.Values, float64(v))
	}
	return a, nil
}

// TestCompareOlla: the rows of OLLA's program have the optimum, or say why they are empty.
func TestCompareOlla(t *testing.T) {
	p, err := schedule.ReadProblem(strings.NewReader(`{"nodes": [{}, {}, {}, {}], "tensors": [
		{"bytes": 4, "producer": -1, "consumers": [0, 1]}, {"bytes": 8, "producer": 0, "consumers": [2]},
		{"bytes": 6, "producer": 1, "consumers": [3]}, {"bytes": 1, "producer": 2, "consumers": [3]}, {"bytes": 2, "producer": 3, "output": true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	table, err := passes.CompareProblem(t.Context(), p, passes.CompareOptions{Olla: []passes.OllaSolver{
		{Name: "brute", Solver: bruteSolver{}, Time: time.Minute}, {Name: "absent", Why: "not run: it is not there", Time: time.Second},
	}})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, r := range table.Rows {
		switch r.Strategy {
		case "olla (brute) 1m0s":
			if seen++; r.PeakBytes != table.OrderBound || r.SolverGap == nil || *r.SolverGap != 0 {
				t.Errorf("expected the peak %d and no gap, found %+v", table.OrderBound, r)
			}
		case "olla (absent) 1s":
			if seen++; r.Left != "not run: it is not there" {
				t.Errorf("%+v", r)
			}
		}
	}
	if seen != 2 {
		t.Errorf("expected two rows of OLLA, found %d", seen)
	}
}
