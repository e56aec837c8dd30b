package alloc

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

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

// The neighbours of a buffer are those that share a section with it, by size.
func TestNeighboursShareASection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawTight(t, 12, true)
		x := newExact(p, prepare(p))
		for b := range x.ids {
			var want []int32
			for m := range x.ids {
				if m != b && x.lo[m] < x.hi[b] && x.lo[b] < x.hi[m] {
					want = append(want, int32(m))
				}
			}
			slices.SortStableFunc(want, func(i, j int32) int { return cmp.Compare(x.size[i], x.size[j]) })
			if !slices.Equal(x.neighbours[b], want) {
				t.Fatalf("%v: buffer %d has the neighbours %v, expected %v", p.Buffers, b, x.neighbours[b], want)
			}
		}
	})
}

// TestExactIsBruteForce: with any rule off, the exact search agrees with brute force,
// and its placements are valid.
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

// inCapacity reports by brute force whether a problem fits: it places the buffers by
// ascending offset, each on top of its neighbours below, in every order.
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

// TestAblation: with any rule off, the outcome on larger problems is the same.
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
		t.Errorf("%d proven not to fit, expected at least 20", hard)
	}
}

// TestSolveIsExact: on small problems, Solve finds the smallest arena and proves it.
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
			t.Fatalf("%+v: not optimal, or not proven", r)
		}
	})
}

// TestDecideIsDeterministic: two parallel searches find the same placement on any number
// of cores.
func TestDecideIsDeterministic(t *testing.T) {
	p := perfect(10, 200, 100, 1000, 0)
	var first []int64
	for _, cores := range []int{2, 1, 4} {
		before := runtime.GOMAXPROCS(cores)
		x := newExact(p, prepare(p))
		out, offsets := x.decide(1000, never)
		runtime.GOMAXPROCS(before)
		if out != fits || x.second == nil {
			t.Fatalf("%d cores: got %d, second search %v: expected to fit, and to need the second search", cores, out, x.second != nil)
		}
		if first == nil {
			first = offsets
		}
		if !slices.Equal(offsets, first) {
			t.Errorf("%d cores: different offsets", cores)
		}
	}
}

// drawTight draws up to n buffers over few steps, so that the largest load is often out
// of reach. If all is set, some have alignments, fixed offsets and hints.
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

// tight returns about n buffers with a load of 24 bytes at each step. After each step
// two buffers end and two others begin, which do not always fit into the same bytes.
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
