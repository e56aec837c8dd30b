package training

import (
	"bytes"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/plan/verify/internal/numbers"
)

// literalOf returns the value of an attribute.
func literalOf(a *graph.Attr) *numbers.List {
	switch a.Type {
	case graph.AttrInt:
		return &numbers.List{Ints: []int64{a.Int}}
	case graph.AttrFloat:
		return &numbers.List{Floats: []float64{float64(a.Float)}}
	case graph.AttrFloats:
		l := &numbers.List{Floats: []float64{}}
		for _, v := range a.Floats {
			l.Floats = append(l.Floats, float64(v))
		}
		return l
	}
	return &numbers.List{Ints: a.Ints}
}

// holds reports whether a tensor is an initializer with that value.
func (p *prover) holds(t graph.TensorID, want *numbers.List) bool {
	d := p.g.Tensors[t].Data
	if d == nil {
		return false
	}
	x, err := p.files[0].Read(d)
	return err == nil && bytes.Equal(x.Raw, want.Bytes(d.Type))
}

// sameData reports whether two constants have the same elements.
func (p *prover) sameData(x, old *graph.Data) bool {
	switch {
	case x.Type != old.Type || !slices.Equal(x.Dims, old.Dims):
		return false
	case p.same.Data(x, old):
		return true
	}
	a, err := p.files[0].Read(x) // the two may be stored otherwise
	if err != nil {
		return false
	}
	b, err := p.files[1].Read(old)
	return err == nil && bytes.Equal(a.Raw, b.Raw)
}
