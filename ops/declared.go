package ops

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// declared compares an output's inferred type with the declared one, and takes
// from the file what inference does not know. Runtimes refuse a wrong element
// type, but run models whose declared shapes are wrong, such as those of a file
// whose nodes were edited: inference wins.
func (inf *inferrer) declared(c *Call, t *graph.Tensor, k int) error {
	s, n, d := c.scope, c.Node, t.Declared
	if d == nil || inf.opt.IgnoreDeclared && n.Semantics.Known {
		return nil
	}
	if d.Type.Kind != graph.KindUnknown && t.Type.Kind != graph.KindUnknown && d.Type.Kind != t.Type.Kind ||
		d.Type.Kind == graph.KindTensor && t.Type.Kind == graph.KindTensor &&
			d.Type.Elem != graph.Undefined && t.Type.Elem != graph.Undefined && d.Type.Elem != t.Type.Elem {
		e := graph.Errorf("output %d is declared %v, but inferred %v", k, d.Type, t.Type)
		e.Tensor = t.Name
		return e
	}
	if text := inf.contradiction(t); text != "" {
		if inf.opt.Strict {
			e := graph.Errorf("output %d is %s", k, text)
			e.Tensor = t.Name
			return e
		}
		inf.contradicts(t, fmt.Sprintf("tensor %q (output %d of %s)", graph.Short(t.Name), k, s.g.Label(t.Maker)), text)
	} else if inf.contradictions[t] != "" {
		inf.contradictions[t] = ""
	}
	// For an unknown operator, the declared type is all there is. Where the branches
	// of an If differ, it is wrong for one of them: a decoder merged with the first
	// step of its cache returns no keys of the encoder from one branch.
	if !c.varies[k] {
		inf.useDeclared(s, t)
	}
	if !n.Semantics.Known && s.main {
		return inf.bindOutput(t)
	}
	return nil
}

// declaredData compares the shape of an initializer with its declaration as an
// input or output.
func (inf *inferrer) declaredData(t *graph.Tensor) error {
	text := ""
	if !inf.opt.IgnoreDeclared {
		text = inf.contradiction(t)
	}
	switch {
	case text == "":
	case inf.opt.Strict:
		e := graph.Errorf("initializer is %s", text)
		e.Tensor = t.Name
		return e
	default:
		inf.contradicts(t, fmt.Sprintf("initializer %q", graph.Short(t.Name)), text)
	}
	return nil
}

// contradiction says how the declared shape of t contradicts the inferred one; ""
// if it does not.
func (inf *inferrer) contradiction(t *graph.Tensor) string {
	d := t.Declared
	if d == nil || d.Type.Kind != graph.KindTensor || t.Type.Kind != graph.KindTensor || !d.Type.Ranked || !t.Type.Ranked {
		return ""
	}
	whole := func() string { return fmt.Sprintf("declared %v, but inferred %v", d.Type, t.Type) }
	if len(d.Type.Shape) != len(t.Type.Shape) {
		return whole()
	}
	for i, want := range d.Type.Shape {
		if want.Exact() {
			if !SameDim(want, t.Type.Shape[i]) {
				return whole()
			}
			continue
		}
		if v, ok := inf.symbols.eval(symbolOf(d, i)); ok && !SameDim(graph.Dim(v), t.Type.Shape[i]) {
			return fmt.Sprintf("declared with axis %d = %s = %d, but inferred %s", i, graph.Short(d.Symbols[i]), v, t.Type.Shape[i])
		}
	}
	return ""
}

// contradicts records a contradiction. A body may be inferred several times, as
// the lengths of a loop settle; only its last inference counts.
func (inf *inferrer) contradicts(t *graph.Tensor, name, text string) {
	if inf.contradictions == nil {
		inf.contradictions = map[*graph.Tensor]string{}
	}
	if _, listed := inf.contradictions[t]; !listed {
		inf.contradicted = append(inf.contradicted, t)
	}
	inf.contradictions[t] = name + ": " + text + ": the inferred shape is used"
}

// warnDeclared reports the contradictions: the first few, and how many there are.
func (inf *inferrer) warnDeclared() {
	const most = 5
	var texts []string
	for _, t := range inf.contradicted {
		if text := inf.contradictions[t]; text != "" && t.Dynamic != neverRunsReason {
			texts = append(texts, text)
		}
	}
	for _, text := range texts[:min(len(texts), most)] {
		inf.warnf("%s", text)
	}
	if n := len(texts) - most; n > 0 {
		inf.warnf("… and %d more declared shapes that contradict inference", n)
	}
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
	if !d.Type.Ranked || inf.contradiction(t) != "" { // if one axis is wrong, others may be
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
		if v, ok := inf.symbols.eval(symbolOf(d, i)); !want.Exact() && ok {
			want = graph.Dim(v)
		}
		if want.Exact() && SameDim(want, have) {
			t.Type.Shape[i] = want
		}
	}
}
