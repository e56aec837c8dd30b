package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// Small tensors without bytes take from each load what is live of them, which is
// no more than all of them together.
func TestCoarseLoads(t *testing.T) {
	seen := 0
	for i := range randomGraphs(t, 2000) {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		g := indexed.NewProblem(index(randomProblem(r, 15)))
		total := r.Int64N(200)
		h := reduce.Coarse(g, total)
		if h == nil {
			continue
		}
		seen++
		s := newSolver(t.Context(), EffortDefault.budgets())
		for _, order := range [3][]int32{g.Listing(), s.lists.Forward(g, g.Listing(), indexed.Infinite, listsched.ByRise), s.lists.Backward(g, g.Listing(), 0, listsched.ByRise)} {
			fine, coarse := g.Loads(order, nil), h.Loads(order, nil)
			for step := range fine {
				if less := fine[step] - coarse[step]; less < 0 || less > total {
					t.Fatalf("graph %d: step %d of %v: load %d, coarse %d; want at most %d less", i, step, order, fine[step], coarse[step], total)
				}
			}
		}
	}
	t.Logf("%d graphs with small tensors", seen)
}

// The smallest sizes that together stay below a total lose their bytes; a size
// is never split.
func TestCoarseThreshold(t *testing.T) {
	g := indexed.NewProblem(index(parse(t, "x:1; a:1=A(x); b:5=B(a); c:5=C(b); d:9=D(c); out d")))
	for _, c := range []struct{ total, least int64 }{{1, 0}, {2, 5}, {6, 5}, {11, 5}, {12, 9}, {20, 9}} {
		if got := reduce.Threshold(g, c.total); got != c.least {
			t.Errorf("sizes %v, total %d: got %d, want %d", g.Size, c.total, got, c.least)
		}
	}
	if got := reduce.OfSmallest(g); got != 2 {
		t.Errorf("sizes %v: the smallest take %d, want 2", g.Size, got)
	}
}

// The shapes that a network computes beside its large tensors keep its nodes
// apart: without their bytes they merge.
func TestCoarseContracts(t *testing.T) {
	g := indexed.NewProblem(index(parse(t, `x:900; a:900=Conv(x); s:4=Shape(a); u:4=Gather(s); v:4=Sub(u); w:4=Concat(u, v);
		b:900=Pad(a, w); c:900=Conv(b); d:900>c=Relu(c); y:4=Shape(c); z:4=Gather(y); e:900=Slice(d, z, v); out e`)))
	fine, coarse := reduce.Contract(g, reduce.Without{}, meter.New(nil)), reduce.Contract(reduce.Coarse(g, 100), reduce.Without{}, meter.New(nil))
	if coarse.Problem.Nodes >= fine.Problem.Nodes {
		t.Errorf("contracted to %d nodes, coarse to %d", fine.Problem.Nodes, coarse.Problem.Nodes)
	}
}
