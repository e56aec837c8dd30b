package maxflow

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A question raises the flow by as much as the same edges do in a network that is
// built with them, and it has no effect on the next question. What Exceeds tells agrees
// with a flow, and its cut costs what it says.
func TestHold(t *testing.T) {
	raised, barred, told := 0, 0, 0
	for i := range 2000 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		vertices := 3 + r.IntN(12)
		type edge struct {
			u, v     int32
			capacity int64
		}
		var edges []edge
		for range r.IntN(4 * vertices) {
			u, v := int32(r.IntN(vertices)), int32(r.IntN(vertices))
			if u != v && u != Sink && v != Source {
				edges = append(edges, edge{u, v, 1 + int64(r.IntN(9))})
			}
		}
		build := func(f *Network, more []edge) int64 {
			f.Reset(vertices)
			for _, e := range edges {
				f.Edge(e.u, e.v, e.capacity)
			}
			for _, e := range more {
				f.Edge(e.u, e.v, e.capacity)
			}
			return f.Augment(math.MaxInt64)
		}
		var held, fresh Network
		base := build(&held, nil)
		held.Hold()
		for k := range 6 {
			v, amount := int32(2+r.IntN(vertices-2)), int64(r.IntN(12))
			rises := build(&fresh, []edge{{Source, v, Infinite}}) - base
			yes, known := held.Exceeds(v, amount)
			if known && yes != (rises > amount) {
				t.Fatalf("network %d, question %d: that a flow which rises by %d exceeds %d: %v", i, k, rises, amount, yes)
			}
			if known {
				told++
			}
			if cut := held.Visited(); known && !yes && !held.Barred(v) {
				side := func(u int32) bool { return u == Source || held.Barred(u) || slices.Contains(cut, u) }
				cost := -base
				for _, e := range edges {
					if side(e.u) && !side(e.v) {
						cost += e.capacity
					}
				}
				if cost > amount || !side(v) || side(Sink) {
					t.Fatalf("network %d, question %d: the cut costs %d more, want at most %d", i, k, cost, amount)
				}
			}
			var more []edge
			for range r.IntN(4) {
				v, capacity := int32(2+r.IntN(vertices-2)), 1+int64(r.IntN(9))
				if r.IntN(3) == 0 {
					a := held.NewVertex()
					held.Ask(a, capacity)
					held.AskFrom(a, v, Infinite)
				} else {
					held.Ask(v, capacity)
				}
				more = append(more, edge{Source, v, capacity})
				if held.Barred(v) {
					barred++
				}
			}
			want := build(&fresh, more) - base
			enough := int64(math.MaxInt64)
			if k%2 == 1 {
				enough = 1 + int64(r.IntN(5))
			}
			got := held.Answer(enough)
			if got > want || got < min(want, enough) {
				t.Fatalf("network %d, question %d: the flow rises by %d, want %d, or at least %d", i, k, got, want, enough)
			}
			if got > 0 {
				raised++
			}
		}
		if got := held.Answer(math.MaxInt64); got != 0 {
			t.Fatalf("network %d: a question without edges raises the flow by %d", i, got)
		}
		held.Reach(Source)
		if held.Level[Sink] >= 0 {
			t.Fatalf("network %d: the held flow is not maximum", i)
		}
	}
	if raised == 0 || barred == 0 || told == 0 {
		t.Errorf("%d questions raised the flow, %d vertices were barred, %d were told without a flow", raised, barred, told)
	}
}
