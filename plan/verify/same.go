package verify

import (
	"bytes"
	"math"
	"reflect"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// sameNode compares nodes by what they compute.
type sameNode struct {
	source []byte // the file that spans of the first node refer to; nil for a model built in memory
	other  []byte // the same of the second node
	// outer reports whether two tensors of the outer graphs have the same value.
	outer func(a, b graph.TensorID) bool
}

// attributes returns the name of an attribute that differs between two nodes, ""
// if all are equal. Bodies are equal if their nodes are, in the same order,
// whatever their names.
func (s sameNode) attributes(n, m *graph.Node) string {
	for _, a := range n.Attrs {
		if b := m.Attr(a.Name); b == nil || !s.attribute(a, b) {
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

func (s sameNode) attribute(a, b *graph.Attr) bool {
	sameFloat := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
	return a.Type == b.Type && a.Ref == b.Ref &&
		sameFloat(a.Float, b.Float) && slices.EqualFunc(a.Floats, b.Floats, sameFloat) &&
		a.Int == b.Int && slices.Equal(a.Ints, b.Ints) &&
		a.String == b.String && slices.Equal(a.Strings, b.Strings) &&
		s.data(a.Tensor, b.Tensor) && slices.EqualFunc(a.Tensors, b.Tensors, s.data) && s.sparse(a.Sparse, b.Sparse) &&
		reflect.DeepEqual(a.TypeOf, b.TypeOf) &&
		slices.EqualFunc(a.All(), b.All(), s.body)
}

// data compares tensors of attributes.
func (s sameNode) data(a, b *graph.Data) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type && a.Bytes == b.Bytes && slices.Equal(a.Dims, b.Dims) &&
		bytes.Equal(a.Raw, b.Raw) && slices.Equal(a.Ints, b.Ints) && s.floats(a.Floats, b.Floats) &&
		reflect.DeepEqual(a.External, b.External) && s.sparse(a.Sparse, b.Sparse) &&
		a.Generate == nil && b.Generate == nil && s.payload(a, b)
}

func (s sameNode) floats(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func (s sameNode) sparse(a, b *graph.Sparse) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Dims, b.Dims) && s.data(a.Values, b.Values) && s.data(a.Indices, b.Indices)
}

// payload compares the elements as stored in the files: strings and long lists are
// not decoded.
func (s sameNode) payload(a, b *graph.Data) bool {
	within := func(x graph.Span, file []byte) bool { return x.Off >= 0 && x.End() <= int64(len(file)) }
	return s.source == nil || s.other == nil || slices.EqualFunc(a.Payload, b.Payload, func(x, y graph.Span) bool {
		return within(x, s.source) && within(y, s.other) && bytes.Equal(s.source[x.Off:x.End()], s.other[y.Off:y.End()])
	})
}

// body compares graphs of attributes: what their outputs are computed of, and that both
// have the same nodes. The planner gives the nodes of a body another order, so they are
// paired from the outputs on, whatever their order and their names.
func (s sameNode) body(g, h *graph.Graph) bool {
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
