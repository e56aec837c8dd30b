package alloc

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/internal/ilptest"
)

// ilpSwitches are programs of the same optimum.
var ilpSwitches = map[string]ILPOptions{
	"all reductions":         {},
	"no disjoint":            {NoDisjoint: true},
	"no merging":             {NoMerging: true},
	"no loads":               {NoLoads: true},
	"OLLA without section 4": {NoDisjoint: true, NoMerging: true, NoLoads: true},
}

// drawILP draws a few buffers, with alignments, gaps and fixed offsets.
func drawILP(r *rand.Rand) Problem {
	p := Problem{Alignment: []int64{0, 1, 1, 2, 3}[r.IntN(5)]}
	for range r.IntN(6) {
		b := Buffer{Size: int64(r.IntN(7)), First: r.IntN(7)}
		b.Last = b.First + r.IntN(4)
		if r.IntN(5) == 0 {
			b.Align = 1 + r.Int64N(3)
		}
		if r.IntN(5) == 0 && b.Size > 0 {
			from := r.Int64N(b.Size)
			b.Gaps = []Gap{{First: b.First, Last: b.First + r.IntN(b.Last-b.First+1), From: from, To: from + r.Int64N(b.Size-from+1)}}
		}
		p.Buffers = append(p.Buffers, b)
	}
	if len(p.Buffers) > 0 && r.IntN(6) == 0 {
		off := p.align(0) * r.Int64N(3)
		p.Buffers[0].Fixed = &off
	}
	return p
}

// leastArena tries all offsets.
func leastArena(t *testing.T, p Problem, most int64) Placement {
	t.Helper()
	best := Placement{Offsets: []int64{}, Arena: most + 1}
	at := make([]int64, len(p.Buffers))
	var try func(i int, arena int64)
	try = func(i int, arena int64) {
		if arena >= best.Arena {
			return
		}
		if i == len(at) {
			best = Placement{Offsets: append([]int64{}, at...), Arena: arena}
			return
		}
		for at[i] = 0; at[i]+p.size(i) < best.Arena; at[i] += p.align(i) {
			apart := p.Buffers[i].Fixed == nil || at[i] == *p.Buffers[i].Fixed
			for j := range i {
				apart = apart && !p.areasOverlap(i, j, at)
			}
			if p.size(i) == 0 {
				try(i+1, arena)
				return
			}
			if apart {
				try(i+1, max(arena, at[i]+p.size(i)))
			}
		}
	}
	try(0, 0)
	return best
}

// TestILPOptimum solves programs of random problems, with each switch, and compares with all
// placements.
func TestILPOptimum(t *testing.T) {
	drawn, gaps, fixed, fragmented, lost := 0, 0, 0, 0, 0
	for i := range 250 {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		p := drawILP(r)
		if p.Validate() != nil {
			continue // two gaps, or a lifetime beyond the fixed one
		}
		drawn++
		best := leastArena(t, p, 60)
		if p.hasGaps() {
			gaps++
		}
		if len(p.Buffers) > 0 && p.Buffers[0].Fixed != nil {
			fixed++
		}
		if best.Arena > p.MaxLoad() {
			fragmented++
		}
		pairs := 0
		for j, b := range p.Buffers {
			for _, c := range p.Buffers[:j] {
				if b.First <= c.Last && c.First <= b.Last {
					pairs++
				}
			}
		}
		if got := p.pairsTogether(false); got != pairs {
			t.Fatalf("problem %d: %d pairs are live together, expected %d", i, got, pairs)
		}
		for name, opt := range ilpSwitches {
			for _, known := range []bool{false, true} {
				if known {
					opt.LowerBound, opt.UpperBound = best.Arena, best.Arena
				}
				g, err := p.ILP(opt)
				if err != nil {
					t.Fatal(err)
				}
				if known {
					checkEncoding(t, g, best)
				}
				if opt.NoMerging && opt.NoDisjoint && i%3 > 0 {
					continue
				}
				got, x, done := ilptest.Minimum(&g.Program, 1<<18)
				if !done || got*g.Unit != best.Arena {
					t.Fatalf("problem %d, %s: optimum %d (found: %v), expected %d", i, name, got*g.Unit, done, best.Arena)
				}
				a, err := g.Decode(x)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Check(a); err != nil || a.Arena != best.Arena {
					t.Fatalf("problem %d, %s: arena %d, expected %d: %v", i, name, a.Arena, best.Arena, err)
				}
				checkEncoding(t, g, a)
			}
		}
		g, err := p.ILP(ILPOptions{Pyramid: true})
		if err != nil {
			t.Fatal(err)
		}
		got, x, done := ilptest.Minimum(&g.Program, 1<<18)
		if !done || got*g.Unit < best.Arena {
			t.Fatalf("problem %d, pyramid: optimum %d (found: %v), expected at least %d", i, got*g.Unit, done, best.Arena)
		}
		if a, err := g.Decode(x); err != nil || p.Check(a) != nil {
			t.Fatalf("problem %d, pyramid: %v, %v", i, err, p.Check(a))
		}
		if got*g.Unit > best.Arena {
			lost++
		}
	}
	t.Logf("%d problems: %d with gaps, %d with a fixed offset, %d with an optimum above the load; the pyramid loses %d optima", drawn, gaps, fixed, fragmented, lost)
	if drawn < 200 || gaps < 20 || fixed < 10 || fragmented < 20 {
		t.Errorf("%d problems: %d with gaps, %d with a fixed offset, %d with an optimum above the load: expected more", drawn, gaps, fixed, fragmented)
	}
}

