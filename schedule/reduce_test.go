package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
	"github.com/onnxmem/onnxmem/schedule/internal/reduce"
)

// The contraction keeps the optimum: the best order of the contracted problem expands to
// an order whose peak is the optimum, unless the floor is larger. Without delaying and
// modules, which move nodes past others, no order gets a larger peak by being contracted.
func TestContractionKeepsTheOptimum(t *testing.T) {
	before, after, pairs := 0, 0, 0
	for i := range randomGraphs(t, 3000) {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		p := withSibling(r, 15)
		f := index(p)
		g := indexed.NewProblem(f)
		if g.Idle > 0 {
			continue
		}
		best := newBrute(p, true).optimum()
		c := reduce.Contract(g, reduce.Without{}, meter.New(t.Context()))
		before, after, pairs = before+g.Nodes, after+c.Problem.Nodes, pairs+len(c.Problem.Savings)
		s := newSolver(t.Context(), EffortDefault.budgets())
		sub := s.open(c.Problem, 0)
		sub.run(cheap)
		for sub.best.peak > sub.bound && sub.decide(max(sub.bound, sub.best.peak-1), 100_000) {
		}
		if got := max(sub.best.peak, c.Floor); got != best || sub.bound != sub.best.peak {
			t.Errorf("graph %d: %d nodes contracted to %d: optimum %d, proven %d, floor %d; want %d", i, g.Nodes, c.Problem.Nodes, sub.best.peak, sub.bound, c.Floor, best)
		}
		now := reduce.Contract(g, reduce.Without{Delaying: true, Modules: true}, meter.New(t.Context()))
		for _, order := range [2][]int32{g.Listing(), s.lists.Forward(g, g.Listing(), best, listsched.ByPlace)} {
			before, _ := indexed.Peak(g.Loads(order, nil))
			if after, _ := indexed.Peak(now.Problem.Loads(now.Reduce(order), nil)); after > before {
				t.Errorf("graph %d: an order of peak %d has %d contracted", i, before, after)
			}
		}
		order := c.Expand(sub.best.order)
		if e, err := p.Evaluate(order); err != nil || e.Peak != best {
			t.Errorf("graph %d: expanded to %v of peak %d, %v; want %d", i, order, e.Peak, err, best)
		}
	}
	t.Logf("%d nodes contracted to %d, %d of them with savings", before, after, pairs)
}

// A contracted problem with more precedence can be contracted again: its optimum stays the
// same.
func TestContractionOfContraction(t *testing.T) {
	s := newSolver(t.Context(), EffortDefault.budgets())
	optimum := func(g *indexed.Problem) int64 {
		sub := s.open(g, 0)
		sub.run(cheap)
		for sub.best.peak > sub.bound && sub.decide(max(sub.bound, sub.best.peak-1), 100_000) {
		}
		return sub.best.peak
	}
	again := 0
	for i := range randomGraphs(t, 3000) {
		r := rand.New(rand.NewPCG(uint64(i), 13))
		g := indexed.NewProblem(index(withModule(r)))
		if g.Idle > 0 {
			continue
		}
		c := reduce.Contract(g, reduce.Without{Delaying: r.IntN(2) == 0}, meter.New(t.Context())).Problem
		for range 1 + r.IntN(3) {
			u, v := int32(r.IntN(c.Nodes)), int32(r.IntN(c.Nodes))
			if u == v || !c.AddPrecedence([][2]int32{{u, v}}) {
				c = nil
				break
			}
		}
		if c == nil {
			continue
		}
		again++
		want := optimum(c)
		d := reduce.Contract(c, reduce.Without{}, meter.New(t.Context()))
		if got := max(optimum(d.Problem), d.Floor); got != want {
			t.Errorf("graph %d: optimum %d contracted again, want %d", i, got, want)
		}
	}
	t.Logf("%d contracted again", again)
}

// A node whose credit precedence has settled needs less than its Transient says. Once that
// was overlooked where a load is computed that no order escapes: idle nodes then ran where
// the peak was 2000.
func TestContractionAfterSettledCredit(t *testing.T) {
	p := parse(t, `x:200; a:500=A(); b:200=B() ws 12; c:200=C(x); d:200=D(a) ws 7; e:200=E(a); f:200=F(e) ws 2;
		g:500=G(a, f); h:500=H(e, f); i:0=I(e, g, h); j:0=J(d, i) ws 11; out x, b`)
	r, err := Solve(t.Context(), p, Options{})
	if err != nil || r.Evaluation.Peak != 1800 || !r.Optimal {
		t.Errorf("peak %d, bound %d, %v; want 1800", r.Evaluation.Peak, r.Bound, err)
	}
}

