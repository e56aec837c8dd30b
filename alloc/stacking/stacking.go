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
	lives    []Lifetime // with steps numbered anew, from 0 to sections-1
	sections int
}

// New returns the stacking in which the buffers lie in the order of the ranking, from
// below. It fails if the ranking is no permutation of the indices of the lifetimes, or
// if a lifetime ends before it begins. O(n log n).
func New(lives []Lifetime, ranking []int) (*Stacking, error) {
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
	s := &Stacking{ranking: slices.Clone(ranking), lives: make([]Lifetime, len(lives))}
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
	for _, b := range s.ranking {
		size := sizes[b]
		offsets[b] = 0
		if size == 0 {
			continue
		}
		if size < 0 {
			return 0, fmt.Errorf("stacking: buffer %d: expected 0 or more bytes, found %d", b, size)
		}
		under := tops[s.lives[b].First : s.lives[b].Last+1]
		off := slices.Max(under)
		if off > math.MaxInt64-size {
			return 0, fmt.Errorf("stacking: buffer %d: %d bytes on top of %d exceed %d", b, size, off, math.MaxInt64)
		}
		offsets[b] = off
		for i := range under {
			under[i] = off + size
		}
		arena = max(arena, off+size)
	}
	return arena, nil
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
