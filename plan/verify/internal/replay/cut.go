package replay

import (
	"math"

	"github.com/onnxmem/onnxmem/plan/verify/internal/core"
)

// minCut finds the states of least live bytes among those in which some nodes
// have run (done) and others have not (due): a minimum cut. The vertices are the
// other nodes (free), and one for each storage that several free nodes read. The
// nodes on the source side have run. A storage costs its bytes if its maker has
// run and a reader has not:
//
//	maker ──bytes──▶ storage ──∞──▶ each reader
//
// The source stands for a maker that is done, the sink for a graph output and for
// a reader that is due. A node that has run needs its predecessors: an edge of
// unlimited capacity leads from it to each of them.
type minCut struct {
	at    []int32 // by node: its vertex, or none
	fixed int64   // bytes of storages that are live in every such state
	first []int32 // by vertex: its first edge, or none
	edges []cutEdge
	level []int32
	next  []int32
	queue []int32
	work  int // edges visited, over all flows
}

// cutEdge is an edge of the cut's network; the edge of the opposite direction is
// stored next to it.
type cutEdge struct {
	to, next int32
	room     int64
}

// unlimitedBytes is the capacity of an edge that is in no minimum cut: more than
// the sum of all storages of a scope that is replayed.
const (
	maxReplayBytes = math.MaxInt64 / 4
	unlimitedBytes = math.MaxInt64 / 2
)

const (
	cutSource = 0
	cutSink   = 1
)

// build makes the network of the free nodes. touched lists at least the storages
// that they make or read.
func (c *minCut) build(r *replay, free []int32, touched []int32) {
	p := r.p
	if c.at == nil {
		c.at = make([]int32, len(r.ran))
		for v := range c.at {
			c.at[v] = none
		}
	}
	c.work += len(r.ran) + len(touched)
	c.fixed, c.edges, c.first = 0, c.edges[:0], c.first[:0]
	c.vertex()
	c.vertex()
	for _, v := range free {
		c.at[v] = c.vertex()
	}
	for _, v := range free {
		for _, u := range r.before[v] {
			if c.at[u] != none {
				c.edge(c.at[v], c.at[u], unlimitedBytes)
			}
		}
	}
	for _, i := range touched {
		c.storage(&p.Storages[i], r.side)
	}
	for _, v := range free {
		c.at[v] = none
	}
	c.level = append(c.level[:0], c.first...)
	c.next = append(c.next[:0], c.first...)
}

func (c *minCut) storage(st *core.Storage, sides []side) {
	from := int32(cutSource)
	if st.Maker >= 0 {
		switch sides[st.Maker] {
		case due:
			return
		case free:
			from = c.at[st.Maker]
		}
	}
	stays := st.Output
	var readers []int32
	for _, v := range st.Readers {
		switch sides[v] {
		case due:
			stays = true
		case free:
			readers = append(readers, c.at[v])
		}
	}
	switch {
	case stays && from == cutSource:
		c.fixed += st.Bytes
	case stays:
		c.edge(from, cutSink, st.Bytes)
	case len(readers) == 1:
		c.edge(from, readers[0], st.Bytes)
	case len(readers) > 1:
		a := c.vertex()
		c.edge(from, a, st.Bytes)
		for _, v := range readers {
			c.edge(a, v, unlimitedBytes)
		}
	}
}

// flow returns the maximum flow; it may stop early once the flow exceeds enough.
func (c *minCut) flow(enough int64) (sent int64) {
	for sent <= enough && c.layers() {
		copy(c.next, c.first)
		for sent <= enough {
			more := c.push(cutSource, unlimitedBytes)
			if more == 0 {
				break
			}
			sent += more
		}
	}
	return sent
}

func (c *minCut) vertex() int32 {
	c.first = append(c.first, none)
	return int32(len(c.first) - 1)
}

func (c *minCut) edge(from, to int32, room int64) {
	for _, e := range [2]struct {
		from, to int32
		room     int64
	}{{from, to, room}, {to, from, 0}} {
		c.edges = append(c.edges, cutEdge{e.to, c.first[e.from], e.room})
		c.first[e.from] = int32(len(c.edges) - 1)
	}
}

// layers computes the distance of each vertex from the source in the residual
// network, or none if the source does not reach it, and reports whether it
// reaches the sink.
func (c *minCut) layers() bool {
	for v := range c.level {
		c.level[v] = none
	}
	c.level[cutSource] = 0
	c.queue = append(c.queue[:0], cutSource)
	for k := 0; k < len(c.queue); k++ {
		v := c.queue[k]
		for e := c.first[v]; e != none; e = c.edges[e].next {
			c.work++
			if to := c.edges[e].to; c.edges[e].room > 0 && c.level[to] == none {
				c.level[to] = c.level[v] + 1
				c.queue = append(c.queue, to)
			}
		}
	}
	return c.level[cutSink] != none
}

// push sends at most most bytes along one path that gains a layer with each edge.
func (c *minCut) push(v int32, most int64) int64 {
	if v == cutSink {
		return most
	}
	for ; c.next[v] != none; c.next[v] = c.edges[c.next[v]].next {
		e := c.next[v]
		if x := &c.edges[e]; x.room > 0 && c.level[x.to] == c.level[v]+1 {
			if sent := c.push(x.to, min(most, x.room)); sent > 0 {
				c.send(e, -sent)
				c.send(e^1, sent)
				return sent
			}
		}
	}
	return 0
}

// send changes the capacity of an edge, unless it is unlimited.
func (c *minCut) send(e int32, bytes int64) {
	if c.edges[e].room < unlimitedBytes {
		c.edges[e].room += bytes
	}
}

// backwards sets level 0 for the vertices that reach the sink in the residual
// network, and none for the others.
func (c *minCut) backwards() {
	for v := range c.level {
		c.level[v] = none
	}
	c.level[cutSink] = 0
	c.queue = append(c.queue[:0], cutSink)
	for k := 0; k < len(c.queue); k++ {
		v := c.queue[k]
		for e := c.first[v]; e != none; e = c.edges[e].next {
			if to := c.edges[e].to; c.edges[e^1].room > 0 && c.level[to] == none {
				c.level[to] = 0
				c.queue = append(c.queue, to)
			}
		}
	}
}
