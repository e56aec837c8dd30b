package constant

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Weight returns the elements of a Constant node that holds a weight, as some exporters
// write all of them: a floating-point tensor of more than one element. It returns nil
// for any other node.
func Weight(n *graph.Node) *graph.Data {
	if !ops.IsConstant(n) || len(n.Outputs) != 1 || n.Outputs[0] < 0 {
		return nil
	}
	d := Of(n)
	if d == nil || d.Sparse != nil || !d.Type.Floating() || len(d.Dims) == 0 || d.Elements() < 2 {
		return nil
	}
	return d
}

// Hoist makes initializers of the weights that Constant nodes of a graph hold, and
// removes these nodes.
func Hoist(g *graph.Graph) {
	var nodes []*graph.Node
	for _, n := range g.Nodes {
		d := Weight(n)
		if d == nil {
			nodes = append(nodes, n)
			continue
		}
		t, own := g.Tensors[n.Outputs[0]], *d
		own.Name = t.Name
		t.Data = &own
	}
	if len(nodes) < len(g.Nodes) {
		g.Nodes = nodes
		g.Link()
	}
}
