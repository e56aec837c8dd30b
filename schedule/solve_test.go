package schedule

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestStrategies(t *testing.T) {
	const (
		// Two branches of the input, each with a large tensor in the middle.
		branches = "x:1; a:1=A(x); b:1=B(x); c:9=C(a); d:9=D(b); e:1=E(c); f:1=F(d); g:1=G(e, f); out g"
		// The listing is not topological.
		shuffled = "c:1=C(b); b:1=B(a); x:1; a:1=A(x); d:1=D(x); out c, d"
		// Updates at the end, each of which frees a gradient.
		updates = "x:1; h:1=F(x); u:4=G(h); v:4=H(h); s:0=U(u); r:0=V(v)"
		// A tensor with two readers, and one with one.
		shares = "t:8; a:3=A(t); b:2=B(t); c:1=C(a); out b, c"
		// The forward graph of PyTorch's test/inductor/test_memory.py, which has the
		// results of Inductor's three orders. t1 and t2 are saved for the backward pass;
		// the weights are resident.
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
		// Keys: c [0], d [0 1], e [1]; a prefix comes first.
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

// Every strategy returns a topological order, since Evaluate accepts it.
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

// The bound is at most the optimum, the optimum at most the peak found, and an order that is
// called optimal is optimal.
func TestSolveIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 7)
		noPairs := rapid.Bool().Draw(t, "no pairs")
		best := naive{p, !noPairs}.optimum()
		if len(p.Nodes) == 0 {
			e, _ := p.Evaluate(nil)
			best = e.Peak
		}
		r, err := Solve(context.Background(), p, Options{NoPairs: noPairs})
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

// Indices do not matter: a relabelled problem has the same bound, and the same order has
// the same loads.
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
		r, err := Solve(context.Background(), p, c.opt)
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
	r, err := Solve(context.Background(), p, Options{})
	if err != nil || r.Strategy != "program" || !slices.Equal(r.Order, []int32{0, 1, 2}) {
		t.Errorf("got %+v, %v; want program order", r, err)
	}
}

// Every effort gives a valid order and a bound of at most the optimum, the same each time.
// A greater effort proves at least as many optima.
func TestEfforts(t *testing.T) {
	proven := map[Effort]int{}
	for i := range randomGraphs(t, 300) {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		p := randomProblem(r, 13)
		best := newBrute(p, true).optimum()
		for _, effort := range []Effort{EffortFast, EffortDefault, EffortMax} {
			got, err := Solve(context.Background(), p, Options{Effort: effort})
			if err != nil {
				t.Fatal(err)
			}
			if got.Bound > best || got.Evaluation.Peak < best || got.Optimal != (got.Bound == got.Evaluation.Peak) {
				t.Fatalf("graph %d: effort %d: bound %d, optimum %d, peak %d, optimal %v", i, effort, got.Bound, best, got.Evaluation.Peak, got.Optimal)
			}
			if e, err := p.Evaluate(got.Order); err != nil || e.Peak != got.Evaluation.Peak {
				t.Fatalf("graph %d: effort %d: an order of peak %d, %v; want %d", i, effort, e.Peak, err, got.Evaluation.Peak)
			}
			again, _ := Solve(context.Background(), p, Options{Effort: effort})
			if d := cmp.Diff(got, again); d != "" {
				t.Fatalf("graph %d: effort %d: first - second +:\n%s", i, effort, d)
			}
			if got.Optimal {
				proven[effort]++
			}
		}
	}
	if proven[EffortFast] > proven[EffortDefault] || proven[EffortDefault] > proven[EffortMax] {
		t.Errorf("proven at each effort: %v", proven)
	}
	t.Logf("proven at each effort: %v", proven)
}

