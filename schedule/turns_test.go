package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// What turns learns from single cuts, the set proves: of a node and some that are
// comparable with it neither way, whichever run first, or last. It proves no more
// than there is.
func TestSetsProveTurns(t *testing.T) {
	raised := 0
	for i := range randomGraphs(t, 1000) {
		r := rand.New(rand.NewPCG(uint64(i), 30))
		p := randomProblem(r, 12)
		g := indexed.NewProblem(index(p))
		best := newBrute(p, true).optimum()
		c := bounds.NewCutter(meter.New(nil))
		for v := range int32(g.Nodes) {
			alone := c.Node(g, v).Value
			var set []int32
			for w := range int32(g.Nodes) {
				if w != v && c.Marks[w] == bounds.Free && r.IntN(2) == 0 {
					set = append(set, w)
				}
			}
			if len(set) == 0 {
				continue
			}
			for _, hold := range [2]bool{false, true} {
				cuts := c.Against(g, v, set, hold)
				for _, w := range set {
					cuts = min(cuts, c.Against(g, w, []int32{v}, hold))
				}
				all := append([]int32{v}, set...)
				bound := c.First(g, all, -1, indexed.Infinite).Value
				if hold {
					bound = c.Last(g, all, -1, indexed.Infinite).Value
				}
				if bound < cuts || bound > best {
					t.Fatalf("graph %d: node %d against %v, held %v: the set proves %d, the cuts %d, optimum %d", i, v, set, hold, bound, cuts, best)
				}
				if bound > alone {
					raised++
				}
			}
		}
	}
	t.Logf("%d bounds are above that of the node alone", raised)
}

// A weight's gradient has no room while the activations live; its inputs wait for it,
// and the bound of the node at the peak counts them.
func TestTurnOfAWeight(t *testing.T) {
	p := parse(t, `x:1; c:40=C(x); a:20=A(c); b:4=B(a); d:4=D(b); w:50=G(b, d); u:1=U(w); e:20=E(d, a); f:1=F(e, c); out u; out f`)
	s := newSolver(t.Context(), EffortDefault.budgets())
	g := indexed.NewProblem(index(p))
	gap := s.open(g, 0)
	gap.see([]int32{0, 1, 2, 3, 6, 7, 4, 5})
	gap.ask(6)
	alone := gap.bound
	if gap.conflicts(); alone != 85 || gap.bound != 88 || gap.best.peak != 88 {
		t.Errorf("bound of the node %d, with what waits %d, peak %d; want 85, 88, 88", alone, gap.bound, gap.best.peak)
	}
	proof := gap.proof
	proof.Value = gap.bound
	if proof.Kind == KindSearch {
		t.Errorf("%v: want a set that proves it", proof)
	}
	checkCertificate(t, p, Certificate(proof))
}
