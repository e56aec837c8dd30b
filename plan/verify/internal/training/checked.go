package training

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// checkedFor are the tensors of which a step sums up magnitudes in the place of those of a gradient: it
// is made again for its update by nodes that are alike, or they are rows that are added into it, or what
// only has another shape or order.
func (p *prover) checkedFor(raw graph.TensorID) (list []graph.TensorID) {
	parts := []graph.TensorID{raw}
	for t := raw; ; {
		if m := p.g.Tensors[p.uncasted(t)].Maker; m >= 0 && ops.Rearranges(p.g.Nodes[m]) {
			t = p.g.Nodes[m].Inputs[0]
			parts = append(parts, t)
			continue
		}
		n := p.node(t, "ScatterND", 3)
		if n == nil {
			break
		}
		if by := n.Attr("reduction"); by == nil || by.String != "add" {
			break
		}
		t = n.Inputs[0]
		parts = append(parts, t, n.Inputs[2])
	}
	for _, n := range p.g.Nodes {
		if n.Domain != "" || n.Op != "ReduceMean" && n.Op != "ReduceL1" || len(n.Inputs) == 0 || !p.whole(n) {
			continue
		}
		if of, _ := n.Prop("onnxmem.of"); of != scaleName {
			continue
		}
		t := p.uncasted(n.Inputs[0])
		if t != p.uncasted(raw) && slices.ContainsFunc(parts, func(part graph.TensorID) bool { return p.alike(t, part, 0) }) {
			list = append(list, t)
		}
	}
	return list
}

// mostAlike bounds the nodes of a gradient that are made again one behind the other.
const mostAlike = 8

// madeAgain are the operators of which gradients are made again.
var madeAgain = []string{"Gemm", "MatMul", graph.ConvWeightGrad, "ScatterND", "ConstantOfShape", "Reshape", "Transpose", "Add"}

// alike reports whether two tensors are made by the same operators of the same tensors, but for casts
// between floating-point types.
func (p *prover) alike(t, u graph.TensorID, depth int) bool {
	t, u = p.uncasted(t), p.uncasted(u)
	if t == u {
		return true
	}
	if t < 0 || u < 0 || depth > mostAlike || p.g.Tensors[t].Maker < 0 || p.g.Tensors[u].Maker < 0 || p.g.Tensors[t].Out != p.g.Tensors[u].Out {
		return false
	}
	n, m := p.g.Nodes[p.g.Tensors[t].Maker], p.g.Nodes[p.g.Tensors[u].Maker]
	if n.Op != m.Op || n.Domain != m.Domain || len(n.Inputs) != len(m.Inputs) || !slices.Contains(madeAgain, n.Op) {
		return false
	}
	if name, _ := p.attribute(n, m.Attrs); name != "" {
		return false
	}
	for k := range n.Inputs {
		if !p.alike(n.Inputs[k], m.Inputs[k], depth+1) {
			return false
		}
	}
	return true
}

// uncasted goes through casts between floating-point types, and copies.
func (p *prover) uncasted(t graph.TensorID) graph.TensorID {
	for t >= 0 && p.g.Tensors[t].Maker >= 0 {
		n := p.g.Nodes[p.g.Tensors[t].Maker]
		if !ops.Casts(n) && !ops.Copies(n) || len(n.Inputs) == 0 || n.Inputs[0] < 0 || !p.g.Tensors[n.Inputs[0]].Type.Elem.Floating() {
			break
		}
		t = n.Inputs[0]
	}
	return t
}
