package alloc

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy, name, problem string
		offsets                 []int64
	}{
		{"greedy-by-size", "the picture", picture, []int64{0, 4, 6, 0}},
		{"best-fit", "the picture", picture, []int64{0, 4, 6, 0}},
		{"greedy-by-breadth", "the picture", picture, []int64{0, 4, 6, 0}},
		{"greedy-by-start", "the picture", picture, []int64{0, 4, 6, 0}},
		{"greedy-by-size", "equal sizes go by index", "a:4@0-0 b:4@0-0", []int64{0, 4}},
		{"greedy-by-size", "the smallest gap", "a:9@0-1 b:8@0-0 c:7@0-1 d:6@0-0 e:5@0-1 f:4@1-1 g:4@1-1 h:4@1-1", []int64{0, 9, 17, 24, 30, 24, 9, 13}},
		{"greedy-by-size", "into a gap that just fits", "a:6@0-1 b:5@0-0 c:5@0-1 d:5@1-1", []int64{0, 6, 11, 6}},
		{"greedy-by-size", "0 bytes take nothing", "a:4@0-1 z:0@0-1 b:4@0-1", []int64{0, 0, 4}},
		{"greedy-by-breadth", "the busiest step first", "a:5@0-0 b:3@1-1 c:3@1-2 d:4@2-2", []int64{0, 0, 4, 0}},
		{"greedy-by-start", "larger first of those that start together", "a:1@0-1 b:2@0-0 c:2@1-1", []int64{2, 0, 0}},
		{"greedy-by-start", "the lowest gap, not the smallest", "a:5@0-1 b:1@0-4 c:3@0-1 d:1@0-4 e:2@2-2", []int64{0, 8, 5, 9, 0}},
		{"strip-packing", "the picture", picture, []int64{0, 4, 6, 0}},
		{"strip-packing", "of equal lifetimes the first, not the largest", "a:1@0-1 b:4@0-1", []int64{0, 1}},
		{"best-fit", "of equal lifetimes the largest", "a:1@0-1 b:4@0-1", []int64{4, 0}},
		{"greedy-in-order", "the smallest gap, not the lowest", "a:3@0-0 b:1@0-4 c:2@0-0 d:1@0-4 e:2@2-2", []int64{0, 3, 4, 6, 4}},
		{"first-fit-by-duration", "the longest first", "a:5@0-1 b:1@0-4 c:3@0-1 d:1@0-4 e:2@2-2", []int64{2, 0, 7, 1, 2}},
		{"hill-climb", "a swap reaches the largest load", "a:3@0-2 b:3@4-6 c:2@2-4 d:4@0-1 e:4@5-6 f:1@1-5", nil},
		{"best-fit", "the longest that fits the plateau", "a:2@0-3 b:2@4-7 c:1@0-7 d:1@3-4", []int64{1, 1, 0, 3}},
	} {
		t.Run(c.strategy+"/"+c.name, func(t *testing.T) {
			s, err := strategiesNamed(c.strategy)
			if err != nil {
				t.Fatal(err)
			}
			p := parse(t, c.problem)
			got := s[0].Func(p)
			if err := p.Check(got); err != nil {
				t.Fatalf("%s: %v", c.problem, err)
			}
			if c.offsets == nil && got.Arena == p.MaxLoad() {
				return
			}
			if d := gocmp.Diff(c.offsets, got.Offsets); d != "" {
				t.Errorf("%s, want - got +:\n%s", c.problem, d)
			}
		})
	}
}

