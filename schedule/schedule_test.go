package schedule

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestStrategies(t *testing.T) {
	const (
		// Two branches of the input, each large in the middle.
		branches = "x:1; a:1=A(x); b:1=B(x); c:9=C(a); d:9=D(b); e:1=E(c); f:1=F(d); g:1=G(e, f); out g"
		// The listing is not topological.
		shuffled = "c:1=C(b); b:1=B(a); x:1; a:1=A(x); d:1=D(x); out c, d"
		// Updates at the end, each of which frees a gradient.
		updates = "x:1; h:1=F(x); u:4=G(h); v:4=H(h); s:0=U(u); r:0=V(v)"
		// A tensor with two readers, and one with one.
		shares = "t:8; a:3=A(t); b:2=B(t); c:1=C(a); out b, c"
		// The forward graph of PyTorch's test/inductor/test_memory.py, whose
		// tests say what Inductor's three orders make of it. t1 and t2 are saved
		// for the backward pass; the weights are resident.
		foo = "t1:81920=mm(x, w1); t2:8192=mm(x, w2); t3:8192=mm(t1, w3); t4:81920=mm(t2, w4); " +
			"s3:4=sum(t3); s4:4=sum(t4); y:4=add(s3, s4); x:8192, w1:40, w2:4, w3:40, w4:40; res x, w1, w2, w3, w4; out t1, t2, y"
	)
	for _, c := range []struct{ strategy, problem, want string }{
		{"program", branches, "a b c d e f g"},
		{"bfs", branches, "a b c d e f g"},
		{"dfs", branches, "a c e b d f g"},
		{"greedy", branches, "a b c e d f g"},
		{"program", shuffled, "a b c d"},
		{"bfs", shuffled, "a d b c"},
		{"dfs", shuffled, "a b c d"},
		{"program", updates, "h u v s r"},
		{"greedy", updates, "h u s v r"},
		{"reverse-dfs", branches, "b d f a c e g"},
		{"reverse-dfs", updates, "h v r u s"},
		{"reverse-dfs", shuffled, "d a b c"},
		{"ort-priority", "x:1; a:1=A(x); b:1=B(a); c:1=Shape(a); d:1=Size(b); e:1=E(b)", "a c b d e"},
		{"ort-priority", shuffled, "a b c d"},
		{"lpmf", foo, "t2 t1 t3 s3 t4 s4 y"},
		{"inductor-bfs", foo, "t1 t2 t3 t4 s3 s4 y"},
		{"inductor-dfs", foo, "t1 t3 s3 t2 t4 s4 y"},
		// Keys: c [0], d [0 1], e [1]; a list that ends sooner comes first.
		{"inductor-bfs", "x:1; a:1=A(x); b:1=B(x); e:1=E(b); d:1=D(a, b); c:1=C(a)", "a b c d e"},
		{"kahn-size", shares, "b a c"}, // b adds 2 - 8/2, a 3 - 8/2, c 1 - 3
		{"greedy", shares, "b a c"},    // b adds 2, then a frees t
		{"serenity", branches, "a b c e d f g"},
		{"serenity", updates, "h u s v r"},
		{"roam", updates, "h u s v r"},
	} {
		p := parse(t, c.problem)
		s, err := named(c.strategy)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(p, s[0].Func(p)); got != c.want {
			t.Errorf("%s of %s:\n got %s\nwant %s", c.strategy, c.problem, got, c.want)
		}
	}
}

// Every strategy returns a topological order; the evaluation refuses others.
func TestStrategiesReturnOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 20)
		for _, s := range Strategies {
			order := s.Func(p)
			if _, err := p.Evaluate(order); err != nil {
				t.Fatalf("%s: %v: %v", s.Name, order, err)
			}
			if again := s.Func(p); !slices.Equal(order, again) {
				t.Fatalf("%s: %v, then %v", s.Name, order, again)
			}
		}
	})
}

func TestProgramKeepsATopologicalListing(t *testing.T) {
	for _, p := range []*Problem{tangled(1000), transformer(1000)} {
		if order := Program(p); !slices.Equal(order, indices(len(p.Nodes))) {
			t.Errorf("moved: %v", order)
		}
	}
}

