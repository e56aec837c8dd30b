// Package stacking places buffers whose sizes are not fixed. A plan for a range of
// dimensions has one order of the nodes, so one lifetime for each buffer, but the sizes
// differ from one binding of the dimensions to the next. Instead of offsets, it keeps a
// ranking: of two buffers that are live together, the one of the lower rank lies below.
//
//	sizes 2, 1, 1      sizes 1, 2, 1      ranking a, b, c
//	. . c c            . . c c
//	. b b .            . b b .
//	a a . .            . b b .
//	a a . .            a a . .            steps from left to right
//
// The offsets of any sizes follow in one pass over the ranking: a buffer lies on top of
// all those before it that are live with it. Two facts need no look at the sizes:
//
//   - No two buffers overlap at a step: of any two, the later one in the ranking starts
//     at or above the end of the earlier one.
//   - The arena is monotone: it is the longest path in the graph of who lies above whom,
//     with the sizes as the lengths, and a path does not become shorter when a size grows.
//     So the arena of the largest sizes is enough for all smaller ones. First fit in the
//     same sequence has no such property.
//
// Buffers of a chain lie one behind the other, without room between them, and are stacked as
// one. The chain begins at the lowest byte at which each of its buffers lies on top of what
// is live with it. Above a chain lies what is live with one of its buffers, on top of that
// buffer. So a buffer of a chain that is not live leaves its bytes to others. The first fact
// holds for chains, too. The second does not: a buffer may lie lower because one before it in
// its chain is larger, so who has chains must look at the arena of all sizes.
//
// The package knows nothing of dimensions or operators.
package stacking

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Lifetime is the steps [First, Last], both inclusive, at which a buffer is live.
type Lifetime struct{ First, Last int }

// Stacking is a ranking of buffers with lifetimes. It is safe for use by several
// goroutines at once.
type Stacking struct {
	ranking  []int
	chained  []bool     // by rank: the buffer lies right behind the one of the rank before
	lives    []Lifetime // whose steps are numbered from 0 to sections-1
	sections int
}

// New returns the stacking in which the buffers lie in the order of the ranking, from
// below. It fails if the ranking is no permutation of the indices of the lifetimes, or
// if a lifetime ends before it begins. O(n log n).
func New(lives []Lifetime, ranking []int) (*Stacking, error) {
	return NewChained(lives, ranking, nil)
}

// NewChained is New with chains: lists of buffers that lie one behind the other. No buffer
// is in two chains. It fails also if the buffers of a chain do not follow each other in the
// ranking.
func NewChained(lives []Lifetime, ranking []int, chains [][]int) (*Stacking, error) {
	if len(ranking) != len(lives) {
		return nil, fmt.Errorf("stacking: expected the ranks of %d buffers, found %d", len(lives), len(ranking))
	}
	ranked := make([]bool, len(lives))
	for rank, b := range ranking {
		switch {
		case b < 0 || b >= len(lives):
			return nil, fmt.Errorf("stacking: rank %d: expected a buffer from 0 to %d, found %d", rank, len(lives)-1, b)
		case ranked[b]:
			return nil, fmt.Errorf("stacking: rank %d: expected a buffer without a rank, found %d a second time", rank, b)
		}
		ranked[b] = true
	}
	s := &Stacking{ranking: slices.Clone(ranking), chained: make([]bool, len(lives)), lives: make([]Lifetime, len(lives))}
	for c, chain := range chains {
		at := -1
		for i, b := range chain {
			switch {
			case b < 0 || b >= len(lives):
				return nil, fmt.Errorf("stacking: chain %d: expected buffers from 0 to %d, found %d", c, len(lives)-1, b)
			case i == 0:
				at = slices.Index(ranking, b)
			case at+i >= len(ranking) || ranking[at+i] != b || s.chained[at+i]:
				return nil, fmt.Errorf("stacking: chain %d: expected the rank behind that of buffer %d for buffer %d", c, chain[i-1], b)
			default:
				s.chained[at+i] = true
			}
		}
	}
	// Only the order of the first steps matters: two buffers are live together if and
	// only if they are so at the first step of one of them.
	firsts := make([]int, 0, len(lives))
	for b, l := range lives {
		if l.First > l.Last {
			return nil, fmt.Errorf("stacking: buffer %d: expected a first step not after the last, found %d-%d", b, l.First, l.Last)
		}
		firsts = append(firsts, l.First)
	}
	slices.Sort(firsts)
	firsts = slices.Compact(firsts)
	s.sections = len(firsts)
	for b, l := range lives {
		first, _ := slices.BinarySearch(firsts, l.First)
		after, found := slices.BinarySearch(firsts, l.Last)
		if !found {
			after--
		}
		s.lives[b] = Lifetime{first, after}
	}
	return s, nil
}

// Ranking returns the indices of the buffers from below. The caller may change it.
func (s *Stacking) Ranking() []int { return slices.Clone(s.ranking) }

