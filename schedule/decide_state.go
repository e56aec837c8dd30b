package schedule

import (
	"math/rand/v2"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// walk is a state of the exact search: the nodes that have run, in the order in
// which they did, with all that changes kept up to date in O(degree) by run and
// undo.
type walk struct {
	g       *indexed.Problem
	live    int64
	ran     []step
	ready   []int32
	at      []int32 // ready node -> its place in ready
	opened  []int32 // ready node -> how many had run when it became ready
	waits   []int32
	unread  []int32
	others  []int64 // tensor -> the sum of the readers left: the reader, when one is left
	rise    []int64 // node -> the bytes of what it makes and leaves
	delta   []int64 // node -> by how much its run would change the live bytes
	hash    state
	zobrist []state // node -> its part of the hash
	cut     cutter  // its marks say what has run
	steps   int     // runs so far
}

// step is what undo must know of a run.
type step struct {
	node, at, freed int32 // freed: how many nodes it made ready
}

// state names a set of nodes that have run: two words, so that two sets with one
// name are out of the question.
type state [2]uint64

// with names the set with one node more, or less.
func (s state) with(node state) state { return state{s[0] ^ node[0], s[1] ^ node[1]} }

func newWalk(g *indexed.Problem) *walk {
	w := &walk{g: g, at: make([]int32, g.Nodes), opened: make([]int32, g.Nodes), zobrist: make([]state, g.Nodes)}
	r := rand.New(rand.NewPCG(1, 2))
	for v := range w.zobrist {
		w.zobrist[v] = state{r.Uint64(), r.Uint64()}
	}
	return w
}

func (w *walk) reset() {
	g := w.g
	w.live, w.hash = g.LiveFirst(), state{}
	w.ran, w.ready = w.ran[:0], w.ready[:0]
	w.unread = g.Unread(w.unread)
	w.others = indexed.Zeroed(w.others, len(g.Size))
	w.delta = indexed.Zeroed(w.delta, g.Nodes)
	w.waits = indexed.Resize(w.waits, g.Nodes)
	w.cut.begin(g)
	for i := range w.cut.mark {
		w.cut.mark[i] = outside
	}
	w.rise = indexed.Zeroed(w.rise, g.Nodes)
	for i := range g.Size {
		t := int32(i)
		for _, r := range g.Readers.Of(t) {
			w.others[t] += int64(r)
		}
		if m := g.Maker[t]; m >= 0 {
			w.delta[m] += g.Size[t]
			w.rise[m] += g.Size[t]
		}
		if w.unread[t] == 1 && !g.Output[t] {
			w.delta[w.others[t]] -= g.Size[t]
		}
	}
	for i := range g.Nodes {
		v := int32(i)
		if w.waits[v] = int32(len(g.Preds.Of(v))); w.waits[v] == 0 {
			w.opened[v] = 0
			w.push(v)
		}
	}
}

func (w *walk) push(v int32) {
	w.at[v] = int32(len(w.ready))
	w.ready = append(w.ready, v)
}

// load returns the load of a ready node.
func (w *walk) load(v int32) int64 { return w.live + w.g.Need(v, w.unread, 1) }

func (w *walk) run(v int32) {
	g := w.g
	w.steps++
	at, end := w.at[v], len(w.ready)-1
	last := w.ready[end]
	w.ready[at], w.at[last] = last, at
	w.ready = w.ready[:end]
	w.live += w.delta[v]
	for _, t := range g.Reads.Of(v) {
		w.unread[t]--
		w.others[t] -= int64(v)
		if w.unread[t] == 1 && !g.Output[t] {
			w.delta[w.others[t]] -= g.Size[t]
		}
	}
	for _, s := range g.Succs.Of(v) {
		if w.waits[s]--; w.waits[s] == 0 {
			w.opened[s] = int32(len(w.ran)) + 1
			w.push(s)
		}
	}
	w.cut.mark[v] = inside
	w.hash = w.hash.with(w.zobrist[v])
	w.ran = append(w.ran, step{v, at, int32(len(w.ready) - end)})
}

// undo takes back all but the first runs.
func (w *walk) undo(runs int) {
	g := w.g
	for len(w.ran) > runs {
		last := w.ran[len(w.ran)-1]
		w.ran = w.ran[:len(w.ran)-1]
		v := last.node
		w.ready = w.ready[:len(w.ready)-int(last.freed)]
		for _, s := range g.Succs.Of(v) {
			w.waits[s]++
		}
		for _, t := range g.Reads.Of(v) {
			if w.unread[t] == 1 && !g.Output[t] {
				w.delta[w.others[t]] += g.Size[t]
			}
			w.unread[t]++
			w.others[t] += int64(v)
		}
		w.live -= w.delta[v]
		w.push(v) // and back to where it was, in place of the one that moved there
		moved, end := w.ready[last.at], int32(len(w.ready)-1)
		w.ready[end], w.at[moved] = moved, end
		w.ready[last.at], w.at[v] = v, last.at
		w.cut.mark[v] = outside
		w.hash = w.hash.with(w.zobrist[v])
	}
}

// commit replaces the nodes run since by the largest downset of least live bytes
// among those between the state then and now. It can be reached as it is: the
// path to the state now, intersected with it.
//
// What the flow visits counts as steps, a hundred to one: on long chains it takes
// many rounds, and a search of few states would not end.
func (w *walk) commit(since int) {
	c := &w.cut
	before := c.Work
	defer func() { w.steps += int((c.Work-before)/100) + len(c.free)/10 }()
	path := make([]int32, 0, len(w.ran)-since)
	for _, s := range w.ran[since:] {
		path = append(path, s.node)
		c.mark[s.node] = free
	}
	c.free = path
	c.start()
	met := map[int32]bool{}
	for _, v := range path {
		for _, list := range [2][]int32{w.g.Makes.Of(v), w.g.Reads.Of(v)} {
			for _, t := range list {
				if !met[t] {
					met[t] = true
					c.tensor(t)
				}
			}
		}
	}
	c.close()
	c.Augment(indexed.Infinite)
	c.Reach(sink)
	keep := make([]int32, 0, len(path))
	for _, v := range path {
		if c.Level[c.vertex[v]] < 0 {
			keep = append(keep, v)
		}
	}
	for _, v := range path {
		c.mark[v] = inside
	}
	if len(keep) == len(path) {
		return
	}
	w.undo(since)
	for _, v := range keep {
		w.run(v)
	}
}
