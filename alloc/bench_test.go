package alloc

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkPlace runs each strategy. gap-% is the distance from the largest load.
func BenchmarkPlace(b *testing.B) {
	for _, g := range []struct {
		name string
		make func(int) Problem
	}{{"transformer", transformer}, {"long", longLived}, {"tangled", tangled}} {
		for _, n := range []int{1000, 10000, 100000} {
			if g.name == "tangled" && n > 10000 {
				continue // it takes minutes: see firstFit
			}
			p := g.make(n)
			bound := p.MaxLoad()
			for _, s := range Strategies {
				if s.Name == "hill-climb" && n > 1000 {
					continue
				}
				b.Run(fmt.Sprintf("lifetimes=%s/buffers=%d/strategy=%s", g.name, n, s.Name), func(b *testing.B) {
					var a Placement
					for b.Loop() {
						a = s.Func(p)
					}
					b.ReportMetric(100*float64(a.Arena-bound)/float64(bound), "gap-%")
				})
			}
		}
	}
}

func BenchmarkCheckSweep(b *testing.B) {
	p := transformer(100000)
	a := GreedyBySize(p)
	for b.Loop() {
		if err := p.CheckSweep(a); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSolve runs Solve at the default effort on small to very large problems. MiB is
// the total of all allocations, gap-% the distance from the lower bound.
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

// BenchmarkSolveInstances reports the arena of each instance of the folder dsa and the
// proven lower bound. They are equal if the arena is optimal.
func BenchmarkSolveInstances(b *testing.B) {
	for _, x := range instances(b, 1<<17) {
		b.Run("instance="+x.name, func(b *testing.B) {
			var r Result
			for b.Loop() {
				var err error
				if r, err = Solve(b.Context(), x.problem, Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(x.problem.Buffers)), "buffers")
			b.ReportMetric(float64(r.Arena), "arena-B")
			b.ReportMetric(float64(r.LowerBound), "bound-B")
		})
	}
}
