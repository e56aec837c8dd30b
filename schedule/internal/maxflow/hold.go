package maxflow

import "slices"

// held is a maximum flow that serves as the start of many questions. A question
// adds edges from a new vertex, augments the flow from there, and undoes both.
//
// A vertex that does not reach the sink in the residual network cannot reach it
// during such a question either: every augmenting path consists of vertices that
// do, and so do the edges that the path opens. Such vertices are barred from the
// search. The rest is often a small part of the network.
type held struct {
	left     []int64 // edge -> residual capacity under the held flow
	vertices int
	from     int32      // the vertex of the question, or 0 while it has no edges
	added    [][2]int32 // the question's edges
	log      []int32    // edges of all augmenting paths since; complete while logging
	logging  bool
	visited  []int32 // vertices of the last search, which found no path
	met      []int32 // vertex -> the search of Exceeds that last met it
	search   int32
}

const barred = int32(1 << 30) // the level of a vertex that cannot reach the sink

// Hold prepares the network for questions. Its flow must be maximum. Reach, Reset
// and Augment end that state.
func (f *Network) Hold() {
	h := &f.held
	h.left = slices.Grow(h.left[:0], len(f.Edges))[:len(f.Edges)]
	for e := range h.left {
		h.left[e] = f.Edges[e].Left
	}
	h.vertices, h.from, h.added = len(f.first), 0, h.added[:0]
	f.Reach(Sink)
	for v, at := range f.Level {
		if at < 0 {
			f.Level[v] = barred
		} else {
			f.Level[v] = noLevel
		}
	}
	f.levelled, h.logging, h.log = true, true, h.log[:0]
}

// Barred reports whether no edge from the source to a vertex could raise the flow.
func (f *Network) Barred(v int32) bool { return f.Level[v] == barred }

// Ask adds an edge to the question. The edge starts at a vertex that acts as the
// source.
func (f *Network) Ask(v int32, capacity int64) {
	if f.held.from == 0 {
		f.held.from = f.NewVertex()
	}
	f.AskFrom(f.held.from, v, capacity)
}

// AskFrom adds an edge to the question. The vertex u must belong to the question
// (NewVertex).
func (f *Network) AskFrom(u, v int32, capacity int64) {
	f.Edge(u, v, capacity)
	f.held.added = append(f.held.added, [2]int32{u, v})
}

// Reverse turns all edges round, under the flow that they carry: the source becomes the
// sink, and the sink the source. A question then forces vertices to the side of what was
// the sink. O(V + E).
func (f *Network) Reverse() {
	for e := 0; e < len(f.Edges); e += 2 {
		x, y := &f.Edges[e], &f.Edges[e+1]
		x.Left, y.Left = y.Left, x.Left
	}
	for e := range f.Edges {
		if x := &f.Edges[e]; x.To == Source || x.To == Sink {
			x.To = Source + Sink - x.To
		}
	}
	f.first[Source], f.first[Sink] = f.first[Sink], f.first[Source]
	f.levelled = false
}

// Exceeds tells in most cases, without a flow, whether an edge of infinite capacity from
// the source to a vertex v would raise the flow by more than an amount. It must come
// before the edges of a question. Let A be v and what it reaches by edges with more than
// the amount left.
//
//	the sink is in A                              the flow rises by more
//	the edges out of A have at most the amount    it does not, and Visited returns A
//	else                                          not known
//
// Proof. On a path of such edges, more than the amount can flow. What a question adds to
// the flow leaves A by its other edges, and none of it passes a barred vertex. So A and
// all barred vertices are the source's side of a cut that costs no more than the amount
// above the held flow.
func (f *Network) Exceeds(v int32, amount int64) (yes, known bool) {
	h := &f.held
	h.visited = h.visited[:0]
	if f.Barred(v) {
		return false, true
	}
	for len(h.met) < len(f.first) {
		h.met = append(h.met, 0)
	}
	h.search++
	h.met[v] = h.search
	a := append(h.visited, v)
	for i := 0; i < len(a); i++ {
		for e := f.first[a[i]]; e >= 0; {
			x := &f.Edges[e]
			if u := x.To; x.Left > amount && h.met[u] != h.search && f.Level[u] != barred {
				h.met[u] = h.search
				a = append(a, u)
			}
			e = x.next
		}
	}
	h.visited = a[:0]
	f.Work += 5 * int64(len(a))
	if h.met[Sink] == h.search {
		return true, true
	}
	for _, u := range a {
		for e := f.first[u]; e >= 0; {
			x := &f.Edges[e]
			if w := x.To; h.met[w] != h.search && f.Level[w] != barred {
				if amount -= x.Left; amount < 0 {
					return false, false
				}
			}
			e = x.next
		}
	}
	h.visited = a
	return false, true
}

// Visited returns the vertices that the last question's edges reach under the flow that
// answered it, if Answer did not stop early. With what the source reached before, they are
// the source's side of a minimum cut; after Exceeds, see there. Vertices that are barred are
// left out. The list is valid until the next call.
func (f *Network) Visited() []int32 { return f.held.visited }

// Answer removes the question's edges and returns by how much they raise the
// maximum flow. It may stop early and return any lower figure that is at least
// enough.
func (f *Network) Answer(enough int64) (raised int64) { return f.AnswerWithin(enough, Infinite) }

// AnswerWithin is Answer that also stops early, with any lower figure, once it has done an
// amount of work. Visited is empty then.
func (f *Network) AnswerWithin(enough, work int64) (raised int64) {
	h := &f.held
	h.visited = h.visited[:0]
	if h.from != 0 {
		raised = f.augment(h.from, enough, f.Work+min(work, Infinite-f.Work))
	}
	for len(h.added) > 0 {
		e := h.added[len(h.added)-1]
		h.added = h.added[:len(h.added)-1]
		f.DropEdge(e[0], e[1])
	}
	f.first, h.from = f.first[:h.vertices], 0
	if h.logging {
		for _, e := range h.log {
			if int(e) < len(h.left) {
				f.Edges[e].Left, f.Edges[e^1].Left = h.left[e], h.left[e^1]
			}
		}
	} else {
		for e, left := range h.left {
			f.Edges[e].Left = left
		}
	}
	h.logging, h.log = true, h.log[:0]
	return raised
}

// note logs the edges of a path until the log is as long as the list of all edges,
// which is then cheaper to restore.
func (h *held) note(path []int32) {
	if h.logging {
		h.log = append(h.log, path...)
		h.logging = len(h.log) < len(h.left)
	}
}
