package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Each stage is one of several ways to the optimum: with any one left out it is
// found all the same, and proven but without the climb, by searches of the whole
// net.
func TestAblation(t *testing.T) {
	for i := range randomGraphs(t, 500) {
		r := rand.New(rand.NewPCG(uint64(i), 10))
		p := randomProblem(r, 13)
		g := indexed.NewProblem(flatten(p))
		best := newBrute(p, true).optimum()
		for off := merging; off < allStages; off <<= 1 {
			s := newSearch(t.Context(), EffortDefault.limits())
			s.off = off
			if got := s.optimize(g); got.best.peak != best || got.bound > best || got.bound < best && off != climbing {
				t.Errorf("graph %d without stage %b: peak %d, bound %d, optimum %d", i, off, got.best.peak, got.bound, best)
			}
		}
	}
}