// countdown is a context that ends after a number of calls of Err: a time limit without a
// clock.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Wherever the context ends, the order is valid, the certificate proves the bound, and both
// are at least as good as Progress reported last.
func TestSolveEnds(t *testing.T) {
	errEnough := errors.New("enough")
	for name, p := range map[string]*Problem{"layered": tangled(60), "transformer": transformer(300), "recurrent": recurrent(300, sgd)} {
		whole, err := Solve(context.Background(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for left := 0; ; left = left*3/2 + 1 {
			cancelled, cancel := context.WithCancelCause(t.Context())
			cancel(errEnough)
			ctx := &countdown{cancelled, left}
			bound, peak := int64(0), whole.ProgramPeak
			r, err := Solve(ctx, p, Options{Progress: func(b, k int64) {
				if b < bound || k > peak || b == bound && k == peak && b > 0 {
					t.Errorf("%s, %d looks: told %d, %d after %d, %d", name, left, b, k, bound, peak)
				}
				bound, peak = b, k
			}})
			if err != nil {
				t.Fatal(err)
			}
			e, err := p.Evaluate(r.Order)
			if err != nil || e.Peak != r.Evaluation.Peak || len(r.Orders) == 0 || !slices.Equal(r.Orders[0], r.Order) {
				t.Fatalf("%s, %d looks: %v: an order of peak %d, said to be %d", name, left, err, e.Peak, r.Evaluation.Peak)
			}
			if r.Bound <= 0 || r.Bound > whole.Evaluation.Peak || r.Bound < bound || r.Evaluation.Peak > peak {
				t.Fatalf("%s, %d looks: bound %d, peak %d; told %d, %d; without end %d, %d", name, left, r.Bound, r.Evaluation.Peak, bound, peak, whole.Bound, whole.Evaluation.Peak)
			}
			if c := r.Certificates[0]; c.Kind == KindCut && CutBound(p, c.Nodes[0]) < r.Bound {
				t.Fatalf("%s, %d looks: node %d proves %d, not %d", name, left, c.Nodes[0], CutBound(p, c.Nodes[0]), r.Bound)
			}
			if r.Ended == nil {
				if r.Bound != whole.Bound || r.Evaluation.Peak != whole.Evaluation.Peak {
					t.Fatalf("%s, %d looks: not ended, bound %d, peak %d; want %d, %d", name, left, r.Bound, r.Evaluation.Peak, whole.Bound, whole.Evaluation.Peak)
				}
				break
			}
			if !errors.Is(r.Ended, errEnough) {
				t.Fatalf("%s, %d looks: ended by %v", name, left, r.Ended)
			}
			ended++
		}
		if ended < 2 {
			t.Errorf("%s: ended %d times", name, ended)
		}
		t.Logf("%s: ended at %d points", name, ended)
	}
}

// With Options.Precedence, the order is the best of those that keep it, and the bound holds
// for all orders.
func TestPrecedenceIsKeptAndNotInTheBound(t *testing.T) {
	worse := 0
	for i := range randomGraphs(t, 1000) {
		r := rand.New(rand.NewPCG(uint64(i), 21))
		p := randomProblem(r, 10)
		var keep [][2]int32
		last := int32(-1)
		for _, v := range Program(p) {
			if r.IntN(3) == 0 {
				if last >= 0 {
					keep = append(keep, [2]int32{last, v})
				}
				last = v
			}
		}
		got, err := Solve(context.Background(), p, Options{Precedence: keep})
		if err != nil {
			t.Fatal(err)
		}
		q := *p
		q.Tensors = slices.Clone(p.Tensors)
		for _, e := range keep {
			q.Tensors = append(q.Tensors, Tensor{Producer: e[0], Consumers: []int32{e[1]}})
		}
		best, kept := newBrute(p, true).optimum(), newBrute(&q, true).optimum()
		if got.Evaluation.Peak != kept || got.Bound != best || got.Optimal != (kept == best) {
			t.Errorf("graph %d: peak %d, bound %d, optimal %v; the best that keeps %v is %d, of all %d", i, got.Evaluation.Peak, got.Bound, got.Optimal, keep, kept, best)
		}
		for _, order := range got.Orders {
			if e, err := q.Evaluate(order); err != nil || e.Peak != kept {
				t.Errorf("graph %d: an order of peak %d, %v; want %d", i, e.Peak, err, kept)
			}
		}
		checkCertificate(t, p, got.Certificates[0])
		if kept > best {
			worse++
		}
	}
	if worse == 0 {
		t.Error("no precedence raises a peak: nothing is tested")
	}
}

func TestPrecedenceAgainstTheTensorsIsRefused(t *testing.T) {
	p := &Problem{Nodes: make([]Node, 2), Tensors: []Tensor{{Bytes: 1, Producer: 0, Consumers: []int32{1}}}}
	for _, keep := range [][][2]int32{{{1, 0}}, {{0, 2}}} {
		if r, err := Solve(context.Background(), p, Options{Precedence: keep}); err == nil {
			t.Errorf("%v: got %v", keep, r.Order)
		}
	}
}

// With GoalArea the area is no larger, and the peak is the same.
func TestGoalArea(t *testing.T) {
	less := 0
	for i := range 300 {
		p := randomProblem(rand.New(rand.NewPCG(uint64(i), 22)), 30)
		plain, err := Solve(context.Background(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		flat, err := Solve(context.Background(), p, Options{Goal: GoalArea})
		if err != nil {
			t.Fatal(err)
		}
		if flat.Evaluation.Peak != plain.Evaluation.Peak || flat.Bound != plain.Bound || len(flat.Orders) > 5 {
			t.Errorf("graph %d: peak %d, bound %d, %d orders; want %d, %d", i, flat.Evaluation.Peak, flat.Bound, len(flat.Orders), plain.Evaluation.Peak, plain.Bound)
		}
		area := flat.Evaluation.Area()
		for _, order := range append(plain.Orders, flat.Orders...) {
			if e, err := p.Evaluate(order); err != nil || e.Area() < area || e.Peak > flat.Evaluation.Peak {
				t.Errorf("graph %d: an order of peak %d and area %d, %v; the first has %d and %d", i, e.Peak, e.Area(), err, flat.Evaluation.Peak, area)
			}
		}
		if area < plain.Evaluation.Area() {
			less++
		}
	}
	if less < 30 {
		t.Errorf("the goal lowers the area of %d graphs of 300", less)
	}
}

func TestAreaStaysInRange(t *testing.T) {
	if a := (Evaluation{Loads: []int64{math.MaxInt64, 1}}).Area(); a != math.MaxInt64 {
		t.Errorf("got %d", a)
	}
}

// Measuring the time of bounds does not change the result.
func TestBoundTime(t *testing.T) {
	p := transformer(300)
	want, err := Solve(context.Background(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var spent time.Duration
	got, err := Solve(context.Background(), p, Options{BoundTime: &spent})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" || spent <= 0 {
		t.Errorf("bounds took %v\n%s", spent, d)
	}
}
