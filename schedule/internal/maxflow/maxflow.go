// Package maxflow finds maximum flows and minimum cuts in networks that are
// built, solved, changed a little and solved again.
package maxflow

import (
	"math"
	"slices"
)

// Infinite is the capacity of an edge that no minimum cut crosses, as long as
// all other capacities together are less.
const Infinite = int64(math.MaxInt64 / 4)

// Network is a network and a maximum flow in it, found by Dinic's algorithm
// ("Algorithm for solution of a problem of maximum flow in networks with power
// estimation", 1970) on arrays that later networks reuse. Edge e and its reverse
// e^1 are adjacent. Vertex 0 is the source, 1 the sink.
type Network struct {
	Edges []Edge
	Level []int32 // vertex -> 0 or more if the last Reach visited it, else -1
	Work  int64   // vertices and edges visited, over all networks

	Halt   func() bool // makes Augment stop early; nil: never
	Broken bool        // Augment has stopped early: the flow may not be maximum

	first   []int32 // vertex -> its newest edge, or -1
	current []int32
	queue   []int32
	kept    []int32
	path    []int32

	levelled bool // Level holds what Augment expects: noLevel, or barred
	held     held
}

// Edge is an edge in the residual network. A search reads all of its fields together, so
// they share a cache line.
type Edge struct {
	To, next int32 // head; the next edge of the tail, or -1
	Left     int64 // residual capacity
}

// Source and Sink are the two ends of each network.
const Source, Sink = int32(0), int32(1)

// Reset removes all edges; the network then has the vertices 0 to vertices-1.
func (f *Network) Reset(vertices int) {
	f.first = slices.Grow(f.first[:0], vertices)[:vertices]
	for i := range f.first {
		f.first[i] = -1
	}
	f.Edges = f.Edges[:0]
	f.levelled, f.held.logging = false, false
}

// NewVertex adds a vertex and returns it.
func (f *Network) NewVertex() int32 {
	f.first = append(f.first, -1)
	return int32(len(f.first) - 1)
}

// Edge adds an edge from u to v. Its index is the length of Edges before the call.
func (f *Network) Edge(u, v int32, capacity int64) {
	e := int32(len(f.Edges))
	f.Edges = append(f.Edges, Edge{v, f.first[u], capacity}, Edge{u, f.first[v], 0})
	f.first[u], f.first[v] = e, e+1
}

// layers sets the level of each vertex to its distance in the residual network and
// reports whether it reaches the sink. Before, no vertex may have a level of 0 or
// more.
func (f *Network) layers(from int32) bool {
	f.Level[from], f.current[from] = 0, f.first[from]
	queue := append(f.queue[:0], from)
	edges, level := f.Edges, f.Level
	for i := 0; i < len(queue) && level[Sink] < 0; i++ {
		u := queue[i]
		for e := f.first[u]; e >= 0; {
			x := &edges[e]
			if v := x.To; x.Left > 0 && level[v] < 0 {
				level[v], f.current[v] = level[u]+1, f.first[v]
				queue = append(queue, v)
			}
			e = x.next
		}
	}
	f.Work += 5 * int64(len(queue))
	f.queue = queue
	return f.Level[Sink] >= 0
}

const noLevel = int32(-1)

// prune marks the vertices on shortest paths from where layers began to the sink: it adds
// onPath to their levels. A search for paths that keeps to them meets the same paths in the
// same order, but no dead end that was there before the first path.
func (f *Network) prune() {
	edges, level := f.Edges, f.Level
	level[Sink] += onPath
	kept := append(f.kept[:0], Sink)
	for i := 0; i < len(kept) && level[kept[i]] > onPath; i++ { // until where layers began
		v := kept[i]
		above := level[v] - onPath - 1
		for e := f.first[v]; e >= 0; {
			x := &edges[e]
			if u := x.To; level[u] == above && edges[e^1].Left > 0 {
				level[u] += onPath
				kept = append(kept, u)
			}
			e = x.next
		}
	}
	f.kept = kept
}

