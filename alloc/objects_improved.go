package alloc

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// ObjectsBySizeImproved visits the positional maxima, largest first (see
// [Problem.ObjectBound]). At each it assigns the buffers that are not larger than
// this maximum, but larger than the next. It repeatedly picks the buffer and the
// free object with the fewest idle steps between the buffer and its nearest
// neighbour in the object. It makes a new object only if no object is free for any
// of the buffers (Pisarchyk & Lee 2020, section 4.4, as in TFLite's GPU delegate).
// Of equally near buffers the larger goes first, then the smaller index, each to the
// oldest object. O(m² + r k log n) for at most m buffers at one maximum, k objects,
// and r cases in which the nearest object was taken before it was a buffer's turn.
func ObjectsBySizeImproved(p Problem) Objects {
	o := newObjectBuilder(p)
	maxima := o.positionalMaxima()
	stage := make([]int, len(p.Buffers))
	for _, i := range o.ids {
		stage[i] = sort.Search(len(maxima), func(k int) bool { return maxima[k] < o.size[i] })
	}
	slices.SortFunc(o.ids, func(a, b int) int {
		return cmp.Or(cmp.Compare(stage[a], stage[b]), -cmp.Compare(o.size[a], o.size[b]), cmp.Compare(a, b))
	})
	for rest := o.ids; len(rest) > 0; {
		n := 1
		for n < len(rest) && stage[rest[n]] == stage[rest[0]] {
			n++
		}
		o.nearestFirst(rest[:n])
		rest = rest[n:]
	}
	return o.objects
}

// candidate is an unassigned buffer and the object that it would take.
type candidate struct {
	buffer, object int    // object -1: none is free
	idle           uint64 // steps to the nearest buffer in the object
	stale          bool   // another buffer has taken the object: idle is only a lower bound
}

// nearestFirst assigns the buffers. Their order decides ties.
func (o *objectBuilder) nearestFirst(ids []int) {
	waiting := make([]candidate, len(ids))
	for k, i := range ids {
		waiting[k] = o.nearest(i)
	}
	for len(waiting) > 0 {
		next := 0
		for k := range waiting {
			if waiting[k].idle < waiting[next].idle {
				next = k
			}
		}
		x := waiting[next]
		if x.stale {
			waiting[next] = o.nearest(x.buffer)
			continue
		}
		waiting = slices.Delete(waiting, next, next+1)
		o.put(x.buffer, x.object)
		o.update(waiting, x.buffer)
	}
}

// nearest returns the candidate of buffer i. O(k log n) for k objects.
func (o *objectBuilder) nearest(i int) candidate {
	best := candidate{buffer: i, object: -1, idle: math.MaxUint64}
	for object, held := range o.held {
		at, free := o.slot(object, i)
		if !free {
			continue
		}
		if at > 0 {
			best.offer(object, idle(held[at-1].last, o.buffers[i].First))
		}
		if at < len(held) {
			best.offer(object, idle(o.buffers[i].Last, held[at].first))
		}
	}
	return best
}

// offer takes an object if it is nearer, or as near and older.
func (c *candidate) offer(object int, idle uint64) {
	if idle < c.idle || idle == c.idle && object < c.object && !c.stale {
		c.object, c.idle, c.stale = object, idle, false
	}
}

// idle returns the steps from the end of one buffer to the start of another.
func idle(last, first int) uint64 { return uint64(first) - uint64(last) }

// update updates the candidates after buffer i has been put. Only the buffers whose
// lifetimes lie between the two neighbours of i in the object are affected.
func (o *objectBuilder) update(waiting []candidate, i int) {
	object := o.objects.Object[i]
	held := o.held[object]
	at, _ := o.slot(object, i)
	from, to := math.MinInt, math.MaxInt
	if at > 0 {
		from = held[at-1].last + 1
	}
	if at+1 < len(held) {
		to = held[at+1].first - 1
	}
	for k := range waiting {
		w := &waiting[k]
		switch b := &o.buffers[w.buffer]; {
		case b.First < from || to < b.Last:
		case b.Last < held[at].first:
			w.offer(object, idle(b.Last, held[at].first))
		case held[at].last < b.First:
			w.offer(object, idle(held[at].last, b.First))
		case w.object == object:
			w.stale = true
		}
	}
}
