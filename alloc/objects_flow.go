package alloc

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// ObjectsByFlow decides for each buffer whether it opens a new object, which costs
// its size, or succeeds a buffer that ends before it begins, which costs the bytes
// by which it is larger. Each buffer has at most one successor. The choice with the
// least total cost is an assignment problem (Lee et al. 2019, min-cost flow). The
// cost is at least the total of the objects, and may be more: an object whose
// buffers shrink and grow again pays twice. So the cheapest choice is not always the
// smallest.
//
// It is solved by shortest augmenting paths, buffer by buffer in the order of time
// and then of the index. This takes O(n³) in the worst case; 1,000 buffers take up
// to a second. Of equally cheap choices it takes the one whose path is found first.
func ObjectsByFlow(p Problem) Objects {
	o := newObjectBuilder(p)
	byEnd := slices.Clone(o.ids)
	slices.SortFunc(o.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].First, p.Buffers[b].First), cmp.Compare(a, b))
	})
	slices.SortFunc(byEnd, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.Buffers[a].Last, p.Buffers[b].Last), cmp.Compare(a, b))
	})
	n := len(p.Buffers)
	f := &succession{
		size: o.size, byEnd: byEnd,
		successor: make([]int, len(byEnd)), placePrice: make([]int64, len(byEnd)),
		choices: make([]int, n), predecessor: make([]int, n), bufferPrice: make([]int64, n),
	}
	for k := range f.successor {
		f.successor[k] = -1
	}
	for _, i := range o.ids {
		f.choices[i] = sort.Search(len(byEnd), func(k int) bool { return p.Buffers[byEnd[k]].Last >= p.Buffers[i].First })
		f.add(i)
	}
	for _, i := range o.ids {
		object := -1
		if k := f.predecessor[i]; k >= 0 {
			object = o.objects.Object[byEnd[k]]
		}
		o.put(i, object)
	}
	return o.objects
}

// succession is an assignment of predecessors to the buffers added so far. A
// predecessor is identified by its place in byEnd.
//
// Lemma: the assignment is the cheapest if the prices satisfy, for each buffer i and
// each place k that i may succeed,
//
//	bufferPrice[i] + placePrice[k] ≤ cost(i, k)     = if i succeeds k
//	bufferPrice[i] ≤ size[i]                        = if i opens an object
//	placePrice[k] ≤ 0                               = if k has no successor
//
// Proof: any assignment costs at least the sum of all prices, by adding up the
// inequality of each buffer's choice; the places without a successor add 0 or less.
// This assignment costs exactly that sum.
//
// add and its calls keep the conditions.
type succession struct {
	size        []int64
	byEnd       []int   // the buffers in the order of their ends
	successor   []int   // by place; -1: none
	placePrice  []int64 // by place
	choices     []int   // by buffer: it may succeed the places before this one
	predecessor []int   // by buffer: a place; -1: it opens an object
	bufferPrice []int64 // by buffer
}

// cost returns the cost of buffer i as the successor of place k.
func (f *succession) cost(i, k int) int64 { return max(0, f.size[i]-f.size[f.byEnd[k]]) }

// paths holds the cheapest paths from a new buffer to the places.
type paths struct {
	cost   []int64 // by place
	from   []int   // by place: the last buffer of the path to it
	closed []int   // the places whose cost is final, in the order of cost
}

// add gives buffer i a predecessor or an object of its own. It takes the cheapest
// path along which other buffers change their predecessors (Dijkstra, with reduced
// costs). Buffer i begins last, so it may succeed every place that others may.
func (f *succession) add(i int) {
	n := f.choices[i]
	p := paths{cost: make([]int64, n), from: make([]int, n)}
	for k := range p.cost {
		p.cost[k] = math.MaxInt64
	}
	open := make([]int, n) // the places that are not closed
	for k := range open {
		open[k] = k
	}
	opener, least := -1, int64(math.MaxInt64) // the buffer that would open an object, and the cost of its path
	for at, way := i, int64(0); ; {
		if cost := way + f.size[at] - f.bufferPrice[at]; cost < least {
			opener, least = at, cost
		}
		nearest, best := -1, least
		for o, k := range open {
			if k < f.choices[at] {
				if cost := way + f.cost(at, k) - f.bufferPrice[at] - f.placePrice[k]; cost < p.cost[k] {
					p.cost[k], p.from[k] = cost, at
				}
			}
			if p.cost[k] < best {
				nearest, best = o, p.cost[k]
			}
		}
		if nearest < 0 {
			f.updatePrices(i, p, least)
			f.augment(i, p, opener, -1)
			return
		}
		k := open[nearest]
		if f.successor[k] < 0 {
			f.updatePrices(i, p, best)
			f.augment(i, p, p.from[k], k)
			return
		}
		open = slices.Delete(open, nearest, nearest+1)
		p.closed = append(p.closed, k)
		at, way = f.successor[k], best
	}
}

// updatePrices makes the edges of the cheapest path, which has this cost, tight.
func (f *succession) updatePrices(i int, p paths, cost int64) {
	f.bufferPrice[i] += cost
	for _, k := range p.closed {
		f.placePrice[k] -= cost - p.cost[k]
		f.bufferPrice[f.successor[k]] += cost - p.cost[k]
	}
}

// augment makes the last buffer of the path the successor of place k, the buffer
// before it the successor of the place that this leaves free, and so on back to i.
func (f *succession) augment(i int, p paths, last, k int) {
	for b := last; ; b = p.from[k] {
		old := f.predecessor[b]
		f.predecessor[b] = k
		if k >= 0 {
			f.successor[k] = b
		}
		if b == i {
			return
		}
		k = old
	}
}
