package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/listsched"
)

func TestByGoals(t *testing.T) {
	for _, c := range []struct{ name, problem, want string }{
		{"one sum after another", "x:1; a:2=A(x); b:2=B(x); c:2=C(x); d:2=D(x); s:1=S(a, c); u:1=U(b, d); out s, u", "a c s b d u"},
		{"what leads to no goal comes last", "x:1; a:2=A(x); b:2=B(x); c:1=C(b); out a, c", "b c a"},
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
