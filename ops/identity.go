package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// identify gives an identity to each bounded length of a tensor that has none.
// Lengths computed from one length then have the same identity, and can be
// recognised as equal.
func (inf *inferrer) identify(t *graph.Type) {
	cloned := false
	for i, d := range t.Shape {
		if d.Exact() || d == graph.Unknown || d.Identity() != 0 || inf.identities == graph.MostIdentities {
			continue
		}
		if !cloned {
			t.Shape, cloned = slices.Clone(t.Shape), true
		}
		inf.identities++
		t.Shape[i] = d.WithIdentity(inf.identities)
		if most, ok := d.Max(); ok {
			inf.monomials.bounded(inf.identities, most)
		}
	}
}

// anonymous is a type without identities: lengths of two instances of a body or
// function cannot be compared.
func anonymous(t graph.Type) graph.Type {
	t.Shape = slices.Clone(t.Shape)
	for i, d := range t.Shape {
		t.Shape[i] = d.WithIdentity(0)
	}
	if t.Of != nil {
		of := anonymous(*t.Of)
		t.Of = &of
	}
	return t
}

// anonymousArgs is a list of inputs or outputs without identities.
func anonymousArgs(list []Arg) []Arg {
	out := make([]Arg, len(list))
	for i, a := range list {
		out[i] = Arg{a.Present, anonymous(a.Type), anonymousValue(a.Value)}
	}
	return out
}

// anonymousValue is a value without identities.
func anonymousValue(v *Value) *Value {
	if v == nil {
		return nil
	}
	w := &Value{Shape: v.Shape, Elems: slices.Clone(v.Elems)}
	for i := range w.Elems {
		w.Elems[i].Of = 0
	}
	if v.Items != nil {
		w.Items = anonymousArgs(v.Items)
	}
	return w
}
