package ops

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestSignatures: every operator of this package has a signature, every symbol has some
// types, and every dtype exists in package graph.
func TestSignatures(t *testing.T) {
	for k := range table {
		if _, f := signatureOf(k.domain, k.name, 1); f == nil {
			t.Errorf("%s.%s has no signature: crosscheck/run signatures writes signatures.txt, and ownSignatures in signature.go has those that neither ONNX nor ONNX Runtime has", k.domain, k.name)
		}
	}
	for k, text := range sections() {
		s := parseSignature(text)
		for symbol, types := range s.symbols {
			for _, r := range types {
				if !r.elem.Valid() {
					t.Errorf("%s.%s: symbol %s has a type that package graph lacks", k.domain, k.name, symbol)
				}
			}
		}
		for _, f := range s.forms {
			for _, p := range append(append([]parameter{}, f.in...), f.out...) {
				if p.symbol != "" && len(s.symbols[p.symbol]) == 0 {
					t.Errorf("%s.%s: symbol %q has no types", k.domain, k.name, p.symbol)
				}
			}
		}
	}
}

// TestAttributeTypes: an attribute of another type than the operator's is refused, and one that
// the operator does not have is not read.
func TestAttributeTypes(t *testing.T) {
	for _, c := range []struct {
		doc, nodes string
		a          *graph.Attr
		want       string
	}{
		{"right", "y=Concat(x,x)", &graph.Attr{Name: "axis", Type: graph.AttrInt, Int: 1}, "float32[2,6]"},
		{"a word", "y=Concat(x,x)", &graph.Attr{Name: "axis", Type: graph.AttrString, String: "1"}, "error: node \"y\" (Concat): attribute axis has type string, expected int"},
		{"a list", "y=Concat(x,x)", &graph.Attr{Name: "axis", Type: graph.AttrInts, Ints: []int64{1}}, "error: node \"y\" (Concat): attribute axis has type ints, expected int"},
		{"a number for a list", "y=Transpose(x)", &graph.Attr{Name: "perm", Type: graph.AttrInt, Int: 1}, "error: node \"y\" (Transpose): attribute perm has type int, expected ints"},
		{"the type of an old version", "y=Cast(x)", &graph.Attr{Name: "to", Type: graph.AttrFloat, Float: 1}, "error: node \"y\" (Cast): attribute to has type float, expected int or string"},
		{"of a number that ONNX does not have", "y=Relu(x)", &graph.Attr{Name: "alpha", Type: 99}, "float32[2,3]"},
	} {
		types := map[string]graph.Type{"x": graph.TensorOf(graph.Float32, 2, 3)}
		if _, got := (graphSpec{in: "x", out: "y", nodes: c.nodes, types: types, attrs: map[string][]*graph.Attr{"y": {c.a}}}).infer(t); got != c.want {
			t.Errorf("%s:\n got  %s\n want %s", c.doc, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	f32, i64 := graph.Float32, graph.Int64
	runChecks(t, []checkCase{
		{doc: "right", op: "Add", version: 14, in: []Arg{arg(f32, 2, 3), arg(f32, 3)}, out: []Arg{arg(f32, 2, 3)}},
		{doc: "an output that is not known yet", op: "Add", version: 14, in: []Arg{arg(f32, 2, 3), arg(f32, 3)}},
		{doc: "another dtype", op: "Add", version: 14, in: []Arg{arg(f32, 2, 3), arg(graph.Float64, 3)}, out: []Arg{arg(f32, 2, 3)}, want: "input 1 has elements of type float64, expected float32 as input 0"},
		{doc: "an output of another shape", op: "Add", version: 14, in: []Arg{arg(f32, 2, 3), arg(f32, 3)}, out: []Arg{arg(f32, 4, 3)}, want: "output 0 is float32[4,3], expected float32[2,3]"},
		{doc: "an output of another dtype", op: "Shape", version: 13, in: []Arg{arg(f32, 2, 3)}, out: []Arg{arg(f32, 2)}, want: "output 0 is float32[2], expected int64[2]"},
		{doc: "an input that is left out", op: "Gather", version: 13, in: []Arg{arg(f32, 2, 3), {}}, out: []Arg{arg(f32, 2)}, want: "input 1 is missing: expected 2 inputs"},
		{doc: "indices that are no integers", op: "GatherND", version: 13, in: []Arg{arg(f32, 2, 3), arg(f32, 1, 1)}, out: []Arg{arg(f32, 1, 3)}, want: "input 1 has elements of type float32"},
		{doc: "a type that no version takes", op: "And", version: 7, in: []Arg{arg(f32, 2), arg(f32, 2)}, out: []Arg{arg(graph.Bool, 2)}, want: "input 0 has elements of type float32, expected"},
		{doc: "a shape that the data will tell", op: "NonZero", version: 13, in: []Arg{arg(f32, 2, 3)}, out: []Arg{arg(i64, 2, 4)}, open: true},
		{doc: "a shape that the data cannot tell", op: "NonZero", version: 13, in: []Arg{arg(f32, 2, 3)}, out: []Arg{arg(i64, 2, 7)}, want: "output 0 is int64[2,7]"},
		{doc: "one input too many", op: "Relu", version: 14, in: []Arg{arg(f32, 2), arg(f32, 2)}, out: []Arg{arg(f32, 2)}, want: "too many"},
		{doc: "an output too few", op: "TopK", version: 11, in: []Arg{arg(f32, 4), argInts(2)}, want: "output 1 is missing: expected 2 outputs"},
		{doc: "an output that is left out", op: "DynamicQuantizeLinear", in: []Arg{arg(f32, 4)}, out: []Arg{{}, {Present: true}, {Present: true}}, want: "output 0 is missing"},
		{doc: "a domain that is not imported", op: "Softmax", version: -1, in: []Arg{arg(f32, 4)}, want: "opset_import has version -1 of the domain of Softmax, expected one from 1 on"},
		{doc: "outputs that may be left out", op: "LSTM", in: []Arg{arg(f32, 2, 1, 3), arg(f32, 1, 4, 3), arg(f32, 1, 4, 1)}, out: []Arg{{}, {Present: true}}},
	})
}

// checkCase is one row of a table of calls that Check accepts or refuses.
type checkCase struct {
	doc     string
	op      string // as for callOp
	version int64  // 0: newest
	in      []Arg
	out     []Arg // nil: one unknown output
	attrs   []*graph.Attr
	open    bool
	want    string // a part of the error; "": none
}

// runChecks runs a table of checks.
func runChecks(t *testing.T, cases []checkCase) {
	t.Helper()
	for _, k := range cases {
		n := &graph.Node{Op: k.op, Attrs: k.attrs}
		if i := strings.LastIndexByte(k.op, '.'); i >= 0 {
			n.Domain, n.Op = k.op[:i], k.op[i+1:]
		}
		c := &Call{Node: n, Version: k.version, In: k.in, Out: slices.Clone(k.out)}
		if k.version == 0 {
			c.Version = newest
		}
		if c.Out == nil {
			c.Out = []Arg{{Present: true}}
		}
		for range c.In {
			n.Inputs = append(n.Inputs, graph.None)
		}
		for range c.Out {
			n.Outputs = append(n.Outputs, graph.None)
		}
		open, err := Check(c)
		switch {
		case k.want == "" && err != nil:
			t.Errorf("%s: %s: got %v, want no error", k.doc, k.op, err)
		case k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)):
			t.Errorf("%s: %s: got error %v, want one with %q", k.doc, k.op, err, k.want)
		case open != k.open:
			t.Errorf("%s: %s: got open %v, want %v", k.doc, k.op, open, k.open)
		}
	}
}
