package core_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
	"github.com/onnxmem/onnxmem/plan/verify/internal/core/coretest"
)

// TestBoundsAreExact compares the bounds of one node, and of the first and the last of a
// set, with the least load over all states and with the peaks of all orders.
func TestBoundsAreExact(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	var met, paired, several int // numbers of tested cases
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		p := coretest.Random(r, 2+r.IntN(7))
		b, q := core.NewBounds(p, core.MaxWork), coretest.NewStates(p)
		n := len(p.Nodes)
		// Sizes are multiples of 64, so the bound is accepted and anything above it is
		// not.
		check := func(what string, bound func(target int64) core.Answer, want int64) {
			t.Helper()
			if got := bound(want); got.Unknown || got.Bytes < want {
				t.Fatalf("seed %d: %s: %d bytes (unknown: %t), expected %d or more", seed, what, got.Bytes, got.Unknown, want)
			}
			if got := bound(want + 64); got.Unknown || got.Bytes != want {
				t.Fatalf("seed %d: %s: %d bytes (unknown: %t), expected %d", seed, what, got.Bytes, got.Unknown, want)
			}
		}
		best := int64(0)
		for v := range n {
			want := q.Least(v, b.Idle, func(int) bool { return true })
			one := []int32{int32(v)}
			check(fmt.Sprint("cut of node ", v), func(target int64) core.Answer { return b.AtNode(one[0], target) }, want)
			check(fmt.Sprint("the first of ", one), func(target int64) core.Answer { return b.FirstOf(one, target) }, want)
			check(fmt.Sprint("the last of ", one), func(target int64) core.Answer { return b.LastOf(one, target) }, want)
			best = max(best, want)
			if len(q.Pairs[v]) > 0 {
				paired++
			}
			if core.Matchings(p, one[0]) > 1 {
				several++
			}
		}
		for range 4 {
			set, bits := []int32{}, 0
			for _, v := range r.Perm(n)[:1+r.IntN(n)] {
				set, bits = append(set, int32(v)), bits|1<<v
			}
			first, last := int64(math.MaxInt64), int64(math.MaxInt64)
			for _, v := range set {
				first = min(first, q.Least(int(v), b.Idle, func(s int) bool { return s&bits == 0 }))
				last = min(last, q.Least(int(v), b.Idle, func(s int) bool { return (s|1<<v)&bits == bits }))
			}
			check(fmt.Sprint("the first of ", set), func(target int64) core.Answer { return b.FirstOf(set, target) }, first)
			check(fmt.Sprint("the last of ", set), func(target int64) core.Answer { return b.LastOf(set, target) }, last)
			best = max(best, first, last)
		}
		least := int64(math.MaxInt64)
		for range 20 {
			_, peak := p.Simulate(q.Order(r))
			least = min(least, peak)
		}
		if best > least {
			t.Fatalf("seed %d: a bound of %d bytes, but an order of %d", seed, best, least)
		}
		if best == least {
			met++
		}
	}
	t.Logf("%d problems, %d whose bound an order meets; %d nodes with in-place pairs, %d of them with several matchings", rounds, met, paired, several)
	if met < rounds/2 || paired < rounds/3 || several < rounds/40 {
		t.Errorf("too few cases are tested")
	}
}

// TestTooMuch: a plan that needs more flows than the budget is not refused, but proves nothing.
func TestTooMuch(t *testing.T) {
	p := coretest.Random(rand.New(rand.NewPCG(1, 5)), 6)
	simple := p.AtNode(0)
	if a := core.NewBounds(p, core.MaxWork).AtNode(0, simple+64); a.Unknown {
		t.Fatalf("%v: expected a bound", a)
	}
	b := core.NewBounds(p, 0)
	if a := b.AtNode(0, simple+64); !a.Unknown || !b.Spent() {
		t.Errorf("%v: expected none", a)
	}
	if a := b.AtNode(0, simple); a.Unknown || a.Bytes != simple {
		t.Errorf("%v: expected %d bytes, which take no flow", a, simple)
	}
}
