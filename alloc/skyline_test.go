package alloc

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
)

// TestSkylineOnAnyCores: the attempts of a pair are judged in order, so the placement does
// not depend on the number of cores.
func TestSkylineOnAnyCores(t *testing.T) {
	p := tangled(3000)
	var want []int64
	for _, cores := range []int{1, 2, 4} {
		before := runtime.GOMAXPROCS(cores)
		v := solver{ctx: t.Context(), p: p, best: Result{LowerBound: p.MaxLoad()}}
		v.offer(GreedyByStart(p), "greedy-by-start")
		v.runSkyline(newSkylineSearch(p, prepare(p)), 31, never)
		runtime.GOMAXPROCS(before)
		if v.best.Strategy != "skyline" {
			t.Fatalf("%d cores: the skyline search found nothing better", cores)
		}
		if want == nil {
			want = v.best.Offsets
		}
		if !slices.Equal(v.best.Offsets, want) {
			t.Errorf("%d cores: another placement than with 1", cores)
		}
	}
}

// TestPackStops: an attempt ends when the context does, not only between two attempts.
func TestPackStops(t *testing.T) {
	p := tangled(100)
	s := prepare(p)
	l := newSkylineSearch(p, s)
	ctx, cancel := context.WithCancelCause(context.Background())
	m := l.next(0)
	if _, ok := l.packers[0].pack(m.weights, m.pressure, never, never, ctx.Done()); !ok {
		t.Fatal("an attempt without limits fails")
	}
	cancel(errors.New("enough"))
	if _, ok := l.packers[0].pack(m.weights, m.pressure, never, never, ctx.Done()); ok {
		t.Error("an attempt goes on after the context has ended")
	}
}

// TestCores: a core has the largest load, and so the bound, of the whole problem. The
// placement around it is valid, whatever the search of the core finds.
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
				t.Errorf("%s: the largest load of a core is %d, of the problem %d", g.name, got, want)
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
			t.Errorf("%s: arena %d replaced %d", g.name, v.best.Arena, first)
		}
	}
}

// TestCoresReachTheBound: a stack of long lifetimes around one busy step has short ones
// beside it. The stack is the core, and is packed without waste.
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
