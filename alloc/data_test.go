package alloc

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
)

// instance is a file of the folder dsa, with the known facts about it.
type instance struct {
	name    string
	problem Problem
	bound   int64 // the largest load
	best    int64 // the arena to reach: the smallest known, or MiniMalloc's capacity
}

// instances reads the instances of at most n buffers. They are not in the repository.
func instances(tb testing.TB, n int) []instance {
	tb.Helper()
	dir := datafolder.Path(tb, "dsa")
	var found []instance
	for _, row := range rows(tb, filepath.Join(dir, "MANIFEST.csv")) {
		if number(tb, row["buffers"]) > int64(n) {
			continue
		}
		x := instance{
			name:  strings.TrimSuffix(row["file"], ".csv"),
			bound: number(tb, row["lower_bound"]),
			best:  number(tb, row["best_known"]),
		}
		if capacity, ok := strings.CutPrefix(row["note"], "capacity "); ok {
			x.best = number(tb, capacity)
		}
		for _, b := range rows(tb, filepath.Join(dir, row["file"])) {
			x.problem.Buffers = append(x.problem.Buffers, Buffer{
				ID:    b["id"],
				Size:  number(tb, b["size"]),
				First: int(number(tb, b["lower"])),
				Last:  int(number(tb, b["upper"])) - 1,
			})
		}
		found = append(found, x)
	}
	return found
}

// rows reads a CSV file with a header.
func rows(tb testing.TB, path string) []map[string]string {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	var all []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, field := range line {
			row[lines[0][i]] = field
		}
		all = append(all, row)
	}
	return all
}

func number(tb testing.TB, s string) int64 {
	tb.Helper()
	x, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// TestInstances: every strategy places every instance.
func TestInstances(t *testing.T) {
	n := 20000
	if testing.Short() {
		n = 1000
	}
	for _, x := range instances(t, n) {
		if err := x.problem.Validate(); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if got := x.problem.MaxLoad(); got != x.bound {
			t.Errorf("%s: largest load %d, want %d", x.name, got, x.bound)
		}
		for _, s := range Strategies {
			if s.Name == "hill-climb" && len(x.problem.Buffers) > 1100 {
				continue // it takes seconds
			}
			a := s.Func(x.problem)
			if err := x.problem.CheckSweep(a); err != nil {
				t.Errorf("%s: %s: %v", x.name, s.Name, err)
			}
			if a.Arena < x.bound {
				t.Errorf("%s: %s: arena %d, below the bound %d", x.name, s.Name, a.Arena, x.bound)
			}
			t.Logf("%-26s %-18s %.3f", x.name, s.Name, float64(a.Arena)/float64(x.bound))
		}
	}
}