// The two comparisons of a clip's mask and the node that joins them become one node, so the
// gradient's steps form one chain.
func TestContractionOfMasks(t *testing.T) {
	g := indexed.NewProblem(index(parse(t, `x:9; y:8=Clip(x); z:8=Conv(y); d:8=Loss(z);
		w:20=ConvGrad(y, d); v:4=Sub(w); l:2=Less(y); g:2=Greater(y); m:2>l>g=And(l, g); e:8>d=Where(m, d); out v; out e`)))
	c := reduce.Contract(g, reduce.Without{}, meter.New(t.Context()))
	for _, v := range []int32{5, 6, 7} {
		if i := slices.IndexFunc(c.Run, func(run []int32) bool { return slices.Contains(run, v) }); len(c.Run[i]) != 3 {
			t.Errorf("node %d stands in a run of %v; want the mask's three nodes", v, c.Run[i])
		}
	}
}

// Without the small tensors, each load falls by their live bytes, and so by no more than
// the sum of their sizes.
func TestCoarseLoads(t *testing.T) {
	seen := 0
	for i := range randomGraphs(t, 2000) {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		g := indexed.NewProblem(index(randomProblem(r, 15)))
		total := r.Int64N(200)
		h := reduce.Coarse(g, total)
		if h == nil {
			continue
		}
		seen++
		s := newSolver(t.Context(), EffortDefault.budgets())
		for _, order := range [3][]int32{g.Listing(), s.lists.Forward(g, g.Listing(), indexed.Infinite, listsched.ByRise), s.lists.Backward(g, g.Listing(), 0, listsched.ByRise)} {
			fine, coarse := g.Loads(order, nil), h.Loads(order, nil)
			for step := range fine {
				if less := fine[step] - coarse[step]; less < 0 || less > total {
					t.Fatalf("graph %d: step %d of %v: load %d, coarse %d; want at most %d less", i, step, order, fine[step], coarse[step], total)
				}
			}
		}
	}
	t.Logf("%d graphs with small tensors", seen)
}

// The smallest sizes whose tensors together stay below a total count as 0 bytes. Tensors of
// equal size are treated alike.
func TestCoarseThreshold(t *testing.T) {
	g := indexed.NewProblem(index(parse(t, "x:1; a:1=A(x); b:5=B(a); c:5=C(b); d:9=D(c); out d")))
	for _, c := range []struct{ total, least int64 }{{1, 0}, {2, 5}, {6, 5}, {11, 5}, {12, 9}, {20, 9}} {
		if got := reduce.Threshold(g, c.total); got != c.least {
			t.Errorf("sizes %v, total %d: got %d, want %d", g.Size, c.total, got, c.least)
		}
	}
	if got := reduce.OfSmallest(g); got != 2 {
		t.Errorf("sizes %v: the smallest take %d, want 2", g.Size, got)
	}
}

// The shapes that a network computes beside its large tensors prevent nodes from merging;
// without their bytes, more nodes merge.
func TestCoarseContracts(t *testing.T) {
	g := indexed.NewProblem(index(parse(t, `x:900; a:900=Conv(x); s:4=Shape(a); u:4=Gather(s); v:4=Sub(u); w:4=Concat(u, v);
		b:900=Pad(a, w); c:900=Conv(b); d:900>c=Relu(c); y:4=Shape(c); z:4=Gather(y); e:900=Slice(d, z, v); out e`)))
	fine, coarse := reduce.Contract(g, reduce.Without{}, meter.New(t.Context())), reduce.Contract(reduce.Coarse(g, 100), reduce.Without{}, meter.New(t.Context()))
	if coarse.Problem.Nodes >= fine.Problem.Nodes {
		t.Errorf("contracted to %d nodes, coarse to %d", fine.Problem.Nodes, coarse.Problem.Nodes)
	}
}

