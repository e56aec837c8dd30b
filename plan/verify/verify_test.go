package verify_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// planned are plans of the small models, one for each feature of a plan.
var planned = []struct {
	name  string // the feature
	model string
	naive
}{
	{"nothing is shared", "chain", naive{}},
	{"views and in-place results share", "chain", naive{views: true, inplace: true, groups: []string{"x a", "y b v c d"}}},
	{"views share", "chain", naive{views: true, groups: []string{"b v"}}},
	{"alignment 1", "constants", naive{align: 1}},
	{"views of constants are resident", "constants", naive{views: true, groups: []string{"w u", "x v", "a z"}}},
	{"assumed dimensions", "symbols", naive{}},
	{"given dimensions", "symbols", naive{dims: map[string]int64{"batch": 4}}},
	{"dynamic and bounded tensors", "dynamic", naive{}},
	{"branches within branches", "branches", naive{}},
	{"a loop", "loop", naive{}},
	{"local functions", "functions", naive{}},
	{"updates in place", "training", naive{inplace: true, groups: []string{"w w.new", "h w.grad step"}}},
	{"no nodes", "no nodes", naive{}},
	{"nothing at all", "nothing", naive{}},
	{"many steps", "long", naive{}},
}

func TestValid(t *testing.T) {
	for _, c := range planned {
		t.Run(c.name, func(t *testing.T) {
			b, p := c.plan(t, models[c.model])
			r, err := verify.Plan(parse(t, b), p, verify.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Valid {
				t.Errorf("%v", r)
			}
			want := p.Summary
			want.PlacementOptimal = want.ArenaBytes == want.PeakBytes
			if r.Summary != want {
				t.Errorf("summary %+v, expected %+v", r.Summary, want)
			}
		})
	}
}

// verified changes a plan of a small model and verifies it.
func verified(t testing.TB, name string, change func(p *plan.Plan)) *verify.Report {
	t.Helper()
	b, p := mutation{of: name}.base(t)
	change(p)
	r, err := verify.Plan(parse(t, b), p, verify.Options{SkipAnnotations: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSchedule(t *testing.T) {
	cut := func(bytes int64) plan.Certificate {
		return plan.Certificate{Kind: "cut", Nodes: []string{"make d"}, Steps: []int{4}, ValueBytes: bytes}
	}
	search := plan.Certificate{Kind: "search", ValueBytes: 192}
	cases := []struct {
		name         string
		certificates []plan.Certificate
		bound        int64
		want         string
		optimal      bool
	}{
		{"nothing is claimed", nil, 0, "gap 192 bytes", false},
		{"a bound that is met", []plan.Certificate{cut(192)}, 192, "proven", true},
		{"a bound below the peak", []plan.Certificate{cut(128)}, 128, "gap 64 bytes", false},
		{"a certificate that the bound does not use", []plan.Certificate{cut(192)}, 128, "gap 64 bytes", false},
		{"an exhausted search", []plan.Certificate{search}, 192, "claimed by search", true},
		{"an exhausted search beside a smaller bound", []plan.Certificate{cut(128), search}, 128, "claimed by search", true},
		{"both", []plan.Certificate{search, cut(192)}, 192, "proven", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := verified(t, "nothing is shared", func(p *plan.Plan) {
				p.Certificates, p.Summary.LowerBoundBytes, p.Summary.ScheduleOptimal = c.certificates, c.bound, c.optimal
			})
			if !r.Valid || r.Schedule != c.want || r.ScheduleOptimal != c.optimal {
				t.Errorf("schedule %q, optimal %t, expected %q, %t\n%v", r.Schedule, r.ScheduleOptimal, c.want, c.optimal, r)
			}
		})
	}
}

// TestSets: bounds that need the first or the last of a set of nodes; no single node
// proves them. For c1 and c2: one of them and its reader's result, 192+576; the other
// one, 192, or its reduced result, 64; k, 128. For k: 128+512, the earlier reduced
// result, 64, and twice 64 from x.
func TestSets(t *testing.T) {
	for _, c := range []struct {
		kind  string
		bytes int64
		steps []int
		want  string
	}{
		{"cut", 960, []int{1}, "gap 128 bytes"},
		{"first-of-set", 960, []int{1}, "gap 128 bytes"},
		{"first-of-set", 1088, []int{1, 3}, "proven"},
		{"first-of-set", 1088, []int{4, 3, 1}, "proven"}, // 4 runs after 3
		{"last-of-set", 832, []int{5, 7}, "gap 256 bytes"},
		{"last-of-set", 768, []int{5, 8}, "gap 320 bytes"},
	} {
		r := verified(t, "competing nodes", func(p *plan.Plan) {
			certify(p, c.kind, c.bytes, c.steps...)
		})
		if !r.Valid || r.Schedule != c.want {
			t.Errorf("%s of %v: schedule %q, expected %q\n%v", c.kind, c.steps, r.Schedule, c.want, r)
		}
	}
}

func TestPlacement(t *testing.T) {
	if r := verified(t, "two steps", func(p *plan.Plan) { p.Summary.PlacementOptimal = true }); !r.Valid || r.Placement != "proven" {
		t.Errorf("placement %q, expected proven\n%v", r.Placement, r)
	}
	if r := verified(t, "nothing is shared", func(p *plan.Plan) { p.Summary.PlacementOptimal = true }); !r.Valid || r.Placement != "claimed" {
		t.Errorf("placement %q, expected claimed\n%v", r.Placement, r)
	}
	if r := verified(t, "nothing is shared", func(*plan.Plan) {}); r.Placement != "gap 256 bytes" {
		t.Errorf("placement %q, expected gap 256 bytes", r.Placement)
	}
}

// TestRefused: if inference refuses a model, Plan returns an error, not a violation.
func TestRefused(t *testing.T) {
	m := text{main: `
		in x float32[3]
		in y float32[4]
		z = Add(x, y)
		out z
	`}.build(t)
	r, err := verify.Plan(m, &plan.Plan{Alignment: 64, Dims: map[string]plan.Dim{"x[0]": {Value: 7}}}, verify.Options{})
	if e := (*graph.Error)(nil); r != nil || !errors.As(err, &e) {
		t.Errorf("report %v, error %v: expected an error about the model", r, err)
	}
}

// TestUnwritten: a model that is planned but not yet written.
func TestUnwritten(t *testing.T) {
	_, p := mutation{of: "nothing is shared"}.base(t)
	p.Model = plan.File{}
	m := models["chain"].build(t)
	if r, err := verify.Plan(m, p, verify.Options{SkipAnnotations: true}); err != nil || !r.Valid {
		t.Errorf("%v, %v: expected a valid plan", r, err)
	}
	if r, err := verify.Plan(m, p, verify.Options{}); err != nil || r.Valid {
		t.Errorf("%v, %v: expected missing annotations", r, err)
	}
}

// TestMany: a report lists the first hundred violations and counts the others.
func TestMany(t *testing.T) {
	r := verified(t, "many steps", func(p *plan.Plan) {
		for i := range p.Steps {
			p.Steps[i].LoadBytes++
			p.ProgramOrder.LoadBytes[i]++
		}
	})
	if r.Valid || len(r.Violations) != 100 || r.More != 40 {
		t.Errorf("%d violations and %d more, expected 100 and 40", len(r.Violations), r.More)
	}
	if text := r.String(); !strings.HasPrefix(text, "not valid: 140 violations\n") || !strings.HasSuffix(text, "\nand 40 more\n") {
		t.Errorf("report %q", text)
	}
}

func TestReport(t *testing.T) {
	var golden strings.Builder
	for _, name := range []string{"nothing is shared", "dynamic and bounded tensors", "no nodes"} {
		fmt.Fprintf(&golden, "%s\n\n%v\n", name, verified(t, name, func(*plan.Plan) {}))
	}
	fmt.Fprintf(&golden, "not valid\n\n%v", verified(t, "nothing is shared", func(p *plan.Plan) { p.Steps[1].LoadBytes = 1 << 40 }))
	checkGolden(t, "report", golden.String())
}

// TestInnerPeak: the workspace of a local function is exactly the peak of its body.
func TestInnerPeak(t *testing.T) {
	for _, c := range []struct {
		of      string
		inplace bool
		bytes   int64
	}{
		{"a function of two steps", false, 128},
		{"a function of two steps", true, 64}, // the second result overwrites the first
		// While Outer runs Inner: q and the memory of Inner, its f and s, or s and t.
		// Constants count. No input here has a result's size and is dead after its reader.
		{"local functions", false, 192},
		// The whole larger body; the input of a branch lies outside it.
		{"a function with branches", false, 192},
	} {
		for _, bytes := range []int64{c.bytes - 64, c.bytes} {
			r := verified(t, c.of, func(p *plan.Plan) {
				p.Sharing.Inplace = c.inplace
				workspace(p.Buffers).Bytes = bytes
			})
			missing := slices.ContainsFunc(r.Violations, func(v verify.Violation) bool { return v.Code == "workspace" })
			if missing != (bytes < c.bytes) {
				t.Errorf("%s, in place %t: a workspace of %d bytes: %v", c.of, c.inplace, bytes, r)
			}
		}
	}
}

// BenchmarkVerify checks a long model, reading included.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			var x strings.Builder
			x.WriteString("in t0 float32[16]\n")
			for i := range n {
				fmt.Fprintf(&x, "t%d = Relu(t%d)\n", i+1, i)
			}
			fmt.Fprintf(&x, "out t%d\n", n)
			file, p := chainPlan(b, text{main: x.String()}, n)
			for b.Loop() {
				if r, err := verify.Plan(parse(b, file), p, verify.Options{SkipAnnotations: true}); err != nil || !r.Valid {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "nodes/s")
		})
	}
}

