package alloc

import (
	"cmp"
	"slices"
)

const (
	climbs  = 500       // as in TVM
	climbed = 1_000_000 // buffers, by all climbs together
)

// HillClimb places the buffers by size, each at the lowest offset where it
// fits, and then 500 times swaps two in the order and places all anew: below
// one that ends highest, a neighbour in time that went before it and, three
// times in four, a neighbour of such a one. A smaller arena is kept, and a
// larger one now and then, ever less often (TVM's USMP, algorithm hill_climb).
// The draws are the same each time, and not those of TVM: its figures are met on
// average only. Buffers of equal size go by how many live together with them,
// the most first, then by index. It ends at the largest load, and after fewer
// swaps if there are more than 2,000 buffers: when it has placed a million.
func HillClimb(p Problem) Placement {
	s := prepare(p)
	c := climber{prepared: s, neighbours: s.neighbours(), bound: max(p.MaxLoad(), p.fixedTop()), at: make([]int, len(s.size))}
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(-cmp.Compare(s.size[a], s.size[b]), -cmp.Compare(c.neighbours[a], c.neighbours[b]), cmp.Compare(a, b))
	})
	for k, i := range s.ids {
		c.at[i] = k
	}
	best := place(s, lowestGap)
	now := best
	most := min(climbs, int64(1+climbed/max(1, len(s.ids))))
	for try := int64(1); try < most && best.Offsets != nil && best.Arena > c.bound; try++ {
		i, j, ok := c.pick(now)
		if !ok {
			continue
		}
		c.swap(i, j)
		next := place(s, lowestGap)
		switch worse := next.Arena - now.Arena; {
		case next.Offsets == nil:
			return best
		case worse < 0 || c.draw(100) < int(50*float64(worse)/float64(next.Arena)/float64(try)):
			now = next
		default:
			c.swap(i, j)
		}
		if now.Arena < best.Arena {
			best = now
		}
	}
	return best
}

// climber is the order, and what can be swapped in it.
type climber struct {
	prepared
	neighbours []int // by buffer: how many live together with it
	bound      int64
	at         []int // by buffer: its place in ids
	draws      uint64
}

// pick returns two buffers to swap.
func (c *climber) pick(a Placement) (i, j int, ok bool) {
	var highest []int
	for _, i := range c.ids {
		if a.Offsets[i]+c.size[i] == a.Arena {
			highest = append(highest, i)
		}
	}
	before := c.before(highest[c.draw(len(highest))])
	if len(before) == 0 {
		return 0, 0, false
	}
	i = before[c.draw(len(before))]
	if further := c.before(before[c.draw(len(before))]); len(further) > 0 && c.draw(4) > 0 {
		before = further
	}
	j = before[c.draw(len(before))]
	return i, j, i != j
}

// before returns the buffers that live together with i and go before it.
func (c *climber) before(i int) []int {
	var list []int
	for _, j := range c.ids[:c.at[i]] {
		if c.lo[i] < c.hi[j] && c.lo[j] < c.hi[i] {
			list = append(list, j)
		}
	}
	return list
}

func (c *climber) swap(i, j int) {
	c.at[i], c.at[j] = c.at[j], c.at[i]
	c.ids[c.at[i]], c.ids[c.at[j]] = i, j
}

func (c *climber) draw(n int) int {
	c.draws++
	return int(mix(c.draws*0x9e3779b97f4a7c15) % uint64(n))
}

// neighbours counts, for each buffer, those that are live together with it. They
// are those that begin before its end but for those that end before its begin.
// O(n + sections).
func (s prepared) neighbours() []int {
	begun, ended := make([]int, s.sections+1), make([]int, s.sections+1)
	for _, i := range s.ids {
		begun[s.lo[i]+1]++
		ended[s.hi[i]]++
	}
	for c := range s.sections {
		begun[c+1] += begun[c]
		ended[c+1] += ended[c]
	}
	count := make([]int, len(s.size))
	for _, i := range s.ids {
		count[i] = begun[s.hi[i]] - ended[s.lo[i]] - 1
	}
	return count
}
