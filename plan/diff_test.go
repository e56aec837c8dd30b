package plan_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onnxmem/onnxmem/plan"
)

// sketch makes a consistent plan from lines such as
//
//	A B C            the nodes; A:Relu has an operator, :Relu no name
//	x 64 @0 0-1      a tensor of 64 bytes at offset 0, live at steps 0 to 1
//	a,b 64 @64 1-2   two tensors that share a buffer
//	w 64 @0 resident
//	ws 64 @0 1       workspace of the node of step 1
func sketch(t testing.TB, text string) *plan.Plan {
	t.Helper()
	p := &plan.Plan{
		Format: plan.Format, Version: plan.Version, Mode: "inference", Alignment: 1,
		Sharing: plan.Sharing{Views: true, Inplace: true}, Dims: map[string]plan.Dim{},
	}
	nodes, buffers, _ := strings.Cut(text, "\n")
	for i, n := range strings.Fields(nodes) {
		name, op, _ := strings.Cut(n, ":")
		p.Steps = append(p.Steps, plan.Step{Name: name, Op: op})
		p.ProgramOrder.Steps = append(p.ProgramOrder.Steps, i)
	}
	sums := map[string]int64{plan.Arena: 0, plan.Resident: 0}
	for _, line := range strings.Split(buffers, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		b := plan.Buffer{Pool: plan.Arena, Kind: plan.KindActivation}
		var names, life string
		if _, err := fmt.Sscanf(line, "%s %d @%d %s", &names, &b.Bytes, &b.Offset, &life); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch {
		case life == "resident":
			b.Pool, b.Kind, b.Last = plan.Resident, plan.KindConstant, max(0, len(p.Steps)-1)
		case names == "ws":
			fmt.Sscan(life, &b.First)
			node := b.First
			b.Last, b.Kind, b.Node = b.First, plan.KindWorkspace, &node
		default:
			fmt.Sscanf(life, "%d-%d", &b.First, &b.Last)
		}
		if names != "ws" {
			b.Tensors = strings.Split(names, ",")
		}
		sums[b.Pool] = max(sums[b.Pool], b.Offset+b.Bytes)
		if b.Pool == plan.Arena {
			p.Summary.NaiveBytes += b.Bytes
			for i := b.First; i <= b.Last && i < len(p.Steps); i++ {
				p.Steps[i].LoadBytes += b.Bytes
			}
		}
		p.Buffers = append(p.Buffers, b)
	}
	s := &p.Summary
	s.Nodes, s.ArenaBytes, s.ResidentBytes = len(p.Steps), sums[plan.Arena], sums[plan.Resident]
	s.TotalBytes = s.ArenaBytes + s.ResidentBytes
	for i, step := range p.Steps {
		p.ProgramOrder.LoadBytes = append(p.ProgramOrder.LoadBytes, step.LoadBytes)
		if step.LoadBytes > s.PeakBytes {
			s.PeakBytes, s.PeakStep = step.LoadBytes, i
		}
	}
	if len(p.Steps) == 0 {
		s.PeakBytes = s.NaiveBytes
	}
	s.ProgramPeakBytes = s.PeakBytes
	p.Pools = []plan.Pool{{Name: plan.Arena, Bytes: s.ArenaBytes}, {Name: plan.Resident, Bytes: s.ResidentBytes}}
	if err := p.Check(); err != nil {
		t.Fatalf("the sketch is not consistent: %v", err)
	}
	return p
}

