package schedule

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/datafolder"
)

var (
	ablationTable    = flag.String("ablation", "", "file to which BenchmarkAblation writes its table")
	ablationProblems = flag.String("problems", "", "folder of the zoo's problems for BenchmarkAblation")
)

// ablationCase is a problem of the ablation, and what the whole search finds.
type ablationCase struct {
	name        string
	p           *Problem
	bound, peak int64
	kind        string
}

// ablationSets are the problems of the ablation.
var ablationSets = []struct {
	name, doc string
	make      func(b *testing.B) []ablationCase
}{
	{"traced", "networks traced from PyTorch: inference and training steps", func(b *testing.B) []ablationCase {
		return ablationFiles(b, datafolder.Path(b, "training"))
	}},
	{"zoo", "models of the zoo: inference and our own training steps, with in-place pairs", func(b *testing.B) []ablationCase {
		return ablationFiles(b, *ablationProblems)
	}},
	{"synthetic", "synthetic networks of 1,000 to 10,000 nodes, and tangled graphs", func(b *testing.B) (cases []ablationCase) {
		for _, g := range synthetic {
			for _, n := range []int{1000, 3000, 10_000} {
				cases = append(cases, ablationCase{name: fmt.Sprint(g.name, n), p: g.make(n)})
			}
		}
		return cases
	}},
	{"random", "random graphs of up to 15 and up to 60 nodes", func(b *testing.B) (cases []ablationCase) {
		for i := range 600 {
			most := []int{15, 15, 60}[i%3]
			p := withSibling(rand.New(rand.NewPCG(uint64(i), 31)), most)
			cases = append(cases, ablationCase{name: fmt.Sprint("random", i), p: p})
		}
		return cases
	}},
	{"hard", "networks that earlier searches left open, of 834 that were traced", func(b *testing.B) []ablationCase {
		return ablationFiles(b, datafolder.Path(b, "open-orders"))
	}},
}

func ablationFiles(b *testing.B, dir string) (cases []ablationCase) {
	list, _ := filepath.Glob(filepath.Join(dir, "*.json*"))
	for _, path := range list {
		cases = append(cases, ablationCase{name: filepath.Base(path), p: readFile(b, path)})
	}
	return cases
}

// loss is what a search loses without a stage, or gains.
type loss struct {
	stage              string
	proofs, proven     int     // gaps that stay open, or are closed
	peaks, lower       int     // that are larger, or smaller
	most, least        float64 // per cent: the largest rise of a peak, the largest fall
	bounds, raised     int     // that are smaller, or larger
	certificates, more int     // bounds that only a search proves now, or that a cut proves now
	took               time.Duration
}

func (l *loss) add(c *ablationCase, r *Result, took time.Duration) {
	peak, kind := r.Evaluation.Peak, ""
	if len(r.Certificates) > 0 {
		kind = r.Certificates[0].Kind
	}
	optimal := c.peak == c.bound
	switch {
	case optimal && !r.Optimal:
		l.proofs++
	case !optimal && r.Optimal:
		l.proven++
	}
	change := 100 * float64(peak-c.peak) / float64(max(c.peak, 1))
	switch {
	case peak > c.peak:
		l.peaks++
		l.most = max(l.most, change)
	case peak < c.peak:
		l.lower++
		l.least = min(l.least, change)
	}
	switch {
	case r.Bound < c.bound:
		l.bounds++
	case r.Bound > c.bound:
		l.raised++
	case c.kind != KindSearch && kind == KindSearch:
		l.certificates++
	case c.kind == KindSearch && kind != KindSearch:
		l.more++
	}
	l.took += took
}

// some reports whether anything is lost or gained.
func (l *loss) some() bool {
	return l.proofs+l.proven+l.peaks+l.lower+l.bounds+l.raised+l.certificates+l.more > 0
}

