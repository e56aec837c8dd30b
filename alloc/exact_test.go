package alloc

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawTight draws up to n buffers over few steps, so that the largest load is
// often out of reach; with alignments and fixed offsets if asked for.
func drawTight(t *rapid.T, n int, all bool) Problem {
	var p Problem
	last := rapid.IntRange(2, 7).Draw(t, "last")
	for range rapid.IntRange(3, n).Draw(t, "buffers") {
		var b Buffer
		b.First = rapid.IntRange(0, last).Draw(t, "first")
		b.Last = rapid.IntRange(b.First, min(last, b.First+3)).Draw(t, "last")
		b.Size = int64(rapid.IntRange(1, 7).Draw(t, "size"))
		if all && rapid.IntRange(0, 2).Draw(t, "aligned") == 0 {
			b.Align = rapid.SampledFrom([]int64{2, 3, 4}).Draw(t, "align")
		}
		p.Buffers = append(p.Buffers, b)
		if all && rapid.IntRange(0, 3).Draw(t, "fixed") == 0 {
			k := len(p.Buffers) - 1
			at := int64(rapid.IntRange(0, 4).Draw(t, "at")) * p.align(k)
			p.Buffers[k].Fixed = &at
			if p.Validate() != nil {
				p.Buffers[k].Fixed = nil
			}
		}
		if all && rapid.IntRange(0, 3).Draw(t, "hinted") == 0 {
			at := int64(rapid.IntRange(0, 9).Draw(t, "hint"))
			p.Buffers[len(p.Buffers)-1].Hint = &at
		}
	}
	return p
}

// inCapacity reports whether a problem fits, by brute force: in the order of
// offsets, it tries each buffer on top of those below it.
func inCapacity(p Problem, capacity int64) bool {
	n := len(p.Buffers)
	offsets := make([]int64, n)
	placed := make([]bool, n)
	var lay func(count int, from int64) bool
	lay = func(count int, from int64) bool {
		if count == n {
			return true
		}
		for i, b := range p.Buffers {
			if placed[i] {
				continue
			}
			var off int64
			for j, c := range p.Buffers {
				if placed[j] && b.First <= c.Last && c.First <= b.Last {
					off = max(off, offsets[j]+p.size(j))
				}
			}
			off = roundUp(off, p.align(i))
			if b.Fixed != nil {
				if *b.Fixed < off {
					continue
				}
				off = *b.Fixed
			}
			if off < from || off+p.size(i) > capacity {
				continue
			}
			placed[i], offsets[i] = true, off
			if lay(count+1, off) {
				return true
			}
			placed[i] = false
		}
		return false
	}
	return lay(0, 0)
}

// TestPackageCommentProof: the proof in the package comment is the one that the search
// finds. With b on the floor, both buffers that could lie on the floor of step 3 lead to
// a dead end, and the whole proof takes six nodes.
func TestPackageCommentProof(t *testing.T) {
	p := parse(t, "a:2@0-0 b:2@0-1 c:1@1-3 d:1@1-2 e:1@2-3 f:2@3-4 g:2@4-4")
	const a, b, e, f = 0, 1, 4, 5
	x := newExact(p, prepare(p))
	if out, _ := x.decide(4, never); out != fails || x.nodes != 6 {
		t.Errorf("capacity 4: outcome %d after %d nodes, want a proof after 6", out, x.nodes)
	}
	if out, _ := x.decide(5, never); out != fits {
		t.Errorf("capacity 5: outcome %d, want a placement", out)
	}
	x.setCapacity(4)
	if !x.begin() || !x.lay(b, 0) || !x.lay(a, 2) {
		t.Fatal("b at 0 and a at 2: a dead end")
	}
	mark := len(x.trail)
	for _, lowest := range []int32{f, e} {
		if x.lay(lowest, 0) {
			t.Errorf("%s at 0: not a dead end", p.Buffers[lowest].ID)
		}
		x.undo(mark)
	}
}

