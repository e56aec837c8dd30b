package alloc

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/ablation"
)

// ablationSets are the problems of the ablation, and the effort that goes into them.
var ablationSets = []struct {
	name, doc string
	opt       Options
	make      func(b *testing.B) []Problem
}{
	{"zoo", "plans of the zoo: inference and our own training steps", Options{Short: true}, func(b *testing.B) (all []Problem) {
		list, _ := filepath.Glob(filepath.Join(*ablation.Problems, "*.csv"))
		for _, path := range list {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			p, err := ReadCSV(f)
			if f.Close(); err != nil {
				b.Fatal(err)
			}
			all = append(all, p)
		}
		return all
	}},
	{"instances", "instances of papers and compilers, of up to 20,000 buffers", Options{Short: true}, func(b *testing.B) []Problem {
		return ablationInstances(b, 20_000)
	}},
	{"instances, fast", "instances of papers and compilers, of up to 65,000 buffers, at fast effort", Options{Effort: EffortFast}, func(b *testing.B) []Problem {
		return ablationInstances(b, 65_000)
	}},
	{"gaps", "random problems of up to 500 buffers, about a third of them with gaps", Options{Short: true}, func(*testing.B) (all []Problem) {
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 42))
			n := 100 + r.IntN(400)
			p := Problem{Buffers: make([]Buffer, n)}
			for i := range p.Buffers {
				first := r.IntN(n)
				p.Buffers[i] = Buffer{Size: int64(1 + r.IntN(1000)), First: first, Last: first + r.IntN(n/4)}
			}
			withGaps(r, p.Buffers)
			all = append(all, p)
		}
		return all
	}},
	{"tight", "random problems without a byte to spare, of 24 and 48 buffers, a third of them with gaps", Options{Short: true}, func(*testing.B) (all []Problem) {
		for seed := range uint64(30) {
			p := tight(seed, []int{24, 24, 48}[seed/10])
			if seed%3 == 2 {
				withGaps(rand.New(rand.NewPCG(seed, 41)), p.Buffers)
			}
			all = append(all, p)
		}
		return all
	}},
}

func ablationInstances(b *testing.B, n int) (all []Problem) {
	for _, x := range instances(b, n) {
		all = append(all, x.problem)
	}
	return all
}

// withGaps gives every third buffer of three steps or more a gap in which half of its
// bytes are free.
func withGaps(r *rand.Rand, buffers []Buffer) {
	for i := range buffers {
		if b := &buffers[i]; b.Last-b.First >= 2 && r.IntN(3) == 0 {
			b.Gaps = []Gap{{First: b.First + 1, Last: b.Last - 1, From: 0, To: b.Size / 2}}
		}
	}
}

// ablationParts are the parts of Solve that can be left out.
func ablationParts() (names []string) {
	for _, s := range Strategies {
		if !s.OnRequest {
			names = append(names, s.Name)
		}
	}
	names = append(names, "gaps before", "gaps after")
	for k := range basePriorities {
		names = append(names, priorityName(k))
	}
	names = append(names, "noisy priorities", "drawn priorities", "cores", "the bound", "halves", "quarters")
	for _, a := range baseConfigs {
		names = append(names, a.String())
	}
	return append(names, "noisy orders", "best fit first", "heads", "table", "backjumps", "splits", "twins", "forced", "boundaries")
}

// BenchmarkAblation places the problems of each set without each part in turn.
func BenchmarkAblation(b *testing.B) {
	for _, x := range ablationSets {
		b.Run("set="+strings.ReplaceAll(x.name, ", ", "-"), func(b *testing.B) {
			problems := x.make(b)
			set := ablation.Set{Title: "Placement: " + x.name, Doc: x.doc, Proofs: "proofs", Values: "arenas", Cases: len(problems)}
			ablation.Run(b, set, ablationParts(), func(b *testing.B, i int, without []string) (found ablation.Outcome) {
				opt := x.opt
				opt.without, opt.work = without, &found.Work
				r, err := Solve(b.Context(), problems[i], opt)
				if err != nil {
					b.Fatal(err)
				}
				found.Value, found.Found, found.Bound, found.Proven = r.Arena, true, r.LowerBound, r.Optimal
				return found
			})
		})
	}
}
