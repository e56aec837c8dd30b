package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Each stage is one of several ways to the optimum: with any one left out it is found
// all the same, and proven unless that stage is one of those that search exactly.
func TestAblation(t *testing.T) {
	needed := map[string]bool{"listing": true, "least rise": true, "open": true, "full": true, "direct": true}
	for i := range randomGraphs(t, 500) {
		r := rand.New(rand.NewPCG(uint64(i), 10))
		p := randomProblem(r, 13)
		g := indexed.NewProblem(index(p))
		best := newBrute(p, true).optimum()
		for _, x := range stages {
			if needed[x.Name] {
				continue
			}
			s := newSolver(t.Context(), EffortDefault.budgets())
			s.without = map[string]bool{x.Name: true}
			if got := s.optimize(g); got.best.peak != best || got.bound != best {
				t.Errorf("graph %d without %s: peak %d, bound %d, optimum %d", i, x.Name, got.best.peak, got.bound, best)
			}
		}
	}
}

// Every row has a name of its own, and says what it costs and why it is there.
func TestStagesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range stages {
		if x.Name == "" || seen[x.Name] {
			t.Errorf("%q: not a name of its own", x.Name)
		}
		seen[x.Name] = true
		if x.Why == "" || x.On != rules && (x.Cost == "" || x.Run == nil) {
			t.Errorf("%s: no reason, cost or function", x.Name)
		}
	}
}