// The exact search agrees with a plain search, whichever rule is off, and each of
// its answers is a valid placement.
func TestExactIsBruteForce(t *testing.T) {
	none := rules{}
	ablations := map[string]rules{
		"all rules": none, "no heads": {heads: true}, "no table": {table: true}, "no backjumps": {backjumps: true}, "no splits": {splits: true},
		"no twins": {twins: true}, "no forced moves": {forced: true},
		"no boundaries": {boundaries: true},
		"no rules":      {true, true, true, true, true, true, true},
	}
	for _, all := range []bool{false, true} {
		rapid.Check(t, func(t *rapid.T) {
			p := drawTight(t, 9, all)
			s := prepare(p)
			capacity := p.MaxLoad() + int64(rapid.IntRange(0, 3).Draw(t, "room"))
			want := fails
			if inCapacity(p, capacity) {
				want = fits
			}
			for name, off := range ablations {
				x := newExact(p, s)
				x.off = off
				x.lowest = rapid.Bool().Draw(t, "lowest")
				x.rankBuffers(noisyConfig(rapid.Uint64Range(1, 64).Draw(t, "config")))
				x.setCapacity(capacity)
				x.limit, x.budget = never, never
				got, offsets := x.run()
				if got != want {
					t.Fatalf("%s: capacity %d of %v: got %d, want %d", name, capacity, p.Buffers, got, want)
				}
				if got == fits {
					a := Placement{Offsets: make([]int64, len(p.Buffers))}
					for b, i := range s.ids {
						a.Offsets[i] = offsets[b]
						a.Arena = max(a.Arena, offsets[b]+p.size(i))
					}
					if err := p.Check(a); err != nil || a.Arena > capacity {
						t.Fatalf("%s: capacity %d, arena %d: %v", name, capacity, a.Arena, err)
					}
				}
			}
		})
	}
}

// Solve finds the least arena, and proves it, where plain search finds one.
func TestSolveIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawTight(t, 8, true)
		r, err := Solve(t.Context(), p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(r.Placement); err != nil {
			t.Fatal(err)
		}
		if !r.Optimal || inCapacity(p, r.Arena-1) {
			t.Fatalf("%+v: not optimal, or not known to be", r)
		}
	})
}

// tight makes about n buffers whose load is 24 bytes at each step: at the end of
// a step some two of them make room for two others, not always in a place where
// those can lie.
func tight(seed uint64, n int) Problem {
	r := rand.New(rand.NewPCG(9, seed))
	var p Problem
	var live []int
	begin := func(size int64, step int) {
		live = append(live, len(p.Buffers))
		p.Buffers = append(p.Buffers, Buffer{Size: size, First: step})
	}
	for _, size := range []int64{3, 4, 5, 5, 7} {
		begin(size, 0)
	}
	last := 0
	for ; len(p.Buffers) < n; last++ {
		var room int64
		for range 2 {
			k := r.IntN(len(live))
			p.Buffers[live[k]].Last = last
			room += p.Buffers[live[k]].Size
			live = slices.Delete(live, k, k+1)
		}
		cut := 1 + r.Int64N(room-1)
		begin(cut, last+1)
		begin(room-cut, last+1)
	}
	for _, i := range live {
		p.Buffers[i].Last = last
	}
	return p
}

// With any rule off the optimum of larger problems is the same.
func TestAblation(t *testing.T) {
	hard := 0
	for seed := range uint64(60) {
		p := tight(seed, 24)
		bound := p.MaxLoad()
		s := prepare(p)
		var first outcome
		for k, off := range []rules{{}, {heads: true}, {table: true}, {backjumps: true}, {splits: true}, {twins: true}, {forced: true}, {boundaries: true}} {
			x := newExact(p, s)
			x.off = off
			got, _ := x.decide(bound, 200_000_000)
			if k == 0 {
				first = got
				if first == fails {
					hard++
				}
			} else if got != first || got == gaveUp {
				t.Errorf("seed %d: rules %+v off: got %d, with all %d", seed, off, got, first)
			}
		}
	}
	if hard < 20 {
		t.Errorf("%d proven not to fit, expected more", hard)
	}
}

// The instances of MiniMalloc fit into their capacity, at default effort, and
// the others into the best height known.
func TestSolveInstances(t *testing.T) {
	n := 1 << 15
	if testing.Short() {
		n = 1100
	}
	for _, x := range instances(t, n) {
		begin := time.Now()
		r, err := Solve(t.Context(), x.problem, Options{Capacity: x.best})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		if err := x.problem.CheckSweep(r.Placement); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if r.Fit != FitFound {
			t.Errorf("%s: arena %d, want at most %d", x.name, r.Arena, x.best)
		}
		t.Logf("%-26s n %5d load %12d arena %12d %-16s %8.2f ms", x.name, len(x.problem.Buffers), x.bound, r.Arena, r.Strategy, took.Seconds()*1e3)
	}
}