// BenchmarkAblation solves the problems of each set without each stage in turn, and
// shows what is lost: proofs, peaks, bounds, certificates, time. With -ablation it also
// writes its tables into a file, and leaves there those of sets that it did not run.
func BenchmarkAblation(b *testing.B) {
	for _, set := range ablationSets {
		b.Run("set="+set.name, func(b *testing.B) {
			cases := set.make(b)
			if len(cases) == 0 {
				b.Skip("no problems: see make ablation")
			}
			table := []loss{measureAblation(b, cases, "nothing", nil)}
			for _, x := range stages {
				// Without the first order there is none, and rows that work through
				// others are no more than those.
				if !x.Always && !strings.HasSuffix(x.Cost, "its rows") {
					table = append(table, measureAblation(b, cases, x.Name, []string{x.Name}))
				}
			}
			if *ablationTable != "" {
				if err := writeAblation(*ablationTable, set.name, set.doc, cases, table); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func measureAblation(b *testing.B, cases []ablationCase, name string, without []string) (l loss) {
	b.Run("without="+strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
		for b.Loop() {
			l = loss{stage: name}
			for i := range cases {
				c := &cases[i]
				began := time.Now()
				r, err := Solve(context.Background(), c.p, Options{without: without})
				if err != nil {
					b.Fatal(err)
				}
				took := time.Since(began)
				if without == nil {
					c.bound, c.peak = r.Bound, r.Evaluation.Peak
					if len(r.Certificates) > 0 {
						c.kind = r.Certificates[0].Kind
					}
				}
				l.add(c, r, took)
			}
			b.ReportMetric(float64(l.proofs), "proofs-lost")
			b.ReportMetric(float64(l.peaks), "peaks-worse")
			b.ReportMetric(float64(l.bounds), "bounds-weaker")
			b.ReportMetric(float64(l.certificates), "certificates-lost")
		}
	})
	return l
}

const ablationHead = `# Ablation of the scheduler

Generated by ` + "`make ablation`" + `; do not edit. The search of ` + "`schedule`" + ` is a table of stages (` + "`schedule/stages.go`" + `). Each is left out in turn, at default effort.

"Lost" counts what is worse without the stage, "gained" what is better: work that one stage does not spend goes to others. Peaks: how many change, and the largest change. Bounds weaken or rise where a gap is open. A certificate is lost if only a search proves the bound then. Milliseconds are those of all problems of the set, on a shared machine: only large differences mean something.
`

// writeAblation writes the section of a set, in place of the one that is there.
func writeAblation(path, set, doc string, cases []ablationCase, table []loss) error {
	sections := map[string]string{}
	if old, err := os.ReadFile(path); err == nil {
		for _, section := range strings.Split(string(old), "\n## ")[1:] {
			name, _, _ := strings.Cut(section, "\n")
			sections[name] = section
		}
	}
	proven := 0
	for _, c := range cases {
		if c.peak == c.bound {
			proven++
		}
	}
	var w strings.Builder
	fmt.Fprintf(&w, "%s\n\n%d %s. The whole search proves %d of them optimal.\n\n", set, len(cases), doc, proven)
	fmt.Fprint(&w, "| without | proofs lost | gained | peaks worse | better | bounds weaker | stronger | certificates lost | gained | ms |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	count := func(n int, change float64) string {
		if n == 0 {
			return "0"
		}
		return fmt.Sprintf("%d (%+.2f %%)", n, change)
	}
	var idle []string
	for i, l := range table {
		if i > 0 && !l.some() {
			idle = append(idle, fmt.Sprintf("%s (%d ms)", l.stage, l.took.Milliseconds()))
			continue
		}
		fmt.Fprintf(&w, "| %s | %d | %d | %s | %s | %d | %d | %d | %d | %d |\n", l.stage, l.proofs, l.proven,
			count(l.peaks, l.most), count(l.lower, l.least), l.bounds, l.raised, l.certificates, l.more, l.took.Milliseconds())
	}
	fmt.Fprintf(&w, "\nNothing changes without: %s.\n", strings.Join(idle, ", "))
	sections[set] = w.String()
	text := ablationHead
	for _, set := range ablationSets {
		if section := sections[set.name]; section != "" {
			text += "\n## " + strings.TrimRight(section, "\n") + "\n"
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
