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
	length, same := int64(p.g.Tensors[n.Outputs[0]].Type.Shape[axis]), true
	var changes []ops.Change
	for _, e := range p.Elsewhere {
		x := e.Inference.Cut(e.Model, e.Model.Graph.Nodes[node], axis)
		if x == nil || !slices.Equal(x.In, c.In) || !slices.Equal(x.Out, c.Out) || !slices.Equal(x.Modulo, c.Modulo) || (x.Change == nil) != (c.Change == nil) {
			return nil
		}
		if c.Change != nil {
			changes = append(changes, x.Change(0, length))
			same = same && sameChange(x.Change, c.Change, length)
		}
	}
	if same {
		return c
	}
	return p.unstated(n, c, length, changes)
}

// openShapes says of operators whose second input is a shape how a copy leaves a length there to its
// first input: which number keeps a length, whether -1 is the one that is left, and whether axes are
// counted from the last.
var openShapes = map[string]struct {
	keep             int64
	left, fromBehind bool
}{
	"Reshape": {keep: 0, left: true},
	"Expand":  {keep: 1, fromBehind: true},
}

// unstated is the map of a node whose copies state a shape without the lengths that differ
// elsewhere, as changes have them: Reshape takes a length from its input, or the one that is left;
// Expand keeps one that its input has. It is nil if that is not possible.
func (p *Program) unstated(n *graph.Node, c *ops.Cut, length int64, changes []ops.Change) *ops.Cut {
	how, known := openShapes[n.Op]
	if p.States || n.Domain != "" || !known {
		return nil
	}
	list := c.Change(0, length).Inputs[1]
	shape := func(m *graph.Model) []graph.Dim { return m.Graph.Tensors[n.Inputs[0]].Type.Shape }
	instead, left := map[int]int64{}, false
	for k := range list {
		own := k // the same axis of the input
		if how.fromBehind {
			own -= len(list) - len(shape(p.Model))
		}
		differs, kept := false, own >= 0 && own < len(shape(p.Model)) && int64(shape(p.Model)[own]) == list[k]
		for i, e := range p.Elsewhere {
			at := changes[i].Inputs[1]
			if len(at) != len(list) || at[k] == 0 || list[k] == 0 {
				return nil
			}
			differs, kept = differs || at[k] != list[k], kept && int64(shape(e.Model)[own]) == at[k]
		}
		switch {
		case !differs:
		case kept:
			instead[k] = how.keep
		case how.left && !left:
			instead[k], left = -1, true
		default:
			return nil
		}
	}
	if len(instead) == 0 {
		return nil // something else differs
	}
	cut := *c
	cut.Change = func(lo, hi int64) ops.Change {
		change := c.Change(lo, hi)
		own := slices.Clone(change.Inputs[1])
		for k, n := range instead {
			own[k] = n
		}
		change.Inputs = map[int][]int64{1: own}
		return change
	}
	return &cut
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
