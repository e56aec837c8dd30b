package schedule

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/internal/ilptest"
)

// ilpSwitches are programs of the same optimum.
var ilpSwitches = map[string]ILPOptions{
	"all reductions":                  {},
	"spans by level":                  {Spans: SpansByLevel},
	"all spans":                       {Spans: SpansAll},
	"no preserved":                    {NoPreserved: true},
	"no merging":                      {NoMerging: true},
	"no sequence":                     {NoSequence: true},
	"levels, no sequence, no merging": {Spans: SpansByLevel, NoSequence: true, NoMerging: true},
	"OLLA without section 4":          {Spans: SpansAll, NoPreserved: true, NoMerging: true, NoSequence: true, NoDisjoint: true, NoLoads: true},
}

// TestILPOptimum solves programs of random graphs, with each switch, and compares with brute
// force.
func TestILPOptimum(t *testing.T) {
	for i := range randomGraphs(t, 60) {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		p := withSibling(r, 6)
		for name, opt := range ilpSwitches {
			checkILP(t, i, p, name, opt, newBrute(p, true).optimum())
		}
		checkILP(t, i, p, "no pairs", ILPOptions{NoPairs: true}, newBrute(p, false).optimum())
		bare := *p
		bare.Nodes = slices.Clone(p.Nodes)
		for v := range bare.Nodes {
			bare.Nodes[v].Workspace = 0
		}
		best := newBrute(&bare, true).optimum()
		checkILP(t, i, p, "no workspaces", ILPOptions{NoWorkspaces: true}, best)
		best = newBrute(p, true).optimum()
		checkILP(t, i, p, "known bounds", ILPOptions{LowerBound: best, UpperBound: best}, best)
	}
}

func checkILP(t *testing.T, graph int, p *Problem, name string, opt ILPOptions, want int64) {
	t.Helper()
	g, err := p.ILP(opt)
	if err != nil {
		t.Fatalf("graph %d, %s: %v", graph, name, err)
	}
	got, x, done := ilptest.Minimum(&g.Program, 1<<17)
	if !done || got*g.Unit != want {
		t.Fatalf("graph %d of %d nodes, %s: optimum %d (found: %v), expected %d", graph, len(p.Nodes), name, got*g.Unit, done, want)
	}
	s, err := g.Decode(x)
	if err != nil {
		t.Fatalf("graph %d, %s: %v", graph, name, err)
	}
	if s.Bytes != want {
		t.Fatalf("graph %d, %s: decoded %d bytes, expected %d", graph, name, s.Bytes, want)
	}
	again, err := g.Encode(s)
	if err != nil {
		t.Fatalf("graph %d, %s: %v", graph, name, err)
	}
	if v, err := g.Value(again); err != nil || v != got {
		t.Fatalf("graph %d, %s: encoded again %d (%v), expected %d", graph, name, v, err, got)
	}
}

// TestILPOrders encodes each order of small graphs: its value is the peak, no completion of
// its columns x has a smaller one, and it is decoded to the same order.
func TestILPOrders(t *testing.T) {
	orders := 0
	for i := range randomGraphs(t, 40) {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		p := withSibling(r, 7)
		for name, opt := range ilpSwitches {
			g, err := p.ILP(opt)
			if err != nil {
				t.Fatal(err)
			}
			drawn := 0
			naive{p, true}.orders(func(order []int32) {
				if drawn++; drawn > 60 {
					return
				}
				orders++
				e := evaluate(index(p), order, AllPairs)
				x, err := g.Encode(Solution{Order: order, Taken: e.Taken})
				if err != nil {
					t.Fatalf("graph %d, %s, %v: %v", i, name, order, err)
				}
				if v, _ := g.Value(x); v*g.Unit != e.Peak {
					t.Fatalf("graph %d, %s, %v: value %d, expected %d", i, name, order, v*g.Unit, e.Peak)
				}
				s, err := g.Decode(x)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(Solution{Order: slices.Clone(order), Taken: e.Taken, Bytes: e.Peak}, s); d != "" {
					t.Fatalf("graph %d, %s: want - got +:\n%s", i, name, d)
				}
				if drawn > 5 {
					return
				}
				fixed := g.Program // with this order alone
				fixed.Columns = slices.Clone(g.Columns)
				for c := range fixed.Columns {
					if col := &fixed.Columns[c]; strings.HasPrefix(col.Name, "x") {
						col.Lower, col.Upper = x[c], x[c]
					}
				}
				if best, _, done := ilptest.Minimum(&fixed, 1<<17); !done || best*g.Unit != e.Peak {
					t.Fatalf("graph %d, %s, %v: the best completion has %d (found: %v), expected %d", i, name, order, best*g.Unit, done, e.Peak)
				}
			})
		}
	}
	if orders < 1000 {
		t.Errorf("%d orders: expected 1000 or more", orders)
	}
}

