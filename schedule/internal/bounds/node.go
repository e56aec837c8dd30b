package bounds

import (
	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule/internal/indexed"
)

// Node returns the least load of v in any order:
//
//	min over M   trans(v) - size(M) + min over S { live(S) + Σ size(o) },
//
// M the maximal matchings of v's in-place pairs (o, t), and S the downsets that contain
// all ancestors of v and neither v nor a descendant. The sum is over the pairs of M
// that have a reader of t other than v outside S. It takes one minimum cut for each
// M; the network of the last one is left behind.
func (c *Cutter) Node(g *indexed.Problem, v int32) Certificate {
	c.Begin(g)
	c.around(v)
	least, _ := c.choose(v, infinite)
	return Certificate{Kind: Cut, Nodes: []int32{v}, Value: least}
}

// NodeState is Node that leaves behind the cut of the matching that attains the
// minimum, for Minimiser.
func (c *Cutter) NodeState(g *indexed.Problem, v int32) int64 {
	c.Begin(g)
	c.around(v)
	least, at := c.choose(v, infinite)
	c.again(v, at)
	return least
}

// again repeats the cut of one choice of savings, if it was not the last.
func (c *Cutter) again(v int32, choice int) {
	if choices, _ := c.g.Choices(v); choice != len(choices)-1 {
		c.least(v, choices[choice], infinite)
	}
}

// choose returns the least load of v under the marks and the choice of savings that
// attains it; it may stop early at enough. v must be outside.
func (c *Cutter) choose(v int32, enough int64) (least int64, at int) {
	choices, more := c.g.Choices(v)
	above := c.g.Transient[v] - more
	least = infinite
	for i, choice := range choices {
		saved := indexed.Total(choice)
		if x := c.least(v, choice, enough-above+saved) - saved; x < least {
			least, at = x, i
		}
		if c.Broken() {
			break
		}
	}
	return least + above, at
}

// Against returns the least load of v from a state that contains none of the others,
// or with hold from a state that contains them all.
func (c *Cutter) Against(g *indexed.Problem, v int32, others []int32, hold bool) int64 {
	c.Begin(g)
	c.around(v)
	for _, w := range others {
		if hold {
			c.spread(w, Inside, &g.Preds)
		} else {
			c.spread(w, Outside, &g.Succs)
		}
	}
	load, _ := c.choose(v, infinite)
	return load
}

// ProvingState returns the node of a certificate that can run at the least load, and
// sets ran to the state in which it needs no more than the certificate's value. No state
// in which one of its nodes may run has a smaller load. first says that this is the first
// step in every order.
func (c *Cutter) ProvingState(g *indexed.Problem, x Certificate, ran []bool) (at int32, first bool) {
	if x.Kind == Cut {
		c.NodeState(g, x.Nodes[0])
		c.Minimiser(false, ran)
		return x.Nodes[0], c.startsOnly()
	}
	away, side, toward, other := &g.Succs, Outside, &g.Preds, Inside
	if x.Kind == Last {
		away, side, toward, other = &g.Preds, Inside, &g.Succs, Outside
	}
	c.Begin(g)
	for _, u := range x.Nodes {
		c.spread(u, side, away)
	}
	c.base = append(c.base[:0], c.Marks...)
	at = -1
	least := infinite
	for _, v := range x.Nodes {
		if marked(c.base, toward.Of(v), side) {
			continue // another node of the set must run on the wrong side of v
		}
		copy(c.Marks, c.base)
		c.Marks[v] = Free
		c.spread(v, other, toward)
		c.Marks[v] = Outside
		if load, choice := c.choose(v, infinite); load < least {
			least, at, first = load, v, c.startsOnly()
			c.again(v, choice)
			c.Minimiser(false, ran)
		}
	}
	return at, first
}

// Simple returns the largest bound that needs no cut: that of each node ([SimpleNode]),
// the least load of the first step, and that of the last. node is the first node whose
// own bound it is, or -1 if none is. O(E) beside the matchings.
func Simple(f *indexed.Graph) (bytes int64, node int32) {
	b := simple{f, match.New(len(f.Size))}
	first, last := b.ends()
	bytes, node = max(first, last), -1
	for v := range f.Nodes {
		if x := b.node(int32(v)); x > bytes || x == bytes && node < 0 {
			bytes, node = x, int32(v)
		}
	}
	return bytes, node
}

// SimpleEnd returns the larger of the least loads of the first step and of the last, and the
// nodes that may run there, of a graph with nodes.
func SimpleEnd(f *indexed.Graph) Certificate {
	b := simple{f, match.New(len(f.Size))}
	first, last := b.ends()
	c := Certificate{Kind: First, Value: first}
	if last > first {
		c = Certificate{Kind: Last, Value: last}
	}
	for v := range int32(f.Nodes) {
		if c.Kind == First && b.mayBeFirst(v) || c.Kind == Last && f.IsSink(v) {
			c.Nodes = append(c.Nodes, v)
		}
	}
	return c
}

// SimpleNode returns the bytes of what v reads and makes and of its workspace, less
// those that its largest matching of in-place pairs saves. All of them are live while v
// runs, in every order.
func SimpleNode(f *indexed.Graph, v int32) int64 {
	return simple{f, match.New(len(f.Size))}.node(v)
}

type simple struct {
	g     *indexed.Graph
	match *match.Matcher
}

func (b simple) node(v int32) int64 {
	return b.sum(b.g.Reads.Of(v)) + b.trans(v) - b.g.Saved(b.match.Largest(nil, b.g.PairsOf(v)))
}

// trans returns what a node adds while it runs: its outputs and its workspace.
func (b simple) trans(v int32) int64 { return b.sum(b.g.Makes.Of(v)) + b.g.Workspace[v] }

func (b simple) sum(tensors []int32) (size int64) {
	for _, t := range tensors {
		size += b.g.Size[t]
	}
	return size
}

// ends returns the least loads of the first and the last step.
func (b simple) ends() (first, last int64) {
	inputs, idle := b.g.InputBytes()
	inputs += idle
	if b.g.Nodes == 0 {
		return inputs, inputs
	}
	var outputs int64
	for t := range b.g.Size {
		if b.g.Output[t] {
			outputs += b.g.Size[t]
		}
	}
	first, last = -1, -1
	for i := range b.g.Nodes {
		v := int32(i)
		if b.mayBeFirst(v) {
			first = least(first, inputs+b.trans(v)-b.savedFirst(v))
		}
		if b.g.IsSink(v) {
			last = least(last, outputs+b.node(v)-b.outputsAt(v))
		}
	}
	return first, last
}

// least returns the smaller of two figures, the first of which may be -1: none.
func least(a, b int64) int64 {
	if a < 0 {
		return b
	}
	return min(a, b)
}

func (b simple) mayBeFirst(v int32) bool {
	for _, t := range b.g.Reads.Of(v) {
		if b.g.Producer[t] >= 0 {
			return false
		}
	}
	return true
}

// savedFirst returns the most that a node can save when no other has run.
func (b simple) savedFirst(v int32) int64 {
	var own []match.Pair
	for _, pair := range b.g.PairsOf(v) {
		if len(b.g.Readers.Of(pair.Over)) == 1 {
			own = append(own, pair)
		}
	}
	return b.g.Saved(b.match.Largest(nil, own))
}

// outputsAt returns the bytes of the outputs that a node reads or makes.
func (b simple) outputsAt(v int32) (size int64) {
	for _, list := range [2][]int32{b.g.Reads.Of(v), b.g.Makes.Of(v)} {
		for _, t := range list {
			if b.g.Output[t] {
				size += b.g.Size[t]
			}
		}
	}
	return size
}
