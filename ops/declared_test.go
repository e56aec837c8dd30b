package ops

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// declare sets the declared types of tensors by name, in g and its bodies.
func declare(g *graph.Graph, types map[string]graph.Declared) {
	for _, t := range g.Tensors {
		if d, ok := types[t.Name]; ok && !t.Capture {
			t.Declared = &d
		}
	}
	for _, n := range g.Nodes {
		for _, a := range n.Bodies() {
			declare(a.Graph, types)
		}
	}
}

// TestWrongDeclarations: a declared shape that contradicts inference is reported, and
// refused only if asked. Nothing of it is used.
func TestWrongDeclarations(t *testing.T) {
	is := func(shape ...graph.Dim) graph.Declared {
		return graph.Declared{Type: graph.TensorOf(graph.Float32, shape...), Symbols: make([]string, len(shape))}
	}
	relu := graphSpec{in: "x", types: map[string]graph.Type{"x": graph.TensorOf(graph.Float32, 2, 8)}, nodes: "t=Relu(x); y=Relu(t)", out: "y"}
	seven := graphSpec{
		in: "x", types: relu.types, out: "y",
		nodes: "a=Relu(x); b=Relu(a); c=Relu(b); d=Relu(c); e=Relu(d); f=Relu(e); y=Relu(f)",
	}
	// The lengths of a loop that joins x to v settle at "unknown" after a second look.
	loop := graphSpec{
		in: "n x v", out: "y",
		types: map[string]graph.Type{
			"n": graph.TensorOf(graph.Int64), "x": graph.TensorOf(graph.Float32, 2), "v": graph.TensorOf(graph.Float32, 3),
		},
		nodes: "y=Loop(n,_,v)",
		bodies: nodeBodies{"y": {"body": {
			in: "i go old", out: "on new", nodes: "on=Identity(go); new=Concat(old,x)", attrs: nodeAttrs{"new": {attrInt("axis", 0)}},
		}}},
	}
	// The branches of an If make two and four rows; the file declares four.
	branches := graphSpec{
		in: "c x", out: "y", nodes: "y=If(c)",
		types: map[string]graph.Type{"c": graph.TensorOf(graph.Bool), "x": relu.types["x"]},
		bodies: nodeBodies{"y": {
			"then_branch": {out: "t", nodes: "t=Concat(x,x)", attrs: nodeAttrs{"t": {attrInt("axis", 0)}}},
			"else_branch": {out: "t", nodes: "t=Relu(x)"},
		}},
	}
	for _, k := range []struct {
		doc      string
		spec     graphSpec
		declared map[string]graph.Declared
		want     string // types of the outputs
		warnings []string
		strict   string // the error if Strict is set
	}{
		{
			"a wrong length", relu,
			map[string]graph.Declared{"t": is(2, 9)},
			"float32[2,8]",
			[]string{`tensor "t" (output 0 of node "t" (Relu)): declared float32[2,9], but inferred float32[2,8]: the inferred shape is used`},
			`node "t" (Relu): tensor "t": output 0 is declared float32[2,9], but inferred float32[2,8]`,
		},
		{
			"a wrong rank of an output", relu,
			map[string]graph.Declared{"y": is(16)},
			"float32[2,8]",
			[]string{`tensor "y" (output 0 of node "y" (Relu)): declared float32[16], but inferred float32[2,8]: the inferred shape is used`},
			`node "y" (Relu): tensor "y": output 0 is declared float32[16], but inferred float32[2,8]`,
		},
		{
			"a right length", relu, map[string]graph.Declared{"t": is(2, graph.Unknown), "y": is(2, 8)}, "float32[2,8]", nil, "",
		},
		{
			"the first five are named", seven,
			map[string]graph.Declared{"a": is(), "b": is(), "c": is(), "d": is(), "e": is(), "f": is(), "y": is()},
			"float32[2,8]",
			[]string{
				`tensor "a" (output 0 of node "a" (Relu)): declared float32[], but inferred float32[2,8]: the inferred shape is used`,
				`tensor "b" (output 0 of node "b" (Relu)): declared float32[], but inferred float32[2,8]: the inferred shape is used`,
				`tensor "c" (output 0 of node "c" (Relu)): declared float32[], but inferred float32[2,8]: the inferred shape is used`,
				`tensor "d" (output 0 of node "d" (Relu)): declared float32[], but inferred float32[2,8]: the inferred shape is used`,
				`tensor "e" (output 0 of node "e" (Relu)): declared float32[], but inferred float32[2,8]: the inferred shape is used`,
				"… and 2 more declared shapes that contradict inference",
			},
			`node "a" (Relu): tensor "a": output 0 is declared float32[], but inferred float32[2,8]`,
		},
		{
			"a wrong rank in a body", loop,
			map[string]graph.Declared{"new": is(3, 3)},
			"float32[?]",
			[]string{`tensor "new" (output 0 of node "new" (Concat)): declared float32[3,3], but inferred float32[?]: the inferred shape is used`},
			`tensor "new": output 0 is declared float32[3,3], but inferred float32[`,
		},
		{
			"the length of one branch only", branches, map[string]graph.Declared{"y": is(4, 8)}, "float32[<=4,8]", nil, "",
		},
	} {
		build := func() *graph.Model {
			g := k.spec.build()
			declare(g, k.declared)
			return &graph.Model{Opsets: []graph.Opset{{Version: 21}}, Graph: g}
		}
		m := build()
		inf, err := Infer(m, Options{})
		if err != nil {
			t.Errorf("%s: %v", k.doc, err)
			continue
		}
		var got []string
		for _, id := range m.Graph.Outputs {
			got = append(got, m.Graph.Tensors[id].Type.String())
		}
		if s := strings.Join(got, ", "); s != k.want {
			t.Errorf("%s: got %s, want %s", k.doc, s, k.want)
		}
		if !slices.Equal(inf.Warnings, k.warnings) {
			t.Errorf("%s: warnings\n got  %q\n want %q", k.doc, inf.Warnings, k.warnings)
		}
		_, err = Infer(build(), Options{Strict: true})
		if k.strict == "" && err != nil || k.strict != "" && (err == nil || !strings.Contains(err.Error(), k.strict)) {
			t.Errorf("%s: strict: got %v, want %q", k.doc, err, k.strict)
		}
	}
}

// TestWrongElementType: no runtime loads a model that declares another element type
// than its operators make.
func TestWrongElementType(t *testing.T) {
	spec := graphSpec{in: "x", types: map[string]graph.Type{"x": graph.TensorOf(graph.Float32, 2)}, nodes: "y=Relu(x)", out: "y"}
	g := spec.build()
	declare(g, map[string]graph.Declared{"y": {Type: graph.TensorOf(graph.Float16, 2), Symbols: []string{""}}})
	_, err := Infer(&graph.Model{Opsets: []graph.Opset{{Version: 21}}, Graph: g}, Options{})
	if err == nil || !strings.Contains(err.Error(), "output 0 is declared float16[2], but inferred float32[2]") {
		t.Errorf("got %v", err)
	}
}