const onPath = int32(1 << 28) // more than any distance, less than barred

// unlevel undoes layers.
func (f *Network) unlevel() {
	for _, v := range f.queue {
		f.Level[v] = noLevel
	}
	f.queue = f.queue[:0]
}

// level makes room for the levels of all vertices.
func (f *Network) level() {
	if !f.levelled {
		f.Level, f.levelled = f.Level[:0], true
		f.Work += int64(len(f.first))
	}
	for len(f.Level) < len(f.first) {
		f.Level = append(f.Level, noLevel)
	}
	f.current = slices.Grow(f.current[:0], len(f.first))[:len(f.first)]
}

// Augment adds flow until the sink is unreachable or at least enough has been
// added, and returns the amount. The caller may add edges between calls. Augment
// polls Halt every pollFlow steps.
func (f *Network) Augment(enough int64) int64 { return f.augment(Source, enough, Infinite) }

// augment also stops before a search for paths once the work has passed an amount.
func (f *Network) augment(from int32, enough, work int64) (added int64) {
	f.level()
	defer f.unlevel()
	edges, level := f.Edges, f.Level
	for steps := 0; added < enough && f.Work <= work && !f.halted(); {
		if f.unlevel(); !f.layers(from) {
			if from != Source {
				f.held.visited = append(f.held.visited[:0], f.queue...)
			}
			break
		}
		f.prune()
		path := f.path[:0]
		u := from
		for {
			if steps++; steps%pollFlow == 0 && f.halted() {
				return added
			}
			if u == Sink {
				narrow := 0
				for i, e := range path {
					if edges[e].Left < edges[path[narrow]].Left {
						narrow = i
					}
				}
				amount := edges[path[narrow]].Left
				for _, e := range path {
					edges[e].Left -= amount
					edges[e^1].Left += amount
				}
				f.held.note(path)
				f.Work += int64(len(path))
				if added += amount; added >= enough {
					break
				}
				u = edges[path[narrow]^1].To
				path = path[:narrow]
				continue
			}
			e, below := f.current[u], level[u]+1
			for e >= 0 && (edges[e].Left == 0 || level[edges[e].To] != below) {
				e = edges[e].next
			}
			f.current[u] = e
			if e >= 0 {
				path = append(path, e)
				u = edges[e].To
				continue
			}
			if u == from {
				break
			}
			level[u] = noLevel
			u = edges[path[len(path)-1]^1].To
			path = path[:len(path)-1]
		}
		f.path = path
	}
	return added
}

// pollFlow is the number of steps along edges between two polls: microseconds.
const pollFlow = 4096

func (f *Network) halted() bool {
	f.Broken = f.Broken || f.Halt != nil && f.Halt()
	return f.Broken
}

// Reach sets the Level of vertices to 0 if the source reaches them in the residual
// network (from is Source) or if they reach the sink (from is Sink), and to -1
// otherwise.
func (f *Network) Reach(from int32) {
	f.Level, f.levelled = slices.Grow(f.Level[:0], len(f.first))[:len(f.first)], false
	for i := range f.Level {
		f.Level[i] = noLevel
	}
	f.Level[from] = 0
	queue := append(f.queue[:0], from)
	for i := 0; i < len(queue); i++ {
		u := queue[i]
		for e := f.first[u]; e >= 0; e = f.Edges[e].next {
			left := f.Edges[e].Left
			if from == Sink {
				left = f.Edges[e^1].Left
			}
			if v := f.Edges[e].To; left > 0 && f.Level[v] < 0 {
				f.Level[v] = 0
				queue = append(queue, v)
			}
		}
	}
	f.queue = queue[:0]
}

// DropEdge removes the newest edge, which must run from u to v.
func (f *Network) DropEdge(u, v int32) {
	e := len(f.Edges) - 2
	f.first[u], f.first[v] = f.Edges[e].next, f.Edges[e+1].next
	f.Edges = f.Edges[:e]
}
