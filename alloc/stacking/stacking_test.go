package stacking_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onnxmem/onnxmem/alloc"
	"github.com/onnxmem/onnxmem/alloc/stacking"
)

// drawLives draws the lifetimes of up to n buffers over few steps.
func drawLives(t *rapid.T, n int) []stacking.Lifetime {
	lives := make([]stacking.Lifetime, rapid.IntRange(0, n).Draw(t, "buffers"))
	for b := range lives {
		first := rapid.IntRange(-2, 2*n).Draw(t, "first")
		lives[b] = stacking.Lifetime{First: first, Last: first + rapid.IntRange(0, n).Draw(t, "steps")}
	}
	return lives
}

func drawSizes(t *rapid.T, n int) []int64 {
	return rapid.SliceOfN(rapid.Int64Range(0, 20), n, n).Draw(t, "sizes")
}

func drawRanking(t *rapid.T, n int) []int {
	ranking := make([]int, n)
	for b := range ranking {
		ranking[b] = b
	}
	return rapid.Permutation(ranking).Draw(t, "ranking")
}

func place(t interface{ Fatal(...any) }, s *stacking.Stacking, sizes []int64) alloc.Placement {
	p := alloc.Placement{Offsets: make([]int64, len(sizes))}
	var err error
	if p.Arena, err = s.Place(sizes, p.Offsets); err != nil {
		t.Fatal(err)
	}
	return p
}

func problem(lives []stacking.Lifetime, sizes []int64) (p alloc.Problem) {
	for b, l := range lives {
		p.Buffers = append(p.Buffers, alloc.Buffer{Size: sizes[b], First: l.First, Last: l.Last})
	}
	return p
}

// TestPlaceIsValid: any ranking places any sizes without an overlap.
func TestPlaceIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, 12)
		s, err := stacking.New(lives, drawRanking(t, len(lives)))
		if err != nil {
			t.Fatal(err)
		}
		sizes := drawSizes(t, len(lives))
		if err := problem(lives, sizes).Check(place(t, s, sizes)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPlaceIsLowest compares each offset with its definition: the largest end of the
// buffers before it in the ranking that are live with it.
func TestPlaceIsLowest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, 12)
		ranking, sizes := drawRanking(t, len(lives)), drawSizes(t, len(lives))
		s, err := stacking.New(lives, ranking)
		if err != nil {
			t.Fatal(err)
		}
		offsets := place(t, s, sizes).Offsets
		for rank, b := range ranking {
			var off int64
			for _, a := range ranking[:rank] {
				if sizes[a] > 0 && sizes[b] > 0 && lives[a].First <= lives[b].Last && lives[b].First <= lives[a].Last {
					off = max(off, offsets[a]+sizes[a])
				}
			}
			if offsets[b] != off {
				t.Fatalf("buffer %d: expected offset %d, found %d", b, off, offsets[b])
			}
		}
	})
}

// TestArenaIsMonotone: smaller sizes never need a larger arena, and no buffer lies higher.
func TestArenaIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, 12)
		s, err := stacking.New(lives, drawRanking(t, len(lives)))
		if err != nil {
			t.Fatal(err)
		}
		large := drawSizes(t, len(lives))
		small := make([]int64, len(large))
		for b := range small {
			small[b] = rapid.Int64Range(0, large[b]).Draw(t, "smaller")
		}
		below, above := place(t, s, small), place(t, s, large)
		if below.Arena > above.Arena {
			t.Fatalf("expected at most the arena of the larger sizes, %d bytes, found %d", above.Arena, below.Arena)
		}
		for b := range small {
			if below.Offsets[b] > above.Offsets[b] {
				t.Fatalf("buffer %d: expected at most offset %d, found %d", b, above.Offsets[b], below.Offsets[b])
			}
		}
	})
}

// TestRankKeepsArena: the ranking of the best placement gives an arena of the same size.
func TestRankKeepsArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, 8)
		sizes := drawSizes(t, len(lives))
		best, err := alloc.Solve(context.Background(), problem(lives, sizes), alloc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := stacking.New(lives, stacking.Rank(best.Offsets, sizes))
		if err != nil {
			t.Fatal(err)
		}
		if got := place(t, s, sizes).Arena; got > best.Arena {
			t.Fatalf("expected at most the %d bytes of the placement, found %d", best.Arena, got)
		}
	})
}

// TestBestRanking tries all rankings of a few buffers: the best one reaches the proven
// smallest arena, so that no placement is lost by stacking.
func TestBestRanking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, 5)
		sizes := drawSizes(t, len(lives))
		best, err := alloc.Solve(context.Background(), problem(lives, sizes), alloc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !best.Optimal {
			t.Skip("the smallest arena is not known")
		}
		least := int64(math.MaxInt64)
		permute(len(lives), func(ranking []int) {
			s, err := stacking.New(lives, ranking)
			if err != nil {
				t.Fatal(err)
			}
			least = min(least, place(t, s, sizes).Arena)
		})
		if least != best.Arena {
			t.Fatalf("expected %d bytes with the best ranking, found %d", best.Arena, least)
		}
	})
}

// permute calls f with each permutation of 0 to n-1.
func permute(n int, f func([]int)) {
	var extend func([]int)
	extend = func(head []int) {
		if len(head) == n {
			f(head)
		}
		for b := range n {
			if !slices.Contains(head, b) {
				extend(append(slices.Clone(head), b))
			}
		}
	}
	extend(nil)
}