// TestControlEdges: with control edges, the program's orders are those of the problem, and
// the optimum is rarely lost on small training steps.
func TestControlEdges(t *testing.T) {
	edges, lost := 0, 0
	n := randomGraphs(t, 200)
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 9))
		p := randomTraining(r, 16)
		q := p.withControlEdges()
		edges += len(q.Tensors) - len(p.Tensors)
		if err := q.Validate(); err != nil {
			t.Fatalf("graph %d: %v", i, err)
		}
		best := newBrute(p, true).optimum()
		with := newBrute(q, true).optimum()
		if with < best {
			t.Fatalf("graph %d: optimum %d with control edges, %d without", i, with, best)
		}
		if with > best {
			lost++
		}
		if len(p.Nodes) > 9 || i%4 > 0 {
			continue
		}
		checkILP(t, i, p, "control edges", ILPOptions{ControlEdges: true}, with)
	}
	t.Logf("%d control edges in %d training steps; in %d steps they exclude every optimal order", edges, n, lost)
	if edges < n/4 || lost > n/10 {
		t.Errorf("%d control edges in %d training steps, %d of which lose their optimum", edges, n, lost)
	}
}

// TestJointILP solves the program of an order and offsets together, and compares with the
// exact placement of every order with every choice of in-place pairs.
func TestJointILP(t *testing.T) {
	fragmented, paired := 0, 0
	for i := range randomGraphs(t, 60) {
		r := rand.New(rand.NewPCG(uint64(i), 10))
		p := withSibling(r, 6)
		if i == 0 { // the peak is 4, but the smallest arena 5: the example of package alloc
			p = parse(t, "a:2, b:2=N(); c:1, d:1=N(b); e:1=N(d); f:2=N(c, e); g:2=N(f)")
		}
		for x := range p.Tensors {
			p.Tensors[x].Bytes %= 7
		}
		for v := range p.Nodes {
			p.Nodes[v].Workspace %= 5
		}
		best := Solution{Bytes: math.MaxInt64}
		naive{p, true}.orders(func(order []int32) {
			for _, taken := range choices(p, order) {
				if s := placed(t, p, order, taken); s.Bytes < best.Bytes {
					best = s
				}
			}
		})
		if len(best.Taken) > 0 {
			paired++
		}
		if best.Bytes > newBrute(p, true).optimum() {
			fragmented++
		}
		for name, opt := range ilpSwitches {
			opt.Offsets = true
			g, err := p.ILP(opt)
			if err != nil {
				t.Fatal(err)
			}
			x, err := g.Encode(best)
			if err != nil {
				t.Fatalf("graph %d, %s: %v", i, name, err)
			}
			s, err := g.Decode(x)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(best, s); d != "" {
				t.Fatalf("graph %d, %s: want - got +:\n%s", i, name, d)
			}
			if name != "all reductions" && (i%8 > 0 || len(p.Nodes) > 4) {
				continue
			}
			g.Columns[g.Peak].Upper = best.Bytes / g.Unit // so that the search ends soon
			checkOptimum(t, fmt.Sprintf("graph %d, %s", i, name), g, best.Bytes)
		}
	}
	if fragmented == 0 || paired == 0 {
		t.Errorf("%d optimal arenas exceed the peak, %d need an in-place pair: expected some", fragmented, paired)
	}
	t.Logf("%d optimal arenas exceed the peak, %d need an in-place pair", fragmented, paired)
}

func checkOptimum(t *testing.T, what string, g *ILP, want int64) {
	t.Helper()
	got, x, done := ilptest.Minimum(&g.Program, 1<<20)
	if !done || got*g.Unit != want {
		t.Fatalf("%s: optimum %d (found: %v), expected %d", what, got*g.Unit, done, want)
	}
	s, err := g.Decode(x)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if s = placedAt(t, g.problem, s); s.Bytes != want {
		t.Fatalf("%s: decoded arena %d, expected %d", what, s.Bytes, want)
	}
}

// choices returns the subsets of the in-place pairs that an order permits.
func choices(p *Problem, order []int32) [][]Pair {
	all := [][]Pair{nil}
	ran := make([]bool, len(order))
	for _, v := range order {
		for _, pair := range p.Pairs() {
			last := pair.Node == v
			for _, c := range p.Tensors[pair.Over].Consumers {
				last = last && (c == v || c == p.Tensors[pair.Over].Producer || ran[c])
			}
			if !last {
				continue
			}
			for _, taken := range all {
				if !slices.ContainsFunc(taken, func(o Pair) bool { return o.Result == pair.Result || o.Over == pair.Over }) {
					all = append(all, append(slices.Clip(taken), pair))
				}
			}
		}
		ran[v] = true
	}
	return all
}

