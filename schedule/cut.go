package schedule

import (
	"github.com/onnxmem/onnxmem/internal/maxflow"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// The ends of a network.
const source, sink = maxflow.Source, maxflow.Sink

// cutter finds downsets of least live bytes by minimum cuts.
//
// live is submodular, live(A ∩ B) + live(A ∪ B) <= live(A) + live(B), because
// each tensor is a directed hyperedge: it is live when its maker is inside and
// a reader outside. So the least live(S), over downsets S with some nodes
// forced in and others forced out, is a minimum cut. What is forced in is the
// source, what is forced out the sink, and each node left over a vertex:
//
//	tensor      forced in or no maker     made by a free node m
//	sink side   counts always             edge m -> sink
//	one reader  edge source -> r          edge m -> r
//	several     source -> a, a -> each r  m -> a, a -> each r
//
// Sink side means that it is an output or a reader is forced out; readers are
// the free ones. Edges carry the tensor's size, those from a are infinite, and
// so is an edge from each free node to each free predecessor, which keeps S
// closed.
type cutter struct {
	maxflow.Network
	g      *indexed.Problem
	mark   []mark
	base   []mark  // of a set, before its nodes are tried
	vertex []int32 // free node -> its vertex
	free   []int32
	stack  []int32
	cuts   int
}

type mark int8

const (
	free mark = iota
	inside
	outside
)

// begin frees all nodes.
func (c *cutter) begin(g *indexed.Problem) {
	c.g = g
	c.mark = indexed.Zeroed(c.mark, g.Nodes)
	c.vertex = indexed.Resize(c.vertex, g.Nodes)
}

// spread gives a node and all it reaches over the neighbours a mark. Those that
// have it already are taken to have been spread from.
func (c *cutter) spread(v int32, m mark, neighbours *indexed.Lists) {
	if c.mark[v] == m {
		return
	}
	c.mark[v] = m
	stack := append(c.stack[:0], v)
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, w := range neighbours.Of(u) {
			if c.mark[w] != m {
				c.mark[w] = m
				stack = append(stack, w)
			}
		}
	}
	c.stack = stack
}

// around forces the ancestors of v in, v and its descendants out.
func (c *cutter) around(v int32) {
	c.spread(v, inside, &c.g.Preds)
	c.mark[v] = free
	c.spread(v, outside, &c.g.Succs)
}

// least returns, unless that is enough or more, the least live(S) under the marks, plus the savings of a choice
// of node v that S does not give. The marks must be closed: predecessors of
// what is inside are inside, successors of what is outside outside.
func (c *cutter) least(v int32, choice []indexed.Saving, enough int64) int64 {
	g := c.g
	c.free = c.free[:0]
	for v, m := range c.mark {
		if m == free {
			c.free = append(c.free, int32(v))
		}
	}
	c.start()
	c.Work += int64(g.Nodes + len(g.Size))
	live := g.Base
	for t := range g.Size {
		live += c.tensor(int32(t))
	}
	for _, x := range choice {
		if x.Over >= 0 {
			live += c.hyperedge(source, x.Over, x.Size, v, false)
		}
	}
	c.close()
	return live + c.Augment(enough-live)
}

// start numbers the vertices of the free nodes.
func (c *cutter) start() {
	c.cuts++
	for i, v := range c.free {
		c.vertex[v] = int32(i) + 2
	}
	c.Reset(len(c.free) + 2)
}

// close makes S a downset.
func (c *cutter) close() {
	for _, v := range c.free {
		for _, u := range c.g.Preds.Of(v) {
			if c.mark[u] == free {
				c.Edge(c.vertex[v], c.vertex[u], indexed.Infinite)
			}
		}
	}
}

// tensor adds the edges of a tensor, or returns its size if it is live in each
// S that the marks allow.
func (c *cutter) tensor(t int32) int64 {
	from := source
	if m := c.g.Maker[t]; m >= 0 {
		switch c.mark[m] {
		case outside:
			return 0
		case free:
			from = c.vertex[m]
		}
	}
	return c.hyperedge(from, t, c.g.Size[t], -1, c.g.Output[t])
}

// hyperedge adds the edges that cost size when from is in S and some reader of
// t but one is not, or returns size if that is so for each S.
func (c *cutter) hyperedge(from, t int32, size int64, but int32, always bool) int64 {
	readers := c.g.Readers.Of(t)
	waits, one := 0, int32(-1)
	for _, r := range readers {
		if always {
			break
		}
		if r == but {
			continue
		}
		switch c.mark[r] {
		case outside:
			always = true
		case free:
			waits++
			one = r
		}
	}
	switch {
	case always && from == source:
		return size
	case always:
		c.Edge(from, sink, size)
	case waits == 1:
		c.Edge(from, c.vertex[one], size)
	case waits > 1:
		a := c.NewVertex()
		c.Edge(from, a, size)
		for _, r := range readers {
			if r != but && c.mark[r] == free {
				c.Edge(a, c.vertex[r], indexed.Infinite)
			}
		}
	}
	return 0
}

// minimiser writes the smallest or the largest downset of the last minimum.
func (c *cutter) minimiser(largest bool, in []bool) {
	c.Reach(source)
	if largest {
		c.Reach(sink)
	}
	for v, m := range c.mark {
		in[v] = m == inside || m == free && (c.Level[c.vertex[v]] >= 0) != largest
	}
}
