package same

import (
	"bytes"
	"math"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// Node compares nodes by what they compute.
type Node struct {
	Source []byte // the file that spans of the first node refer to; nil for a model built in memory
	Other  []byte // the same of the second node
	// Outer reports whether two tensors of the outer graphs have the same value.
	Outer func(a, b graph.TensorID) bool
}

// Attributes returns the name of an attribute that differs between two nodes, ""
// if all are equal. Bodies are equal if their nodes are, in the same order,
// whatever their names.
func (s Node) Attributes(n, m *graph.Node) string {
	for _, a := range n.Attrs {
		if b := m.Attr(a.Name); b == nil || !s.Attribute(a, b) {
			return a.Name
		}
	}
	for _, b := range m.Attrs {
		if n.Attr(b.Name) == nil {
			return b.Name
		}
	}
	return ""
}

func (s Node) Attribute(a, b *graph.Attr) bool {
	sameFloat := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
	return a.Type == b.Type && a.Ref == b.Ref &&
		sameFloat(a.Float, b.Float) && slices.EqualFunc(a.Floats, b.Floats, sameFloat) &&
		a.Int == b.Int && slices.Equal(a.Ints, b.Ints) &&
		a.String == b.String && slices.Equal(a.Strings, b.Strings) &&
		s.Data(a.Tensor, b.Tensor) && slices.EqualFunc(a.Tensors, b.Tensors, s.Data) && s.sparse(a.Sparse, b.Sparse) &&
		reflect.DeepEqual(a.TypeOf, b.TypeOf) &&
		slices.EqualFunc(a.All(), b.All(), s.Body)
}

// Data compares tensors of attributes.
func (s Node) Data(a, b *graph.Data) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && a.Bytes == b.Bytes && slices.Equal(a.Dims, b.Dims) &&
		bytes.Equal(a.Raw, b.Raw) && slices.Equal(a.Ints, b.Ints) && s.floats(a.Floats, b.Floats) &&
		reflect.DeepEqual(a.External, b.External) && s.sparse(a.Sparse, b.Sparse) &&
		a.Generate == nil && b.Generate == nil && s.payload(a, b)
}

func (s Node) floats(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func (s Node) sparse(a, b *graph.Sparse) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Dims, b.Dims) && s.Data(a.Values, b.Values) && s.Data(a.Indices, b.Indices)
}

// payload compares the elements as stored in the files: strings and long lists are
// not decoded.
func (s Node) payload(a, b *graph.Data) bool {
	within := func(x graph.Span, file []byte) bool { return x.Off >= 0 && x.End() <= int64(len(file)) }
	return s.Source == nil || s.Other == nil || slices.EqualFunc(a.Payload, b.Payload, func(x, y graph.Span) bool {
		return within(x, s.Source) && within(y, s.Other) && bytes.Equal(s.Source[x.Off:x.End()], s.Other[y.Off:y.End()])
	})
}

// Body compares graphs of attributes: what their outputs are computed of, and that both
// have the same nodes. The planner gives the nodes of a body another order, so they are
// paired from the outputs on, whatever their order and their names.
func (s Node) Body(g, h *graph.Graph) bool {
	if len(g.Tensors) != len(h.Tensors) || len(g.Nodes) != len(h.Nodes) || len(g.Inputs) != len(h.Inputs) ||
		len(g.Outputs) != len(h.Outputs) || len(g.Captures) != len(h.Captures) {
		return false
	}
	p := newPairing(s, g, h)
	for i, t := range g.Inputs {
		if !p.tensors(t, h.Inputs[i]) {
			return false
		}
	}
	for i, t := range g.Outputs {
		if !p.tensors(t, h.Outputs[i]) {
			return false
		}
	}
	return p.settle() && p.unread() && p.initializers()
}
