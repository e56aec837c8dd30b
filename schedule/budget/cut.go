package budget

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/internal/match"
	"github.com/onnxmem/onnxmem/schedule"
	"github.com/onnxmem/onnxmem/schedule/internal/maxflow"
)

// cutter computes, by minimum cuts, the trade-off that a node forces on every plan
// between bytes held and time of repeated runs.
//
// Consider the moment at which node v runs for the first time, in any plan. All
// ancestors of v have run, and none of its descendants has. The tensors held at that
// moment take at most the limit less v's own need. A tensor that a later node needs
// and that is not held must be made after this moment; if its maker is an ancestor of
// v, that is a repeated run. At a price of alpha for a byte and beta for a nanosecond,
// the least total is a minimum cut of this network:
//
//	source side: does not run after v; sink side: runs at or after v
//	v and its descendants     the sink
//	an ancestor x             any(x): source -> any(x), beta*cost
//	x incomparable with v     any(x), first(x): first -> any, beta*cost (x ran before, too)
//	                          any -> first infinite (if x first runs after v, it runs after v)
//	u before x, both of these first(x) -> first(u) infinite
//	tensor t that v reads     always counts
//	tensor t, maker m         m' = any(m), or the source if no node makes t;
//	                          with writers w a vertex b: m' -> b, any(w) -> b infinite
//	  output, or read by a descendant   m' -> sink, alpha*size
//	  else                    m' -> a, alpha*size; a -> any(r) infinite for each reader r
//
// A repeated run of a node marked Once has infinite cost. The network of a node is
// built once and serves all prices.
type cutter struct {
	maxflow.Network
	p            *schedule.Problem
	costs        []int64
	rules        *rules
	preds, succs [][]int32
	need         []int64 // node -> bytes of its outputs and workspace, less the most that its in-place pairs save
	reads        [][]int32
	ordered      []bool // tensor -> its pure readers come after its last writer, in program order

	node       int32
	mark       []side
	any, first []int32 // node -> vertices
	always     int64   // bytes that each cut holds
	held       []int32 // tensors that each cut holds
	priced     []priced
	amount     []amount // edge index / 2 -> the capacity of the edge
	stack      []int32
	mostAlpha  int64
	mostBeta   int64
}

type side int8

const (
	beside side = iota
	before
	after
)

// amount is the capacity of an edge before prices.
type amount struct{ bytes, time int64 }

// priced is an edge that stands for a held tensor or for a repeated run of a node.
type priced struct {
	edge, id int32
	held     bool
}

// corner is one minimum cut: its prices, and the bytes and the time that it takes.
type corner struct {
	alpha, beta int64
	value       int64 // alpha*bytes + beta*time >= value for every plan
	bytes, time int64 // of the cut
}

// maxPrice bounds the prices. Sums of priced bytes and costs must stay below the
// infinite capacity; with this bound, bytes may have 36 bits and nanoseconds 31.
const maxPrice = 1 << 20

func newCutter(p *schedule.Problem, costs []int64, r *rules) *cutter {
	n := len(p.Nodes)
	c := &cutter{
		p: p, costs: costs, rules: r,
		preds: make([][]int32, n), succs: make([][]int32, n), reads: make([][]int32, n),
		need: make([]int64, n), ordered: make([]bool, len(p.Tensors)),
		mark: make([]side, n), any: make([]int32, n), first: make([]int32, n),
	}
	var bytes, time int64
	for v := range n {
		c.need[v] = p.Nodes[v].Workspace
		time += costs[v]
	}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		readers := slices.Clone(t.Consumers)
		slices.Sort(readers)
		for _, v := range slices.Compact(readers) {
			if v == t.Producer {
				continue
			}
			if t.Producer >= 0 {
				c.preds[v] = append(c.preds[v], t.Producer)
				c.succs[t.Producer] = append(c.succs[t.Producer], v)
			}
			if !t.Resident && t.Bytes > 0 {
				c.reads[v] = append(c.reads[v], int32(i))
			}
		}
		if !t.Resident {
			bytes += t.Bytes
			if t.Producer >= 0 {
				c.need[t.Producer] += t.Bytes
			}
		}
		c.ordered[i] = r.known && c.writersLast(int32(i))
	}
	c.save()
	c.mostAlpha = min(maxPrice, maxflow.Infinite/8/max(bytes, 1))
	c.mostBeta = min(maxPrice, maxflow.Infinite/8/max(time, 1))
	return c
}

// writersLast reports whether all readers of a tensor that do not overwrite it
// come after its last writer.
func (c *cutter) writersLast(t int32) bool {
	writers := c.rules.writers[t]
	if len(writers) == 0 {
		return true
	}
	last := slices.Max(writers)
	for _, r := range c.p.Tensors[t].Consumers {
		if r < last && !slices.Contains(writers, r) {
			return false
		}
	}
	return true
}

// save lowers each node's need by the bytes of its largest matching of in-place pairs.
func (c *cutter) save() {
	m := match.New(len(c.p.Tensors))
	pairs := c.p.Pairs()
	var taken []match.Pair
	for len(pairs) > 0 {
		k := 1
		for k < len(pairs) && pairs[k].Node == pairs[0].Node {
			k++
		}
		taken = m.Largest(taken[:0], pairs[:k])
		for _, pair := range taken {
			c.need[pair.Node] -= c.p.Tensors[pair.Over].Bytes
		}
		pairs = pairs[k:]
	}
}

