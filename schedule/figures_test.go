package schedule

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every strategy on every graph of the data set. With -v it prints the table of
// docs/results.md: how far the peaks are above the optimum.
func TestStrategyFigures(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(dataDir(t, "training"), "*.json*"))
	above := map[string][]float64{} // strategy and batch -> per cent over the bound, of the training graphs
	inference := map[string]int{}   // strategy -> inference graphs that it orders optimally
	for _, path := range files {
		p := readFile(t, path)
		r, err := Solve(p, Options{})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_, batch, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".json"), "-train-")
		for _, s := range Strategies {
			order := s.Func(p)
			e, err := p.Evaluate(order)
			if err != nil {
				t.Fatalf("%s: %s: %v", path, s.Name, err)
			}
			if e.Peak < r.Bound || e.Peak < r.Evaluation.Peak {
				t.Errorf("%s: %s has peak %d, want at least the bound %d and the peak %d", path, s.Name, e.Peak, r.Bound, r.Evaluation.Peak)
			}
			switch {
			case batch != "":
				above[s.Name+batch] = append(above[s.Name+batch], 100*float64(e.Peak-r.Bound)/float64(r.Bound))
			case e.Peak == r.Bound:
				inference[s.Name]++
			}
		}
	}
	for _, s := range Strategies {
		row := "| `" + s.Name + "` |"
		for _, batch := range []string{"bs1", "bs32"} {
			list := above[s.Name+batch]
			slices.Sort(list)
			var sum float64
			optimal := 0
			for _, x := range list {
				sum += x
				if x == 0 {
					optimal++
				}
			}
			n := len(list)
			row += fmt.Sprintf(" %.1f | %.1f | %.1f | %d/%d |", (list[(n-1)/2]+list[n/2])/2, sum/float64(n), list[n-1], optimal, n)
		}
		t.Logf("%s %d |", row, inference[s.Name])
	}
}
