package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// declared compares an output's inferred type with the declared one, and takes
// from the file what inference does not know.
func (inf *inferrer) declared(s *scope, t *graph.Tensor, k int, n *graph.Node) error {
	d := t.Declared
	if d == nil || inf.opt.IgnoreDeclared && n.Semantics.Known {
		return nil
	}
	if d.Type.Kind != graph.KindUnknown && t.Type.Kind != graph.KindUnknown && d.Type.Kind != t.Type.Kind {
		return inf.contradiction(t, k, d.Type)
	}
	if d.Type.Kind == graph.KindTensor && t.Type.Kind == graph.KindTensor {
		if d.Type.Elem != graph.Undefined && t.Type.Elem != graph.Undefined && d.Type.Elem != t.Type.Elem {
			return inf.contradiction(t, k, d.Type)
		}
		if d.Type.Ranked && t.Type.Ranked {
			if len(d.Type.Shape) != len(t.Type.Shape) {
				return inf.contradiction(t, k, d.Type)
			}
			for i, want := range d.Type.Shape {
				if want.Exact() && !SameDim(want, t.Type.Shape[i]) {
					return inf.contradiction(t, k, d.Type)
				}
				if want.Exact() || d.Symbols[i] == "" {
					continue
				}
				if v, ok := inf.symbols.eval(d.Symbols[i]); ok && !SameDim(graph.Dim(v), t.Type.Shape[i]) {
					inf.warnf("tensor %q (output %d of %s): declared with axis %d = %s = %d, inferred %s: the inferred length is used",
						graph.Short(t.Name), k, s.g.Label(t.Maker), i, d.Symbols[i], v, t.Type.Shape[i])
				}
			}
		}
	}
	// For an unknown operator, the declared type is all there is.
	inf.useDeclared(s, t)
	if !n.Semantics.Known && s.main {
		return inf.bindOutput(t)
	}
	return nil
}

func (inf *inferrer) contradiction(t *graph.Tensor, k int, declared graph.Type) error {
	e := graph.Errorf("output %d is declared %v, but inferred %v", k, declared, t.Type)
	e.Tensor = t.Name
	return e
}

// useDeclared fills the gaps of t.Type from what the file declares.
func (inf *inferrer) useDeclared(s *scope, t *graph.Tensor) {
	d := t.Declared
	if d == nil {
		return
	}
	if t.Type.Kind == graph.KindUnknown {
		t.Type.Kind = d.Type.Kind
		t.Type.Of = d.Type.Of
	}
	if t.Type.Kind != d.Type.Kind {
		return
	}
	if t.Type.Of == nil {
		t.Type.Of = d.Type.Of
	}
	if t.Type.Elem == graph.Undefined {
		t.Type.Elem = d.Type.Elem
	}
	if !d.Type.Ranked || t.Type.Ranked && len(t.Type.Shape) != len(d.Type.Shape) {
		return
	}
	if !t.Type.Ranked {
		t.Type.Ranked = true
		t.Type.Shape = make([]graph.Dim, len(d.Type.Shape))
		for i := range t.Type.Shape {
			t.Type.Shape[i] = graph.Unknown
		}
	} else {
		t.Type.Shape = slices.Clone(t.Type.Shape)
	}
	for i, have := range t.Type.Shape {
		if have.Exact() {
			continue
		}
		want := d.Type.Shape[i]
		if v, ok := inf.symbols.eval(d.Symbols[i]); !want.Exact() && ok {
			want = graph.Dim(v)
		}
		if want.Exact() && SameDim(want, have) {
			t.Type.Shape[i] = want
		}
	}
}
