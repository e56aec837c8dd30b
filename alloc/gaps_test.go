package alloc

import (
	"testing"

	"pgregory.net/rapid"
)

// TestGaps: the largest load and the checks count only the bytes that are needed.
func TestGaps(t *testing.T) {
	p := parse(t, "a:8@0-4 b:4@2-2")
	p.Buffers[0].Gaps = []Gap{{First: 2, Last: 2, From: 0, To: 4}}
	if got := p.MaxLoad(); got != 8 {
		t.Errorf("largest load %d, want 8", got)
	}
	for _, c := range []struct {
		offset int64
		ok     bool
	}{{4, true}, {3, false}} {
		a := Placement{Offsets: []int64{0, c.offset}, Arena: 8}
		if plain, sweep := p.Check(a), p.CheckSweep(a); (plain == nil) != c.ok || (sweep == nil) != c.ok {
			t.Errorf("offset %d: Check says %v, CheckSweep says %v", c.offset, plain, sweep)
		}
	}
}

// TestSolveUsesGaps: Solve puts buffers into the gaps of others, and reaches the
// optimum.
func TestSolveUsesGaps(t *testing.T) {
	for _, c := range []struct {
		name, buffers string
		gaps          map[int][]Gap
		fixed         map[int]int64
		want          int64
	}{
		{"two in one gap", "a:4@0-9 b:4@3-4 c:3@2-3", map[int][]Gap{0: {{First: 2, Last: 7}}}, nil, 7},
		{"beside the bytes that remain", "a:8@0-4 b:4@2-2", map[int][]Gap{0: {{First: 2, Last: 2, From: 0, To: 4}}}, nil, 8},
		{"below the bytes that remain", "a:8@0-4 b:4@2-2 c:4@1-1", map[int][]Gap{0: {{First: 2, Last: 2, From: 4, To: 8}}}, nil, 12},
		{"gap in gap", "a:6@0-9 b:6@2-7 c:6@4-5", map[int][]Gap{0: {{First: 2, Last: 7}}, 1: {{First: 4, Last: 5}}}, nil, 6},
		{"above a fixed buffer", "a:4@0-9 b:4@3-4", map[int][]Gap{0: {{First: 2, Last: 7}}}, map[int]int64{0: 8}, 12},
		{"aligned", "a:5@0-9%1 b:4@3-4%8 c:1@3-3%1", map[int][]Gap{0: {{First: 2, Last: 7}}}, nil, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, c.buffers)
			for i, g := range c.gaps {
				p.Buffers[i].Gaps = g
			}
			for i, off := range c.fixed {
				p.Buffers[i].Fixed = &off
			}
			r, err := Solve(t.Context(), p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Check(r.Placement); err != nil || r.Arena != c.want {
				t.Errorf("arena %d by %s at %v, want %d; %v", r.Arena, r.Strategy, r.Offsets, c.want, err)
			}
		})
	}
}

// TestSolveWithGapsIsValid: with gaps, the placement is valid and its arena is no larger
// than without them.
func TestSolveWithGapsIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 9)
		plain, err := Solve(t.Context(), p, Options{Effort: EffortFast})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Buffers {
			b := &p.Buffers[i]
			if b.Last-b.First < 2 || rapid.Bool().Draw(t, "whole") {
				continue
			}
			g := Gap{First: rapid.IntRange(b.First, b.Last).Draw(t, "from step")}
			g.Last = rapid.IntRange(g.First, b.Last).Draw(t, "to step")
			g.From = int64(rapid.IntRange(0, int(b.Size)).Draw(t, "from"))
			g.To = int64(rapid.IntRange(int(g.From), int(b.Size)).Draw(t, "to"))
			b.Gaps = []Gap{g}
		}
		r, err := Solve(t.Context(), p, Options{Effort: EffortFast})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(r.Placement); err != nil || r.Arena > plain.Arena || r.Arena < r.LowerBound {
			t.Errorf("arena %d (bound %d, without gaps %d) by %s: %v", r.Arena, r.LowerBound, plain.Arena, r.Strategy, err)
		}
		// Fix some buffers where they are, even in gaps.
		for i := range p.Buffers {
			if rapid.Bool().Draw(t, "fixed") {
				p.Buffers[i].Fixed = &r.Offsets[i]
			}
		}
		again, err := Solve(t.Context(), p, Options{Effort: EffortFast})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(again.Placement); err != nil {
			t.Errorf("with fixed offsets by %s: %v", again.Strategy, err)
		}
	})
}