func TestMaxLoad(t *testing.T) {
	for _, c := range []struct {
		name, problem string
		alignment     int64
		want          int64
	}{
		{"nothing", "", 0, 0},
		{"the picture", picture, 0, 7},
		{"both ends of a lifetime count", "a:4@0-1 b:3@1-2 c:4@2-3", 0, 7},
		{"rounded sizes", "a:4@0-1 b:3@1-2", 8, 16},
		{"an alignment of its own rounds no size", "a:5@0-1%8 b:3@1-2", 4, 9},
		{"0 bytes", "a:0@0-9", 8, 0},
		{"a step before 0", "a:4@-3--1 b:3@-1-7", 0, 7},
	} {
		p := parse(t, c.problem)
		p.Alignment = c.alignment
		if got := p.MaxLoad(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		p    Problem
		want string
	}{
		{Problem{}, ""},
		{parse(t, picture), ""},
		{Problem{Alignment: -1}, "alignment: expected 0 or more bytes, found -1"},
		{parse(t, "a:4@0-1 b:-4@0-1"), `buffer 1 "b": size: expected 0 or more bytes, found -4`},
		{parse(t, "a:4@0-1%-2"), `buffer 0 "a": alignment: expected 0 or more bytes, found -2`},
		{parse(t, "a:4@3-2"), `buffer 0 "a": lifetime: expected a first step not after the last, found 3-2`},
		{Problem{Buffers: []Buffer{{Size: math.MaxInt64}}}, ""},
		{Problem{Buffers: []Buffer{{Size: math.MaxInt64}, {Size: 1}}}, "buffer 1: 1 bytes aligned to 1: all sizes together exceed 9223372036854775807"},
		{Problem{Buffers: []Buffer{{Size: math.MaxInt64 - 5}}, Alignment: 8}, "buffer 0: 9223372036854775802 bytes aligned to 8: all sizes together exceed 9223372036854775807"},
		{Problem{Buffers: []Buffer{{Size: 1, First: math.MinInt, Last: math.MaxInt}}}, ""},
	} {
		err := c.p.Validate()
		if got := message(err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if r, solved := Solve(t.Context(), c.p, Options{}); message(solved) != c.want {
			t.Errorf("Solve: got %v, want %q", solved, c.want)
		} else if solved == nil {
			if err := c.p.Check(r.Placement); err != nil {
				t.Error(err)
			}
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCheck(t *testing.T) {
	good := []int64{0, 4, 6, 0}
	for _, c := range []struct {
		name      string
		offsets   []int64
		arena     int64
		alignment int64
		want      string
	}{
		{"good", good, 7, 0, ""},
		{"one byte", []int64{0, 3, 6, 0}, 7, 0, `buffer 0 "a" (bytes 0-3, steps 0-1) and buffer 1 "b" (bytes 3-4, steps 0-1) overlap at step 0`},
		{"at the last step of one", []int64{0, 4, 3, 4}, 8, 0, `buffer 0 "a" (bytes 0-3, steps 0-1) and buffer 2 "c" (bytes 3-3, steps 1-2) overlap at step 1`},
		{"an arena too small", good, 6, 0, "arena: expected 7 bytes, the end of the highest buffer, found 6"},
		{"an arena too large", good, 8, 0, "arena: expected 7 bytes, the end of the highest buffer, found 8"},
		{"an offset missing", good[:3], 7, 0, "offsets: expected one for each of 4 buffers, found 3"},
		{"a negative offset", []int64{0, 4, -1, 0}, 6, 0, "found -1"},
		{"an offset at the end of int64", []int64{math.MaxInt64, 4, 6, 0}, 7, 0, "found 9223372036854775807"},
		{"not aligned", good, 8, 2, ""},
		{"not aligned", []int64{0, 4, 7, 0}, 9, 2, `buffer 2 "c": offset: expected a multiple of 2`},
		{"size rounded up", good, 7, 2, "arena: expected 8 bytes"},
	} {
		p := parse(t, picture)
		p.Alignment = c.alignment
		for name, check := range map[string]func(Placement) error{"Check": p.Check, "CheckSweep": p.CheckSweep} {
			got := message(check(Placement{c.offsets, c.arena}))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want[strings.LastIndex(c.want, ":")+1:]) {
				t.Errorf("%s: %s: got %q, want %q", name, c.name, got, c.want)
			}
		}
	}
	zero := parse(t, "a:4@0-1 z:0@0-1")
	for _, check := range []func(Placement) error{zero.Check, zero.CheckSweep} {
		if check(Placement{[]int64{0, 4}, 4}) == nil {
			t.Error("0 bytes at an offset of 4 were taken")
		}
	}
}

// Every placement stands the check, and none is below the largest load.
func TestStrategiesPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 40)
		bound := p.MaxLoad()
		if want := naiveLoad(p); bound != want {
			t.Fatalf("largest load %d, want %d", bound, want)
		}
		for _, s := range Strategies {
			a := s.Func(p)
			if err := p.Check(a); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			if err := p.CheckSweep(a); err != nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			if a.Arena < bound {
				t.Fatalf("%s: arena %d, largest load %d", s.Name, a.Arena, bound)
			}
		}
	})
}

func naiveLoad(p Problem) int64 {
	var most int64
	for _, x := range p.Buffers {
		var load int64
		for i, b := range p.Buffers {
			if b.First <= x.First && x.First <= b.Last {
				load += p.size(i)
			}
		}
		most = max(most, load)
	}
	return most
}

// The tree of runs says what a plain scan of all neighbours says.
func TestPlaceIsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 80)
		s := prepare(p)
		order := rapid.Permutation(s.ids).Draw(t, "order")
		s.ids = order
		for name, pick := range map[string]func(gaps []byteRange, top, size, align int64) int64{"smallest": smallestGap, "lowest": lowestGap} {
			got := firstFit(s, pick)
			want := make([]int64, len(p.Buffers))
			for n, i := range order {
				var below []byteRange
				for _, j := range order[:n] {
					if p.Buffers[i].First <= p.Buffers[j].Last && p.Buffers[j].First <= p.Buffers[i].Last {
						below = append(below, byteRange{want[j], want[j] + s.size[j]})
					}
				}
				slices.SortFunc(below, func(a, b byteRange) int { return cmp.Compare(a.lo, b.lo) })
				var gaps []byteRange
				var top int64
				for _, x := range below {
					if x.lo > top {
						gaps = append(gaps, byteRange{top, x.lo})
					}
					top = max(top, x.hi)
				}
				want[i] = pick(gaps, top, s.size[i], s.align[i])
			}
			if d := gocmp.Diff(want, got.Offsets); d != "" {
				t.Fatalf("%s gap, order %v, want - got +:\n%s", name, order, d)
			}
		}
	})
}

