package core

import (
	"math"

	flow "gonum.org/v1/gonum/graph/network"
	"gonum.org/v1/gonum/graph/simple"
)

// small is the largest number of vertices of a part that goes to gonum as it is.
// On larger parts gonum is slow: a flow through the 20,000 nodes of a layered
// graph without precedence took 2 to 27 s, mostly in map accesses.
const small = 1000

// push sends flow through a large part of the network, along shortest paths in
// the residual network, until few vertices lie between the source and the sink.
// It returns these: all further flow passes through them.
func (w *network) push(part []int32, few int) []int32 {
	for len(part) > few && !w.enough() {
		level := w.levels(part)
		if part = w.between(part, level); len(part) > few {
			w.block(part, level)
		}
	}
	return part
}

// levels returns the distance of each vertex of a part from the source: none if
// the source does not reach it, or if it is in another part.
func (w *network) levels(part []int32) []int32 {
	level := make([]int32, len(w.arcs))
	for v := range level {
		level[v] = None
	}
	inside := make([]bool, len(w.arcs))
	var queue []int32
	for _, v := range part {
		inside[v] = true
		if w.excess[v] > 0 {
			level[v] = 0
			queue = append(queue, v)
		}
	}
	for k := 0; k < len(queue); k++ {
		v := queue[k]
		for _, a := range w.arcs[v] {
			if a.out > 0 && level[a.to] == None && inside[a.to] {
				level[a.to] = level[v] + 1
				queue = append(queue, a.to)
			}
		}
	}
	return level
}

// between returns the vertices of a part that have a level and reach the sink.
func (w *network) between(part, level []int32) []int32 {
	seen := make([]bool, len(w.arcs))
	var list []int32
	for _, v := range part {
		if w.excess[v] < 0 && level[v] != None {
			seen[v] = true
			list = append(list, v)
		}
	}
	for k := 0; k < len(list); k++ {
		for _, a := range w.arcs[list[k]] {
			if a.back > 0 && level[a.to] != None && !seen[a.to] {
				seen[a.to] = true
				list = append(list, a.to)
			}
		}
	}
	return list
}

// block sends flow along paths that gain a level with each arc, until every such path
// has a full arc (a blocking flow).
func (w *network) block(part, level []int32) {
	next := make([]int, len(w.arcs)) // by vertex: arcs before this index lead nowhere
	for _, v := range part {
		for w.excess[v] > 0 {
			path := w.path(v, level, next)
			if path == nil {
				break
			}
			w.fill(path)
		}
	}
}

// path finds a path from a vertex to one with demand.
func (w *network) path(from int32, level []int32, next []int) []int32 {
	path := []int32{from}
	for len(path) > 0 {
		v := path[len(path)-1]
		if w.excess[v] < 0 {
			return path
		}
		for next[v] < len(w.arcs[v]) {
			if a := w.arcs[v][next[v]]; a.out > 0 && level[a.to] == level[v]+1 {
				break
			}
			next[v]++
		}
		if next[v] < len(w.arcs[v]) {
			path = append(path, w.arcs[v][next[v]].to)
			continue
		}
		if path = path[:len(path)-1]; len(path) > 0 {
			next[path[len(path)-1]]++
		}
	}
	return nil
}

// fill sends the capacity of a path along it.
func (w *network) fill(path []int32) {
	first, last := path[0], path[len(path)-1]
	units := min(w.excess[first], -w.excess[last])
	for k, v := range path[1:] {
		i, _ := w.find(path[k], v)
		units = min(units, w.arcs[path[k]][i].out)
	}
	for k, v := range path[1:] {
		i, _ := w.find(path[k], v)
		w.arcs[path[k]][i].send(units)
		i, _ = w.find(v, path[k])
		w.arcs[v][i].send(-units)
	}
	w.excess[first] -= units
	w.excess[last] += units
	w.flow += units
}

// send moves flow along an arc. The capacity of an unlimited arc does not change.
func (a *arc) send(units int64) {
	if a.out < unlimited {
		a.out -= units
	}
	if a.back < unlimited {
		a.back += units
	}
}

// dinic is gonum's maximum flow through some vertices of the network. All
// capacities are integers whose sum is exact as float64, so the flow is exact.
func (w *network) dinic(part []int32) int64 {
	at := make(map[int32]int64, len(part))
	for k, v := range part {
		at[v] = int64(k)
	}
	source, sink := simple.Node(len(part)), simple.Node(len(part)+1)
	g := simple.NewWeightedDirectedGraph(0, 0)
	for k := range len(part) + 2 {
		g.AddNode(simple.Node(k))
	}
	add := func(from, to int64, units int64) {
		weight := float64(units)
		switch {
		case units == 0:
			return
		case units >= unlimited:
			weight = math.Inf(1)
		}
		g.SetWeightedEdge(g.NewWeightedEdge(simple.Node(from), simple.Node(to), weight))
	}
	for k, v := range part {
		if e := w.excess[v]; e > 0 {
			add(int64(source), int64(k), e)
		} else {
			add(int64(k), int64(sink), -e)
		}
		for _, a := range w.arcs[v] {
			if to, inside := at[a.to]; inside {
				add(int64(k), to, a.out)
			}
		}
	}
	return int64(flow.MaxFlowDinic(g, source, sink, 0.5))
}
