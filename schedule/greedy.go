package schedule

import "github.com/onnxmem/onnxmem/internal/match"

// Greedy returns the order that runs, at each step, the ready node that raises
// the live bytes least. A ready node that raises them by nothing or lowers them
// is run at once, and among several of these the one that needs the least beside
// what is live comes first. That loses nothing where it fits below the peak: an
// order that completes the nodes within the peak still does so with that node
// moved to the front, for no later state has more live bytes than before (the
// valley lemma; see settler). Ties fall to the smaller index.
// O(E + (V + T) log V) beside the matchings; T is the number of tensors.
func Greedy(p *Problem) []int32 {
	g := newGreedy(flatten(p))
	for {
		v, any := g.next()
		if !any {
			return g.order
		}
		g.run(v)
	}
}

// greedy is the state after some nodes have run.
type greedy struct {
	*flat
	order  []int32
	ran    []bool
	waits  []int32 // node -> tensors that it reads and that are still to be made
	unread []int32 // tensor -> readers that are still to run
	sum    []int64 // tensor -> the sum of the indices of those; the reader itself when one is left
	delta  []int64 // node -> by how much its run would raise the live bytes

	match       *match.Matcher
	free, taken []Pair // scratch of extra

	// Heaps of ready nodes. A node's keys only ever fall: it is pushed again
	// with the new key, and what is left of it is skipped.
	safe heap[ready] // raise nothing; keyed by what they need beside the live bytes
	rest heap[ready] // keyed by delta
}

type ready struct {
	key  int64
	node int32
}

func newGreedy(f *flat) *greedy {
	less := func(a, b ready) bool {
		return a.key < b.key || a.key == b.key && a.node < b.node
	}
	g := &greedy{
		flat:   f,
		order:  make([]int32, 0, f.nodes),
		ran:    make([]bool, f.nodes),
		waits:  f.waits(),
		unread: f.unread(),
		sum:    make([]int64, len(f.size)),
		delta:  make([]int64, f.nodes),
		match:  match.New(len(f.size)),
		safe:   heap[ready]{less: less},
		rest:   heap[ready]{less: less},
	}
	for t := range f.size {
		readers := f.readers.of(int32(t))
		for _, r := range readers {
			g.sum[t] += int64(r)
		}
		if len(readers) == 1 && !f.output[t] {
			g.delta[readers[0]] -= f.size[t]
		}
	}
	for i := range f.nodes {
		v := int32(i)
		for _, t := range f.made.of(v) {
			if f.kept(t) {
				g.delta[v] += f.size[t]
			}
		}
		if g.waits[v] == 0 {
			g.push(v)
		}
	}
	return g
}

func (g *greedy) push(v int32) {
	if g.delta[v] <= 0 {
		g.safe.push(ready{g.extra(v), v})
	} else {
		g.rest.push(ready{g.delta[v], v})
	}
}

// extra returns what a node would need beside the live bytes if it ran now.
func (g *greedy) extra(v int32) int64 {
	size := g.workspace[v]
	for _, t := range g.made.of(v) {
		size += g.size[t]
	}
	g.free = g.free[:0]
	for _, pair := range g.pairsOf(v) {
		if g.unread[pair.Over] == 1 {
			g.free = append(g.free, pair)
		}
	}
	g.taken = g.match.Largest(g.taken[:0], g.free)
	return size - g.saved(g.taken)
}

// next takes the node to run from the heaps. The entry with a node's newest key
// comes up before its older ones, so a node that has not run is up to date.
func (g *greedy) next() (v int32, any bool) {
	for _, h := range [2]*heap[ready]{&g.safe, &g.rest} {
		for len(h.items) > 0 {
			if v := h.pop().node; !g.ran[v] {
				return v, true
			}
		}
	}
	return 0, false
}

func (g *greedy) run(v int32) {
	g.ran[v] = true
	g.order = append(g.order, v)
	for _, t := range g.read.of(v) {
		g.unread[t]--
		g.sum[t] -= int64(v)
		if g.unread[t] == 1 && g.size[t] > 0 && !g.output[t] {
			r := int32(g.sum[t])
			g.delta[r] -= g.size[t]
			if g.waits[r] == 0 {
				g.push(r)
			}
		}
	}
	g.flat.run(v, g.waits, g.push)
}
