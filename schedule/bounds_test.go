package schedule

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/internal/datafolder"
	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// An LSTM under Adam has hundreds of updates of the same load, which run best from the state
// of the fewest live bytes. The bound is the load of the first of them.
func TestBoundOfHundreds(t *testing.T) {
	p := recurrent(10_000, adam)
	r, err := Solve(context.Background(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Certificates[0]
	if !r.Optimal || c.Kind != KindFirst || len(c.Nodes) < 300 {
		t.Errorf("bound %d, peak %d, proven by %s of %d nodes; want the first of hundreds", r.Bound, r.Evaluation.Peak, c.Kind, len(c.Nodes))
	}
	if b := FirstBound(p, c.Nodes); b != r.Bound {
		t.Errorf("FirstBound of the certificate's nodes is %d, the bound %d", b, r.Bound)
	}
}

// A set bound that runs out of work is at most the complete one, in whatever order the set
// is listed. So is one that stops early because it has proven enough.
func TestSetBoundsWithoutWork(t *testing.T) {
	less := 0
	for i := range randomGraphs(t, 2000) {
		r := rand.New(rand.NewPCG(uint64(i), 9))
		p := randomProblem(r, 15)
		g := indexed.NewProblem(index(p))
		var set []int32
		for v := range p.Nodes {
			if r.IntN(2) == 0 {
				set = append(set, int32(v))
			}
		}
		if len(set) == 0 {
			continue
		}
		reversed := make([]int32, len(set))
		for i, v := range set {
			reversed[len(set)-1-i] = v
		}
		c := bounds.NewCutter(meter.New(t.Context()))
		for _, end := range []struct {
			name  string
			bound func(p *Problem, set []int32) int64
			of    func(g *indexed.Problem, set []int32, enough, work int64) bounds.Certificate
		}{{"first", FirstBound, c.First}, {"last", LastBound, c.Last}} {
			whole := end.bound(p, set)
			if b := end.bound(p, reversed); b != whole {
				t.Fatalf("graph %d: %s of %d is %d, of the same nodes in reverse %d", i, end.name, set, whole, b)
			}
			if b := end.of(g, set, -1, -1).Value; b > whole {
				t.Fatalf("graph %d: %s of %d without work is %d, above %d", i, end.name, set, b, whole)
			} else if b < whole {
				less++
			}
			if b := end.of(g, set, whole, 1<<40).Value; b > whole {
				t.Fatalf("graph %d: %s of %d is %d when %d is enough", i, end.name, set, b, whole)
			}
		}
	}
	if less == 0 {
		t.Error("no set ran out of work")
	}
}

// Two gradients of one weight are added. One of the two nodes that make them runs last,
// while its own input and the other's result are live. No bound of a single node counts
// both, and sets of all nodes of large loads contain nodes that run later.
func TestSetsOfNeighbours(t *testing.T) {
	p := parse(t, `x:1; a:3=A(x); b:4=B(a); c:5=C(b, a); u:90=U(b); w:90=W(c); s:90>u>w=Add(u, w); n:90>s=Neg(s); k:90=K(n); out k`)
	r, err := Solve(context.Background(), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Certificates[0]; !r.Optimal || c.Kind != KindLast || !slices.Equal(c.Nodes, []int32{3, 4}) {
		t.Errorf("bound %d, peak %d, certificate %v; want the last of nodes 3 and 4", r.Bound, r.Evaluation.Peak, c)
	}
}

// The gradients of two weights wait for G, which frees b. One of them runs first, while the
// other's inputs are live. No bound of a single node counts these, and a set of all nodes as
// tall contains F, which runs before both.
func TestSetsBeyondANode(t *testing.T) {
	p := parse(t, `x:1; s:5, c:1=E(x); t:5, a:6, b:9=F(c) ws 40; d:4=L(a); e:4=G(d, b);
		v:50=V(d, t); n:1=N(v); w:50=W(e, s); u:1=U(w); out n, u`)
	s := newSolver(t.Context(), EffortDefault.budgets())
	sub := s.open(indexed.NewProblem(index(p)), 0)
	sub.see(Program(p))
	for v := range p.Nodes {
		sub.ask(int32(v))
	}
	alone := sub.bound
	if sub.sets(); alone != 66 || sub.bound != 68 || sub.best.peak != 68 {
		t.Errorf("bound of single nodes %d, of sets %d, peak %d; want 66, 68, 68", alone, sub.bound, sub.best.peak)
	}
	if c := sub.proof; c.Kind != KindFirst || !slices.Equal(c.Nodes, []int32{4, 6}) {
		t.Errorf("%v: want the first of nodes 4 and 6", c)
	}
	checkCertificate(t, p, Certificate(sub.proof))
}

// In the training step of a network of two towers, the gradients of hundreds of weights wait
// for the backward pass of the smaller tower.
func TestTwoTowers(t *testing.T) {
	paths := datafolder.Glob(t, "open-orders", "*PickScore*")
	r, err := Solve(t.Context(), readFile(t, paths[0]), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Certificates[0]; !r.Optimal || c.Kind != KindFirst {
		t.Errorf("bound %d, peak %d, certificate of kind %s; want a proof by the first of a set", r.Bound, r.Evaluation.Peak, c.Kind)
	}
}

// A set of a node and opponents, which are not ordered with it, proves at least as much as
// the lemma of [bounds.Cutter.Conflicts] concludes from single cuts, and no more than the
// optimum.
func TestSetsProveConflicts(t *testing.T) {
	raised := 0
	for i := range randomGraphs(t, 1000) {
		r := rand.New(rand.NewPCG(uint64(i), 30))
		p := randomProblem(r, 12)
		g := indexed.NewProblem(index(p))
		best := newBrute(p, true).optimum()
		c := bounds.NewCutter(meter.New(t.Context()))
		for v := range int32(g.Nodes) {
			alone := c.Node(g, v).Value
			var set []int32
			for w := range int32(g.Nodes) {
				if w != v && c.Marks[w] == bounds.Free && r.IntN(2) == 0 {
					set = append(set, w)
				}
			}
			if len(set) == 0 {
				continue
			}
			for _, hold := range [2]bool{false, true} {
				cuts := c.Against(g, v, set, hold)
				for _, w := range set {
					cuts = min(cuts, c.Against(g, w, []int32{v}, hold))
				}
				all := append([]int32{v}, set...)
				bound := c.First(g, all, -1, indexed.Infinite).Value
				if hold {
					bound = c.Last(g, all, -1, indexed.Infinite).Value
				}
				if bound < cuts || bound > best {
					t.Fatalf("graph %d: node %d against %v, held %v: the set proves %d, the cuts %d, optimum %d", i, v, set, hold, bound, cuts, best)
				}
				if bound > alone {
					raised++
				}
			}
		}
	}
	t.Logf("%d bounds are above that of the node alone", raised)
}

// The gradient of a weight has no room while the activations are live, so its inputs stay
// live. The bound of the conflict counts them at the peak.
func TestConflictOfAWeight(t *testing.T) {
	p := parse(t, `x:1; c:40=C(x); a:20=A(c); b:4=B(a); d:4=D(b); w:50=G(b, d); u:1=U(w); e:20=E(d, a); f:1=F(e, c); out u; out f`)
	s := newSolver(t.Context(), EffortDefault.budgets())
	g := indexed.NewProblem(index(p))
	sub := s.open(g, 0)
	sub.see([]int32{0, 1, 2, 3, 6, 7, 4, 5})
	sub.ask(6)
	alone := sub.bound
	if sub.conflicts(); alone != 85 || sub.bound != 88 || sub.best.peak != 88 {
		t.Errorf("bound of the node %d, of the conflict %d, peak %d; want 85, 88, 88", alone, sub.bound, sub.best.peak)
	}
	proof := sub.proof
	proof.Value = sub.bound
	if proof.Kind == KindSearch {
		t.Errorf("%v: want a set that proves it", proof)
	}
	checkCertificate(t, p, Certificate(proof))
}

// A node with more matchings than the bound enumerates has a valid bound and an exact load.
func TestManyMatchings(t *testing.T) {
	for i := range randomGraphs(t, 300) {
		r := rand.New(rand.NewPCG(uint64(i), 8))
		p := randomProblem(r, 8)
		// Add a late node that may write each of 4 results over each of 5 tensors; some
		// of these have other readers, before it and after it.
		v := int32(len(p.Nodes))
		p.Nodes = append(p.Nodes, Node{}, Node{})
		var over Reuses
		for k := range 5 {
			x := Tensor{Bytes: 7, Producer: -1, Consumers: []int32{v}}
			if k > 0 {
				x.Producer = int32(r.IntN(int(v)))
			}
			for range r.IntN(3) {
				if reader := int32(r.IntN(int(v))); reader > x.Producer {
					x.Consumers = append(x.Consumers, reader)
				}
			}
			if r.IntN(6) == 0 {
				x.Consumers = append(x.Consumers, v+1)
			}
			over = append(over, int32(len(p.Tensors)))
			p.Tensors = append(p.Tensors, x)
		}
		for range 4 {
			p.Tensors = append(p.Tensors, Tensor{Bytes: 7, Producer: v, Consumers: []int32{v + 1}, Reuses: over})
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		best := newBrute(p, true).optimum()
		got, err := Solve(context.Background(), p, Options{})
		if err != nil || got.Bound > best || got.Evaluation.Peak != best {
			t.Fatalf("graph %d: %v: bound %d, optimum %d, peak %d", i, err, got.Bound, best, got.Evaluation.Peak)
		}
		if !got.Optimal {
			t.Errorf("graph %d: bound %d, peak %d", i, got.Bound, got.Evaluation.Peak)
		}
		if b := Bound(p); b.Value > best {
			t.Errorf("graph %d: Bound %v, optimum %d", i, b, best)
		}
	}
}