func TestByGoals(t *testing.T) {
	for _, c := range []struct{ name, problem, want string }{
		{"one sum after another", "x:1; a:2=A(x); b:2=B(x); c:2=C(x); d:2=D(x); s:1=S(a, c); u:1=U(b, d); out s, u", "a c s b d u"},
		{"nodes that lead to no goal come last", "x:1; a:2=A(x); b:2=B(x); c:1=C(b); out a, c", "b c a"},
		{"no goal", "x:1; a:2=A(x); b:2=B(x); out a, b", "a b"},
	} {
		p := parse(t, c.problem)
		g := indexed.NewProblem(index(p))
		if got := names(p, listsched.ByGoals(g, g.Listing())); got != c.want {
			t.Errorf("%s: %s:\n got %s\nwant %s", c.name, c.problem, got, c.want)
		}
	}
}

func TestByGoalsIsAnOrder(t *testing.T) {
	for i := range randomGraphs(t, 1000) {
		p := randomProblem(rand.New(rand.NewPCG(uint64(i), 9)), 30)
		g := indexed.NewProblem(index(p))
		if order := listsched.ByGoals(g, g.Listing()); len(p.Nodes) > 0 {
			if _, err := p.Evaluate(order); err != nil {
				t.Fatalf("graph %d: %v: %v", i, order, err)
			}
		}
	}
}

// withModule draws a problem with a module: nodes between an entry and an exit that only
// the two connect with the others, which may read the entry's tensor too.
func withModule(r *rand.Rand) *Problem {
	p := randomProblem(r, 6)
	tensor := func(producer int32) int32 {
		p.Tensors = append(p.Tensors, Tensor{Bytes: r.Int64N(20) * r.Int64N(2), Producer: producer})
		if x := &p.Tensors[len(p.Tensors)-1]; r.IntN(8) > 0 {
			x.Bytes++
		}
		return int32(len(p.Tensors) - 1)
	}
	node := func(reads ...int32) int32 {
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, Node{Workspace: r.Int64N(2) * r.Int64N(15)})
		for _, t := range reads {
			p.Tensors[t].Consumers = append(p.Tensors[t].Consumers, v)
		}
		return v
	}
	made := []int32{tensor(int32(r.IntN(len(p.Nodes))))}
	if r.IntN(3) == 0 {
		tensor(node(made[0])) // reads the entry's tensor, and is outside
	}
	for range 2 + r.IntN(5) {
		reads := []int32{made[r.IntN(len(made))]}
		if t := made[r.IntN(len(made))]; t != reads[0] {
			reads = append(reads, t)
		}
		made = append(made, tensor(node(reads...)))
	}
	var left []int32
	for _, t := range made[1:] {
		if len(p.Tensors[t].Consumers) == 0 || r.IntN(6) == 0 {
			left = append(left, t)
		}
	}
	out := tensor(node(left...))
	if r.IntN(2) == 0 {
		node(out, int32(r.IntN(len(p.Tensors))))
	} else {
		p.Tensors[out].Output = true
	}
	for t := range p.Tensors {
		p.Tensors[t].Reuses = nil
	}
	drawSharing(r, p)
	return p
}

// A module that is given a fixed order leaves the optimum as it is.
func TestChainsKeepTheOptimum(t *testing.T) {
	n, chained := randomGraphs(t, 3000), 0
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 12))
		p := withModule(r)
		if p.Validate() != nil || len(p.Nodes) > 15 {
			continue
		}
		b := newBrute(p, true)
		best := b.optimum()
		kept := b
		edges := reduce.Chains(indexed.NewProblem(index(p)))
		for _, e := range edges {
			kept = kept.with(e[0], e[1])
		}
		if len(edges) > 0 {
			chained++
		}
		if got := kept.optimum(); got != best {
			t.Errorf("graph %d: optimum %d with %v, want %d", i, got, edges, best)
		}
		r2, err := Solve(t.Context(), p, Options{})
		if err != nil || !r2.Optimal || r2.Evaluation.Peak != best {
			t.Errorf("graph %d: peak %d, optimal %v, %v; want %d", i, r2.Evaluation.Peak, r2.Optimal, err, best)
		}
	}
	if chained < n/20 {
		t.Errorf("%d of %d graphs have a module with a fixed order", chained, n)
	}
	t.Logf("%d of %d graphs have a module with a fixed order", chained, n)
}
