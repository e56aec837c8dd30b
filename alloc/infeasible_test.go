package alloc

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// subset returns the problem of some of the buffers.
func subset(p Problem, ids []int32) Problem {
	part := Problem{Alignment: p.Alignment}
	for _, i := range ids {
		part.Buffers = append(part.Buffers, p.Buffers[i])
	}
	return part
}

func TestInfeasible(t *testing.T) {
	at := int64(8)
	fixed := parse(t, picture)
	fixed.Buffers[2].Fixed = &at
	gap := parse(t, "a:8@0-4 b:4@1-2 c:5@2-3")
	gap.Buffers[0].Gaps = []Gap{{First: 2, Last: 2, From: 0, To: 4}}
	for _, c := range []struct {
		name     string
		p        Problem
		capacity int64
		want     []int32
	}{
		{"fits", parse(t, picture), 7, nil},
		{"too much at one step", parse(t, picture), 6, []int32{0, 1, 2}},
		{"one buffer is too large", parse(t, picture), 3, []int32{0}},
		{"a fixed offset too high", fixed, 8, []int32{2}},
		{"bytes in a gap do not count", gap, 12, []int32{0, 1, 2}},
	} {
		r, err := Solve(t.Context(), c.p, Options{Capacity: c.capacity})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Infeasible, c.want) || (r.Fit == FitNever) != (c.want != nil) {
			t.Errorf("%s: got %v, fit %d, want %v", c.name, r.Infeasible, r.Fit, c.want)
		}
	}
}

// What is named does not fit, and without any one of its buffers it does.
func TestInfeasibleIsMinimal(t *testing.T) {
	named := 0
	check := func(t interface{ Fatalf(string, ...any) }, p Problem, capacity int64, decide func(Problem, int64) bool) {
		r, err := Solve(context.Background(), p, Options{Capacity: capacity})
		if err != nil {
			t.Fatalf("%v", err)
		}
		if (r.Fit == FitNever) != (len(r.Infeasible) > 0) {
			t.Fatalf("fit %d, infeasible %v", r.Fit, r.Infeasible)
		}
		if r.Fit != FitNever {
			return
		}
		named++
		if decide(subset(p, r.Infeasible), capacity) {
			t.Fatalf("capacity %d: %v of %v fit", capacity, r.Infeasible, p.Buffers)
		}
		for k := range r.Infeasible {
			if !decide(subset(p, slices.Delete(slices.Clone(r.Infeasible), k, k+1)), capacity) {
				t.Fatalf("capacity %d: %v of %v without the %d. do not fit either", capacity, r.Infeasible, p.Buffers, k)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawTight(t, 8, true)
		check(t, p, max(1, p.MaxLoad()-int64(rapid.IntRange(-2, 2).Draw(t, "room"))), inCapacity)
	})
	for seed := range uint64(30) {
		check(t, tight(seed, 40), 24, func(p Problem, capacity int64) bool {
			out, _ := newExact(p, prepare(p)).decide(capacity, never)
			return out == fits
		})
	}
	if named < 20 {
		t.Errorf("%d sets named, expected more", named)
	}
}
