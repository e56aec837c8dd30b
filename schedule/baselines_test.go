package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"pgregory.net/rapid"
)

// leastPeakFirst follows the rule of LeastPeakFirst literally: at each step it counts, for
// all ready nodes, the bytes that each would free.
func leastPeakFirst(p *Problem) []int32 {
	f := index(p)
	ran := make([]bool, f.Nodes)
	left := func(t int32) (n int) { // readers that have not run, and the graph
		for _, r := range f.Readers.Of(t) {
			if !ran[r] {
				n++
			}
		}
		if f.Output[t] {
			n++
		}
		return n
	}
	takes := func(v int32) (size int64) {
		for _, t := range f.Makes.Of(v) {
			size += f.Size[t]
		}
		return size
	}
	frees := func(v int32) (size int64) {
		for _, t := range f.Reads.Of(v) {
			if left(t) == 1 {
				size += f.Size[t]
			}
		}
		for _, t := range f.Makes.Of(v) {
			if left(t) == 0 {
				size += f.Size[t]
			}
		}
		return size
	}
	var live, outputs int64
	for t := range f.Size {
		if f.Producer[t] < 0 && len(f.Readers.Of(int32(t))) > 0 {
			live += f.Size[t]
		}
		if f.Output[t] {
			outputs += f.Size[t]
		}
	}
	most := max(live, outputs)
	var order []int32
	for len(order) < f.Nodes {
		best, key := int32(-1), [3]int64{}
		for v := range int32(f.Nodes) {
			ready := !ran[v]
			for _, t := range f.Reads.Of(v) {
				ready = ready && (f.Producer[t] < 0 || ran[f.Producer[t]])
			}
			k := [3]int64{max(live+takes(v), most), takes(v) - frees(v), int64(v)}
			if ready && (best < 0 || slices.Compare(k[:], key[:]) < 0) {
				best, key = v, k
			}
		}
		most = max(most, live+takes(best))
		live += takes(best) - frees(best)
		ran[best] = true
		order = append(order, best)
	}
	return order
}

func TestLeastPeakFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 20)
		if got, want := LeastPeakFirst(p), leastPeakFirst(p); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// If Serenity solves every part, its order is optimal, also with workspaces, outputs, inputs
// that nobody reads and in-place pairs.
func TestSerenityIsOptimal(t *testing.T) {
	several := 0
	for i := range randomGraphs(t, 1000) {
		p := randomProblem(rand.New(rand.NewPCG(uint64(i), 3)), 12)
		order, parts, left := serenity(p)
		e, err := p.Evaluate(order)
		if err != nil {
			t.Fatalf("graph %d: %v", i, err)
		}
		if best := newBrute(p, true).optimum(); left > 0 || e.Peak != best {
			t.Fatalf("graph %d: peak %d, want %d; %d of %d parts left", i, e.Peak, best, left, parts)
		}
		if parts > 1 {
			several++
		}
	}
	if several == 0 {
		t.Error("no graph has several parts")
	}
}

// Forty parallel chains have 2^40 states, too many for Serenity; the parts before and after
// them are still solved.
func TestSerenitySkipsAWidePart(t *testing.T) {
	lines := []string{"x:1", "a:1=A(x)", "b:9=B(a)", "c:1=C(a)", "d:1=D(b, c)"}
	var ends []string
	for i := range 40 {
		lines = append(lines, fmt.Sprintf("u%d:%d=U(d); v%d:2=V(u%d)", i, 5+i%7, i, i))
		ends = append(ends, fmt.Sprintf("v%d", i))
	}
	lines = append(lines, "y:1=Y("+strings.Join(ends, ", ")+")", "out y")
	p := parse(t, strings.Join(lines, "; "))
	order, parts, left := serenity(p)
	if parts != 3 || left != 1 {
		t.Errorf("%d of %d parts left, want 1 of 3: a; b c d; the chains with y", left, parts)
	}
	if got := names(p, order[:4]); got != "a b c d" {
		t.Errorf("begins with %s", got)
	}
	serenityPeak, _ := p.Evaluate(order)
	queue, _ := p.Evaluate(BreadthFirst(p))
	if serenityPeak.Peak > queue.Peak {
		t.Errorf("peak %d, above %d of breadth-first", serenityPeak.Peak, queue.Peak)
	}
}

// Roam sets updates aside and divides the other nodes into segments.
func TestRoamUpdates(t *testing.T) {
	for _, c := range []struct{ name, problem, updates string }{
		{"the gradient of a weight goes with its update", "x:1; w:9, v:9; res w, v; h:1=F(x, w); y:1=G(h, v); d:1=L(y); " +
			"dv:9=WG(d, h); dh:1=IG(d, v); dw:9=WG(dh, x); uw:0=U(dw, w); uv:0=U(dv, v)", "dv uw uv"},
		{"the backward chain stays where all ends in updates", "x:1; w:9, v:9; res w, v; d:1=L(x); a:1=A(d, w); b:1=B(a, v); ua:0=U(a, w); ub:0=U(b, v)", "ua ub"},
		{"nothing to update", "x:1; w:9; res w; h:1=F(x, w); y:1=G(h, w); out y", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, c.problem)
			var got []int32
			for v, is := range p.updates(indexed.NewProblem(index(p))) {
				if is {
					got = append(got, int32(v))
				}
			}
			if names(p, got) != c.updates {
				t.Errorf("%s: got %q, want %q", c.problem, names(p, got), c.updates)
			}
		})
	}
}

// Roam runs an update with a large temporary tensor once the load has fallen.
func TestRoamDelaysAnUpdate(t *testing.T) {
	p := parse(t, "x:4; w:1; res w; a:6=A(x); g:2=G(a); b:6=B(a); c:1=C(b); d:1=D(c); u:0=U(g, w) ws 9; out d")
	order := Roam(p)
	e, err := p.Evaluate(order)
	if err != nil {
		t.Fatal(err)
	}
	best := newBrute(p, true).optimum()
	if e.Peak != best {
		t.Errorf("%s: peak %d, want %d", names(p, order), e.Peak, best)
	}
}

// Solve tries each strategy by itself, except those that it runs only on request; all run
// when Options.Strategy names them.
func TestStrategiesOnRequest(t *testing.T) {
	tried, err := named("")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Strategies {
		if slices.ContainsFunc(tried, func(x Strategy) bool { return x.Name == s.Name }) == s.OnRequest {
			t.Errorf("%s: OnRequest is %v", s.Name, s.OnRequest)
		}
		p := layered(60)
		r, err := Solve(context.Background(), p, Options{Strategy: s.Name})
		if err != nil || r.Strategy != s.Name || !slices.Equal(r.Order, s.Func(p)) {
			t.Errorf("%s: got %v by %s, %v", s.Name, r.Order, r.Strategy, err)
		}
	}
}
