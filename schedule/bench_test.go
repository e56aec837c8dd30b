package schedule

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/datafolder"
)

// BenchmarkSchedule shows how the search grows with the number of nodes. The heap figure is
// the largest heap of the process, including the problem and garbage.
func BenchmarkSchedule(b *testing.B) {
	for _, g := range synthetic {
		for _, n := range []int{1000, 3000, 10_000, 30_000, 100_000} {
			b.Run(fmt.Sprintf("graph=%s/nodes=%d", g.name, n), func(b *testing.B) {
				p := g.make(n)
				b.ReportAllocs()
				peak := watchHeap(b)
				var r *Result
				for b.Loop() {
					var err error
					if r, err = Solve(context.Background(), p, Options{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(peak())/(1<<20), "MiB-peak")
				b.ReportMetric(100*float64(r.Evaluation.Peak-r.Bound)/float64(r.Bound), "gap-%")
				b.ReportMetric(100*float64(r.ProgramPeak-r.Evaluation.Peak)/float64(r.ProgramPeak), "less-%")
				b.ReportMetric(float64(len(p.Nodes)*b.N)/b.Elapsed().Seconds(), "nodes/s")
			})
		}
	}
}

// watchHeap samples the size of the heap every millisecond. The function that it returns
// ends this and returns the largest size.
func watchHeap(b *testing.B) (peak func() uint64) {
	runtime.GC()
	ask, answer := make(chan bool), make(chan uint64)
	go func() {
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		most := uint64(0)
		for tick := time.Tick(time.Millisecond); ; {
			metrics.Read(heap)
			most = max(most, heap[0].Value.Uint64())
			select {
			case <-tick:
			case <-ask:
				answer <- most
				return
			}
		}
	}()
	stop := sync.OnceValue(func() uint64 {
		ask <- true
		return <-answer
	})
	b.Cleanup(func() { stop() })
	return stop
}

func BenchmarkStrategy(b *testing.B) {
	p := transformer(100_000)
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
	files := datafolder.Glob(b, "training", "*.json*")
	for _, path := range files {
		p := readFile(b, path)
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		b.Run("graph="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Solve(context.Background(), p, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
