package core

import "slices"

// reduce shrinks the network without changing its maximum flow, because gonum
// walks over maps once for each augmenting path. For most models nothing remains.
// Each rule concerns a vertex v, which may have supply (from the source) or
// demand (to the sink):
//
//   - The supply fills all arcs out of v: some minimum cut has v on the source side,
//     so v is merged with the source.
//   - The demand absorbs all that the arcs into v can carry: likewise the sink.
//   - v has one neighbour, or two neighbours and no supply or demand: v is replaced by one
//     arc, as wide as the narrower of its two.
//   - Some minimum cut has v and its neighbour u on one side, because "if v is on the
//     source side, so is u" and "if u is, so is v" both hold: they become one vertex.
//     The first holds if the arc from v to u is unlimited; if it is as wide as all
//     other arcs into v together (v may then change sides instead); or as wide as all
//     other arcs out of u (then u may).
//
// It takes O(arcs) time, in the worst case times the arcs of a vertex.
func (w *network) reduce() {
	queue := make([]int32, len(w.arcs))
	queued := make([]bool, len(w.arcs))
	for v := range queue {
		queue[v], queued[v] = int32(v), true
	}
	for len(queue) > 0 {
		v := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		queued[v] = false
		for _, u := range w.reduceAt(v) {
			if !queued[u] {
				queue, queued[u] = append(queue, u), true
			}
		}
	}
}

// reduceAt applies the first rule that fits a vertex, and returns the vertices
// that have changed.
func (w *network) reduceAt(v int32) []int32 {
	list, e := w.arcs[v], w.excess[v]
	if len(list) == 0 {
		w.excess[v] = 0
		return nil
	}
	in, out := w.through(v, None)
	switch {
	case e >= out:
		for _, a := range list {
			w.give(a.to, a.out)
		}
		return w.remove(v)
	case -e >= in:
		for _, a := range list {
			w.take(a.to, a.back)
		}
		return w.remove(v)
	case len(list) == 1 && e >= 0:
		w.give(list[0].to, min(e, list[0].out))
		return w.remove(v)
	case len(list) == 1:
		w.take(list[0].to, min(-e, list[0].back))
		return w.remove(v)
	case len(list) == 2 && e == 0:
		x, y := list[0], list[1]
		w.join(x.to, arc{y.to, min(x.back, y.out), min(y.back, x.out)})
		return w.remove(v)
	}
	for _, a := range list {
		if w.follows(v, a) && w.follows(a.to, arc{v, a.back, a.out}) {
			return w.merge(v, a.to)
		}
	}
	return nil
}

// through returns how much can flow into a vertex and out of it, excluding one
// neighbour.
func (w *network) through(v, without int32) (in, out int64) {
	if e := w.excess[v]; e > 0 && without != None {
		in = e
	} else if without != None {
		out = -e
	}
	for _, a := range w.arcs[v] {
		if a.to != without {
			in, out = sum(in, a.back), sum(out, a.out)
		}
	}
	return in, out
}

// follows reports whether some minimum cut that has v on the source side has a.to
// there, too.
func (w *network) follows(v int32, a arc) bool {
	if a.out >= unlimited {
		return true
	}
	if in, _ := w.through(v, a.to); a.out >= in {
		return true
	}
	_, out := w.through(a.to, v)
	return a.out >= out
}

// find returns the index of a neighbour among the arcs of a vertex.
func (w *network) find(v, to int32) (k int, found bool) {
	return slices.BinarySearchFunc(w.arcs[v], to, func(a arc, to int32) int { return int(a.to) - int(to) })
}

// join adds an arc in both directions.
func (w *network) join(v int32, a arc) {
	for _, x := range [2]struct {
		v int32
		a arc
	}{{v, a}, {a.to, arc{v, a.back, a.out}}} {
		k, found := w.find(x.v, x.a.to)
		if !found {
			w.arcs[x.v] = slices.Insert(w.arcs[x.v], k, arc{to: x.a.to})
		}
		b := &w.arcs[x.v][k]
		b.out, b.back = sum(b.out, x.a.out), sum(b.back, x.a.back)
	}
}

// remove removes a vertex with its arcs, and returns its former neighbours.
func (w *network) remove(v int32) []int32 {
	var near []int32
	for _, a := range w.arcs[v] {
		k, _ := w.find(a.to, v)
		w.arcs[a.to] = slices.Delete(w.arcs[a.to], k, k+1)
		near = append(near, a.to)
	}
	w.arcs[v], w.excess[v] = nil, 0
	return near
}

// merge merges v into u.
func (w *network) merge(v, u int32) []int32 {
	list, e := w.arcs[v], w.excess[v]
	near := append(w.remove(v), u)
	for _, a := range list {
		if a.to != u {
			w.join(u, a)
		}
	}
	if e > 0 {
		w.give(u, e)
	} else {
		w.take(u, -e)
	}
	return near
}
