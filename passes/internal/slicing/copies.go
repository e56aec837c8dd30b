package slicing

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/plan"
)

// The chains of nodes that may be computed once for each reader of their result.
const (
	chainNodes = 20 // the most nodes of a chain
	chainFLOPs = 4  // the most floating-point operations of a node, per element of the result
	ChainLeast = 64 // a result is at least that part of the peak
	chainReads = 256
)

// ChainShrinks are factors: what a chain reads is smaller than its result by at least one of them. Chains
// for the second are shorter: they leave more in memory and compute less again. The bias of
// relative positions in T5 is an example: its buckets, which a dozen nodes compute, are a
// quarter of it.
var ChainShrinks = [...]int64{16, 4}

// ChainsCheap is the share of the time that long chains may take without a search with
// shorter ones.
const ChainsCheap = 0.05

// CopyChains gives each reader of a large tensor that cheap nodes make of small ones its
// own copies of these nodes: causal masks are such tensors, and every layer reads them.
// A region that has such a copy in its window makes the tensor in slices. The types must
// have been inferred; those of the copies are not. peak is the peak in bytes, and shrink
// one of ChainShrinks. It returns which tensors are copies, nil if there are none.
//
// The k-th copy of node N is called N/for<k> and makes T/for<k>.
func CopyChains(m *graph.Model, peak, shrink int64) (copies []plan.SlicedCopy, err error) {
	g := m.Graph
	order, err := g.Topological()
	if err != nil {
		return nil, err
	}
	c := &chainCopier{g: g, peak: peak, shrink: shrink, tensors: map[string]bool{}, nodes: map[string]bool{}, of: map[graph.TensorID]graph.TensorID{}}
	for _, t := range g.Tensors {
		c.tensors[t.Name] = true
	}
	for _, n := range g.Nodes {
		c.nodes[n.Name] = true
	}
	nodes := g.Nodes
	for i := len(order) - 1; i >= 0; i-- {
		for _, t := range nodes[order[i]].Outputs {
			if t >= 0 {
				c.copyFor(t)
			}
		}
	}
	if len(c.added) == 0 {
		return nil, nil
	}
	g.Nodes = append(g.Nodes, c.added...)
	g.Link()
	for t := range g.Tensors {
		if of, is := c.of[graph.TensorID(t)]; is {
			copies = append(copies, plan.SlicedCopy{Tensor: g.Tensors[t].Name, Of: g.Tensors[of].Name})
		}
	}
	return copies, nil
}

type chainCopier struct {
	g       *graph.Graph
	peak    int64
	shrink  int64
	tensors map[string]bool // names that are taken
	nodes   map[string]bool
	added   []*graph.Node
	of      map[graph.TensorID]graph.TensorID // the tensor of which a tensor is a copy
}

// copyFor gives the readers of a tensor but the first their own copies of its chain.
func (c *chainCopier) copyFor(t graph.TensorID) {
	x := c.g.Tensors[t]
	if len(x.Readers) < 2 || len(x.Readers) > chainReads || x.Output || x.Bytes < c.peak/ChainLeast {
		return
	}
	chain := c.chain(t)
	if chain == nil {
		return
	}
	var readers []*graph.Node
	for _, q := range x.Readers {
		if n := c.g.Nodes[q]; len(n.Captures) == 0 {
			readers = append(readers, n)
		}
	}
	for k, n := range readers {
		if k == 0 {
			continue
		}
		now := map[graph.TensorID]graph.TensorID{}
		for _, old := range chain {
			c.copy(old, k, now)
		}
		for j, u := range n.Inputs {
			if u == t {
				n.Inputs[j] = now[t]
			}
		}
	}
}

// chain returns the nodes that make a tensor of much smaller ones, makers before
// readers; nil if there are none.
func (c *chainCopier) chain(t graph.TensorID) []*graph.Node {
	g := c.g
	small := g.Tensors[t].Bytes / c.shrink
	elements, _ := g.Tensors[t].Type.Elements()
	in, leaves := map[graph.NodeID]bool{}, map[graph.TensorID]bool{}
	read := int64(0)
	var visit func(t graph.TensorID) bool
	var chain []*graph.Node
	visit = func(t graph.TensorID) bool {
		v := g.Tensors[t].Maker
		if v < 0 || in[v] {
			return v >= 0
		}
		n := g.Nodes[v]
		if len(in) == chainNodes || !c.cheap(n, elements) {
			return false
		}
		in[v] = true
		for _, u := range n.Inputs {
			if u < 0 || c.constant(u) {
				continue
			}
			if g.Tensors[u].Bytes <= small {
				if !leaves[u] {
					leaves[u] = true
					read += g.Tensors[u].Bytes
				}
				continue
			}
			if !visit(u) {
				return false
			}
		}
		chain = append(chain, n)
		return true
	}
	if !visit(t) || read > small {
		return nil
	}
	return chain
}

// constant reports whether a tensor takes no memory of the plan: all copies read it.
func (c *chainCopier) constant(t graph.TensorID) bool {
	x := c.g.Tensors[t]
	return x.Data != nil || x.Maker >= 0 && ops.IsConstant(c.g.Nodes[x.Maker])
}

// cheap reports whether a node makes one tensor, always the same, of tensors that are no
// larger, with few operations beside the elements of the chain's result.
func (c *chainCopier) cheap(n *graph.Node, result int64) bool {
	s := n.Semantics
	if !s.Known || s.Random || s.Call != nil || len(n.Captures) > 0 || len(n.Bodies()) > 0 || len(n.Outputs) != 1 || n.Outputs[0] < 0 {
		return false
	}
	y := c.g.Tensors[n.Outputs[0]]
	elements, known := y.Type.Elements()
	if !known || y.Output || y.Dynamic != "" || y.Bounded || s.FLOPs > chainFLOPs*result {
		return false
	}
	for _, u := range n.Inputs {
		if u >= 0 {
			if x, known := c.g.Tensors[u].Type.Elements(); !known || x > elements {
				return false
			}
		}
	}
	return true
}

// copy adds a copy of a node for reader k. now holds the copies of tensors.
func (c *chainCopier) copy(old *graph.Node, k int, now map[graph.TensorID]graph.TensorID) {
	n := *old
	n.Span, n.Semantics = graph.Span{}, graph.Semantics{}
	if n.Name != "" {
		n.Name = free(fmt.Sprintf("%s/for%d", n.Name, k), c.nodes)
	}
	n.Inputs = make([]graph.TensorID, len(old.Inputs))
	for j, u := range old.Inputs {
		n.Inputs[j] = u
		if v, copied := now[u]; copied && u >= 0 {
			n.Inputs[j] = v
		}
	}
	t := old.Outputs[0]
	out := c.g.NewTensor(free(fmt.Sprintf("%s/for%d", c.g.Tensors[t].Name, k), c.tensors))
	n.Outputs = []graph.TensorID{out}
	now[t], c.of[out] = out, t
	c.added = append(c.added, &n)
}

// free returns a name like that which is not among the names, and adds it.
func free(name string, names map[string]bool) string {
	out := name
	for k := 2; names[out]; k++ {
		out = fmt.Sprintf("%s.%d", name, k)
	}
	names[out] = true
	return out
}
