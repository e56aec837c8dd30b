package zones

import "math"

// cut finds the least load of a node over the states between two: a minimum cut. The nodes that
// may have run or not are its vertices. The source has run, the sink has not.
type cut struct {
	at    []int32 // by node: its vertex; or source, sink
	first []int32 // by vertex: its first edge, or -1
	edges []edge
	level []int32
	next  []int32
	queue []int32
	fixed int64
	work  int64
}

type edge struct {
	to, next int32
	room     int64
}

const (
	unlimited = math.MaxInt64 / 4
	source    = 0
	sink      = 1
)

func (c *cut) vertex() int32 {
	c.first = append(c.first, -1)
	return int32(len(c.first) - 1)
}

func (c *cut) edge(from, to int32, room int64) {
	c.edges = append(c.edges, edge{to, c.first[from], room})
	c.first[from] = int32(len(c.edges) - 1)
	c.edges = append(c.edges, edge{from, c.first[to], 0})
	c.first[to] = int32(len(c.edges) - 1)
}

// least is the least load of the states that have run what low has and nothing that high lacks.
// If v is a node, it is the least load of v's step; v must be able to run there. It stops at
// enough.
func (c *cut) least(g *graph, low, high set, v int32, taken []pair, enough int64) int64 {
	c.first, c.edges, c.fixed = c.first[:0], c.edges[:0], g.always
	c.vertex()
	c.vertex()
	c.work += int64(g.n + len(g.tensors))
	if c.at == nil {
		c.at = make([]int32, g.n)
	}
	for u := range int32(g.n) {
		switch {
		case low.has(u) || v >= 0 && g.above[v].has(u):
			c.at[u] = source
		case !high.has(u) || v >= 0 && (u == v || g.below[v].has(u)):
			c.at[u] = sink
		default:
			c.at[u] = c.vertex()
		}
	}
	for u := range int32(g.n) {
		if c.at[u] < 2 {
			continue
		}
		for _, w := range g.before[u] {
			if c.at[w] >= 2 {
				c.edge(c.at[u], c.at[w], unlimited)
			}
		}
	}
	for i := range g.tensors {
		c.tensor(&g.tensors[i])
	}
	for i := range g.written {
		c.tensor(&g.written[i])
	}
	if v >= 0 {
		c.fixed += g.trans[v]
		for i := range g.atOnce[v] {
			c.tensor(&g.atOnce[v][i])
		}
		for _, x := range taken {
			c.fixed -= x.bytes
			c.tensor(&tensor{bytes: x.bytes, maker: -1, readers: x.others})
		}
	}
	return c.fixed + c.flow(enough-c.fixed)
}

func (c *cut) tensor(t *tensor) {
	from := int32(source)
	if t.maker >= 0 {
		if from = c.at[t.maker]; from == sink {
			return
		}
	}
	stays, free := t.output, 0
	to := int32(0)
	for _, r := range t.readers {
		switch at := c.at[r]; {
		case at == sink:
			stays = true
		case at >= 2:
			free++
			to = at
		}
	}
	switch {
	case stays && from == source:
		c.fixed += t.bytes
	case stays:
		c.edge(from, sink, t.bytes)
	case free == 1:
		c.edge(from, to, t.bytes)
	case free > 1:
		a := c.vertex()
		c.edge(from, a, t.bytes)
		for _, r := range t.readers {
			if c.at[r] >= 2 {
				c.edge(a, c.at[r], unlimited)
			}
		}
	}
}

func (c *cut) flow(enough int64) (sent int64) {
	for sent < enough && c.layers() {
		c.next = append(c.next[:0], c.first...)
		for sent < enough {
			more := c.push(source, unlimited)
			if more == 0 {
				break
			}
			sent += more
		}
	}
	return sent
}

func (c *cut) layers() bool {
	c.level = c.level[:0]
	for range c.first {
		c.level = append(c.level, -1)
	}
	c.level[source] = 0
	c.queue = append(c.queue[:0], source)
	for k := 0; k < len(c.queue) && c.level[sink] < 0; k++ {
		v := c.queue[k]
		for e := c.first[v]; e >= 0; e = c.edges[e].next {
			c.work++
			if to := c.edges[e].to; c.edges[e].room > 0 && c.level[to] < 0 {
				c.level[to] = c.level[v] + 1
				c.queue = append(c.queue, to)
			}
		}
	}
	return c.level[sink] >= 0
}

func (c *cut) push(v int32, most int64) int64 {
	if v == sink {
		return most
	}
	for ; c.next[v] >= 0; c.next[v] = c.edges[c.next[v]].next {
		e := c.next[v]
		if x := &c.edges[e]; x.room > 0 && c.level[x.to] == c.level[v]+1 {
			if sent := c.push(x.to, min(most, x.room)); sent > 0 {
				c.edges[e].room -= sent
				c.edges[e^1].room += sent
				return sent
			}
		}
	}
	return 0
}

// largest marks in level the vertices that reach the sink: the others are in the largest state of
// least load. The flow must be a maximum one.
func (c *cut) largest() {
	for i := range c.level {
		c.level[i] = -1
	}
	c.level[sink] = 0
	c.queue = append(c.queue[:0], sink)
	for k := 0; k < len(c.queue); k++ {
		v := c.queue[k]
		for e := c.first[v]; e >= 0; e = c.edges[e].next {
			if to := c.edges[e].to; c.edges[e^1].room > 0 && c.level[to] < 0 {
				c.level[to] = 0
				c.queue = append(c.queue, to)
			}
		}
	}
}
