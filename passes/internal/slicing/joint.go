package slicing

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// joint is the part that a tensor has between bytes and bytes:
//
//	DequantizeLinear   x.q -> x   operand
//	DequantizeLinear   w.q -> w   operand
//	Conv               x w -> y   result
//	QuantizeLinear     y   -> y.q
//
// Whether kernels compute y from x.q and w.q depends on these nodes alone ([ops.Op.Joins]).
// Nodes that take rows of x, w or y, or put them together, in between would change that, and
// so the bits of y.q.
type joint uint8

const (
	noJoint joint = iota
	operand
	result
)

// BetweenBytes reports of the tensors of a graph whether nodes hand them on between bytes and
// bytes. A copy in between would change the bits of what is made of them.
func BetweenBytes(g *graph.Graph) func(graph.TensorID) bool {
	list := joints(g)
	return func(t graph.TensorID) bool { return list[t] != noJoint }
}

// joints lists the tensors of a graph that have such a part.
func joints(g *graph.Graph) map[graph.TensorID]joint {
	list := map[graph.TensorID]joint{}
	for _, n := range g.Nodes {
		if op := ops.Lookup(n.Domain, n.Op); op == nil || !op.Joins || len(n.Outputs) != 1 || n.Outputs[0] < 0 {
			continue
		}
		y := g.Tensors[n.Outputs[0]]
		if y.Output || len(y.Readers) != 1 || len(n.Inputs) == 0 || !dequantized(g, n.Inputs[0]) {
			continue
		}
		q := g.Nodes[y.Readers[0]]
		if op := ops.Lookup(q.Domain, q.Op); op == nil || !op.Quantizes || q.Domain != "" || q.Inputs[0] != n.Outputs[0] {
			continue
		}
		list[n.Outputs[0]] = result
		for _, t := range n.Inputs {
			from := t
			for identical(g, from) {
				from = g.Nodes[g.Tensors[from].Maker].Inputs[0]
			}
			if !dequantized(g, from) {
				continue
			}
			for list[from] = operand; t != from; t = g.Nodes[g.Tensors[t].Maker].Inputs[0] {
				list[t] = operand
			}
		}
	}
	return list
}

// dequantized reports whether a node makes a tensor from bytes.
func dequantized(g *graph.Graph, t graph.TensorID) bool {
	if t < 0 || g.Tensors[t].Maker < 0 {
		return false
	}
	n := g.Nodes[g.Tensors[t].Maker]
	op := ops.Lookup(n.Domain, n.Op)
	return op != nil && op.Dequantizes && n.Domain == ""
}

// identical reports whether a tensor is the result of an Identity, through which exporters
// share biases.
func identical(g *graph.Graph, t graph.TensorID) bool {
	if t < 0 || g.Tensors[t].Maker < 0 {
		return false
	}
	n := g.Nodes[g.Tensors[t].Maker]
	return ops.Copies(n) && len(n.Inputs) == 1
}

// dividesJoint reports whether nodes between bytes and bytes would stand on both sides of the
// border of the region: it takes or makes rows of a tensor that they hand on. All of an operand
// may be read.
func (r *Region) dividesJoint() bool {
	if len(r.p.joined) == 0 {
		return false
	}
	if slices.ContainsFunc(r.Outputs, func(t graph.TensorID) bool { return r.p.joined[t] != noJoint }) {
		return true
	}
	for _, v := range r.Nodes {
		for j, t := range r.p.g.Nodes[v].Inputs {
			part := r.p.joined[t]
			if part == noJoint {
				continue
			}
			if !r.Makes(t) && (part == result || r.rowsOf(v)[j].Axis != ops.Whole) {
				return true
			}
		}
	}
	return false
}

// dividesJoint reports whether nodes between bytes and bytes would stand inside and outside of
// a call: kernels look at the nodes of one graph.
func (c *compact) dividesJoint(r *run, s span) bool {
	if len(c.joined) == 0 {
		return false
	}
	made := map[graph.TensorID]bool{}
	for i := s.from; i < s.to; i++ {
		n := c.g.Nodes[r.nodes[i]]
		for _, t := range n.Inputs {
			if c.joined[t] != noJoint && !made[t] {
				return true
			}
		}
		for _, t := range n.Outputs {
			if made[t] = true; c.joined[t] != noJoint && c.readBehind(r, s, t) {
				return true
			}
		}
	}
	return false
}