// Place writes the offset of each buffer, in bytes, and returns the arena: the end of
// the highest buffer, in bytes. Sizes are multiples of the alignment, so that offsets
// are, too. A buffer of 0 bytes lies at 0 and holds up nothing. Place fails if a size is
// negative or the arena exceeds an int64. O(n·s) for s different first steps.
func (s *Stacking) Place(sizes, offsets []int64) (arena int64, err error) {
	if len(sizes) != len(s.lives) || len(offsets) != len(s.lives) {
		return 0, fmt.Errorf("stacking: expected sizes and offsets of %d buffers, found %d and %d", len(s.lives), len(sizes), len(offsets))
	}
	tops := make([]int64, s.sections) // by section: the end of the highest buffer so far
	for rank := 0; rank < len(s.ranking); {
		end := rank + 1
		for end < len(s.ranking) && s.chained[end] {
			end++
		}
		top, err := s.placeChain(s.ranking[rank:end], sizes, offsets, tops)
		if err != nil {
			return 0, err
		}
		arena, rank = max(arena, top), end
	}
	return arena, nil
}

// placeChain places buffers that lie one behind the other on top of those that lie there
// already, and returns the end of the last one.
func (s *Stacking) placeChain(chain []int, sizes, offsets, tops []int64) (end int64, err error) {
	base, before := int64(0), int64(0) // the first byte; the bytes before a buffer
	for _, b := range chain {
		size := sizes[b]
		switch {
		case size < 0:
			return 0, fmt.Errorf("stacking: buffer %d: expected 0 or more bytes, found %d", b, size)
		case size == 0:
			continue
		}
		base = max(base, slices.Max(tops[s.lives[b].First:s.lives[b].Last+1])-before)
		if before > math.MaxInt64-size || base > math.MaxInt64-before-size {
			return 0, fmt.Errorf("stacking: buffer %d: %d bytes on top of %d exceed %d", b, size, base+min(before, math.MaxInt64-base), math.MaxInt64)
		}
		before += size
	}
	end = base
	for _, b := range chain {
		offsets[b] = 0
		if sizes[b] == 0 {
			continue
		}
		offsets[b] = end
		end += sizes[b]
		under := tops[s.lives[b].First : s.lives[b].Last+1]
		for i := range under {
			under[i] = max(under[i], end)
		}
	}
	return end, nil
}

// Rank returns the ranking of a placement: the buffers by offset, then by end, so that a
// buffer of 0 bytes lies below the one that shares its offset, then by index. Stacking
// buffers in the ranking of a valid placement with the sizes of that placement gives an
// arena that is not larger.
func Rank(offsets, sizes []int64) []int {
	ranking := make([]int, len(offsets))
	for b := range ranking {
		ranking[b] = b
	}
	slices.SortFunc(ranking, func(a, b int) int {
		return cmp.Or(cmp.Compare(offsets[a], offsets[b]), cmp.Compare(offsets[a]+sizes[a], offsets[b]+sizes[b]), a-b)
	})
	return ranking
}

// RankChained is [Rank] with chains, whose buffers follow each other in the ranking. A chain,
// or another buffer, stands behind all those of which a buffer lies below one of its own at a
// step at which both are live. Where two stand behind each other, the one with the lower
// first byte comes first; the arena may then be larger than that of the placement. O(n²).
func RankChained(lives []Lifetime, offsets, sizes []int64, chains [][]int) []int {
	plain := Rank(offsets, sizes)
	if len(chains) == 0 {
		return plain
	}
	chainOf := make(map[int]int, len(lives))
	for c, chain := range chains {
		for _, b := range chain {
			chainOf[b] = c
		}
	}
	var units [][]int // by the first byte
	unitOf := make([]int, len(lives))
	for _, b := range plain {
		c, chained := chainOf[b]
		unit := []int{b}
		if chained {
			if chains[c][0] != b {
				continue
			}
			unit = chains[c]
		}
		for _, b := range unit {
			unitOf[b] = len(units)
		}
		units = append(units, unit)
	}
	above := make([][]int, len(units)) // by unit: those that lie above it
	below := make([]int, len(units))   // by unit: how often it stands in a list of above
	for i, b := range plain {
		for _, c := range plain[i+1:] {
			u, v := unitOf[b], unitOf[c]
			if u != v && sizes[b] > 0 && sizes[c] > 0 && lives[b].First <= lives[c].Last && lives[c].First <= lives[b].Last {
				above[u] = append(above[u], v)
				below[v]++
			}
		}
	}
	ranking := make([]int, 0, len(lives))
	taken := make([]bool, len(units))
	for range units {
		next := slices.IndexFunc(units, func(u []int) bool { return !taken[unitOf[u[0]]] && below[unitOf[u[0]]] == 0 })
		if next < 0 {
			next = slices.Index(taken, false)
		}
		taken[next] = true
		ranking = append(ranking, units[next]...)
		for _, v := range above[next] {
			below[v]--
		}
	}
	return ranking
}
