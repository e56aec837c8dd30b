package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/bounds"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

// An LSTM under Adam has hundreds of updates as tall as each other, which wait for
// the state of least live bytes: the bound is that of the first of them.
func TestBoundOfHundreds(t *testing.T) {
	p := recurrent(10_000, adam)
	r, err := Solve(p, Options{})
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

// A set bound that runs out of work is not above the whole one, whatever the order
// of the set, and one that has enough of it ends at something that proves nothing.
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
		turned := make([]int32, len(set))
		for i, v := range set {
			turned[len(set)-1-i] = v
		}
		c := bounds.NewCutter(meter.New(nil))
		for _, end := range []struct {
			name  string
			bound func(p *Problem, set []int32) int64
			of    func(g *indexed.Problem, set []int32, enough, work int64) bounds.Certificate
		}{{"first", FirstBound, c.First}, {"last", LastBound, c.Last}} {
			whole := end.bound(p, set)
			if b := end.bound(p, turned); b != whole {
				t.Fatalf("graph %d: %s of %d is %d, of the same nodes listed from the last %d", i, end.name, set, whole, b)
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

// Two gradients of one weight are added: one of the two that make them runs last,
// while the other's result is live and its own input is. No bound of a node sees
// that input, and sets of all tall nodes hold what runs after.
func TestSetsOfNeighbours(t *testing.T) {
	p := parse(t, `x:1; a:3=A(x); b:4=B(a); c:5=C(b, a); u:90=U(b); w:90=W(c); s:90>u>w=Add(u, w); n:90>s=Neg(s); k:90=K(n); out k`)
	r, err := Solve(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Certificates[0]; !r.Optimal || c.Kind != KindLast || !slices.Equal(c.Nodes, []int32{3, 4}) {
		t.Errorf("bound %d, peak %d, certificate %v; want the last of nodes 3 and 4", r.Bound, r.Evaluation.Peak, c)
	}
}
