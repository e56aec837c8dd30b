package alloc

import (
	"cmp"
	"slices"
)

const (
	maxSwaps  = 500       // as in TVM
	maxPlaced = 1_000_000 // buffers that all attempts together may place
)

// HillClimb places the buffers by size, each at the lowest offset where it fits.
// Then it swaps two buffers in that order, 500 times, and places all of them again.
// It picks a buffer that ends highest and swaps two of its neighbours in time that
// precede it in the order; three times in four, the second is a neighbour of such a
// neighbour. It keeps a smaller arena always, and a larger one with a probability
// that decreases (TVM's USMP, algorithm hill_climb).
//
// The random numbers are the same each time, and not those of TVM, so its figures
// are only met on average. Buffers of equal size go by the number of buffers that
// are live together with them, largest first, then by index. HillClimb ends when
// the arena is the largest load. With more than 2,000 buffers there are fewer swaps:
// it stops when it has placed a million buffers.
func HillClimb(p Problem) Placement {
	s := prepare(p)
	c := climber{prepared: s, neighbours: s.neighbours(), bound: max(p.MaxLoad(), p.fixedTop()), at: make([]int, len(s.size))}
	slices.SortFunc(s.ids, func(a, b int) int {
		return cmp.Or(-cmp.Compare(s.size[a], s.size[b]), -cmp.Compare(c.neighbours[a], c.neighbours[b]), cmp.Compare(a, b))
	})
	for k, i := range s.ids {
		c.at[i] = k
	}
	best := firstFit(s, lowestGap)
	now := best
	tries := min(maxSwaps, int64(1+maxPlaced/max(1, len(s.ids))))
	for try := int64(1); try < tries && best.Offsets != nil && best.Arena > c.bound; try++ {
		i, j, ok := c.pick(now)
		if !ok {
			continue
		}
		c.swap(i, j)
		next := firstFit(s, lowestGap)
		switch worse := next.Arena - now.Arena; {
		case next.Offsets == nil:
			return best
		case worse < 0 || c.random.below(100) < int(50*float64(worse)/float64(next.Arena)/float64(try)):
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

// climber is the state of a hill climb: the order of the buffers, in ids.
type climber struct {
	prepared
	neighbours []int // by buffer: how many are live together with it
	bound      int64
	at         []int // by buffer: its place in ids
	random     random
}

// pick returns two buffers to swap.
func (c *climber) pick(a Placement) (i, j int, ok bool) {
	var highest []int
	for _, i := range c.ids {
		if a.Offsets[i]+c.size[i] == a.Arena {
			highest = append(highest, i)
		}
	}
	before := c.before(highest[c.random.below(len(highest))])
	if len(before) == 0 {
		return 0, 0, false
	}
	i = before[c.random.below(len(before))]
	if further := c.before(before[c.random.below(len(before))]); len(further) > 0 && c.random.below(4) > 0 {
		before = further
	}
	j = before[c.random.below(len(before))]
	return i, j, i != j
}

// before returns the buffers that are live together with i and precede it in the
// order.
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

// neighbours counts, for each buffer, the buffers that are live together with it:
// those that begin before it ends, less those that end before it begins.
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
