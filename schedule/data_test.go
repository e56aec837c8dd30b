package schedule

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onnxmem/onnxmem/internal/datafolder"
)

func readFile(tb testing.TB, path string) *Problem {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	p, err := ReadProblem(f)
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	return p
}

// programPeaks reads the peaks of the program orders from expected.csv.
func programPeaks(tb testing.TB, dir string) map[string]int64 {
	tb.Helper()
	f, err := os.Open(filepath.Join(dir, "expected.csv"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatal(err)
	}
	peaks := map[string]int64{}
	for column, name := range rows[0] {
		if name != "program_order_peak_bytes" {
			continue
		}
		for _, row := range rows[1:] {
			if peaks[row[0]], err = strconv.ParseInt(row[column], 10, 64); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return peaks
}

func TestTrainingGraphs(t *testing.T) {
	dir := datafolder.Path(t, "training")
	peaks := programPeaks(t, dir)
	files, _ := filepath.Glob(filepath.Join(dir, "*.json*"))
	seen := 0
	for _, path := range files {
		p := readFile(t, path)
		start := time.Now()
		r, err := Solve(context.Background(), p, Options{})
		took := float64(time.Since(start).Microseconds()) / 1000
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if want, ok := peaks[filepath.Base(path)]; ok {
			seen++
			if r.ProgramPeak != want {
				t.Errorf("%s: program order has peak %d, want %d", path, r.ProgramPeak, want)
			}
		}
		if !r.Optimal {
			t.Errorf("%s: peak %d, bound %d: not proven", path, r.Evaluation.Peak, r.Bound)
		}
		t.Logf("%-36s %5d nodes, program order %12d, bound %12d, peak %12d, %s by %s, %7.2f ms", filepath.Base(path), len(p.Nodes), r.ProgramPeak, r.Bound, r.Evaluation.Peak, r.Strategy, r.Certificates[0].Kind, took)
	}
	if seen != len(peaks) {
		t.Errorf("found %d of the %d files of expected.csv", seen, len(peaks))
	}
}

// TestStrategyFigures runs every strategy on every graph of the data set. With -v it prints
// the table of docs/results/orders.md: how far the peaks are above the optimum.
func TestStrategyFigures(t *testing.T) {
	files := datafolder.Glob(t, "training", "*.json*")
	above := map[string][]float64{} // strategy and batch -> per cent above the bound, for each training graph
	inference := map[string]int{}   // strategy -> number of inference graphs that it orders optimally
	for _, path := range files {
		p := readFile(t, path)
		r, err := Solve(context.Background(), p, Options{})
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
