package passes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/autodiff"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/schedule"
)

// BenchmarkOrder orders all graphs of the data set, with in-place results: traced
// training steps, the zoo, and our training steps of the zoo. It reports the peak
// of the file's order, the bound and the peak in bytes.
func BenchmarkOrder(b *testing.B) {
	bench := func(set, path string, problem func(b *testing.B) *schedule.Problem) {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		b.Run("set="+set+"/graph="+name, func(b *testing.B) {
			p := problem(b)
			b.ReportAllocs()
			b.ResetTimer()
			var r *schedule.Result
			for b.Loop() {
				var err error
				if r, err = schedule.Solve(context.Background(), p, schedule.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(p.Nodes)), "nodes")
			b.ReportMetric(float64(r.ProgramPeak), "B-program")
			b.ReportMetric(float64(r.Bound), "B-bound")
			b.ReportMetric(float64(r.Evaluation.Peak), "B-peak")
		})
	}
	for _, path := range datafolder.Glob(b, "training", "*.json*") {
		bench("traced", path, func(b *testing.B) *schedule.Problem {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			p, err := schedule.ReadProblem(f)
			if err != nil {
				b.Fatal(err)
			}
			return p
		})
	}
	zoo := datafolder.Glob(b, "zoo", "*.onnx")
	for _, path := range zoo {
		bench("zoo", path, func(b *testing.B) *schedule.Problem { return problemOf(b, path, nil) })
	}
	for _, path := range zoo {
		bench("zoo-train", path, func(b *testing.B) *schedule.Problem { return problemOf(b, path, &autodiff.Options{}) })
	}
}

// problemOf returns the bare problem that the pass order solves. It skips a model
// without a training step.
func problemOf(b testing.TB, path string, train *autodiff.Options) *schedule.Problem {
	s := stateBefore(b, path, train, "order")
	return s.now.Main.Problem()
}

// stateBefore returns the state that a pass finds for the model of a file.
func stateBefore(b testing.TB, path string, train *autodiff.Options, pass string) *State {
	f, err := onnx.Open(path, onnx.ReadOptions{AllowMissingWeights: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	s, err := newState(f.Model, Options{Train: train, Fold: FoldOff})
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range Default() {
		if p.Name == pass {
			break
		}
		if _, err := s.run(b.Context(), []Pass{p}); err != nil && p.Name == "train" {
			b.Skip(err)
		} else if err != nil {
			b.Fatal(err)
		}
	}
	return s
}
