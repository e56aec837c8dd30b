package alloc

import (
	"testing"
)

// A core has the largest load, and so its bound; what is packed around it is a
// placement, whatever came of the core.
func TestCores(t *testing.T) {
	for _, g := range generators {
		p := g.make(3000)
		s := prepare(p)
		for _, share := range coreShares {
			core := Problem{Alignment: p.Alignment}
			for _, i := range s.core(share) {
				core.Buffers = append(core.Buffers, p.Buffers[i])
			}
			if got, want := core.MaxLoad(), p.MaxLoad(); got != want {
				t.Errorf("%s: a core's largest load is %d, want that of all, %d", g.name, got, want)
			}
		}
		v := solver{ctx: t.Context(), p: p, best: Result{LowerBound: p.MaxLoad()}}
		v.offer(GreedyByStart(p), "greedy-by-start")
		first := v.best.Arena
		v.packCores(s, 100, 3_000_000)
		if err := p.Check(v.best.Placement); err != nil {
			t.Errorf("%s: %v", g.name, err)
		}
		if v.best.Strategy == "skyline" && v.best.Arena >= first {
			t.Errorf("%s: arena %d took the place of %d", g.name, v.best.Arena, first)
		}
	}
}

// A tower of long lifetimes around one busy step, and short ones beside it: the
// tower is the core, packed without waste.
func TestCoresReachTheBound(t *testing.T) {
	var p Problem
	for i := range 60 {
		p.Buffers = append(p.Buffers, Buffer{Size: int64(1 + i*37%50), First: i * 31 % 100, Last: 100 + i*17%90})
	}
	for i := range 200 {
		p.Buffers = append(p.Buffers, Buffer{Size: int64(1 + i*13%20), First: i, Last: i + 1 + i%3})
	}
	v := solver{ctx: t.Context(), p: p, best: Result{LowerBound: p.MaxLoad()}}
	v.offer(GreedyByStart(p), "greedy-by-start")
	first := v.best.Arena
	v.packCores(prepare(p), 100, 3_000_000)
	if err := p.Check(v.best.Placement); err != nil {
		t.Fatal(err)
	}
	if first == v.best.LowerBound || !(v.best.Strategy == "skyline" && v.best.Arena == v.best.LowerBound) {
		t.Errorf("first %d, then %d by %s, bound %d", first, v.best.Arena, v.best.Strategy, v.best.LowerBound)
	}
}
