package slicing

import (
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// Elsewhere is the model of a program for other lengths of its open dimensions: its nodes and
// tensors are those of the program's model, its types others.
type Elsewhere struct {
	Model     *graph.Model
	Inference *ops.Inference
}

// fixed reports whether an axis of a tensor has the same length elsewhere.
func (p *Program) fixed(t graph.TensorID, axis int) bool {
	length := p.g.Tensors[t].Type.Shape[axis]
	return !slices.ContainsFunc(p.Elsewhere, func(e Elsewhere) bool {
		shape := e.Model.Graph.Tensors[t].Type.Shape
		return axis >= len(shape) || shape[axis] != length
	})
}

// isOpen reports whether a tensor has another shape elsewhere.
func (p *Program) isOpen(t graph.TensorID) bool {
	return slices.ContainsFunc(p.Elsewhere, func(e Elsewhere) bool {
		return !slices.Equal(e.Model.Graph.Tensors[t].Type.Shape, p.g.Tensors[t].Type.Shape)
	})
}

// cutAnywhere returns the dimension map of a node along an axis of its first output. With other
// lengths of open dimensions, it must be the same, and a copy must be the same node: what is cut
// has a fixed length, and nothing that a copy states depends on an open one.
func (p *Program) cutAnywhere(node, axis int) *ops.Cut {
	n := p.g.Nodes[node]
	c := p.Inference.Cut(p.Model, n, axis)
	if c == nil || !p.fixed(n.Outputs[0], axis) {
		return nil
	}
	length := int64(p.g.Tensors[n.Outputs[0]].Type.Shape[axis])
	for _, e := range p.Elsewhere {
		x := e.Inference.Cut(e.Model, e.Model.Graph.Nodes[node], axis)
		if x == nil || !slices.Equal(x.In, c.In) || !slices.Equal(x.Out, c.Out) || !slices.Equal(x.Modulo, c.Modulo) || !sameChange(x.Change, c.Change, length) {
			return nil
		}
	}
	return c
}

// sumAnywhere is cutAnywhere for a node that sums over axes of its inputs.
func (p *Program) sumAnywhere(node int, axes []int) *ops.Sum {
	s := p.Inference.Sum(p.Model, p.g.Nodes[node], axes)
	if s == nil {
		return nil
	}
	for _, e := range p.Elsewhere {
		x := e.Inference.Sum(e.Model, e.Model.Graph.Nodes[node], axes)
		if x == nil || x.By != s.By || !slices.Equal(x.In, s.In) || x.Length != s.Length || x.Mean != s.Mean || x.Third != s.Third || x.Count != s.Count || !sameChange(x.Change, s.Change, s.Length) {
			return nil
		}
	}
	return s
}

// sameChange reports whether copies differ from their nodes in the same way.
func sameChange(a, b func(lo, hi int64) ops.Change, length int64) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return reflect.DeepEqual(a(0, length), b(0, length))
}
