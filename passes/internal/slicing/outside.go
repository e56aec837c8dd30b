package slicing

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Divisible reports whether a node can belong to a region: it has a dimension map along
// an axis of an output or, if p.Sums is set, one by which it sums over rows of an input.
// Whatever the regions, other nodes run whole: their inputs and outputs are whole
// tensors.
func (p *Program) Divisible(node int) bool {
	if !p.mayRunInSlices(node) {
		return false
	}
	n := p.g.Nodes[node]
	if len(n.Outputs) > 0 && n.Outputs[0] >= 0 {
		for axis := range p.g.Tensors[n.Outputs[0]].Type.Shape {
			if p.cut(node, axis) != nil {
				return true
			}
		}
	}
	if !p.Sums {
		return false
	}
	if p.attention(node) != nil {
		return true
	}
	axes := make([]int, len(n.Inputs))
	for j := range axes {
		axes[j] = ops.Whole
	}
	for j, t := range n.Inputs {
		if t < 0 {
			continue
		}
		for a := range p.shape(t) {
			axes[j] = a
			if p.Inference.Sum(p.Model, n, axes) != nil {
				return true
			}
		}
		axes[j] = ops.Whole
	}
	return false
}

// Makes reports whether slices make a tensor, whether or not it is an output.
func (r *Region) Makes(t graph.TensorID) bool {
	v := int(r.p.g.Tensors[t].Maker)
	return v >= 0 && r.has(v)
}

// Has reports whether a node of the program belongs to the region.
func (r *Region) Has(node int) bool { return r.has(node) }

// ReadsWhole reports whether a node of the region reads all of a tensor, in each slice.
func (r *Region) ReadsWhole(node int, t graph.TensorID) bool {
	rows := r.rowsOf(node)
	for j, in := range r.p.g.Nodes[node].Inputs {
		if in == t && rows[j].Axis == ops.Whole {
			return true
		}
	}
	return false
}
