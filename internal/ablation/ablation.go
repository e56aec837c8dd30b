// Package ablation measures how much a search loses without each of its parts, and
// writes the tables of all searches to one page. Benchmarks call [Run].
package ablation

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Problems is the folder of the zoo's bare problems, which the tests of passes write.
var Problems = flag.String("problems", "", "folder of the zoo's problems for the ablation benchmarks")

var (
	page = flag.String("ablation", "", "page to which the ablation benchmarks write their tables")
	only = flag.String("parts", "", "parts to leave out in turn, separated by commas; empty: all")
)

// Set is a set of problems. Each set has a table on the page.
type Set struct {
	Title  string // title of its section, unique on the page
	Doc    string // describes the problems; the page puts their number before it
	Proofs string // heading of the column for Outcome.Proven
	Values string // heading of the column for Outcome.Value
	Cases  int
}

// Outcome is the result of a search for one problem.
type Outcome struct {
	Value  int64 // smaller is better; valid if Found
	Found  bool
	Bound  int64 // lower bound on Value
	Proven bool
	Weak   bool  // only a search can check the bound
	Work   int64 // as the search counts it: the same on any machine
}

// loss compares the outcomes of the search without a part with those of the whole
// search.
type loss struct {
	part           string
	proofs, values change
	bounds, weak   change
	rise, fall     float64 // largest increase and largest decrease of a value, in per cent
	work           int64
}

// change counts the problems that are worse and those that are better.
type change struct{ worse, better int }

func (c *change) add(worse, better bool) {
	if worse {
		c.worse++
	}
	if better {
		c.better++
	}
}

func (l *loss) add(was, is Outcome) {
	l.work += is.Work
	l.proofs.add(was.Proven && !is.Proven, is.Proven && !was.Proven)
	l.bounds.add(is.Bound < was.Bound, is.Bound > was.Bound)
	if is.Bound == was.Bound {
		l.weak.add(is.Weak && !was.Weak, was.Weak && !is.Weak)
	}
	if !was.Found || !is.Found {
		l.values.add(was.Found && !is.Found, is.Found && !was.Found)
		return
	}
	l.values.add(is.Value > was.Value, is.Value < was.Value)
	percent := 100 * float64(is.Value-was.Value) / float64(max(was.Value, 1))
	l.rise, l.fall = max(l.rise, percent), min(l.fall, percent)
}

// none reports whether the part makes no difference.
func (l *loss) none() bool {
	return l.proofs == change{} && l.values == change{} && l.bounds == change{} && l.weak == change{}
}

// Run solves all problems of a set with the whole search, and then without each part
// in turn. It reports the losses as metrics of the benchmark. If -ablation names a
// page, Run updates the table there after each part, so that a run that is stopped
// leaves the results so far. It skips b if the set has no problems.
func Run(b *testing.B, set Set, parts []string, solve func(b *testing.B, i int, without []string) Outcome) {
	if set.Cases == 0 {
		b.Skip("no problems: see make ablation")
	}
	whole := make([]Outcome, set.Cases)
	measure := func(part string, without []string) loss {
		l := loss{part: part}
		b.Run("without="+strings.ReplaceAll(part, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				l = loss{part: part}
				for i := range whole {
					x := solve(b, i, without)
					if without == nil {
						whole[i] = x
					}
					l.add(whole[i], x)
				}
				b.ReportMetric(float64(l.proofs.worse), "proofs-lost")
				b.ReportMetric(float64(l.values.worse), "values-worse")
				b.ReportMetric(float64(l.bounds.worse), "bounds-weaker")
				b.ReportMetric(float64(l.work), "work")
			}
		})
		return l
	}
	table := []loss{measure("nothing", nil)}
	for _, part := range parts {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), part) {
			continue
		}
		table = append(table, measure(part, []string{part}))
		if *page != "" {
			if err := write(*page, set.Title, set.text(whole, table, parts)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// text returns the body of the set's section: the table, the parts that make no
// difference, and the parts that were not left out.
func (s *Set) text(whole []Outcome, table []loss, parts []string) string {
	proven := 0
	for _, x := range whole {
		if x.Proven {
			proven++
		}
	}
	var w strings.Builder
	fmt.Fprintf(&w, "%d %s. The whole search: %d %s.\n\n", len(whole), s.Doc, proven, s.Proofs)
	fmt.Fprintf(&w, "| without | %s lost | gained | %s worse | better | bounds weaker | stronger | certificates lost | gained | work |\n", s.Proofs, s.Values)
	fmt.Fprintln(&w, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	count := func(n int, percent float64) string {
		if percent == 0 {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%d (%+.2f %%)", n, percent)
	}
	var idle, rest []string
	for i, l := range table {
		if i > 0 && l.none() {
			idle = append(idle, fmt.Sprintf("%s (%s)", l.part, millions(l.work)))
			continue
		}
		fmt.Fprintf(&w, "| %s | %d | %d | %s | %s | %d | %d | %d | %d | %s |\n", l.part, l.proofs.worse, l.proofs.better,
			count(l.values.worse, l.rise), count(l.values.better, l.fall),
			l.bounds.worse, l.bounds.better, l.weak.worse, l.weak.better, millions(l.work))
	}
	for _, part := range parts {
		if !slices.ContainsFunc(table, func(l loss) bool { return l.part == part }) {
			rest = append(rest, part)
		}
	}
	if len(idle) > 0 {
		fmt.Fprintf(&w, "\nNothing changes without: %s.\n", strings.Join(idle, ", "))
	}
	if len(rest) > 0 {
		fmt.Fprintf(&w, "\nNot left out here: %s.\n", strings.Join(rest, ", "))
	}
	return w.String()
}

func millions(work int64) string { return fmt.Sprintf("%.1f", float64(work)/1e6) }

const head = `# Ablation

Generated by ` + "`make ablation`" + `; do not edit. Each search is a list of parts: the stages of the order search (` + "`schedule/stages.go`" + `), the strategies, orders and rules of placement (` + "`alloc`" + `), the moves of recomputation and swapping (` + "`schedule/budget`" + `). Each part is left out in turn.

"Lost" and "worse" count the problems that are worse without the part, "gained" and "better" those that are better: work that one part does not spend goes to others. The percentage is the largest change. A certificate is lost if only a search proves the bound then. Work is in millions of the search's own units, the same on any machine.
`

// write adds a section to the page or replaces the one of that title. Sections are
// sorted by title.
func write(path, title, text string) error {
	sections := map[string]string{title: text}
	if old, err := os.ReadFile(path); err == nil {
		for _, section := range strings.Split(string(old), "\n## ")[1:] {
			if name, body, _ := strings.Cut(section, "\n"); name != title {
				sections[name] = body
			}
		}
	}
	var titles []string
	for name := range sections {
		titles = append(titles, name)
	}
	slices.Sort(titles)
	all := head
	for _, name := range titles {
		all += "\n## " + name + "\n\n" + strings.TrimSpace(sections[name]) + "\n"
	}
	return os.WriteFile(path, []byte(all), 0o644)
}
