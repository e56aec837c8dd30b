package copies

import (
	"cmp"
	"slices"
)

// shift is a partial map of vertices, each to the same one of the next copy.
type shift struct {
	*net
	next, prev []int32 // vertex -> its image, the vertex that it is the image of; -1: none
	shared     []bool  // vertex -> all copies read it, or it reads from all
	open       []pair  // whose neighbours are still to be matched
	later      []pair  // pairs with neighbours that nothing tells apart
	covered    int     // the number of nodes with an image
}

type pair struct{ from, to int32 }

func newShift(g *net) *shift {
	n := len(g.label)
	s := &shift{net: g, next: make([]int32, n), prev: make([]int32, n), shared: make([]bool, n)}
	for v := range n {
		s.next[v], s.prev[v] = -1, -1
	}
	return s
}

// grow extends the shift from one pair of vertices as far as neighbours correspond: those of
// a colour that no other neighbour has, then, once, those that nothing tells apart,
// in the order of their numbers.
func (s *shift) grow(from, to int32, colours [][]uint64) {
	if !s.match(from, to) {
		return
	}
	for _, colour := range colours {
		for v := range s.next {
			if s.next[v] >= 0 {
				s.open = append(s.open, pair{int32(v), s.next[v]})
			}
		}
		s.spread(colour)
		for len(s.later) > 0 {
			x := s.later[0]
			s.later = s.later[1:]
			if s.neighbours(x, colour, true) {
				s.spread(colour)
			}
		}
	}
}

func (s *shift) spread(colour []uint64) {
	for len(s.open) > 0 {
		x := s.open[0]
		s.open = s.open[1:]
		s.neighbours(x, colour, false)
	}
}

// match adds a pair, and reports whether that is possible. A vertex that is its own image is shared.
func (s *shift) match(from, to int32) bool {
	if from == to {
		if s.next[from] < 0 && s.prev[from] < 0 {
			s.shared[from] = true
		}
		return false
	}
	if s.shared[from] || s.shared[to] || s.next[from] >= 0 || s.prev[to] >= 0 || s.label[from] != s.label[to] {
		return false
	}
	s.next[from], s.prev[to] = to, from
	if int(from) < s.nodes {
		s.covered++
	}
	s.open = append(s.open, pair{from, to})
	return true
}

// mostAlike bounds the number of neighbours that are matched although nothing tells them apart.
const mostAlike = 8

// neighbours matches those of a pair.
func (s *shift) neighbours(x pair, colour []uint64, alike bool) (found bool) {
	for _, of := range [2][][]int32{s.in, s.out} {
		if s.side(x, of[x.from], of[x.to], colour, alike) {
			found = true
		}
	}
	return found
}

func (s *shift) side(x pair, from, to []int32, colour []uint64, alike bool) (found bool) {
	if len(from) == 1 && len(to) == 1 {
		if colour[from[0]] == colour[to[0]] {
			return s.match(from[0], to[0])
		}
		return false
	}
	byColour := func(a, b int32) int { return cmp.Or(cmp.Compare(colour[a], colour[b]), cmp.Compare(a, b)) }
	from, to = s.free(from, to, colour)
	slices.SortFunc(from, byColour)
	slices.SortFunc(to, byColour)
	later := false
	for i, j := 0, 0; i < len(from) && j < len(to); {
		c := colour[from[i]]
		switch {
		case c < colour[to[j]]:
			i++
			continue
		case c > colour[to[j]]:
			j++
			continue
		}
		k, l := i, j
		for k < len(from) && colour[from[k]] == c {
			k++
		}
		for l < len(to) && colour[to[l]] == c {
			l++
		}
		switch {
		case k-i == 1 && l-j == 1:
			found = s.match(from[i], to[j]) || found
		case k-i == l-j && k-i <= mostAlike:
			if !alike {
				later = true
				break
			}
			for m := range k - i {
				found = s.match(from[i+m], to[j+m]) || found
			}
		}
		i, j = k, l
	}
	if later {
		s.later = append(s.later, x)
	}
	return found
}

// free returns the neighbours that are not matched yet. Those that both vertices have are shared.
func (s *shift) free(from, to []int32, colour []uint64) (f, t []int32) {
	for _, v := range from {
		if _, both := slices.BinarySearch(to, v); both {
			s.match(v, v)
		} else if s.next[v] < 0 && !s.shared[v] {
			f = append(f, v)
		}
	}
	for _, v := range to {
		if _, both := slices.BinarySearch(from, v); !both && s.prev[v] < 0 && !s.shared[v] {
			t = append(t, v)
		}
	}
	return f, t
}
