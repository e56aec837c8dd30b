package schedule

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func BenchmarkSolve(b *testing.B) {
	for _, n := range []int{1000, 3000, 10000, 30000, 100000} {
		for _, g := range []struct {
			name string
			make func(int) *Problem
		}{{"layered", layered}, {"transformer", transformer}, {"recurrent", recurrent}} {
			p := g.make(n)
			b.Run(fmt.Sprintf("graph=%s/nodes=%d", g.name, n), func(b *testing.B) {
				b.ReportAllocs()
				var r *Result
				for b.Loop() {
					var err error
					if r, err = Solve(p, Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(100*float64(r.Evaluation.Peak-r.Bound)/float64(r.Bound), "gap-%")
				b.ReportMetric(100*float64(r.ProgramPeak-r.Evaluation.Peak)/float64(r.ProgramPeak), "less-%")
				b.ReportMetric(float64(len(p.Nodes)*b.N)/b.Elapsed().Seconds(), "nodes/s")
			})
		}
	}
}

func BenchmarkStrategy(b *testing.B) {
	p := transformer(100000)
	for _, s := range Strategies {
		b.Run(fmt.Sprintf("name=%s/graph=transformer/nodes=%d", s.Name, len(p.Nodes)), func(b *testing.B) {
			for b.Loop() {
				s.Func(p)
			}
		})
	}
}

// BenchmarkTraining solves the 52 graphs of the data set, one after another.
func BenchmarkTraining(b *testing.B) {
	files, _ := filepath.Glob(filepath.Join(dataDir(b, "training"), "*.json*"))
	for _, path := range files {
		p := readFile(b, path)
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		b.Run("graph="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Solve(p, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
