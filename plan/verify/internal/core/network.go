package core

import (
	"slices"
)

// network is a flow network whose minimum cut is the least live(S) of a bound: S
// contains the nodes on the source side. The source stands for all nodes that
// have run, the sink for all that have not; the free nodes are vertices.
//
// Capacities are counted in units, the common divisor of all sizes. A vertex has
// an arc from the source or to the sink, never both: flow that could pass through
// both is already in flow.
type network struct {
	b      *Bounds
	vertex []int32 // by node: 1 + its vertex; 0: none
	edges  []edge  // not yet sorted into arcs

	flow   int64   // found so far
	goal   int64   // more flow than that need not be found; 0: all
	excess []int64 // by vertex: capacity from the source, or, negative, to the sink
	arcs   [][]arc // by vertex: one to each neighbour, ascending
}

// edge is a capacity between two vertices.
type edge struct {
	from, to int32
	units    int64
}

// arc is the capacity that remains to a neighbour and back.
type arc struct {
	to        int32
	out, back int64
}

const (
	unlimited = 1 << 60 // a capacity that is in no minimum cut
	maxUnits  = 1 << 53 // integers up to here are exact as float64
)

// sum adds capacities.
func sum(a, b int64) int64 { return min(a+b, unlimited) }

// newNetwork makes a network of the free nodes, with an unlimited edge from each
// node to its predecessors: a state that contains the node contains these.
func newNetwork(b *Bounds) *network {
	w := &network{b: b, vertex: make([]int32, len(b.side))}
	n := int32(0)
	for i, side := range b.side {
		if side == free {
			n++
			w.vertex[i] = n
		}
	}
	w.excess = make([]int64, n)
	for i, v := range w.vertex {
		if v == 0 {
			continue
		}
		for _, m := range b.Before[i] {
			if u := w.vertex[m]; u > 0 {
				w.edges = append(w.edges, edge{v - 1, u - 1, unlimited})
			}
		}
	}
	return w
}

// hold adds bytes that are live from the run of the maker (none: always) until
// all readers have run, or for ever. It returns the bytes that are live whatever
// the free nodes do. The maker must not be due.
func (w *network) hold(maker int32, readers []int32, always bool, bytes int64) (constant int64) {
	made := maker < 0 || w.b.side[maker] == done
	var open []int32 // readers
	for _, r := range readers {
		switch w.b.side[r] {
		case due:
			always = true
		case free:
			open = append(open, w.vertex[r]-1)
		}
	}
	units := bytes / w.b.Unit
	switch {
	case made && always:
		return bytes
	case always:
		w.take(w.vertex[maker]-1, units)
		return 0
	case len(open) == 0:
		return 0
	}
	to := open[0]
	if len(open) > 1 {
		// One vertex represents "some reader has not run".
		to = int32(len(w.excess))
		w.excess = append(w.excess, 0)
		for _, r := range open {
			w.edges = append(w.edges, edge{to, r, unlimited})
		}
	}
	if made {
		w.give(to, units)
	} else {
		w.edges = append(w.edges, edge{w.vertex[maker] - 1, to, units})
	}
	return 0
}

// give adds capacity from the source to a vertex.
func (w *network) give(v int32, units int64) {
	if w.excess[v] < 0 {
		w.flow += min(units, -w.excess[v])
	}
	w.excess[v] += units
}

// take adds capacity from a vertex to the sink.
func (w *network) take(v int32, units int64) {
	if w.excess[v] > 0 {
		w.flow += min(units, w.excess[v])
	}
	w.excess[v] -= units
}

// maxFlow returns the maximum flow in bytes, or a flow of at least the target: no cut is
// smaller than any flow. ok is false if capacities are too large for exact arithmetic.
func (w *network) maxFlow(target int64) (bytes int64, ok bool) {
	w.goal = target/max(1, w.b.Unit) + 1
	total := w.flow
	for _, e := range w.excess {
		total = sum(total, max(e, -e))
	}
	for _, e := range w.edges {
		if e.units < unlimited {
			total = sum(total, e.units)
		}
	}
	if total > maxUnits {
		return 0, false
	}
	if w.enough() {
		return w.flow * w.b.Unit, true
	}
	w.link()
	w.reduce()
	for _, part := range w.parts() {
		if part = w.push(part, small); len(part) > 0 && !w.enough() {
			w.flow += w.dinic(part)
		}
	}
	return w.flow * w.b.Unit, true
}

// enough reports whether the goal is met.
func (w *network) enough() bool { return w.goal > 0 && w.flow >= w.goal }

// link sorts the edges into arcs.
func (w *network) link() {
	at := make([]int32, len(w.excess)+1) // by vertex: the end of its arcs in all
	for _, e := range w.edges {
		at[e.from]++
		at[e.to]++
	}
	for v := range w.excess {
		at[v+1] += at[v]
	}
	all := make([]arc, at[len(w.excess)])
	for _, e := range w.edges {
		at[e.from]--
		all[at[e.from]] = arc{e.to, e.units, 0}
		at[e.to]--
		all[at[e.to]] = arc{e.from, 0, e.units}
	}
	// Each vertex has its arcs from at[v] on now, in any order, some to one neighbour.
	w.arcs = make([][]arc, len(w.excess))
	for v := range w.arcs {
		list := all[at[v]:at[v+1]:at[v+1]]
		slices.SortFunc(list, func(x, y arc) int { return int(x.to) - int(y.to) })
		n := 0
		for _, a := range list {
			if n > 0 && list[n-1].to == a.to {
				list[n-1].out, list[n-1].back = sum(list[n-1].out, a.out), sum(list[n-1].back, a.back)
				continue
			}
			list[n] = a
			n++
		}
		w.arcs[v] = list[:n:n]
	}
	w.edges = nil
}

// parts returns the connected parts of the network that have both a source and a
// sink, as lists of vertices.
func (w *network) parts() [][]int32 {
	var list [][]int32
	seen := make([]bool, len(w.arcs))
	for v := range w.arcs {
		if seen[v] {
			continue
		}
		seen[v] = true
		part := []int32{int32(v)}
		source, sink := false, false
		for k := 0; k < len(part); k++ {
			source = source || w.excess[part[k]] > 0
			sink = sink || w.excess[part[k]] < 0
			for _, a := range w.arcs[part[k]] {
				if !seen[a.to] {
					seen[a.to] = true
					part = append(part, a.to)
				}
			}
		}
		if source && sink {
			list = append(list, part)
		}
	}
	return list
}
