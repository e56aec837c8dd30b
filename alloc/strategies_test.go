package alloc

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestStrategies: the rules and tie-breaks of each strategy, one per case.
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
		{"greedy-by-start", "the larger first if both start together", "a:1@0-1 b:2@0-0 c:2@1-1", []int64{2, 0, 0}},
		{"greedy-by-start", "the lowest gap, not the smallest", "a:5@0-1 b:1@0-4 c:3@0-1 d:1@0-4 e:2@2-2", []int64{0, 8, 5, 9, 0}},
		{"strip-packing", "the picture", picture, []int64{0, 4, 6, 0}},
		{"strip-packing", "of equal lifetimes the first, not the largest", "a:1@0-1 b:4@0-1", []int64{0, 1}},
		{"best-fit", "of equal lifetimes the largest", "a:1@0-1 b:4@0-1", []int64{4, 0}},
		{"greedy-in-order", "the smallest gap, not the lowest", "a:3@0-0 b:1@0-4 c:2@0-0 d:1@0-4 e:2@2-2", []int64{0, 3, 4, 6, 4}},
		{"first-fit-by-duration", "the longest first", "a:5@0-1 b:1@0-4 c:3@0-1 d:1@0-4 e:2@2-2", []int64{2, 0, 7, 1, 2}},
		{"hill-climb", "a swap reaches the largest load", "a:3@0-2 b:3@4-6 c:2@2-4 d:4@0-1 e:4@5-6 f:1@1-5", nil},
		{"best-fit", "the longest lifetime within the plateau", "a:2@0-3 b:2@4-7 c:1@0-7 d:1@3-4", []int64{1, 1, 0, 3}},
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

// TestStrategiesAreValid: every placement passes both checks, and no arena is below the
// largest load.
func TestStrategiesAreValid(t *testing.T) {
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

// TestFirstFitIsNaive: the tree of occupied bytes finds the same gaps as a scan of all
// neighbours.
func TestFirstFitIsNaive(t *testing.T) {
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

// TestBestFitIsNaive: best-fit and strip-packing place the same buffers as a simple
// implementation of their rules without indexes. Of equal lifetimes, best-fit takes the
// larger first.
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

// TestBestFitAboveFixed: if a search of the gaps between fixed buffers would take too
// long, best-fit packs on top of them.
func TestBestFitAboveFixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t, 20)
		a := GreedyBySize(p)
		for i := range p.Buffers {
			if rapid.IntRange(0, 3).Draw(t, "fixed") == 0 {
				off := a.Offsets[i]
				p.Buffers[i].Fixed = &off
			}
		}
		p.work = 1
		got := BestFit(p)
		if err := p.Check(got); err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
	})
}

func TestSizeClass(t *testing.T) {
	for size, want := range map[int64]int{1: 0, 2: 4, 3: 6, 4: 8, 5: 9, 7: 11, 8: 12, 9: 12, 10: 13, 1 << 20: 80} {
		if got := sizeClass(size); got != want {
			t.Errorf("%d bytes: class %d, want %d", size, got, want)
		}
	}
}

// TestRowsByClass: a class has only as many rows as buffers that are live together.
func TestRowsByClass(t *testing.T) {
	p := parse(t, "a:8@0-2 b:9@1-3 c:8@3-5 d:9@4-4 big:64@0-9 e:8@6-6")
	s := prepare(p)
	got := rowsByClass(p, s)
	// c takes the row of a, d the row of b, and e the row of d, which has been free for longer than c's.
	for i, want := range []int32{0, 1, 0, 1, 0, 1} {
		if got[i] != want {
			t.Errorf("%s: row %d, want %d", p.Buffers[i].ID, got[i], want)
		}
	}
}

// TestLargeProblems: every strategy places problems of thousands of buffers.
func TestLargeProblems(t *testing.T) {
	for name, p := range map[string]Problem{"transformer": transformer(3000), "tangled": tangled(2000), "long": longLived(2000)} {
		for _, s := range Strategies {
			if s.Name == "hill-climb" {
				continue // it takes a minute
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