func checkEncoding(t *testing.T, g *ILP, a Placement) {
	t.Helper()
	x, err := g.Encode(a)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := g.Value(x); v*g.Unit != a.Arena {
		t.Fatalf("value %d, expected %d", v*g.Unit, a.Arena)
	}
	for i, b := range g.problem.Buffers {
		if b.Size > 0 {
			a.Offsets[i] -= a.Offsets[i] % g.Unit
		}
	}
	again, err := g.Decode(x)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a.Offsets, again.Offsets); d != "" {
		t.Fatalf("want - got +:\n%s", d)
	}
}

// TestILPText holds the program of the example of the package comment.
func TestILPText(t *testing.T) {
	p := parse(t, picture)
	g, err := p.ILP(ILPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := g.WriteLP(&b); err != nil {
		t.Fatal(err)
	}
	want := `\ The smallest arena of 4 buffers.
\ OLLA (Steiner et al. 2022), equations 6-8 and 15. One unit is 1 bytes.
\ A0: buffer 0 "a", steps 0-1
\ A1: buffer 1 "b", steps 0-1
\ A2: buffer 2 "c", steps 1-2
\ A3: buffer 3 "d", steps 2-3
Minimize
 peak: peak
Subject To
 c7a_0_1: A0 - A1 + 11 a0_1 <= 7
 c7b_0_1: A1 - A0 - 11 a0_1 <= -2
 c7a_0_2: A0 - A2 + 11 a0_2 <= 7
 c7b_0_2: A2 - A0 - 11 a0_2 <= -1
 c7a_1_2: A1 - A2 + 11 a1_2 <= 9
 c7b_1_2: A2 - A1 - 11 a1_2 <= -1
 c7a_2_3: A2 - A3 + 11 a2_3 <= 10
 c7b_2_3: A3 - A2 - 11 a2_3 <= -4
 c8_0: A0 - peak <= -4
 c8_1: A1 - peak <= -2
 c8_2: A2 - peak <= -1
 c8_3: A3 - peak <= -4
Bounds
 A0 <= 7
 A1 <= 9
 A2 <= 10
 A3 <= 7
 7 <= peak <= 11
Binaries
 a0_1
 a0_2
 a1_2
 a2_3
Generals
 peak
End
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
}

// TestPyramid: of lifetimes within one another, the longest lies lowest.
func TestPyramid(t *testing.T) {
	p := parse(t, "short:1@4-4 inner:3@2-5 apart:9@7-8 outer:5@0-9 middle:2@1-6 late:1@6-9")
	if d := cmp.Diff(map[int]int64{3: 0, 4: 5, 1: 7}, p.pyramid()); d != "" {
		t.Errorf("want - got +:\n%s", d)
	}
}

func TestILPFails(t *testing.T) {
	p := parse(t, picture)
	g, err := p.ILP(ILPOptions{UpperBound: 7})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a    Placement
		want string
	}{
		{Placement{Offsets: []int64{0, 0, 6, 0}, Arena: 7}, "overlap at step 0"},
		{Placement{Offsets: []int64{0, 4, 7, 0}, Arena: 8}, "column A2: expected 0 to 6, found 7"},
	} {
		if _, err := g.Encode(c.a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("expected %q, found %v", c.want, err)
		}
	}
	if _, err := g.Decode(make([]int64, len(g.Columns))); err == nil {
		t.Error("zeros are decoded")
	}
	if _, err := longLived(20000).ILP(ILPOptions{}); err == nil || !strings.Contains(err.Error(), "expected at most 33554432 columns, rows and terms") {
		t.Errorf("a large problem: found %v", err)
	}
	// A placement by the search is a start solution of a large program.
	large := transformer(300)
	r, err := Solve(context.Background(), large, Options{Effort: EffortFast})
	if err != nil {
		t.Fatal(err)
	}
	for name, opt := range ilpSwitches {
		if g, err = large.ILP(opt); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d columns, %d rows", name, len(g.Columns), len(g.Rows))
		checkEncoding(t, g, r.Placement)
	}
}
