package bounds

import (
	"slices"

	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
	"github.com/onnxmem/onnxmem/schedule/internal/maxflow"
	"github.com/onnxmem/onnxmem/schedule/internal/meter"
)

const source, sink, infinite = maxflow.Source, maxflow.Sink, indexed.Infinite

// Mark says where a node stands relative to the state that a cut looks for.
type Mark int8

// The marks. The cut decides about free nodes.
const (
	Free Mark = iota
	Inside
	Outside
)

// Cutter finds downsets of least live bytes by minimum cuts. What is marked inside
// is the source of the network, what is marked outside the sink, and each free node
// a vertex. A tensor of s bytes becomes edges of capacity s:
//
//	free readers   made by no node or inside   made by a free node m
//	none           nothing                     nothing
//	one, r         source -> r                 m -> r
//	several        source -> a, a -> each r    m -> a, a -> each r
//	must survive   always live                 m -> sink
//
// A tensor must survive if it is an output or if a reader is outside. The vertex a
// is its own; edges from a are infinite, and so is an edge from each free node to
// each free predecessor, which makes S a downset.
type Cutter struct {
	Marks []Mark // node -> where it stands

	flow   maxflow.Network
	meter  *meter.Meter
	g      *indexed.Problem
	base   []Mark  // the marks of a set, before its nodes are tried
	vertex []int32 // free node -> its vertex
	free   []int32
	stack  []int32
	met    []int32 // tensor -> the path of Between that last met it
	paths  int32   // so far
	forced forcing
}

// NewCutter returns a cutter that counts its work in the meter.
func NewCutter(m *meter.Meter) *Cutter {
	c := &Cutter{meter: m}
	c.flow.Halt = m.Ended
	return c
}

// Broken reports whether the context ended a flow early: what the cutter returns
// from then on is no minimum.
func (c *Cutter) Broken() bool { return c.flow.Broken }

// Begin frees all nodes of a problem.
func (c *Cutter) Begin(g *indexed.Problem) {
	c.g = g
	c.Marks = indexed.Zeroed(c.Marks, g.Nodes)
	c.vertex = indexed.Resize(c.vertex, g.Nodes)
}

// spread marks a node and all that it reaches over the neighbours. Nodes that have
// the mark already must have been spread from.
func (c *Cutter) spread(v int32, m Mark, neighbours *indexed.Lists) {
	if c.Marks[v] == m {
		return
	}
	c.Marks[v] = m
	stack := append(c.stack[:0], v)
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, w := range neighbours.Of(u) {
			if c.Marks[w] != m {
				c.Marks[w] = m
				stack = append(stack, w)
			}
		}
	}
	c.stack = stack
}

// around forces the ancestors of v in, and v and its descendants out.
func (c *Cutter) around(v int32) {
	c.spread(v, Inside, &c.g.Preds)
	c.Marks[v] = Free
	c.spread(v, Outside, &c.g.Succs)
}

// least returns min live(S) under the marks; it may stop early at enough. The
// savings of a choice of node v that S does not give are added. The marks must be
// closed: predecessors of what is inside are inside, successors of what is outside
// are outside. If they leave the empty state alone, what follows it is the first step, at
// which the inputs that nobody reads are live, too.
func (c *Cutter) least(v int32, choice []indexed.Saving, enough int64) int64 {
	g := c.g
	c.free = c.free[:0]
	for v, m := range c.Marks {
		if m == Free {
			c.free = append(c.free, int32(v))
		}
	}
	c.number()
	c.meter.Flow += int64(g.Nodes + len(g.Size))
	live := g.Base
	if c.startsOnly() {
		live += g.Idle
	}
	for t := range g.Size {
		live += c.tensor(int32(t))
	}
	for _, x := range choice {
		if x.Over >= 0 {
			live += c.hyperedge(source, x.Over, x.Size, v, false)
		}
	}
	c.close()
	return live + c.augment(enough-live)
}

// startsOnly reports whether the marks leave the empty state alone.
func (c *Cutter) startsOnly() bool {
	return !slices.ContainsFunc(c.Marks, func(m Mark) bool { return m != Outside })
}

// augment adds flow until enough is added or none is left to add.
func (c *Cutter) augment(enough int64) int64 {
	before := c.flow.Work
	added := c.flow.Augment(enough)
	c.meter.Flow += c.flow.Work - before
	return added
}

// number gives the free nodes their vertices.
func (c *Cutter) number() {
	for i, v := range c.free {
		c.vertex[v] = int32(i) + 2
	}
	c.flow.Reset(len(c.free) + 2)
}

// close makes S a downset.
func (c *Cutter) close() {
	for _, v := range c.free {
		for _, u := range c.g.Preds.Of(v) {
			if c.Marks[u] == Free {
				c.flow.Edge(c.vertex[v], c.vertex[u], infinite)
			}
		}
	}
}

// tensor adds the edges of a tensor, or returns its size if it is live in every S
// that the marks allow.
func (c *Cutter) tensor(t int32) int64 {
	from := source
	if m := c.g.Maker[t]; m >= 0 {
		switch c.Marks[m] {
		case Outside:
			return 0
		case Free:
			from = c.vertex[m]
		}
	}
	return c.hyperedge(from, t, c.g.Size[t], -1, c.g.Output[t])
}

// hyperedge adds edges that cost size if S contains from and leaves out a reader of
// t other than but. It returns size if every S does.
func (c *Cutter) hyperedge(from, t int32, size int64, but int32, always bool) int64 {
	readers := c.g.Readers.Of(t)
	waits, one := 0, int32(-1)
	for _, r := range readers {
		if always {
			break
		}
		if r == but {
			continue
		}
		switch c.Marks[r] {
		case Outside:
			always = true
		case Free:
			waits++
			one = r
		}
	}
	switch {
	case always && from == source:
		return size
	case always:
		c.flow.Edge(from, sink, size)
	case waits == 1:
		c.flow.Edge(from, c.vertex[one], size)
	case waits > 1:
		a := c.flow.NewVertex()
		c.flow.Edge(from, a, size)
		for _, r := range readers {
			if r != but && c.Marks[r] == Free {
				c.flow.Edge(a, c.vertex[r], infinite)
			}
		}
	}
	return 0
}

// Minimiser writes the smallest or the largest downset of the last minimum.
func (c *Cutter) Minimiser(largest bool, in []bool) {
	c.flow.Reach(source)
	if largest {
		c.flow.Reach(sink)
	}
	for v, m := range c.Marks {
		in[v] = m == Inside || m == Free && (c.flow.Level[c.vertex[v]] >= 0) != largest
	}
}

// Between takes a path of nodes that ran one after another, all marked inside, and
// returns those that belong to the largest downset of least live bytes between the
// state before the path and the state after it.
func (c *Cutter) Between(path []int32) (keep []int32) {
	for _, v := range path {
		c.Marks[v] = Free
	}
	c.free = path
	c.number()
	for len(c.met) < len(c.g.Size) {
		c.met = append(c.met, 0)
	}
	c.paths++
	for _, v := range path {
		for _, list := range [2][]int32{c.g.Makes.Of(v), c.g.Reads.Of(v)} {
			for _, t := range list {
				if c.met[t] != c.paths {
					c.met[t] = c.paths
					c.tensor(t)
				}
			}
		}
	}
	c.close()
	c.augment(infinite)
	c.flow.Reach(sink)
	keep = make([]int32, 0, len(path))
	for _, v := range path {
		if c.flow.Level[c.vertex[v]] < 0 {
			keep = append(keep, v)
		}
	}
	for _, v := range path {
		c.Marks[v] = Inside
	}
	return keep
}