// Best-fit and strip-packing lay what their rules say, step by step and without
// their indexes. Of equal lifetimes the one takes the larger first.
func TestBestFitIsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 30)
		larger := rapid.Bool().Draw(t, "the larger first")
		s := prepare(p)
		tops := make([]int64, s.sections)
		want := make([]int64, len(p.Buffers))
		unplaced := slices.Clone(s.ids)
		for len(unplaced) > 0 {
			height := slices.Min(tops)
			lo := slices.Index(tops, height)
			hi := lo
			for hi < len(tops) && tops[hi] == height {
				hi++
			}
			best := -1
			for k, i := range unplaced {
				if int(s.lo[i]) < lo || hi < int(s.hi[i]) {
					continue
				}
				if best < 0 || longer(p, s, i, unplaced[best], larger) {
					best = k
				}
			}
			if best < 0 {
				raised := int64(math.MaxInt64)
				if lo > 0 {
					raised = tops[lo-1]
				}
				if hi < len(tops) {
					raised = min(raised, tops[hi])
				}
				for c := lo; c < hi; c++ {
					tops[c] = raised
				}
				continue
			}
			i := unplaced[best]
			unplaced = slices.Delete(unplaced, best, best+1)
			want[i] = roundUp(height, s.align[i])
			for c := s.lo[i]; c < s.hi[i]; c++ {
				tops[c] = want[i] + s.size[i]
			}
		}
		strategy := StripPacking
		if larger {
			strategy = BestFit
		}
		if d := gocmp.Diff(want, strategy(p).Offsets); d != "" {
			t.Fatalf("want - got +:\n%s", d)
		}
	})
}

func longer(p Problem, s prepared, i, j int, larger bool) bool {
	a, b := p.Buffers[i], p.Buffers[j]
	if a.Last-a.First != b.Last-b.First {
		return a.Last-a.First > b.Last-b.First
	}
	return larger && s.size[i] > s.size[j]
}

// Both checks catch an overlap of one byte, and agree on any placement.
func TestChecksAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 12)
		a := GreedyBySize(p)
		for i := range a.Offsets {
			if rapid.IntRange(0, 5).Draw(t, "moved") == 0 {
				a.Offsets[i] += int64(rapid.IntRange(-1, 1).Draw(t, "by")) * p.align(i)
			}
		}
		a.Arena = 0
		for i, off := range a.Offsets {
			a.Arena = max(a.Arena, off+p.size(i))
		}
		plain, sweep := p.Check(a), p.CheckSweep(a)
		if (plain == nil) != (sweep == nil) {
			t.Fatalf("offsets %v: Check says %v, CheckSweep says %v", a.Offsets, plain, sweep)
		}
	})
}

func TestSolveIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 5)
		r, err := Solve(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		best := optimum(p)
		if r.LowerBound > best || best > r.Arena {
			t.Fatalf("want bound %d <= optimum %d <= arena %d", r.LowerBound, best, r.Arena)
		}
		if r.Optimal != (r.Arena == r.LowerBound) {
			t.Fatalf("optimal %v, arena %d, bound %d", r.Optimal, r.Arena, r.LowerBound)
		}
	})
}

func TestSolve(t *testing.T) {
	missed := parse(t, "a:3@0-2 b:3@4-6 c:2@2-4 d:4@0-1 e:4@5-6 f:1@1-5")
	for _, c := range []struct {
		p        Problem
		strategy string
		want     string
		arena    int64
	}{
		{Problem{}, "", "greedy-by-size", 0},
		{parse(t, picture), "", "greedy-by-size", 7},
		{parse(t, picture), "best-fit", "best-fit", 7},
		{missed, "", "greedy-by-size", 8},
	} {
		r, err := Solve(t.Context(), c.p, Options{Strategy: c.strategy})
		if err != nil {
			t.Fatal(err)
		}
		if r.Strategy != c.want || r.Arena != c.arena || r.LowerBound != c.p.MaxLoad() {
			t.Errorf("got %+v, want %s with an arena of %d", r, c.want, c.arena)
		}
	}
	want := `strategy "best": unknown: expected one of greedy-by-size, best-fit, boxing, greedy-by-breadth, greedy-by-start, strip-packing, greedy-in-order, first-fit-by-duration, hill-climb`
	if _, err := Solve(t.Context(), Problem{}, Options{Strategy: "best"}); message(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Solve(ctx, Problem{}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestLargeProblems(t *testing.T) {
	for name, p := range map[string]Problem{"transformer": transformer(3000), "tangled": tangled(2000), "long": longLived(2000)} {
		for _, s := range Strategies {
			if s.Name == "hill-climb" {
				continue // a minute
			}
			a := s.Func(p)
			if err := p.Check(a); err != nil {
				t.Errorf("%s: %s: %v", name, s.Name, err)
			}
			if err := p.CheckSweep(a); err != nil {
				t.Errorf("%s: %s: %v", name, s.Name, err)
			}
		}
	}
}
