package slicing

import (
	"context"
	"math"
	"slices"
)

// Counts are the numbers of slices that are tried.
var Counts = []int{2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256}

// Search finds regions that bring a program below limits. It keeps what it found, since
// one search serves several limits.
type Search struct {
	*Program
	Reach int // the largest number of nodes of a window

	cut     []int64 // bytes that live over the end of each node
	ends    []int   // nodes at which a window may end
	starts  []int   // and begin
	windows map[[2]int][]*candidate
	whole   []*candidate // of the whole program
}

// candidate is a region with what was estimated of it.
type candidate struct {
	*Region
	frame
	least int64           // no number of slices brings the window below
	tried map[int]*Choice // by the number of slices; nil: impossible
}

// NewSearch prepares a search.
func NewSearch(p *Program, reach int) *Search {
	s := &Search{Program: p, Reach: reach, windows: map[[2]int][]*candidate{}}
	n := len(p.g.Nodes)
	s.cut = make([]int64, n+1) // s.cut[v] is over the boundary before v
	for i := range p.Storages {
		st := &p.Storages[i]
		if st.Resident || st.Last <= st.First {
			continue
		}
		s.cut[st.First+1] += st.Bytes
		s.cut[st.Last+1] -= st.Bytes
	}
	for v := 1; v <= n; v++ {
		s.cut[v] += s.cut[v-1]
	}
	for v := range n {
		if s.low(v) {
			s.starts = append(s.starts, v)
		}
		if s.low(v + 1) {
			s.ends = append(s.ends, v)
		}
	}
	return s
}

// low reports whether few bytes live over the boundary before node v: no more than over
// one of the boundaries beside it, and less than over some boundary near.
func (s *Search) low(v int) bool {
	if v == 0 || v == len(s.g.Nodes) {
		return true
	}
	return s.cut[v] <= s.cut[v-1] && s.cut[v] <= s.cut[v+1]
}

// at returns the candidates of a window.
func (s *Search) at(from, to int) []*candidate {
	key := [2]int{from, to}
	if list, known := s.windows[key]; known {
		return list
	}
	var list []*candidate
	n := s.g.Nodes[to]
	if len(n.Outputs) > 0 && n.Outputs[0] >= 0 {
		for axis, d := range s.shape(n.Outputs[0]) {
			if d < 2 {
				continue
			}
			if r := s.Find(from, to, to, axis); r != nil {
				list = append(list, s.candidate(r))
			}
		}
	}
	s.windows[key] = list
	return list
}

func (s *Search) candidate(r *Region) *candidate {
	c := &candidate{Region: r, frame: r.frame(), tried: map[int]*Choice{}}
	c.least = max(c.held, c.other)
	return c
}

// choose returns the fewest slices that bring the window below the limit; nil if there
// are none.
func (c *candidate) choose(limit int64) *Choice {
	if c.least > limit {
		return nil
	}
	fits := func(x int) bool {
		k := Counts[x]
		t, known := c.tried[k]
		if !known {
			t = c.try(c.frame, k)
			c.tried[k] = t
		}
		return t != nil && t.Peak <= limit
	}
	// The estimate falls with the number of slices, but not every number is possible.
	low, high := 0, len(Counts)-1
	for high >= 0 && !c.possible(Counts[high]) {
		high--
	}
	if high < 0 || !fits(high) {
		return nil
	}
	for low < high {
		mid := (low + high) / 2
		if fits(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return c.tried[Counts[high]]
}

// possible reports whether the region can be cut into k slices.
func (c *candidate) possible(k int) bool {
	t, known := c.tried[k]
	if !known {
		t = c.try(c.frame, k)
		c.tried[k] = t
	}
	return t != nil
}

// Cover returns regions with disjoint windows that bring the estimated peak below the
// limit, with the least extra time; false if there are none. It is exact for the
// windows that it looks at: from the first node to each node, it keeps the cheapest
// choice.
func (s *Search) Cover(ctx context.Context, limit int64) ([]*Choice, bool) {
	n := len(s.g.Nodes)
	hot := make([]int, n+1) // the number of nodes before v whose load is too large
	for v, load := range s.loads {
		hot[v+1] = hot[v]
		if load > limit {
			hot[v+1]++
		}
	}
	cost := make([]float64, n+1)
	from := make([]*Choice, n+1)
	for v := range cost {
		cost[v] = math.Inf(1)
	}
	cost[0] = 0
	for v := range n {
		if ctx.Err() != nil {
			return nil, false
		}
		if math.IsInf(cost[v], 1) {
			continue
		}
		if hot[v+1] == hot[v] && cost[v] < cost[v+1] {
			cost[v+1], from[v+1] = cost[v], nil
		}
		if _, start := slices.BinarySearch(s.starts, v); !start {
			continue
		}
		first, _ := slices.BinarySearch(s.ends, v+1)
		for _, e := range s.ends[first:] {
			if e-v >= s.Reach {
				break
			}
			if hot[e+1] == hot[v] || hot[v+1] == hot[v] && hot[min(v+s.Reach/2, n)] == hot[v] {
				continue
			}
			for _, c := range s.at(v, e) {
				if t := c.choose(limit); t != nil && cost[v]+t.Extra < cost[e+1] {
					cost[e+1], from[e+1] = cost[v]+t.Extra, t
				}
			}
		}
	}
	if math.IsInf(cost[n], 1) {
		return nil, false
	}
	var list []*Choice
	for v := n; v > 0; {
		if c := from[v]; c != nil {
			list = append(list, c)
			v = c.Start
		} else {
			v--
		}
	}
	slices.Reverse(list)
	return list, true
}
