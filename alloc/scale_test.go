package alloc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// layered makes the buffers of a network of wide layers: each layer of 64 makes
// tensors that the next one or two read, and one in eight that lives for up to a
// hundred layers (skip connections). Sizes are those of a pyramid: the product
// of a power of two and an odd number.
func layered(n int) Problem {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	p := Problem{Alignment: 64}
	for i := range n {
		layer := i / 64
		b := Buffer{Size: int64(2*r.IntN(5)+1) << (10 + layer/16%10), First: layer*8 + r.IntN(8)}
		b.Last = b.First + 1 + r.IntN(16)
		if r.IntN(8) == 0 {
			b.Last = b.First + 8*r.IntN(100)
		}
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// generators make large instances of a kind each.
var generators = []struct {
	name string
	make func(int) Problem
}{{"training", transformer}, {"long", longLived}, {"random", tangled}, {"layered", layered}}

func TestSolveLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds")
	}
	for _, g := range generators {
		p := g.make(100_000)
		r, err := Solve(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckSweep(r.Placement); err != nil {
			t.Errorf("%s: %v", g.name, err)
		}
		if gap := float64(r.Arena-r.LowerBound) / float64(r.LowerBound); gap > 0.01 {
			t.Errorf("%s: %.3f %% above the largest load, want at most 1 %%", g.name, 100*gap)
		}
	}
}

// A pair of runs is judged in order: how many cores there are does not show.
func TestSkylinesOnAnyCores(t *testing.T) {
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

// A run ends when it is told to, not only between two runs.
func TestLineEnds(t *testing.T) {
	p := tangled(100)
	s := prepare(p)
	l := newSkylineSearch(p, s)
	ctx, cancel := context.WithCancelCause(context.Background())
	m := l.next(0)
	if _, ok := l.packers[0].pack(m.weights, m.pressure, never, never, ctx.Done()); !ok {
		t.Fatal("a run with all the time there is fails")
	}
	cancel(errors.New("enough"))
	if _, ok := l.packers[0].pack(m.weights, m.pressure, never, never, ctx.Done()); ok {
		t.Error("a run goes on after its end")
	}
}

// Where the gaps between fixed buffers would take too long to search, best-fit
// builds on top of them.
func TestBestFitAboveFixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 20)
		a := GreedyBySize(p)
		for i := range p.Buffers {
			if rapid.IntRange(0, 3).Draw(t, "fixed") == 0 {
				off := a.Offsets[i]
				p.Buffers[i].Fixed = &off
			}
		}
		p.work = 1
		got := BestFit(p)
		if err := p.Check(got); err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
	})
}

// BenchmarkSolve is Solve at the default effort on instances from small to very
// large. MiB is all memory that it allocates, gap-% the distance from the
// largest load.
func BenchmarkSolve(b *testing.B) {
	for _, g := range generators {
		for _, n := range []int{1000, 10_000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("lifetimes=%s/n=%d", g.name, n), func(b *testing.B) {
				p := g.make(n)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for b.Loop() {
					r, err := Solve(b.Context(), p, Options{})
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(100*float64(r.Arena-r.LowerBound)/float64(r.LowerBound), "gap-%")
				}
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/(1<<20), "MiB")
			})
		}
	}
}