func TestErrors(t *testing.T) {
	one := []stacking.Lifetime{{First: 0, Last: 1}, {First: 1, Last: 2}}
	for _, c := range []struct {
		lives   []stacking.Lifetime
		ranking []int
		want    string
	}{
		{one, []int{0}, "expected the ranks of 2 buffers, found 1"},
		{one, []int{0, 2}, "rank 1: expected a buffer from 0 to 1, found 2"},
		{one, []int{-1, 0}, "rank 0: expected a buffer from 0 to 1, found -1"},
		{one, []int{1, 1}, "rank 1: expected a buffer without a rank, found 1 a second time"},
		{[]stacking.Lifetime{{First: 2, Last: 1}}, []int{0}, "buffer 0: expected a first step not after the last, found 2-1"},
	} {
		if _, err := stacking.New(c.lives, c.ranking); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ranking %v: expected an error with %q, found %v", c.ranking, c.want, err)
		}
	}
	s, err := stacking.New(one, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sizes []int64
		want  string
	}{
		{[]int64{1}, "expected sizes and offsets of 2 buffers, found 1 and 2"},
		{[]int64{1, -1}, "buffer 1: expected 0 or more bytes, found -1"},
		{[]int64{math.MaxInt64, 1}, "buffer 1: 1 bytes on top of 9223372036854775807 exceed 9223372036854775807"},
	} {
		if _, err := s.Place(c.sizes, make([]int64, 2)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("sizes %v: expected an error with %q, found %v", c.sizes, c.want, err)
		}
	}
}

// drawChains puts some of n buffers into chains.
func drawChains(t *rapid.T, n int) (chains [][]int) {
	all := drawRanking(t, n)
	for len(all) > 1 && rapid.Bool().Draw(t, "another chain") {
		k := rapid.IntRange(2, min(4, len(all))).Draw(t, "buffers of the chain")
		chains, all = append(chains, all[:k]), all[k:]
	}
	return chains
}

// inChains moves the buffers of each chain behind its first one.
func inChains(ranking []int, chains [][]int) (list []int) {
	for _, b := range ranking {
		c := slices.IndexFunc(chains, func(c []int) bool { return slices.Contains(c, b) })
		switch {
		case c < 0:
			list = append(list, b)
		case chains[c][0] == b:
			list = append(list, chains[c]...)
		}
	}
	return list
}

// TestChains: buffers of a chain lie one behind the other, none overlaps another, and the
// chain lies as low as the buffers below it permit.
func TestChains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, 10)
		sizes := drawSizes(t, len(lives))
		chains := drawChains(t, len(lives))
		ranking := inChains(drawRanking(t, len(lives)), chains)
		s, err := stacking.NewChained(lives, ranking, chains)
		if err != nil {
			t.Fatal(err)
		}
		placed := place(t, s, sizes)
		if err := problem(lives, sizes).Check(placed); err != nil {
			t.Fatal(err)
		}
		low := func(list []int) (base int64, known bool) { // the lowest first byte of the buffers
			before := int64(0)
			for _, b := range list {
				for _, a := range ranking[:slices.Index(ranking, list[0])] {
					if sizes[a] > 0 && sizes[b] > 0 && lives[a].First <= lives[b].Last && lives[b].First <= lives[a].Last {
						base = max(base, placed.Offsets[a]+sizes[a]-before)
					}
				}
				before += sizes[b]
			}
			return base, before > 0
		}
		for _, chain := range chains {
			at, some := low(chain)
			for _, b := range chain {
				if sizes[b] > 0 && placed.Offsets[b] != at {
					t.Fatalf("buffer %d of chain %v: expected offset %d, found %d", b, chain, at, placed.Offsets[b])
				}
				if some {
					at += sizes[b]
				}
			}
		}
	})
}

// TestRankChained: the ranking of a placement has the chains in a row, and where no two
// buffers or chains lie above each other, its arena is not larger.
func TestRankChained(t *testing.T) {
	// Two parts of a chain, between which another buffer lies at other steps.
	lives := []stacking.Lifetime{{First: 0, Last: 3}, {First: 2, Last: 3}, {First: 0, Last: 1}, {First: 2, Last: 3}}
	sizes, offsets := []int64{2, 3, 3, 1}, []int64{0, 2, 2, 5}
	chains := [][]int{{0, 1}}
	ranking := stacking.RankChained(lives, offsets, sizes, chains)
	s, err := stacking.NewChained(lives, ranking, chains)
	if err != nil {
		t.Fatal(err)
	}
	if got := place(t, s, sizes); got.Arena != 6 || !slices.Equal(got.Offsets, offsets) {
		t.Errorf("expected the placement in 6 bytes, found %+v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		lives := drawLives(t, 10)
		sizes := drawSizes(t, len(lives))
		chains := drawChains(t, len(lives))
		s, err := stacking.NewChained(lives, inChains(drawRanking(t, len(lives)), chains), chains)
		if err != nil {
			t.Fatal(err)
		}
		placed := place(t, s, sizes)
		again, err := stacking.NewChained(lives, stacking.RankChained(lives, placed.Offsets, sizes, chains), chains)
		if err != nil {
			t.Fatal(err)
		}
		if err := problem(lives, sizes).Check(place(t, again, sizes)); err != nil {
			t.Fatal(err)
		}
		if got := place(t, again, sizes).Arena; got > placed.Arena {
			t.Fatalf("expected at most the %d bytes of the stacking, found %d", placed.Arena, got)
		}
	})
}

func TestChainErrors(t *testing.T) {
	lives := []stacking.Lifetime{{First: 0, Last: 1}, {First: 0, Last: 1}, {First: 0, Last: 1}}
	for _, chains := range [][][]int{{{0, 2}}, {{1, 0}}, {{2, 3}}, {{0, 1}, {0, 1}}, {{2, 0}}} {
		if _, err := stacking.NewChained(lives, []int{0, 1, 2}, chains); err == nil || !strings.Contains(err.Error(), "chain") {
			t.Errorf("chains %v: expected an error, found %v", chains, err)
		}
	}
}
