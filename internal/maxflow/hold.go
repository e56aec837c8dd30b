package maxflow

// held is a flow that questions start from. A question adds edges from a vertex of
// its own, augments the flow from there, and takes all back.
//
// Vertices that do not reach the sink in the residual network never do while such
// questions are asked: what augments runs between vertices that do, and so do the
// edges that it opens. They are barred, and what is left is often a small part of
// the network.
type held struct {
	left     []int64 // what the flow left of the edges
	vertices int
	from     int32      // the vertex of the question, or 0 while it has no edges
	added    [][2]int32 // edges of the question
	log      []int32    // edges of the paths since; while logging, all of them
	logging  bool
}

const barred = int32(1 << 30) // the level of a vertex that no flow may pass

// Hold keeps the network with its flow, which must be a maximum, for questions. It
// holds until Reach, Reset or Augment.
func (f *Network) Hold() {
	h := &f.held
	h.left = append(h.left[:0], f.Left...)
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

// Ask adds an edge to the question, from a vertex that the source stands for.
func (f *Network) Ask(v int32, capacity int64) {
	if f.held.from == 0 {
		f.held.from = f.NewVertex()
	}
	f.AskFrom(f.held.from, v, capacity)
}

// AskFrom adds an edge to the question, from a vertex that was made for it.
func (f *Network) AskFrom(u, v int32, capacity int64) {
	f.Edge(u, v, capacity)
	f.held.added = append(f.held.added, [2]int32{u, v})
}

// Answer returns by how much the edges of the question raise the maximum flow, or
// something not below enough if it is not, and takes them back.
func (f *Network) Answer(enough int64) (raised int64) {
	h := &f.held
	if h.from != 0 {
		raised = f.augment(h.from, enough)
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
				f.Left[e], f.Left[e^1] = h.left[e], h.left[e^1]
			}
		}
	} else {
		copy(f.Left, h.left)
	}
	h.logging, h.log = true, h.log[:0]
	return raised
}

// note logs the edges of a path, unless it is less to take back all edges.
func (h *held) note(path []int32) {
	if h.logging {
		h.log = append(h.log, path...)
		h.logging = len(h.log) < len(h.left)
	}
}
