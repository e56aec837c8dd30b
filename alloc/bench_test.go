package alloc

import (
	"fmt"
	"testing"
)

func BenchmarkPlace(b *testing.B) {
	for _, g := range []struct {
		name string
		make func(int) Problem
	}{{"transformer", transformer}, {"long", longLived}, {"tangled", tangled}} {
		for _, n := range []int{1000, 10000, 100000} {
			if g.name == "tangled" && n > 10000 {
				continue // minutes: see place
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

// BenchmarkSolveInstances reports the arena of each instance of the folder dsa,
// and the lower bound that is proven: equal where the arena is optimal.
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