// spellDiff describes a difference in a few words.
func spellDiff(d *plan.Diff) string {
	var b strings.Builder
	for _, l := range []struct {
		what  string
		nodes []plan.NodeChange
	}{{"+", d.Nodes.Appeared}, {"-", d.Nodes.Vanished}, {"~", d.Nodes.Moved}} {
		for _, c := range l.nodes {
			fmt.Fprintf(&b, "%s%s %d %d; ", l.what, c.Node, c.Before, c.After)
		}
	}
	for _, l := range []struct {
		what    string
		tensors []plan.TensorChange
	}{{"new", d.Tensors.Appeared}, {"old", d.Tensors.Vanished}, {"resized", d.Tensors.Resized}, {"moved", d.Tensors.Moved}} {
		for _, c := range l.tensors {
			fmt.Fprintf(&b, "%s %s %+d; ", l.what, c.Tensor, c.Bytes())
		}
	}
	p := d.Peak
	fmt.Fprintf(&b, "peak %s %d->%d", p.Node, p.BeforeBytes, p.AfterBytes)
	for _, c := range p.Causes {
		fmt.Fprintf(&b, ", %s%s %s %+d", c.Tensor, c.Node, c.Kind, c.Bytes)
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	const base = "A B C\nx 64 @128 0-0\na 128 @0 0-1\nb 64 @128 1-2\nc 32 @0 2-2"
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", base, base, "peak A 192->192"},
		{
			"a tensor grows and moves the peak to another node", base, "A B C\nx 64 @128 0-0\na 128 @0 0-1\nb 96 @128 1-2\nc 32 @0 2-2",
			"resized b +32; peak B 192->224, b resized +32",
		},
		{
			"a node is put in: what stands behind it has not moved", base,
			"A N B C\nx 64 @128 0-0\na 128 @0 0-2\nn 64 @128 1-2\nb 64 @192 2-3\nc 32 @0 3-3",
			"+N -1 1; new n +64; moved b +0; peak B 192->256, n new +64",
		},
		{
			"a node is taken out", "A N B C\nx 64 @128 0-0\na 128 @0 0-2\nn 64 @128 1-2\nb 64 @192 2-3\nc 32 @0 3-3", base,
			"-N 1 -1; old n -64; moved b +0; peak B 256->192, n gone -64",
		},
		{
			"the fewest nodes that move", "A B C D E\nx 8 @0 0-4", "A E B C D\nx 8 @0 0-4",
			"~E 4 1; peak A 8->8",
		},
		{
			"a longer life", base, "A B C\nx 64 @128 0-1\na 128 @0 0-1\nb 64 @192 1-2\nc 32 @0 2-2",
			"moved b +0; peak B 192->256, x lives here +64",
		},
		{
			"what was written in place is not", "A B\na,b 64 @0 0-1", "A B\na 64 @0 0-1\nb 64 @64 1-1",
			"moved b +0; peak B 64->128, b no longer shares +64",
		},
		{
			"what was not written in place is", "A B\na 64 @0 0-1\nb 64 @64 1-1", "A B\na,b 64 @0 0-1",
			"moved b +0; peak B 128->64, b shares now -64",
		},
		{
			"workspace", "A B\nx 8 @0 0-1", "A B\nx 8 @0 0-1\nws 32 @8 1",
			"peak B 8->40, B new +32",
		},
		{
			"nodes without names", ":Relu :Conv :Relu\nx 8 @0 0-2", ":Relu :Relu :Relu\nx 8 @0 0-2",
			"+Relu#3 -1 2; -Conv#1 1 -1; peak Relu#1 8->8",
		},
		{
			"the node of the peak is new", "A\nx 8 @0 0-0", "B\nx 8 @0 0-0\ny 8 @8 0-0",
			"+B -1 0; -A 0 -1; new y +8; peak B 8->16, y new +8",
		},
		{"no nodes", "\nx 8 @0 0-0", "\ny 4 @0 0-0", "new y +4; old x -8; peak  8->4, x gone -8, y new +4"},
		{"resident tensors are tensors", "A\nx 8 @0 0-0\nw 8 @0 resident", "A\nx 8 @0 0-0\nw 16 @0 resident", "resized w +8; peak A 8->8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, spellDiff(sketch(t, c.before).Diff(sketch(t, c.after)))); diff != "" {
				t.Errorf("expected (-), found (+):\n%s", diff)
			}
		})
	}
}

// Between any two plans, the causes add up to the change of the load.
func TestDiffAddsUp(t *testing.T) {
	var all []*plan.Plan
	for _, c := range planned {
		all = append(all, c.plan(t))
	}
	rapid.Check(t, func(r *rapid.T) {
		a, b := rapid.SampledFrom(all).Draw(r, "before"), rapid.SampledFrom(all).Draw(r, "after")
		d := a.Diff(b)
		sum := d.Peak.BeforeBytes
		for _, c := range d.Peak.Causes {
			sum += c.Bytes
		}
		if sum != d.Peak.AfterBytes {
			r.Fatalf("load %d, causes lead to %d, found %d", d.Peak.BeforeBytes, sum, d.Peak.AfterBytes)
		}
		if grew := b.Summary.PeakBytes - a.Summary.PeakBytes; grew > 0 && d.Peak.AfterBytes != b.Summary.PeakBytes ||
			grew < 0 && d.Peak.BeforeBytes != a.Summary.PeakBytes {
			r.Fatalf("the peak goes from %d to %d, the loads from %d to %d", a.Summary.PeakBytes, b.Summary.PeakBytes, d.Peak.BeforeBytes, d.Peak.AfterBytes)
		}
	})
}

