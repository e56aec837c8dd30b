package report

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
)

func smallBERT(t *testing.T) *graph.Model {
	t.Helper()
	m, err := models.Build("bert", models.Options{Set: map[string]string{"layers": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// branching has an If whose branches need workspace.
func branching(t *testing.T) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("branching", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, graph.Unknown, 24), "batch", "time")
	p := b.Input("p", graph.TensorOf(graph.Bool))
	branch := func(ops ...string) *graph.Graph {
		g := &graph.Graph{Name: "branch", Captures: []graph.Capture{{Inner: 0, Outer: x}}}
		last := g.NewTensor("x")
		g.Tensors[last].Capture = true
		for _, op := range ops {
			out := g.NewTensor(op)
			g.Nodes = append(g.Nodes, &graph.Node{Name: op, Op: op, Inputs: []graph.TensorID{last}, Outputs: []graph.TensorID{out}})
			last = out
		}
		g.Outputs = []graph.TensorID{last}
		g.Link()
		return g
	}
	body := func(name string, g *graph.Graph) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: g}
	}
	y := b.Add(&graph.Node{Op: "If", Inputs: []graph.TensorID{p}, Captures: []graph.TensorID{x}, Attrs: []*graph.Attr{
		body("then_branch", branch("Exp", "Softmax", "Tanh")), body("else_branch", branch("Relu")),
	}}, "y")
	b.Output(b.Node("Tanh", "z", y[0]))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// joining joins two tensors by a Concat whose result lies where they lie.
func joining(t *testing.T) *graph.Model {
	t.Helper()
	b := graph.NewBuilder("joining", 17)
	x := b.Input("x", graph.TensorOf(graph.Float32, 1, 2, graph.Unknown, graph.Unknown), "", "", "height", "width")
	pool := func(name string, x graph.TensorID) graph.TensorID {
		return b.Node("Softmax", name, b.Node("Exp", name+".exp", x))
	}
	one, two := pool("one", x), pool("two", x)
	axis := &graph.Attr{Name: "axis", Type: graph.AttrInt, Int: 1}
	both := b.Add(&graph.Node{Op: "Concat", Inputs: []graph.TensorID{one, two}, Attrs: []*graph.Attr{axis}}, "both")[0]
	b.Output(b.Node("Softmax", "y", both))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCHeaderRanges: compiled, the functions of the header give the arena and the places of
// the plan at every point, and refuse others; the buckets have the plans of their points.
// Workspaces of bodies have sizes, too, and tensors may lie in several buffers.
func TestCHeaderRanges(t *testing.T) {
	for _, c := range []struct {
		name    string
		model   func(t *testing.T) *graph.Model
		opt     passes.Options
		buckets map[string][]int64
		has     func(p *plan.Plan) bool
	}{
		{"bert", smallBERT, passes.Options{Ranges: map[string]string{"batch": "1..3", "sequence": "1,2,3,7,64,512"}}, map[string][]int64{"sequence": {64, 512}, "batch": {1, 3}}, nil},
		{"a body", branching, passes.Options{Ranges: map[string]string{"batch": "1..3", "time": "4,9"}}, map[string][]int64{"batch": {1, 3}}, func(p *plan.Plan) bool {
			return len(p.Subgraphs) == 2 && slices.ContainsFunc(p.Buffers, func(b plan.Buffer) bool { return b.Node != nil })
		}},
		{"aliases", joining, passes.Options{Ranges: map[string]string{"height": "4,8", "width": "16..64:16"}, Aliases: passes.AliasesOn}, map[string][]int64{"width": {32, 64}}, func(p *plan.Plan) bool {
			return len(p.Spans) > 0
		}},
		{"pools", branching, passes.Options{Ranges: map[string]string{"batch": "1..3", "time": "4,9"}, Pools: []passes.Pool{{Name: "fast", Capacity: 1024}, {Name: "slow", Capacity: 1 << 20}}}, map[string][]int64{"batch": {1, 3}}, func(p *plan.Plan) bool {
			tiers := p.Tiers()
			return len(tiers) == 2 && tiers[0].Bytes > 0 && tiers[1].Bytes > 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := passes.Optimize(t.Context(), c.model(t), c.opt)
			if err != nil {
				t.Fatal(err)
			}
			r.Plan.Model.File = "plan.onnx"
			if c.has != nil && !c.has(r.Plan) {
				t.Fatal("the plan lacks what the case is about")
			}
			compareHeader(t, r.Plan, c.buckets)
		})
	}
}

// compareHeader compares the functions of a plan's header with the plan at every point.
func compareHeader(t *testing.T, p *plan.Plan, bounds map[string][]int64) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: the header is not compiled")
	}
	at := func(dims map[string]int64) (*plan.Plan, error) { return p.At(dims, nil) }
	buckets, err := p.Buckets(bounds, at)
	if err != nil {
		t.Fatal(err)
	}
	var header bytes.Buffer
	if err := CHeaderOf(&header, p, nil, buckets); err != nil {
		t.Fatal(err)
	}
	program := `#define PLAN_DEFINE_TABLES
#include "plan.h"
#include <stdio.h>
static void place(size_t x, size_t y) {
	static size_t offsets[PLAN_TENSORS], bytes[PLAN_TENSORS];
	size_t i, bucket = plan_bucket(x, y);
	for (i = 0; i < PLAN_TENSORS; i++) offsets[i] = bytes[i] = 7;
	printf("%zu", plan_place(x, y, offsets, bytes));
	for (i = 0; i < PLAN_TENSORS; i++) printf(" %zu %zu", offsets[i], bytes[i]);
	printf(" %zu %zu %zu\n", plan_buckets[bucket].lengths[0], plan_buckets[bucket].lengths[1], plan_buckets[bucket].offsets[PLAN_TENSORS - 1]);
}
int main(void) {
`
	var want strings.Builder
	names, lengths := p.Box()
	for _, x := range lengths[0] {
		for _, y := range lengths[1] {
			program += fmt.Sprintf("\tplace(%d, %d);\n", x, y)
			q, err := at(map[string]int64{names[0]: x, names[1]: y})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Check(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&want, "%d", q.Summary.ArenaBytes)
			for _, b := range q.Buffers {
				for range max(1, len(b.Tensors)) {
					if b.Pool != plan.Resident {
						fmt.Fprintf(&want, " %d %d", b.Offset, b.Bytes)
					} else {
						fmt.Fprint(&want, " 7 7")
					}
				}
			}
			for i, s := range q.Spans {
				for range s.Tensors {
					fmt.Fprintf(&want, " %d %d", q.Whole(i).Offset, q.Whole(i).Bytes)
				}
			}
			for _, b := range buckets {
				if n, m := b.Dims[names[0]].Value, b.Dims[names[1]].Value; n >= x && m >= y {
					last := b.Buffers[len(b.Buffers)-1].Offset
					if len(b.Spans) > 0 {
						last = b.Whole(len(b.Spans) - 1).Offset
					}
					fmt.Fprintf(&want, " %d %d %d\n", n, m, last)
					break
				}
			}
		}
	}
	program += `	printf("%d %d\n", plan_arena_bytes(4000, 64) == (size_t)-1, plan_arena_bytes(1, 0) == (size_t)-1);
	return 0;
}
`
	want.WriteString("1 1\n")
	for _, row := range p.Ranges.Table {
		if q, err := at(row.Dims); err != nil || q.Summary.ArenaBytes != row.ArenaBytes || q.Summary.PeakBytes != row.PeakBytes || q.Summary.LowerBoundBytes != row.LowerBoundBytes {
			t.Errorf("%v: expected the figures of the table, %+v, found %+v, %v", row.Dims, row, q.Summary, err)
		}
	}
	dir := t.TempDir()
	for file, text := range map[string]string{"plan.h": header.String(), "main.c": program} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(dir, "plan")
	if out, err := exec.Command(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", exe, filepath.Join(dir, "main.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%.2000s", err, out)
	}
	got, err := exec.Command(exe).Output()
	if err != nil || string(got) != want.String() {
		t.Errorf("%v: the program prints\n%.1000s\nexpected\n%.1000s", err, got, want.String())
	}
}

