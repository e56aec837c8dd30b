package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every effort gives a valid order and a bound below the optimum, the same each
// time, and no smaller effort a better one.
func TestEfforts(t *testing.T) {
	proven := map[Effort]int{}
	for i := range randomGraphs(t, 300) {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		p := randomProblem(r, 13)
		best := newBrute(p, true).optimum()
		for _, effort := range []Effort{EffortFast, EffortDefault, EffortMax} {
			got, err := Solve(p, Options{Effort: effort})
			if err != nil {
				t.Fatal(err)
			}
			if got.Bound > best || got.Evaluation.Peak < best || got.Optimal != (got.Bound == got.Evaluation.Peak) {
				t.Fatalf("graph %d: effort %d: bound %d, optimum %d, peak %d, optimal %v", i, effort, got.Bound, best, got.Evaluation.Peak, got.Optimal)
			}
			if e, err := p.Evaluate(got.Order); err != nil || e.Peak != got.Evaluation.Peak {
				t.Fatalf("graph %d: effort %d: an order of peak %d, %v; want %d", i, effort, e.Peak, err, got.Evaluation.Peak)
			}
			again, _ := Solve(p, Options{Effort: effort})
			if d := cmp.Diff(got, again); d != "" {
				t.Fatalf("graph %d: effort %d: first - second +:\n%s", i, effort, d)
			}
			if got.Optimal {
				proven[effort]++
			}
		}
	}
	if proven[EffortFast] > proven[EffortDefault] || proven[EffortDefault] > proven[EffortMax] {
		t.Errorf("proven at each effort: %v", proven)
	}
	t.Logf("proven at each effort: %v", proven)
}
