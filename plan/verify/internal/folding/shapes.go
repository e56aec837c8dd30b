package folding

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/constant"
	"github.com/onnxmem/onnxmem/ops"
)

// fixedShapes answers which shapes of the source are the same in every run. It goes back
// from a tensor to what its shape follows from, and accepts only constants and inputs of
// the model, all of which must be declared with lengths.
type fixedShapes struct {
	m     *graph.Model // a copy of the source, without the types that it declares for other tensors
	twins map[*graph.Tensor]twin
	known map[*graph.Tensor]bool // answers, by tensor of the copy
}

// twin is the tensor of the copy for one of the source, with its graph.
type twin struct {
	t *graph.Tensor
	s *sourceScope
}

// newFixedShapes infers a copy of the source from its inputs alone; nil if that does not
// give the shapes of every run.
func newFixedShapes(source *graph.Model) *fixedShapes {
	for _, id := range source.Graph.Inputs {
		d := source.Graph.Tensors[id].Declared
		if d == nil || d.Type.Kind != graph.KindTensor || !d.Type.Ranked {
			return nil
		}
		for _, n := range d.Type.Shape {
			if !n.Exact() || n == 0 {
				return nil
			}
		}
	}
	m := *source
	m.Graph = source.Graph.Clone()
	f := &fixedShapes{&m, map[*graph.Tensor]twin{}, map[*graph.Tensor]bool{}}
	f.match(source.Graph, &sourceScope{source: m.Graph})
	if found, err := ops.Infer(&m, ops.Options{IgnoreDeclared: true}); err != nil || len(found.Dims) > 0 || len(found.Warnings) > 0 {
		return nil
	}
	if f.prime(&sourceScope{source: m.Graph}) != nil {
		return nil
	}
	return f
}

// prime finds the answers for a graph in the order of its nodes: a chain of any length
// then needs no deep recursion.
func (f *fixedShapes) prime(s *sourceScope) error {
	order, err := s.source.Topological()
	if err != nil {
		return err
	}
	for _, id := range order {
		n := s.source.Nodes[id]
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				if err := f.prime(&sourceScope{source: b, outer: s}); err != nil {
					return err
				}
			}
		}
		for _, t := range n.Outputs {
			if t >= 0 {
				f.fixed(twin{s.source.Tensors[t], s})
			}
		}
	}
	return nil
}

// match notes the copies of the tensors of a graph and its bodies, and removes the
// declared types of the copies.
func (f *fixedShapes) match(g *graph.Graph, s *sourceScope) {
	for id, t := range g.Tensors {
		u := s.source.Tensors[id]
		if f.twins[t] = (twin{u, s}); s.outer != nil || !u.Input {
			u.Declared = nil
		}
	}
	for i, n := range g.Nodes {
		copies := s.source.Nodes[i].Bodies()
		for k, a := range n.Bodies() {
			for j, b := range copies[k].All() {
				f.match(a.All()[j], &sourceScope{source: b, outer: s})
			}
		}
	}
}

// lengths returns the shape of a tensor of the source.
func (f *fixedShapes) lengths(t *graph.Tensor) ([]int64, error) {
	if f == nil {
		return nil, fmt.Errorf("the lengths of the inputs are not all in the file")
	}
	u, matched := f.twins[t]
	if !matched || !f.fixed(u) || u.t.Bounded || u.t.Dynamic != "" || !u.t.Type.Ranked {
		return nil, fmt.Errorf("the shape of %q may differ from run to run", graph.Short(t.Name))
	}
	shape := []int64{}
	for _, n := range u.t.Type.Shape {
		if !n.Exact() {
			return nil, fmt.Errorf("the shape of %q may differ from run to run", graph.Short(t.Name))
		}
		shape = append(shape, int64(n))
	}
	return shape, nil
}

// fixed reports whether the shape of a tensor of the copy, and its elements if lengths
// depend on them, follow from constants and from the shapes of the model's inputs.
func (f *fixedShapes) fixed(u twin) bool {
	known, done := f.known[u.t]
	if !done {
		known = f.follows(u)
		f.known[u.t] = known
	}
	return known
}

func (f *fixedShapes) follows(u twin) bool {
	g := u.s.source
	switch {
	case u.t.Capture:
		outer := u.s.captured(u.t)
		return outer != nil && f.fixed(twin{outer, u.s.outer})
	case u.t.Data != nil:
		return !u.t.Overridable || f.m.IRVersion < 4
	case u.t.Maker < 0:
		// A scalar input may be given with axes in some runtimes.
		return u.t.Input && u.s.outer == nil && len(u.t.Type.Shape) > 0
	case u.t.Type.Kind != graph.KindTensor:
		return false
	}
	n := g.Nodes[u.t.Maker]
	if n.Domain != "" || n.Semantics.Call != nil || ops.Rounds(n) {
		return false
	}
	if len(n.Bodies()) > 0 {
		return ops.Branches(n) && len(n.Inputs) == 1 && f.branches(u, n)
	}
	reads, makes := false, false // floating-point numbers, other elements
	for _, id := range n.Inputs {
		if id < 0 {
			continue
		}
		if !f.fixed(twin{g.Tensors[id], u.s}) {
			return false
		}
		reads = reads || g.Tensors[id].Type.Elem.Floating()
	}
	for _, id := range n.Outputs {
		makes = makes || id >= 0 && !g.Tensors[id].Type.Elem.Floating()
	}
	return !reads || !makes || readsShape(n)
}

// branches reports whether all results of an If follow in each of its branches that may
// be taken.
func (f *fixedShapes) branches(u twin, n *graph.Node) bool {
	for _, a := range n.Bodies() {
		for _, b := range a.All() {
			if b.NeverRuns != "" {
				if !f.fixed(twin{u.s.source.Tensors[n.Inputs[0]], u.s}) {
					return false
				}
				continue
			}
			scope := &sourceScope{source: b, outer: u.s}
			for _, id := range b.Outputs {
				if !f.fixed(twin{b.Tensors[id], scope}) {
					return false
				}
			}
		}
	}
	return true
}

// readsShape reports whether a node reads the shape of its input alone.
func readsShape(n *graph.Node) bool {
	return n.Overload == "" && ops.OfShape(n) && len(n.Inputs) == 1 && n.Inputs[0] >= 0
}

// shapeResult computes a node that reads a shape.
func shapeResult(n *graph.Node, lengths []int64) (*constant.Tensor, error) {
	rank := int64(len(lengths))
	y := &constant.Tensor{Type: graph.Int64}
	if n.Op == "Size" {
		size := int64(1)
		for _, v := range lengths {
			size *= v
		}
		y.Raw = appendInt64(y.Raw, size)
		return y, nil
	}
	from, to := int64(0), rank
	for _, bound := range []struct {
		name string
		at   *int64
	}{{"start", &from}, {"end", &to}} {
		a := n.Attr(bound.name)
		if a == nil {
			continue
		}
		if a.Ref != "" {
			return nil, fmt.Errorf("attribute %s refers to a function", bound.name)
		}
		*bound.at = a.Int
		if a.Int < 0 {
			*bound.at += rank
		}
		*bound.at = max(0, min(rank, *bound.at))
	}
	y.Shape = []int64{max(to-from, 0)}
	for k := from; k < to; k++ {
		y.Raw = appendInt64(y.Raw, lengths[k])
	}
	return y, nil
}

// appendInt64 appends a number in the order of bytes of raw data.
func appendInt64(raw []byte, v int64) []byte {
	for shift := 0; shift < 64; shift += 8 {
		raw = append(raw, byte(v>>shift))
	}
	return raw
}
