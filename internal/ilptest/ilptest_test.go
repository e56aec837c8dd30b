package ilptest

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/ilp"
)

// TestMinimum compares the search with all assignments of random programs.
func TestMinimum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	none := 0
	for i := range 300 {
		p := &ilp.Program{}
		for range 1 + r.IntN(4) {
			low := int64(r.IntN(4)) - 2
			p.Add(ilp.Column{Lower: low, Upper: low + int64(r.IntN(5)), Objective: int64(r.IntN(7)) - 3})
		}
		for range r.IntN(5) {
			row := ilp.Row{Lower: -ilp.Unbounded, Upper: ilp.Unbounded}
			for c := range p.Columns {
				if r.IntN(3) > 0 {
					row.Terms = append(row.Terms, ilp.Term{Column: c, Coefficient: int64(r.IntN(9)) - 4})
				}
			}
			if r.IntN(3) > 0 {
				row.Upper = int64(r.IntN(9)) - 4
			}
			if r.IntN(3) == 0 {
				row.Lower = min(row.Upper, 4) - int64(r.IntN(5))
			}
			p.Rows = append(p.Rows, row)
		}
		var want *int64
		x := make([]int64, len(p.Columns))
		var try func(c int)
		try = func(c int) {
			if c == len(x) {
				if v, err := p.Value(x); err == nil && (want == nil || v < *want) {
					want = &v
				}
				return
			}
			for x[c] = p.Columns[c].Lower; x[c] <= p.Columns[c].Upper; x[c]++ {
				try(c + 1)
			}
		}
		try(0)
		got, solution, done := Minimum(p, 1<<20)
		switch {
		case !done:
			t.Fatalf("program %d: gave up", i)
		case (solution == nil) != (want == nil):
			t.Fatalf("program %d: a solution %v, expected one: %v", i, solution, want != nil)
		case want == nil:
			none++
		default:
			if v, err := p.Value(solution); got != *want || v != got || err != nil {
				t.Fatalf("program %d: %d at %v (%d, %v), expected %d", i, got, solution, v, err, *want)
			}
		}
	}
	if none < 30 || none > 270 {
		t.Errorf("%d of 300 programs have no solution: expected some of both kinds", none)
	}
}
