package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/ablation"
	"github.com/onnxmem/onnxmem/internal/datafolder"
)

// ablationSets are the problems of the ablation.
var ablationSets = []struct {
	name, doc string
	make      func(b *testing.B) []*Problem
}{
	{"traced", "networks traced from PyTorch: inference and training steps", func(b *testing.B) []*Problem {
		return ablationFiles(b, datafolder.Path(b, "training"))
	}},
	{"zoo", "models of the zoo: inference and our own training steps, with in-place pairs", func(b *testing.B) []*Problem {
		return ablationFiles(b, *ablation.Problems)
	}},
	{"random", "random graphs of up to 15 and up to 60 nodes", func(b *testing.B) (all []*Problem) {
		for i := range 600 {
			most := []int{15, 15, 60}[i%3]
			all = append(all, withSibling(rand.New(rand.NewPCG(uint64(i), 31)), most))
		}
		return all
	}},
	{"synthetic", "synthetic networks of 1,000 to 10,000 nodes, and tangled graphs", func(b *testing.B) (all []*Problem) {
		for _, g := range synthetic {
			for _, n := range []int{1000, 3000, 10_000} {
				all = append(all, g.make(n))
			}
		}
		return all
	}},
	{"large", "synthetic networks of 30,000 and 100,000 nodes", func(b *testing.B) (all []*Problem) {
		for _, g := range synthetic {
			for _, n := range []int{30_000, 100_000} {
				all = append(all, g.make(n))
			}
		}
		return all
	}},
	{"hard", "networks that earlier searches left open, of 834 that were traced", func(b *testing.B) []*Problem {
		return ablationFiles(b, datafolder.Path(b, "open-orders"))
	}},
}

func ablationFiles(b *testing.B, dir string) (all []*Problem) {
	list, _ := filepath.Glob(filepath.Join(dir, "*.json*"))
	for _, path := range list {
		all = append(all, readFile(b, path))
	}
	return all
}

// ablationParts are the stages that can be left out: without the first order there is
// none, and a row that works through others is no more than those.
func ablationParts() (names []string) {
	for _, x := range stages {
		if !x.Always && !strings.HasSuffix(x.Cost, "its rows") {
			names = append(names, x.Name)
		}
	}
	return names
}

// BenchmarkAblation solves the problems of each set without each stage in turn.
func BenchmarkAblation(b *testing.B) {
	for _, x := range ablationSets {
		b.Run("set="+x.name, func(b *testing.B) {
			problems := x.make(b)
			set := ablation.Set{Title: fmt.Sprintf("Orders: %s", x.name), Doc: x.doc, Proofs: "proofs", Values: "peaks", Cases: len(problems)}
			ablation.Run(b, set, ablationParts(), func(b *testing.B, i int, without []string) (x ablation.Outcome) {
				r, err := Solve(context.Background(), problems[i], Options{without: without, work: &x.Work})
				if err != nil {
					b.Fatal(err)
				}
				x.Value, x.Found, x.Bound, x.Proven = r.Evaluation.Peak, true, r.Bound, r.Optimal
				x.Weak = len(r.Certificates) > 0 && r.Certificates[0].Kind == KindSearch
				return x
			})
		})
	}
}
