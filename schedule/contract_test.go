package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// The contraction leaves the optimum as it is, and an order of the contracted
// net expands to one of the same peak, or of the floor.
func TestContractionKeepsTheOptimum(t *testing.T) {
	before, after, pairs := 0, 0, 0
	for i := range randomGraphs(t, 3000) {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		p := withSibling(r, 15)
		f := index(p)
		g := indexed.NewProblem(f)
		if g.Idle > 0 {
			continue
		}
		best := newBrute(p, true).optimum()
		c := reduce.Contract(g, reduce.Without{}, meter.New(nil))
		before, after, pairs = before+g.Nodes, after+c.Problem.Nodes, pairs+len(c.Problem.Savings)
		s := newSolver(t.Context(), EffortDefault.budgets())
		gap := s.open(c.Problem, 0)
		gap.run(cheap)
		for gap.best.peak > gap.bound && gap.decide(max(gap.bound, gap.best.peak-1), 100_000) {
		}
		if got := max(gap.best.peak, c.Floor); got != best || gap.bound != gap.best.peak {
			t.Errorf("graph %d: %d nodes contracted to %d: optimum %d, proven %d, floor %d; want %d", i, g.Nodes, c.Problem.Nodes, gap.best.peak, gap.bound, c.Floor, best)
		}
		now := reduce.Contract(g, reduce.Without{Delaying: true}, meter.New(nil))
		for _, order := range [2][]int32{g.Listing(), s.lists.Forward(g, g.Listing(), best, listsched.ByPlace)} {
			before, _ := indexed.Peak(g.Loads(order, nil))
			if after, _ := indexed.Peak(now.Problem.Loads(now.Reduce(order), nil)); after > before {
				t.Errorf("graph %d: an order of peak %d has %d contracted", i, before, after)
			}
		}
		order := c.Expand(gap.best.order)
		if e, err := p.Evaluate(order); err != nil || e.Peak != best {
			t.Errorf("graph %d: expanded to %v of peak %d, %v; want %d", i, order, e.Peak, err, best)
		}
	}
	t.Logf("%d nodes contracted to %d, %d of them with savings", before, after, pairs)
}

// The two comparisons of a clip's mask become one node with what joins them, which
// leaves the gradient's steps one chain.
func TestContractionOfMasks(t *testing.T) {
	g := indexed.NewProblem(index(parse(t, `x:9; y:8=Clip(x); z:8=Conv(y); d:8=Loss(z);
		w:20=ConvGrad(y, d); v:4=Sub(w); l:2=Less(y); g:2=Greater(y); m:2>l>g=And(l, g); e:8>d=Where(m, d); out v; out e`)))
	c := reduce.Contract(g, reduce.Without{}, meter.New(nil))
	for _, v := range []int32{5, 6, 7} {
		if i := slices.IndexFunc(c.Run, func(run []int32) bool { return slices.Contains(run, v) }); len(c.Run[i]) != 3 {
			t.Errorf("node %d stands in a run of %v; want the mask's three nodes", v, c.Run[i])
		}
	}
}
