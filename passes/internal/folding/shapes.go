package folding

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
)

// of is the shape of a tensor of g if it never changes; else nil.
func (s *shapes) of(g *graph.Graph, t graph.TensorID) []int64 {
	if s == nil || g.Tensors[t].Dynamic != "" || g.Tensors[t].Bounded {
		return nil
	}
	return s.tensors[t]
}

// body returns the shapes of a body; nil if it has none.
func (s *shapes) body(n graph.NodeID, k int) *shapes {
	if s == nil || s.bodies[n] == nil {
		return nil
	}
	return s.bodies[n][k]
}

// fixedShapes returns the shapes of the present model that never change; nil if there
// are none, or if no node needs them. A training step and inlined functions have
// nodes that the file lacks, with which verify could not compare them.
func (f *Folder) fixedShapes() *shapes {
	if f.shapesOf == f.Model {
		return f.shapes
	}
	f.shapes, f.shapesOf = nil, f.Model
	if !f.Trained && len(f.Given.Functions)+len(f.Model.Functions) == 0 && readsShapes(f.Model.Graph) {
		f.shapes = inferFixed(f.Model)
	}
	return f.shapes
}

// readsShapes reports whether a node of a graph or of its bodies reads a shape.
func readsShapes(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool {
		return constant.ReadsShape(n) || slices.ContainsFunc(bodiesOf(n), readsShapes)
	})
}

// inferFixed infers the shapes of a model from those of its inputs, which must all be
// numbers in the file: runtimes refuse inputs of other shapes. It leaves out what else
// the file declares, since that may be wrong, and what the command line says.
func inferFixed(m *graph.Model) *shapes {
	for _, id := range m.Graph.Inputs {
		d := m.Graph.Tensors[id].Declared
		if d == nil || d.Type.Kind != graph.KindTensor || !d.Type.Ranked || slices.ContainsFunc(d.Type.Shape, func(n graph.Dim) bool { return !n.Exact() || n <= 0 }) {
			return nil
		}
	}
	c := *m
	c.Graph = m.Graph.Clone()
	undeclare(c.Graph, true)
	// A warning says that an inference is in doubt.
	inference, err := ops.Infer(&c, ops.Options{IgnoreDeclared: true})
	if err != nil || len(inference.Dims)+len(inference.Warnings) > 0 {
		return nil
	}
	order := fixing{overridable: m.IRVersion >= 4}
	s, err := order.graph(c.Graph, nil)
	if err != nil {
		return nil
	}
	return s.shapes(c.Graph)
}

// undeclare removes the declared types of all tensors but the model's inputs.
func undeclare(g *graph.Graph, main bool) {
	for _, t := range g.Tensors {
		if !main || !t.Input {
			t.Declared = nil
		}
	}
	for _, n := range g.Nodes {
		for _, b := range bodiesOf(n) {
			undeclare(b, false)
		}
	}
}

// fixing follows the shapes from the inputs on.
type fixing struct {
	overridable bool // initializers that are inputs may have other elements
}

// follows says, for the tensors of a graph, whether their shapes, and their elements as
// far as shapes depend on them, follow from the shapes of the model's inputs in every
// runtime.
type follows struct {
	tensors []bool // by TensorID
	bodies  map[graph.NodeID][]*follows
}

// graph follows the shapes through a graph. outer is that of the outer graph, nil for
// the main graph.
func (f fixing) graph(g *graph.Graph, outer *follows) (*follows, error) {
	s := &follows{make([]bool, len(g.Tensors)), map[graph.NodeID][]*follows{}}
	for _, c := range g.Captures {
		s.tensors[c.Inner] = outer.tensors[c.Outer]
	}
	for id, t := range g.Tensors {
		if t.Data != nil {
			s.tensors[id] = !t.Overridable || !f.overridable
		}
	}
	if outer == nil {
		for _, id := range g.Inputs {
			// ONNX Runtime also accepts tensors with axes for an input without any.
			s.tensors[id] = len(g.Tensors[id].Type.Shape) > 0
		}
	}
	order, err := g.Topological()
	if err != nil {
		return nil, err
	}
	for _, id := range order {
		n := g.Nodes[id]
		ok, err := f.node(g, id, s)
		if err != nil {
			return nil, err
		}
		for _, t := range n.Outputs {
			if t >= 0 {
				s.tensors[t] = ok && g.Tensors[t].Type.Kind == graph.KindTensor
			}
		}
	}
	return s, nil
}

// node reports whether the shapes of the results of a node follow from those of its
// inputs.
func (f fixing) node(g *graph.Graph, id graph.NodeID, s *follows) (bool, error) {
	n := g.Nodes[id]
	if n.Domain != "" || ops.Rounds(n) {
		return false, nil
	}
	if bodies := bodiesOf(n); len(bodies) > 0 {
		// The shapes in a loop may change from one iteration to the next.
		if !ops.Branches(n) {
			return false, nil
		}
		return f.branches(id, n, bodies, s)
	}
	floating := false
	for _, t := range n.Inputs {
		if t >= 0 && !s.tensors[t] {
			return false, nil
		}
		floating = floating || t >= 0 && g.Tensors[t].Type.Elem.Floating()
	}
	if !floating || constant.ReadsShape(n) {
		return true, nil
	}
	// Runtimes may round floating-point numbers otherwise, which become lengths only by
	// way of other types.
	return !slices.ContainsFunc(n.Outputs, func(t graph.TensorID) bool { return t >= 0 && !g.Tensors[t].Type.Elem.Floating() }), nil
}

// branches is node for an If. The condition counts if inference relies on its value.
func (f fixing) branches(id graph.NodeID, n *graph.Node, bodies []*graph.Graph, s *follows) (bool, error) {
	for _, b := range bodies {
		if b.NeverRuns != "" && !s.tensors[n.Inputs[0]] {
			return false, nil
		}
	}
	ok := true
	list := make([]*follows, len(bodies))
	for k, b := range bodies {
		if b.NeverRuns != "" {
			continue
		}
		var err error
		if list[k], err = f.graph(b, s); err != nil {
			return false, err
		}
		for _, t := range b.Outputs {
			ok = ok && list[k].tensors[t]
		}
	}
	s.bodies[id] = list
	return ok, nil
}

// shapes returns the exact shapes among those that follow.
func (s *follows) shapes(g *graph.Graph) *shapes {
	if s == nil {
		return nil
	}
	r := &shapes{make([][]int64, len(g.Tensors)), map[graph.NodeID][]*shapes{}}
	for id, t := range g.Tensors {
		if s.tensors[id] && t.Type.Ranked && !t.Bounded && t.Dynamic == "" && !slices.ContainsFunc(t.Type.Shape, func(d graph.Dim) bool { return !d.Exact() }) {
			r.tensors[id] = lengths(t.Type)
		}
	}
	for id, list := range s.bodies {
		for k, b := range bodiesOf(g.Nodes[id]) {
			r.bodies[id] = append(r.bodies[id], list[k].shapes(b))
		}
	}
	return r
}