// spread marks all nodes that can be reached from v over neighbours.
func (c *cutter) spread(v int32, m side, neighbours [][]int32) {
	stack := append(c.stack[:0], v)
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, w := range neighbours[u] {
			if c.mark[w] != m {
				c.mark[w] = m
				stack = append(stack, w)
			}
		}
	}
	c.stack = stack
}

// around builds the network of a node.
func (c *cutter) around(v int32) {
	c.node = v
	clear(c.mark)
	c.spread(v, before, c.preds)
	c.mark[v] = after
	c.spread(v, after, c.succs)
	c.Reset(2)
	c.priced, c.amount, c.held = c.priced[:0], c.amount[:0], c.held[:0]
	c.always = c.need[v]
	for i := range c.mark {
		x := int32(i)
		switch c.mark[x] {
		case after:
			c.any[x] = maxflow.Sink
		case before:
			c.any[x] = c.NewVertex()
			c.repeatEdge(maxflow.Source, x)
		case beside:
			c.any[x], c.first[x] = c.NewVertex(), c.NewVertex()
			c.repeatEdge(c.first[x], x)
			c.infiniteEdge(c.any[x], c.first[x])
		}
	}
	for i := range c.mark {
		for _, u := range c.preds[i] {
			if c.mark[i] == beside && c.mark[u] == beside {
				c.infiniteEdge(c.first[i], c.first[u])
			}
		}
	}
	for t := range c.p.Tensors {
		c.tensor(int32(t))
	}
}

func (c *cutter) edge(from, to int32, a amount) {
	c.Edge(from, to, 0)
	c.amount = append(c.amount, a)
}

// infiniteEdge adds an edge that no minimum cut crosses.
func (c *cutter) infiniteEdge(from, to int32) { c.edge(from, to, amount{math.MaxInt64, 0}) }

// repeatEdge adds an edge whose capacity is the price of a repeated run of x.
func (c *cutter) repeatEdge(from, x int32) {
	if c.p.Nodes[x].Once {
		c.infiniteEdge(from, c.any[x])
		return
	}
	c.priced = append(c.priced, priced{int32(len(c.Edges)), x, false})
	c.edge(from, c.any[x], amount{0, c.costs[x]})
}

// tensor adds the edges of a tensor; see cutter.
func (c *cutter) tensor(i int32) {
	t := &c.p.Tensors[i]
	if t.Resident || t.Bytes == 0 || t.Producer >= 0 && c.mark[t.Producer] == after {
		return
	}
	if t.Producer < 0 && t.Output {
		c.always += t.Bytes
		c.held = append(c.held, i)
		return
	}
	needed := t.Output
	for _, r := range t.Consumers {
		if r == c.node && r != t.Producer {
			c.always += t.Bytes
			c.held = append(c.held, i)
			return
		}
		needed = needed || c.mark[r] == after
	}
	from := maxflow.Source
	if t.Producer >= 0 {
		from = c.any[t.Producer]
		if writers := c.rules.writers[i]; len(writers) > 0 && c.ordered[i] {
			b := c.NewVertex()
			c.infiniteEdge(from, b)
			for _, w := range writers {
				if c.mark[w] != after {
					c.infiniteEdge(c.any[w], b)
				}
			}
			from = b
		}
	}
	switch {
	case needed && from == maxflow.Source:
		c.always += t.Bytes
		c.held = append(c.held, i)
	case needed:
		c.priced = append(c.priced, priced{int32(len(c.Edges)), i, true})
		c.edge(from, maxflow.Sink, amount{t.Bytes, 0})
	case len(t.Consumers) > 0:
		a := c.NewVertex()
		c.priced = append(c.priced, priced{int32(len(c.Edges)), i, true})
		c.edge(from, a, amount{t.Bytes, 0})
		for _, r := range t.Consumers {
			c.infiniteEdge(a, c.any[r])
		}
	}
}

// cut returns the minimum cut at the prices alpha and beta; with beta 0 it has the
// fewest bytes. ok is false if the flow was ended early.
func (c *cutter) cut(alpha, beta int64) (x corner, ok bool) {
	for i, a := range c.amount {
		left := maxflow.Infinite
		if a.bytes != math.MaxInt64 {
			left = alpha*a.bytes + beta*a.time
		}
		c.Edges[2*i].Left, c.Edges[2*i+1].Left = left, 0
	}
	x = corner{alpha: alpha, beta: beta, value: alpha*c.always + c.Augment(math.MaxInt64), bytes: c.always}
	c.Reach(maxflow.Source)
	for _, e := range c.priced {
		switch {
		case !c.crossed(e.edge):
		case e.held:
			x.bytes += c.p.Tensors[e.id].Bytes
		default:
			x.time += c.costs[e.id]
		}
	}
	return x, !c.Broken
}

// crossed reports whether the last cut crosses an edge.
func (c *cutter) crossed(e int32) bool {
	from, to := c.Edges[e^1].To, c.Edges[e].To
	return c.Level[from] >= 0 && c.Level[to] < 0
}

// heldTensors lists the tensors that the last cut holds, ascending.
func (c *cutter) heldTensors() []int32 {
	held := slices.Clone(c.held)
	for _, e := range c.priced {
		if e.held && c.crossed(e.edge) {
			held = append(held, e.id)
		}
	}
	slices.Sort(held)
	return held
}
