package core

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMaximal compares the matchings with all sets of pairs.
func TestMaximal(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var pairs []option
		for result := range int32(3) {
			for over := int32(3); over < 6; over++ {
				if r.IntN(2) == 0 {
					pairs = append(pairs, option{Pair{result, over}, 64})
				}
			}
		}
		compatible := func(set int) bool {
			for i := range pairs {
				for j := range i {
					if set>>i&1 != 0 && set>>j&1 != 0 && (pairs[i].Result == pairs[j].Result || pairs[i].Over == pairs[j].Over) {
						return false
					}
				}
			}
			return true
		}
		var want [][]option
		for set := range 1 << len(pairs) {
			ok := compatible(set)
			for i := range pairs {
				ok = ok && (set>>i&1 != 0 || !compatible(set|1<<i))
			}
			if !ok {
				continue
			}
			var m []option
			for i := range pairs {
				if set>>i&1 != 0 {
					m = append(m, pairs[i])
				}
			}
			want = append(want, m)
		}
		for _, limit := range []int{len(want), len(want) - 1} {
			got := maximal(pairs, limit)
			if limit < len(want) && got != nil || limit == len(want) && len(got) != len(want) {
				t.Fatalf("%v: %d matchings, expected %d, at most %d", pairs, len(got), len(want), limit)
			}
			for _, m := range got {
				if !slices.ContainsFunc(want, func(x []option) bool { return slices.Equal(x, m) }) {
					t.Fatalf("%v: %v is not a maximal matching", pairs, m)
				}
			}
		}
	}
}

// TestReduce compares the flow through a network that was reduced, or through which flow
// was pushed, with gonum's flow through the whole network.
func TestReduce(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	left := 0
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		n := 2 + r.IntN(12)
		build := func(r *rand.Rand) *network {
			w := &network{b: &Bounds{Unit: 1}, excess: make([]int64, n)}
			for range r.IntN(4 * n) {
				units := int64(1 + r.IntN(9))
				v, u := int32(r.IntN(n)), int32(r.IntN(n))
				switch {
				case r.IntN(6) == 0:
					w.give(v, units)
				case r.IntN(6) == 0:
					w.take(v, units)
				case v < u:
					w.edges = append(w.edges, edge{v, u, units})
				case v > u: // in one direction, like precedence
					w.edges = append(w.edges, edge{v, u, unlimited})
				}
			}
			return w
		}
		again := func() *network {
			w := build(rand.New(rand.NewPCG(uint64(seed), 7)))
			w.link()
			return w
		}
		finish := func(w *network, few int) int64 {
			for _, part := range w.parts() {
				if part = w.push(part, few); len(part) > 0 {
					w.flow += w.dinic(part)
					left++
				}
			}
			return w.flow
		}
		want := finish(again(), n)
		reduced := again()
		reduced.reduce()
		if got := finish(reduced, n); got != want {
			t.Fatalf("seed %d: a flow of %d through the reduced network, expected %d", seed, got, want)
		}
		for _, few := range []int{0, r.IntN(n)} {
			if got := finish(again(), few); got != want {
				t.Fatalf("seed %d: a flow of %d, pushed until %d vertices are left, expected %d", seed, got, few, want)
			}
			reduced = again()
			reduced.reduce()
			if got := finish(reduced, few); got != want {
				t.Fatalf("seed %d: a flow of %d, reduced and pushed until %d vertices are left, expected %d", seed, got, few, want)
			}
		}
	}
	if left < rounds/2 {
		t.Errorf("too little is left to gonum: %d parts of %d networks", left, rounds)
	}
}

// TestTooLarge: a flow that float64 cannot hold exactly is not reported as exact.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		units int64
		ok    bool
	}{{maxUnits / 4, true}, {maxUnits, false}} {
		w := &network{b: &Bounds{Unit: 1}, excess: make([]int64, 2)}
		w.give(0, c.units)
		w.take(1, c.units)
		w.edges = []edge{{0, 1, c.units}}
		if flow, ok := w.maxFlow(unlimited); ok != c.ok || ok && flow != c.units {
			t.Errorf("%d units: a flow of %d, exact: %t, expected %t", c.units, flow, ok, c.ok)
		}
	}
}