func TestDiffNamesOtherSettings(t *testing.T) {
	a, b := sketch(t, "A\nx 8 @0 0-0"), sketch(t, "A\nx 8 @0 0-0")
	a.Dims["batch"], b.Dims["batch"] = plan.Dim{Value: 1, Assumed: true}, plan.Dim{Value: 8}
	b.Dims["length"], b.Alignment, b.Sharing.Views = plan.Dim{Value: 3}, 64, false
	want := []plan.SettingChange{{"alignment", "1", "64"}, {"sharing.views", "true", "false"}, {"dims.batch", "1", "8"}, {"dims.length", "", "3"}}
	if diff := cmp.Diff(want, a.Diff(b).Settings); diff != "" {
		t.Error(diff)
	}
}

func TestGates(t *testing.T) {
	const base = "A B\na 100 @0 0-1\nb 100 @100 1-1\nw 1000 @0 resident"
	limit := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name, after string
		limits      plan.Limits
		baseline    string
		want        string
	}{
		{"limits that are met", base, plan.Limits{Peak: limit(200), Arena: limit(200), Total: limit(1200)}, "", "peak 200<=200, arena 200<=200, total 1200<=1200"},
		{
			"limits that are not: what is there", base,
			plan.Limits{Peak: limit(199), Total: limit(0)},
			"",
			"peak 200>199: a lives here 100 b lives here 100, total 1200>0: w lives here 1000 a lives here 100 b lives here 100",
		},
		{"no growth", base, plan.Limits{}, base, "peak 200<=200, arena 200<=200, total 1200<=1200"},
		{
			"growth within the share", "A B\na 100 @0 0-1\nb 104 @100 1-1\nw 1000 @0 resident",
			plan.Limits{Growth: 2},
			base,
			"peak 204<=204, arena 204<=204, total 1204<=1224",
		},
		{
			"growth beyond it", "A B\na 100 @0 0-1\nb 105 @100 1-1\nw 1000 @0 resident",
			plan.Limits{Growth: 2},
			base,
			"peak 205>204: b resized 5, arena 205>204: b resized 5, total 1205<=1224",
		},
		{
			"fragmentation alone", "A B\na 100 @0 0-1\nb 100 @110 1-1\nw 1000 @0 resident",
			plan.Limits{},
			base,
			"peak 200<=200, arena 210>200: fragmentation 10, total 1210>1200: fragmentation 10",
		},
		{
			"weights alone", "A B\na 100 @0 0-1\nb 100 @100 1-1\nw 1001 @0 resident\nv 7 @1001 resident",
			plan.Limits{},
			base,
			"peak 200<=200, arena 200<=200, total 1208>1200: v new 7 w resized 1",
		},
		{
			"a limit and a baseline", "A B\na 101 @0 0-1\nb 100 @101 1-1\nw 1000 @0 resident",
			plan.Limits{Peak: limit(10), Growth: 50},
			base,
			"peak 201>10: a resized 1, peak 201<=300, arena 201<=300, total 1201<=1800",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.baseline != "" {
				c.limits.Baseline = sketch(t, c.baseline)
			}
			var list []string
			for _, g := range sketch(t, c.after).Gates(c.limits) {
				text := fmt.Sprintf("%s %d<=%d", g.Figure, g.Bytes, g.Most)
				if !g.Met {
					text = fmt.Sprintf("%s %d>%d:", g.Figure, g.Bytes, g.Most)
					for _, x := range g.Causes {
						text += fmt.Sprintf(" %s %d", strings.TrimSpace(x.Tensor+" "+x.Kind), x.Bytes)
					}
				}
				list = append(list, text)
			}
			if got := strings.Join(list, ", "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A limit on growth does not overflow int64.
func TestGatesOfHugePlans(t *testing.T) {
	p := sketch(t, fmt.Sprintf("A\nx %d @0 0-0", int64(math.MaxInt64)))
	for _, g := range p.Gates(plan.Limits{Baseline: p, Growth: 1e6}) {
		if !g.Met || g.Most != math.MaxInt64 {
			t.Errorf("%+v", g)
		}
	}
}