// placed is the exact placement of an order with the given pairs.
func placed(t *testing.T, p *Problem, order []int32, taken []Pair) Solution {
	s := Solution{Order: slices.Clone(order), Taken: slices.Clone(taken), Offsets: make([]int64, len(p.Tensors)), Workspaces: make([]int64, len(p.Nodes))}
	for i := range s.Offsets {
		s.Offsets[i] = -1
	}
	for i := range s.Workspaces {
		s.Workspaces[i] = -1
	}
	buffers, list := lifetimeProblem(t, p, s)
	r, err := alloc.Solve(context.Background(), buffers, alloc.Options{})
	if err != nil || !r.Optimal {
		t.Fatalf("%v, optimal: %v", err, r.Optimal)
	}
	for i, l := range list {
		for _, x := range l.Tensors {
			s.Offsets[x] = r.Offsets[i]
		}
		if l.Node >= 0 {
			s.Workspaces[l.Node] = r.Offsets[i]
		}
	}
	s.Bytes = r.Arena
	return s
}

// placedAt checks the offsets of a solution with the checker of alloc, and gives its arena.
func placedAt(t *testing.T, p *Problem, s Solution) Solution {
	t.Helper()
	buffers, list := lifetimeProblem(t, p, s)
	at := alloc.Placement{Offsets: make([]int64, len(list))}
	for i, l := range list {
		if l.Node >= 0 {
			at.Offsets[i] = s.Workspaces[l.Node]
		} else {
			at.Offsets[i] = s.Offsets[l.Tensors[0]]
		}
		for _, x := range l.Tensors {
			if s.Offsets[x] != at.Offsets[i] {
				t.Fatalf("tensors %v share a buffer, but %d is at %d and %d at %d", l.Tensors, x, s.Offsets[x], l.Tensors[0], at.Offsets[i])
			}
		}
		at.Arena = max(at.Arena, at.Offsets[i]+l.Bytes)
	}
	if err := buffers.Check(at); err != nil {
		t.Fatal(err)
	}
	s.Bytes = at.Arena
	return s
}

func lifetimeProblem(t *testing.T, p *Problem, s Solution) (alloc.Problem, []Lifetime) {
	t.Helper()
	list, err := p.Lifetimes(s.Order, s.Taken)
	if err != nil {
		t.Fatal(err)
	}
	var buffers alloc.Problem
	for _, l := range list {
		buffers.Buffers = append(buffers.Buffers, alloc.Buffer{Size: l.Bytes, First: l.First, Last: l.Last})
	}
	return buffers, list
}

func TestILPFails(t *testing.T) {
	p := parse(t, "x:4; a:8=A(x); b:8>a=B(a); c:8=C(a); d:4=D(b, c)")
	g, err := p.ILP(ILPOptions{Offsets: true})
	if err != nil {
		t.Fatal(err)
	}
	none := []int64{-1, -1, -1, -1}
	for _, c := range []struct {
		s    Solution
		want string
	}{
		{Solution{Order: []int32{0, 1}}, "order: expected 4 nodes, found 2"},
		{Solution{Order: []int32{1, 0, 2, 3}}, `order: step 1: node "a" (A): expected it at step 0 to 0`},
		{Solution{Order: []int32{0, 1, 2, 3}, Taken: []Pair{{Node: 1, Result: 2, Over: 0}}}, "expected a pair of the program"},
		{Solution{Order: []int32{0, 1, 2, 3}, Taken: []Pair{{Node: 1, Result: 2, Over: 1}}}, "at step 1: expected all other readers of 1 before it"},
		{Solution{Order: []int32{0, 1, 2, 3}}, "offsets: expected those of 5 tensors and 4 workspaces, found 0 and 0"},
		{Solution{Order: []int32{0, 1, 2, 3}, Offsets: []int64{0, 4, 8, 16, 0}, Workspaces: none}, `offsets: tensor 1 "a" and tensor 2 "b" overlap at step 1`},
	} {
		if _, err := g.Encode(c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
	if _, err := g.Decode(make([]int64, len(g.Columns))); err == nil {
		t.Error("zeros are decoded")
	}
	if _, err := p.ILP(ILPOptions{Spans: 3}); err == nil {
		t.Error("an unknown rule of spans is taken")
	}
	if _, err := layered(9000).ILP(ILPOptions{}); err == nil || !strings.Contains(err.Error(), "expected at most 33554432 columns, rows and terms") {
		t.Errorf("a large problem: found %v", err)
	}
	empty := &Problem{Tensors: []Tensor{{Bytes: 3, Producer: -1}, {Bytes: 5, Producer: -1, Output: true}}}
	for _, offsets := range []bool{false, true} {
		g, err := empty.ILP(ILPOptions{Offsets: offsets})
		if err != nil {
			t.Fatal(err)
		}
		checkEmpty(t, g)
	}
}

func checkEmpty(t *testing.T, g *ILP) {
	t.Helper()
	if got, _, done := ilptest.Minimum(&g.Program, 1000); !done || got != 8 {
		t.Errorf("without nodes: optimum %d, expected 8", got)
	}
}