// TestFewestBuckets: no point of a bucket wastes more than was allowed, and the bounds of
// neighbouring buckets show that fewer would.
func TestFewestBuckets(t *testing.T) {
	m, err := models.Build("bert", models.Options{Set: map[string]string{"layers": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(t.Context(), m, passes.Options{Ranges: map[string]string{"sequence": "1..96"}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(dims map[string]int64) (*plan.Plan, error) { return r.Plan.At(dims, nil) }
	arena := func(n int64) float64 {
		p, err := at(map[string]int64{"sequence": n})
		if err != nil {
			t.Fatal(err)
		}
		return float64(p.Summary.ArenaBytes)
	}
	buckets, worst, err := r.Plan.FewestBuckets(50, at)
	if err != nil || worst > 1.5 || len(buckets) < 2 {
		t.Fatalf("expected a few buckets with a ratio of at most 1.5, found %d, %f, %v", len(buckets), worst, err)
	}
	below := int64(0)
	for _, b := range buckets {
		top := b.Dims["sequence"].Value
		if got := arena(top) / arena(below+1); got > 1.5 {
			t.Errorf("%d to %d: ratio %f", below+1, top, got)
		}
		if below > 0 && arena(top)/arena(below) <= 1.5 {
			t.Errorf("%d to %d: the bucket could begin at %d", below+1, top, below)
		}
		below = top
	}
	if below != 96 {
		t.Errorf("expected the last bucket to end at 96, found %d", below)
	}
}
