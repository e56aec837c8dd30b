package passes_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/schedule"
)

// TestCompareIsOptimize: on models, our rows are what Optimize plans, and each
// group has one row for each strategy of its table, none below its bound.
func TestCompareIsOptimize(t *testing.T) {
	files := []string{
		"../testdata/light/light_squeezenet.onnx", "../testdata/zoo/resnet18-b1.onnx",
		"../testdata/nodes/test_loop13_seq/model.onnx", "../testdata/nodes/test_gelu_tanh_1_expanded/model.onnx",
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parse := func() *graph.Model {
			m, err := onnx.Parse(file, b)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		got, err := passes.Compare(t.Context(), parse(), passes.CompareOptions{Options: passes.Options{Check: true}})
		if err != nil {
			t.Fatal(err)
		}
		want, err := passes.Optimize(t.Context(), parse(), passes.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, ours := want.Plan.Summary, got.Rows[0]
		if ours.Strategy != passes.SolverRow || ours.PeakBytes != s.PeakBytes || ours.ArenaBytes != s.ArenaBytes || got.OrderBound != s.LowerBoundBytes {
			t.Errorf("%s: ours: peak %d, arena %d, bound %d; Optimize: %d, %d, %d",
				file, ours.PeakBytes, ours.ArenaBytes, got.OrderBound, s.PeakBytes, s.ArenaBytes, s.LowerBoundBytes)
		}
		if got.Nodes != s.Nodes || got.Tensors != s.Tensors {
			t.Errorf("%s: %d nodes, %d tensors; Optimize: %d, %d", file, got.Nodes, got.Tensors, s.Nodes, s.Tensors)
		}
		for _, r := range got.Rows {
			if r.Group == passes.GroupOrder && r.Strategy == "program" && r.PeakBytes != s.ProgramPeakBytes {
				t.Errorf("%s: program order: peak %d; Optimize: %d", file, r.PeakBytes, s.ProgramPeakBytes)
			}
		}
		wellFormed(t, file, got)
	}
}

// wellFormed compares a table with the tables of strategies.
func wellFormed(t *testing.T, name string, c *passes.Comparison) {
	t.Helper()
	want := map[passes.Group][]string{passes.GroupPlacement: {passes.SolverRow}}
	if c.Nodes > 0 {
		want[passes.GroupOrder] = []string{passes.SolverRow}
		for _, s := range schedule.Strategies {
			want[passes.GroupOrder] = append(want[passes.GroupOrder], s.Name)
		}
	}
	for _, s := range alloc.Strategies {
		want[passes.GroupPlacement] = append(want[passes.GroupPlacement], s.Name)
	}
	for _, s := range alloc.ObjectStrategies {
		want[passes.GroupObjects] = append(want[passes.GroupObjects], s.Name)
	}
	for _, s := range alloc.Simulators {
		want[passes.GroupAllocator] = append(want[passes.GroupAllocator], s.Name)
	}
	got := map[passes.Group][]string{}
	best := map[passes.Group]bool{}
	for _, r := range c.Rows {
		got[r.Group] = append(got[r.Group], r.Strategy)
		best[r.Group] = best[r.Group] || r.Best
		if r.Left != "" {
			continue
		}
		bound, figure := c.ArenaBound, r.ArenaBytes
		switch r.Group {
		case passes.GroupOrder:
			bound, figure = c.OrderBound, r.PeakBytes
		case passes.GroupObjects:
			bound = c.ObjectBound
		}
		if figure < bound || r.PeakBytes > r.ArenaBytes || r.OverBound < 0 || r.Fragmentation < 0 || r.Fragmentation > 100 {
			t.Errorf("%s: %+v: below its bound %d, or no percentage", name, r, bound)
		}
		if r.Strategy == passes.SolverRow && !r.Best {
			t.Errorf("%s: a row of group %s is better than ours: %+v", name, r.Group, c.Rows)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: strategies want - got +:\n%s", name, d)
	}
	for g := range want {
		if !best[g] {
			t.Errorf("%s: group %s has no winner", name, g)
		}
	}
}

// byHand is small enough to solve by hand: x (2 bytes) has two readers, one of
// which makes 10 bytes that wait and the other 1 byte; their sum is made in
// place.
const byHand = `{"name": "by hand",
 "nodes": [{"name": "big"}, {"name": "small"}, {"name": "use"}],
 "tensors": [
  {"name": "x", "bytes": 2, "consumers": [0, 1]},
  {"name": "b", "bytes": 10, "producer": 0, "consumers": [2]},
  {"name": "s", "bytes": 1, "producer": 1, "consumers": [2]},
  {"name": "y", "bytes": 10, "producer": 2, "output": true, "reuses": 1},
  {"name": "w", "bytes": 99, "consumers": [0], "resident": true}]}`

func TestCompareProblem(t *testing.T) {
	p, err := schedule.ReadProblem(strings.NewReader(byHand))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name                  string
		opt                   passes.Options
		bound, program, arena int64
		buffers               int
	}{
		// Program order: x+b = 12, x+b+s = 13, b+s = 11 with y written over b.
		// The small one first: 3, 13, 11.
		{"as it stands", passes.Options{}, 13, 13, 13, 3},
		{"nothing in place", passes.Options{NoInplace: true}, 21, 21, 21, 4},
		{"rounded up", passes.Options{Align: 8}, 32, 32, 32, 3},
	} {
		got, err := passes.CompareProblem(t.Context(), p, passes.CompareOptions{Options: c.opt})
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, c.name, got)
		if got.OrderBound != c.bound || got.Rows[1].PeakBytes != c.program || got.Rows[0].ArenaBytes != c.arena || got.Buffers != c.buffers {
			t.Errorf("%s: bound %d, program order %d, arena %d, %d buffers; want %d, %d, %d, %d", c.name,
				got.OrderBound, got.Rows[1].PeakBytes, got.Rows[0].ArenaBytes, got.Buffers, c.bound, c.program, c.arena, c.buffers)
		}
	}
	var refused *graph.Error
	if _, err := passes.CompareProblem(t.Context(), p, passes.CompareOptions{Options: passes.Options{Align: math.MaxInt64}}); !errors.As(err, &refused) {
		t.Errorf("rounded up beyond all sizes: %v, want a *graph.Error", err)
	}
}

var four = alloc.Problem{Buffers: []alloc.Buffer{
	{ID: "a", Size: 4, First: 0, Last: 1},
	{ID: "b", Size: 2, First: 0, Last: 1},
	{ID: "c", Size: 1, First: 1, Last: 2},
	{ID: "d", Size: 4, First: 2, Last: 3},
}}

func TestCompareBuffers(t *testing.T) {
	got, err := passes.CompareBuffers(t.Context(), four, passes.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, "four", got)
	// Objects: {4, 4}, {2}, {1}.
	if got.MaxLoad != 7 || got.ArenaBound != 7 || got.ObjectBound != 7 || got.Rows[0].ArenaBytes != 7 {
		t.Errorf("largest load %d, bounds %d and %d, arena %d; want 7", got.MaxLoad, got.ArenaBound, got.ObjectBound, got.Rows[0].ArenaBytes)
	}
	naive := got.Rows[len(got.Rows)-1]
	if naive.Strategy != "no-reuse" || naive.ArenaBytes != 11 || naive.PeakBytes != 5 {
		t.Errorf("no reuse: %+v; want 11 bytes for the 5 that live when the last begins", naive)
	}
	bad := alloc.Problem{Buffers: []alloc.Buffer{{Size: -1}}}
	var refused *graph.Error
	if _, err := passes.CompareBuffers(t.Context(), bad, passes.CompareOptions{}); !errors.As(err, &refused) {
		t.Errorf("a negative size: %v, want a *graph.Error", err)
	}
}

// TestCompareAgain: the figures do not depend on the machine, and once ctx has
// ended only our rows remain.
func TestCompareAgain(t *testing.T) {
	p := training(t)
	var tables []*passes.Comparison
	for range 2 {
		c, err := passes.CompareProblem(t.Context(), p, passes.CompareOptions{Options: passes.Options{Effort: schedule.EffortFast}})
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, p.Name, c)
		tables = append(tables, c)
	}
	if d := cmp.Diff(tables[0], tables[1], cmpopts.IgnoreFields(passes.Row{}, "Time")); d != "" {
		t.Errorf("two runs differ:\n%s", d)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c, err := passes.CompareProblem(ended, p, passes.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ran := slices.DeleteFunc(c.Rows, func(r passes.Row) bool { return r.Left == "not run: no time left" })
	if len(ran) != 2 || ran[0].Strategy != passes.SolverRow || ran[1].Strategy != passes.SolverRow || ran[1].ArenaBytes < c.MaxLoad || c.MaxLoad == 0 {
		t.Errorf("without time: %+v; want our two rows", ran)
	}
}

// training is a traced training step, or a problem written by hand where the test data
// are missing.
func training(t *testing.T) *schedule.Problem {
	t.Helper()
	source := io.Reader(strings.NewReader(byHand))
	if path := datafolder.Lookup("training", "alexnet-train-bs1.json"); path != "" {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		source = f
	}
	p, err := schedule.ReadProblem(source)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
