package training

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// linear is a Gemm of the step that stands for a product of the source and the Add of its bias. Steps in
// 16 bits have it, since it rounds once.
type linear struct {
	gemm  graph.NodeID
	pairs [3][2]graph.TensorID // of operands: of the step and of the source
}

// linear finds what stands for a product with a bias: a Gemm without attributes that change it, of the
// rows of what the product reads, whose result has the axes of the product's again.
func (p *prover) linear(id graph.NodeID, old *graph.Node) (l linear, is bool) {
	of := p.of.Graph
	product, bias := graph.NodeID(none), graph.TensorID(none)
	if old.Op != "Add" || old.Domain != "" || len(old.Inputs) != 2 || p.outer != nil {
		return l, false
	}
	for k, t := range old.Inputs {
		m := of.Tensors[t].Maker
		if m < 0 || of.Nodes[m].Op != "MatMul" || of.Nodes[m].Domain != "" || product != none {
			continue
		}
		product, bias = m, old.Inputs[1-k]
	}
	out := p.g.Tensors[p.g.Nodes[id].Outputs[0]].Type
	gemm, last := p.unshaped(id)
	n := p.g.Nodes[gemm]
	if product == none || n.Op != "Gemm" || n.Domain != "" || len(n.Inputs) != 3 || slices.ContainsFunc(n.Attrs, changes) {
		return l, false
	}
	if e := p.g.Tensors[last].Type.Elem; e != graph.Float16 && e != graph.BFloat16 {
		return l, false
	}
	a := n.Inputs[0]
	if m := p.g.Tensors[a].Maker; len(out.Shape) > 2 && m >= 0 {
		_, a = p.unshaped(m)
	}
	x, w := p.g.Tensors[a].Type.Shape, p.g.Tensors[n.Inputs[1]].Type.Shape
	rows := p.g.Tensors[n.Inputs[0]].Type.Shape
	if len(x) != len(out.Shape) || len(x) < 2 || len(w) != 2 || rows[1] != x[len(x)-1] || !slices.Equal(out.Shape, append(slices.Clone(x[:len(x)-1]), w[1])) {
		return l, false
	}
	m := of.Nodes[product]
	return linear{gemm, [3][2]graph.TensorID{{a, m.Inputs[0]}, {n.Inputs[1], m.Inputs[1]}, {n.Inputs[2], bias}}}, true
}

// changes reports whether an attribute makes a Gemm another function than a product and a sum.
func changes(a *graph.Attr) bool {
	switch a.Name {
	case "alpha", "beta":
		return a.Float != 1
	}
	return a.Int != 0
}

// unshaped goes through a node that gives the same elements another shape: it returns the node whose
// result has the elements, and the result.
func (p *prover) unshaped(id graph.NodeID) (graph.NodeID, graph.TensorID) {
	t := p.g.Nodes[id].Outputs[0]
	if v := p.g.Nodes[id].Semantics.Views; len(v) > 0 {
		t = p.g.Nodes[id].Inputs[v[0].In]
		if m := p.g.Tensors[t].Maker; m >= 0 {
			id = m
		}
	}
	return id, t
}

// joined compares what such a Gemm reads.
func (p *prover) joined(l linear, at, of graph.NodeID) string {
	switch p.nodes[l.gemm] {
	case of:
		return ""
	case none:
	default:
		return fmt.Sprintf("%s: expected each node of the source once", p.g.Label(at))
	}
	p.nodes[l.gemm] = of
	p.compared += 2
	for _, pair := range l.pairs {
		p.meet(pair[0], pair[1])
	}
	return ""
}