// chainPlan plans a chain of n nodes without sharing, faster than naive.
func chainPlan(t testing.TB, x text, n int) ([]byte, *plan.Plan) {
	m := x.build(t)
	file := encode(t, m)
	p := &plan.Plan{Format: plan.Format, Version: plan.Version, Mode: "inference", Alignment: 64, Model: plan.SourceOf(parse(t, file))}
	for i := range n + 1 {
		b := plan.Buffer{Pool: "arena", Bytes: 64, Offset: int64(i%2) * 64, First: max(i-1, 0), Last: min(i, n-1), Kind: "activation", Tensors: []string{fmt.Sprint("t", i)}}
		switch i {
		case 0:
			b.Kind = "input"
		case n:
			b.Kind = "output"
		}
		p.Buffers = append(p.Buffers, b)
	}
	for i, node := range m.Graph.Nodes {
		p.Steps = append(p.Steps, plan.Step{Name: node.Name, Op: node.Op, LoadBytes: 128})
		p.ProgramOrder.Steps = append(p.ProgramOrder.Steps, i)
		p.ProgramOrder.LoadBytes = append(p.ProgramOrder.LoadBytes, 128)
	}
	p.Pools = []plan.Pool{{Name: "arena", Bytes: 128}, {Name: "resident"}}
	p.Summary = plan.Summary{Nodes: n, Tensors: n + 1, NaiveBytes: 64 * int64(n+1), ProgramPeakBytes: 128, PeakBytes: 128, ArenaBytes: 128, TotalBytes: 128, PlacementOptimal: true}
	return file, p
}
