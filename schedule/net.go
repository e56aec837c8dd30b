package schedule

import (
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
)

// net is a problem in the form that bounds and search share: only the tensors
// that can change the load are left, all else is precedence, or base. It also
// stands for a part of a problem, and for a problem whose nodes are runs of
// nodes of another one. With live(S) the bytes to hold when the nodes of S have
// run, the load of v from there is
//
//	live(S) + trans[v] - saved(v, S)
type net struct {
	nodes        int
	base         int64   // bytes live at every step
	idle         int64   // bytes of inputs that nobody reads, live at the first step alone
	trans        []int64 // node -> its outputs, read or not, and its workspace
	preds, succs lists   // direct precedence, each neighbour once

	size    []int64 // tensor -> bytes, more than 0; as are the next three
	maker   []int32 // -1: live from the start
	output  []bool
	readers lists
	reads   lists // node -> tensors
	makes   lists // node -> tensors that are read or outputs

	saver  []int32 // node -> 1 + its place in savers, or 0; nil if no node saves
	savers []saver
	given  int32          // numbers below 0 that pairs use for what is always given
	match  *match.Matcher // for savers with more pairs than choices can say
}

// add appends a list.
func (l *lists) add(items ...int32) {
	if len(l.start) == 0 {
		l.start = append(l.start, 0)
	}
	l.items = append(l.items, items...)
	l.start = append(l.start, int32(len(l.items)))
}

// finish gives lists without any item their only boundary.
func (l *lists) finish() lists {
	if len(l.start) == 0 {
		l.start = []int32{0}
	}
	return *l
}

// newNet leaves out resident, empty and dead tensors. A tensor that no node
// makes and that is an output is live at every step. O(E) beside the matchings.
func newNet(f *flat) *net {
	g := &net{nodes: f.nodes, trans: slices.Clone(f.workspace)}
	_, g.idle = f.inputs()
	place := make([]int32, len(f.size))
	for i := range f.size {
		t, size, v := int32(i), f.size[i], f.producer[i]
		place[i] = -1
		if size == 0 {
			continue
		}
		if v >= 0 {
			g.trans[v] += size
		}
		switch {
		case !f.kept(t): // in trans, or idle
		case v < 0 && f.output[t]:
			g.base += size
		default:
			place[i] = g.addTensor(size, v, f.output[t], f.readers.of(t))
		}
	}
	g.finishTensors()
	g.preds = f.precedence()
	g.succs = g.preds.turned(g.nodes)
	g.addPairs(f, place)
	return g
}

func (g *net) addTensor(size int64, maker int32, output bool, readers []int32) int32 {
	g.size = append(g.size, size)
	g.maker = append(g.maker, maker)
	g.output = append(g.output, output)
	g.readers.add(readers...)
	return int32(len(g.size) - 1)
}

func (g *net) finishTensors() {
	g.reads = g.readers.finish().turned(g.nodes)
	g.makes = madeBy(g.maker, g.nodes)
	g.readers = g.readers.finish()
}

// precedence returns the direct predecessors of each node, each once.
func (f *flat) precedence() lists {
	var l lists
	last := make([]int32, f.nodes) // 1 + the node that last listed it
	for i := range f.nodes {
		v := int32(i)
		from := len(l.items)
		for _, t := range f.read.of(v) {
			if m := f.producer[t]; m >= 0 && last[m] != v+1 {
				last[m] = v + 1
				l.items = append(l.items, m)
			}
		}
		l.add()
		slices.Sort(l.items[from:])
	}
	return l.finish()
}

// listing returns the nodes by index, or if that is no topological order, the
// one that always runs the ready node of the smallest index.
func (g *net) listing() []int32 {
	order := ascending(g.nodes)
	topological := true
	for _, v := range order {
		preds := g.preds.of(v)
		topological = topological && (len(preds) == 0 || slices.Max(preds) < v)
	}
	if topological {
		return order
	}
	return g.sorted(order)
}

// sorted returns the order that always runs the ready node of the smallest place.
// It is shorter than nodes if the net has a cycle.
func (g *net) sorted(place []int32) (order []int32) {
	waits := make([]int32, g.nodes)
	ready := heap[int32]{less: func(a, b int32) bool { return place[a] < place[b] }}
	for i := range waits {
		v := int32(i)
		if waits[v] = int32(len(g.preds.of(v))); waits[v] == 0 {
			ready.push(v)
		}
	}
	for len(ready.items) > 0 {
		v := ready.pop()
		order = append(order, v)
		for _, w := range g.succs.of(v) {
			if waits[w]--; waits[w] == 0 {
				ready.push(w)
			}
		}
	}
	return order
}

// liveFirst and liveLast are the bytes live before all steps and after them.
func (g *net) liveFirst() int64 {
	live := g.base
	for t, v := range g.maker {
		if v < 0 {
			live += g.size[t]
		}
	}
	return live
}

func (g *net) liveLast() int64 {
	live := g.base
	for t, output := range g.output {
		if output {
			live += g.size[t]
		}
	}
	return live
}

// live returns live(S). O(E).
func (g *net) live(in []bool) int64 {
	live := g.base
	for i, v := range g.maker {
		if v >= 0 && !in[v] {
			continue
		}
		t := int32(i)
		needed := g.output[t]
		for _, r := range g.readers.of(t) {
			if needed = needed || !in[r]; needed {
				break
			}
		}
		if needed {
			live += g.size[t]
		}
	}
	return live
}

// waiting returns for each tensor how many readers it has.
func (g *net) waiting(buf []int32) []int32 {
	buf = resize(buf, len(g.size))
	for t := range buf {
		buf[t] = g.readers.start[t+1] - g.readers.start[t]
	}
	return buf
}

// loads returns the load at each step of a topological order. O(E).
func (g *net) loads(order []int32, buf []int64) []int64 {
	unread := g.waiting(nil)
	live, idle := g.liveFirst(), g.idle
	buf = buf[:0]
	for _, v := range order {
		buf = append(buf, live+idle+g.need(v, unread, 1))
		idle = 0
		live = g.after(v, live, unread)
	}
	return buf
}

// peak returns the largest of some loads and the first step that has it.
func peakOf(loads []int64) (peak int64, step int) {
	for i, l := range loads {
		if l > peak {
			peak, step = l, i
		}
	}
	return peak, step
}

// grain divides every load.
func (g *net) grain() int64 {
	d := g.base
	for _, list := range [3][]int64{g.size, g.trans, {g.idle}} {
		for _, x := range list {
			for x != 0 {
				d, x = x, d%x
			}
		}
	}
	return max(d, 1)
}

// resize returns n items, of buf where it is long enough. They hold anything.
func resize[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n, n+n/4)
	}
	return buf[:n]
}

// zeroed returns n zeros, in buf where it is long enough.
func zeroed[T any](buf []T, n int) []T {
	buf = resize(buf, n)
	clear(buf)
	return buf
}
