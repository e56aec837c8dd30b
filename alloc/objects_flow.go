package alloc

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// ObjectsByFlow decides for each buffer whether it opens an object, which costs
// its size, or follows one that ends before it begins, which costs the bytes by
// which it is larger. A buffer is followed by one at most. It takes the cheapest
// choice for all together (Lee et al. 2019, min-cost flow). The cost is not less
// than the bytes of the objects, but may be more: an object whose buffers shrink
// and grow again pays twice. So the cheapest is not always the smallest.
//
// The flow is an assignment of followers, found by shortest augmenting paths,
// buffer by buffer in the order of time, and then of the index: O(n³) at worst,
// 1,000 buffers take up to a second. Of equally cheap choices it takes the
// first that the paths meet.
func ObjectsByFlow(p Problem) Objects {
	h := newShelf(p)
	byEnd := slices.Clone(h.ids)
	slices.SortFunc(h.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].First, p.Buffers[b].First), cmp.Compare(a, b))
	})
	slices.SortFunc(byEnd, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].Last, p.Buffers[b].Last), cmp.Compare(a, b))
	})
	n := len(p.Buffers)
	f := &followers{size: h.size, earlier: byEnd, by: make([]int, len(byEnd)), saved: make([]int64, len(byEnd)), choices: make([]int, n), follows: make([]int, n), paid: make([]int64, n)}
	for k := range f.by {
		f.by[k] = -1
	}
	for _, i := range h.ids {
		f.choices[i] = sort.Search(len(byEnd), func(k int) bool { return p.Buffers[byEnd[k]].Last >= p.Buffers[i].First })
		f.add(i)
	}
	for _, i := range h.ids {
		object := -1
		if k := f.follows[i]; k >= 0 {
			object = h.objects.Object[byEnd[k]]
		}
		h.put(i, object)
	}
	return h.objects
}

// followers is an assignment under construction. Its prices prove that it is the
// cheapest: no buffer could follow another for less than paid + saved, nor open
// an object for less than paid, and what was chosen costs just that.
type followers struct {
	size    []int64
	earlier []int   // buffers by end: what may be followed, called by its place here
	by      []int   // by place: the buffer that follows it; -1: none
	saved   []int64 // by place: 0 or less
	choices []int   // by buffer: it may follow those before this place
	follows []int   // by buffer: the place of what it follows; -1: it opens an object
	paid    []int64 // by buffer
}

func (f *followers) cost(i, k int) int64 { return max(0, f.size[i]-f.size[f.earlier[k]]) }

// path is what the search for a path from a new buffer has reached.
type path struct {
	cost   []int64 // by place: of the cheapest path to it
	from   []int   // by place: the buffer from which that path comes
	closed []int   // places whose cost is final, in the order of cost
}

// add gives buffer i something to follow, or an object of its own, by the path
// of least cost along which others change theirs (Dijkstra, on costs less
// prices). All that others may follow, i may too, as it begins last.
func (f *followers) add(i int) {
	n := f.choices[i]
	p := path{cost: make([]int64, n), from: make([]int, n)}
	for k := range p.cost {
		p.cost[k] = math.MaxInt64
	}
	open := make([]int, n) // places that are not closed
	for k := range open {
		open[k] = k
	}
	opener, least := -1, int64(math.MaxInt64) // who would open an object, and the cost of that path
	for at, way := i, int64(0); ; {
		if cost := way + f.size[at] - f.paid[at]; cost < least {
			opener, least = at, cost
		}
		nearest, best := -1, least
		for o, k := range open {
			if k < f.choices[at] {
				if cost := way + f.cost(at, k) - f.paid[at] - f.saved[k]; cost < p.cost[k] {
					p.cost[k], p.from[k] = cost, at
				}
			}
			if p.cost[k] < best {
				nearest, best = o, p.cost[k]
			}
		}
		if nearest < 0 {
			f.price(i, p, least)
			f.change(i, p, opener, -1)
			return
		}
		k := open[nearest]
		if f.by[k] < 0 {
			f.price(i, p, best)
			f.change(i, p, p.from[k], k)
			return
		}
		open = slices.Delete(open, nearest, nearest+1)
		p.closed = append(p.closed, k)
		at, way = f.by[k], best
	}
}

// price makes the prices fit a path of that cost.
func (f *followers) price(i int, p path, cost int64) {
	f.paid[i] += cost
	for _, k := range p.closed {
		f.saved[k] -= cost - p.cost[k]
		f.paid[f.by[k]] += cost - p.cost[k]
	}
}

// change lets the buffer at the path's end follow place k, the one before it
// what that one followed, and so on back to i.
func (f *followers) change(i int, p path, end, k int) {
	for b := end; ; b = p.from[k] {
		old := f.follows[b]
		f.follows[b] = k
		if k >= 0 {
			f.by[k] = b
		}
		if b == i {
			return
		}
		k = old
	}
}