// A capacity is met, refuted by the load, or refuted by search.
func TestSolveCapacity(t *testing.T) {
	refuted := Problem{}
	for seed := uint64(0); ; seed++ {
		refuted = tight(seed, 24)
		if out, _ := newExact(refuted, prepare(refuted)).decide(24, never); out == fails {
			break
		}
	}
	for _, c := range []struct {
		name     string
		p        Problem
		capacity int64
		fit      Fit
		bound    int64
	}{
		{"not asked", parse(t, picture), 0, FitUnknown, 7},
		{"met", parse(t, picture), 7, FitFound, 7},
		{"met with room", parse(t, picture), 100, FitFound, 7},
		{"below the load", parse(t, picture), 6, FitNever, 7},
		{"the load, out of reach", refuted, 24, FitNever, 25},
	} {
		r, err := Solve(t.Context(), c.p, Options{Capacity: c.capacity})
		if err != nil {
			t.Fatal(err)
		}
		if r.Fit != c.fit || r.LowerBound != c.bound {
			t.Errorf("%s: got fit %d, bound %d, want %d and %d", c.name, r.Fit, r.LowerBound, c.fit, c.bound)
		}
		if err := c.p.Check(r.Placement); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// When the context ends, what has been found by then is the result.
func TestSolveEnds(t *testing.T) {
	p := tangled(300)
	ctx, cancel := context.WithCancel(t.Context())
	s := Strategies[0].Func
	Strategies[0].Func = func(p Problem) Placement {
		cancel()
		return s(p)
	}
	defer func() { Strategies[0].Func = s }()
	r, err := Solve(ctx, p, Options{Effort: EffortMax})
	if err != nil {
		t.Fatal(err)
	}
	if r.Strategy != Strategies[0].Name || p.Check(r.Placement) != nil {
		t.Errorf("got %q, %v", r.Strategy, p.Check(r.Placement))
	}
}

// Gaps count in the bound and in the checks.
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

// Solve puts buffers into the gaps of others; no arena is smaller than these.
func TestSolveUsesGaps(t *testing.T) {
	for _, c := range []struct {
		name, buffers string
		gaps          map[int][]Gap
		fixed         map[int]int64
		want          int64
	}{
		{"two in one gap", "a:4@0-9 b:4@3-4 c:3@2-3", map[int][]Gap{0: {{First: 2, Last: 7}}}, nil, 7},
		{"beside the bytes that stay", "a:8@0-4 b:4@2-2", map[int][]Gap{0: {{First: 2, Last: 2, From: 0, To: 4}}}, nil, 8},
		{"below the bytes that stay", "a:8@0-4 b:4@2-2 c:4@1-1", map[int][]Gap{0: {{First: 2, Last: 2, From: 4, To: 8}}}, nil, 12},
		{"gap in gap", "a:6@0-9 b:6@2-7 c:6@4-5", map[int][]Gap{0: {{First: 2, Last: 7}}, 1: {{First: 4, Last: 5}}}, nil, 6},
		{"above a fixed one", "a:4@0-9 b:4@3-4", map[int][]Gap{0: {{First: 2, Last: 7}}}, map[int]int64{0: 8}, 12},
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

// What Solve makes of gaps is a placement, no larger than without them.
func TestSolveGapsHold(t *testing.T) {
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
		// Some stay where they are, in gaps too.
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
			t.Errorf("with fixed ones by %s: %v", again.Strategy, err)
		}
	})
}

// Two searches side by side find what they find on one core, too.
func TestDecideIsDeterministic(t *testing.T) {
	p := perfect(10, 200, 100, 1000, 0)
	var first []int64
	for _, cores := range []int{2, 1, 4} {
		before := runtime.GOMAXPROCS(cores)
		x := newExact(p, prepare(p))
		out, offsets := x.decide(1000, never)
		runtime.GOMAXPROCS(before)
		if out != fits || x.second == nil {
			t.Fatalf("%d cores: got %d, second search %v: expected to fit after more than a while", cores, out, x.second != nil)
		}
		if first == nil {
			first = offsets
		}
		if !slices.Equal(offsets, first) {
			t.Errorf("%d cores: other offsets than at first", cores)
		}
	}
}