func TestLowerBound(t *testing.T) {
	for _, c := range []struct {
		name, problem string
		bytes         int64
		node          int32
	}{
		{"a node", "x:4; a:8=A(x); b:2=B(a); out b", 12, 0},
		{"the first of equal nodes", "x:4; a:8=A(x); b:4=B(a); out b", 12, 0},
		{"less a matching", "x:4, y:4; a:4>x>y=A(x, y); out a", 8, 0},
		{"with workspace", "x:4; a:1=A(x); b:1=B(a) ws 9; out b", 11, 1},
		{"all inputs wait at the first step", "x:4, y:4, z:4; a:1=A(x); b:1=B(y); c:1=C(z); out a, b, c", 13, -1},
		{"an unread input", "x:4, y:9; a:1=A(x); out a", 14, -1},
		{"all outputs are there at the last step", "x:1; a:5=A(x); b:5=B(x); c:5=C(x); out a, b, c", 16, -1},
		{"a pair at the last step", "x:5; a:5=A(x); b:5=B(x); c:5>x=C(x); out a, b, c", 15, -1},
		{"no nodes", "x:4", 4, -1},
		{"nothing", "x:0", 0, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, c.problem)
			bytes, node := LowerBound(p)
			if bytes != c.bytes || node != c.node {
				t.Errorf("%s: got %d by node %d, want %d by %d", c.problem, bytes, node, c.bytes, c.node)
			}
			if node >= 0 && NodeBound(p, node) != bytes {
				t.Errorf("%s: NodeBound(%d) = %d, want %d", c.problem, node, NodeBound(p, node), bytes)
			}
		})
	}
}

// No order goes below the bound, none that is found is better than the best of
// all, and one that is called optimal is.
func TestSolveIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 7)
		noPairs := rapid.Bool().Draw(t, "no pairs")
		best := naive{p, !noPairs}.optimum()
		if len(p.Nodes) == 0 {
			e, _ := p.Evaluate(nil)
			best = e.Peak
		}
		r, err := Solve(p, Options{NoPairs: noPairs})
		if err != nil {
			t.Fatal(err)
		}
		if r.Bound > best || best > r.Evaluation.Peak || r.Evaluation.Peak > r.ProgramPeak {
			t.Fatalf("want bound %d <= optimum %d <= peak %d <= program order %d", r.Bound, best, r.Evaluation.Peak, r.ProgramPeak)
		}
		if r.Optimal != (r.Evaluation.Peak == r.Bound) {
			t.Fatalf("optimal %v, peak %d, bound %d", r.Optimal, r.Evaluation.Peak, r.Bound)
		}
		if noPairs && len(r.Evaluation.Taken) > 0 {
			t.Fatalf("pairs were taken: %v", r.Evaluation.Taken)
		}
	})
}

// Names and numbers mean nothing: a relabelled problem has the same bound, and
// the same order the same loads.
func TestRelabelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 10)
		order := drawOrder(t, p)
		node := rapid.Permutation(indices(len(p.Nodes))).Draw(t, "node")
		tensor := rapid.Permutation(indices(len(p.Tensors))).Draw(t, "tensor")
		q := relabelled(p, node, tensor)
		a, _ := LowerBound(p)
		b, _ := LowerBound(q)
		if a != b {
			t.Fatalf("bound %d, relabelled %d", a, b)
		}
		before, err := p.Evaluate(order)
		if err != nil {
			t.Fatal(err)
		}
		moved := slices.Clone(order)
		for i, v := range order {
			moved[i] = node[v]
		}
		after, err := q.Evaluate(moved)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(before.Loads, after.Loads); d != "" {
			t.Fatalf("loads, before - relabelled +:\n%s", d)
		}
	})
}

func TestSolve(t *testing.T) {
	p := parse(t, "x:1; h:1=F(x); u:4=G(h); v:4=H(h); s:0=U(u); r:0=V(v)")
	for _, c := range []struct {
		opt      Options
		strategy string
		order    string
		peak     int64
		optimal  bool
	}{
		{Options{}, "search", "h u s v r", 5, true},
		{Options{Strategy: "greedy"}, "greedy", "h u s v r", 5, true},
		{Options{Strategy: "bfs"}, "bfs", "h u v s r", 9, false},
	} {
		r, err := Solve(p, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if r.Strategy != c.strategy || names(p, r.Order) != c.order || r.Evaluation.Peak != c.peak || r.Optimal != c.optimal {
			t.Errorf("%+v: got %s %s, peak %d, optimal %v; want %+v", c.opt, r.Strategy, names(p, r.Order), r.Evaluation.Peak, r.Optimal, c)
		}
		if names(p, r.ProgramOrder) != "h u v s r" || r.ProgramPeak != 9 || r.Bound != 5 {
			t.Errorf("%+v: program order %s, peak %d, bound %d", c.opt, names(p, r.ProgramOrder), r.ProgramPeak, r.Bound)
		}
	}
}

func TestSolveKeepsProgramOrder(t *testing.T) {
	p := parse(t, "x:2, y:2; a:2=A(x); b:2=B(y); c:2=C(a, b); out c")
	r, err := Solve(p, Options{})
	if err != nil || r.Strategy != "program" || !slices.Equal(r.Order, []int32{0, 1, 2}) {
		t.Errorf("got %+v, %v; want program order", r, err)
	}
}
