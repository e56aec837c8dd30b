package alloc

import (
	"cmp"
	"math/bits"
	"slices"
)

// GreedyByBreadth goes through the steps by descending breadth, which is the
// sum of the sizes live there, and places what is live there and has no place
// yet, largest first, each into the smallest gap (Pisarchyk & Lee 2020, section
// 5.3). Ties fall to the earlier step and to the smaller index. O(n log n)
// beside the gaps: see [place].
//
// It looks at sections only: what is live at any other step is part of a
// section, whose breadth is larger, and has its place by then.
func GreedyByBreadth(p Problem) Placement {
	s := prepare(p)
	turn := s.turns(1)
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(turn[a], turn[b]),
			-cmp.Compare(s.size[a], s.size[b]),
			cmp.Compare(a, b))
	})
	return place(s, smallestGap)
}

// turns returns for each buffer when the first of its sections has its turn. Of
// equal breadths the earlier section goes first, or the later one if tie is -1.
func (s prepared) turns(tie int) []int32 {
	loads := s.loads()
	order := make([]int32, s.sections)
	for c := range order {
		order[c] = int32(c)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(loads[a], loads[b]), tie*cmp.Compare(a, b))
	})
	// least[k][c] is the earliest turn of the sections [c, c+2^k).
	least := [][]int32{make([]int32, s.sections)}
	for turn, c := range order {
		least[0][c] = int32(turn)
	}
	for width := 1; 2*width <= s.sections; width *= 2 {
		half := least[len(least)-1]
		row := make([]int32, s.sections-2*width+1)
		for c := range row {
			row[c] = min(half[c], half[c+width])
		}
		least = append(least, row)
	}
	turn := make([]int32, len(s.lo))
	for _, i := range s.ids {
		k := bits.Len32(uint32(s.hi[i]-s.lo[i])) - 1
		turn[i] = min(least[k][s.lo[i]], least[k][int(s.hi[i])-1<<k])
	}
	return turn
}
