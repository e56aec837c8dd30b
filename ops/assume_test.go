package ops

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestForcedDims: an unbound dimension takes the only given length with which the shapes
// agree. If there are several, or none, the error names the dimensions that matter.
func TestForcedDims(t *testing.T) {
	open := func(symbols ...string) graph.Type {
		typ := graph.TensorOf(graph.Float32)
		for range symbols {
			typ.Shape = append(typ.Shape, graph.Unknown)
		}
		return typ
	}
	build := func(nodes, in, out string, attrs nodeAttrs, data constants, symbols map[string][]string) *graph.Model {
		spec := graphSpec{in: in, out: out, nodes: nodes, attrs: attrs, data: data, types: tensors{}}
		for name, list := range symbols {
			spec.types[name] = open(list...)
		}
		g := spec.build()
		for _, id := range g.Inputs {
			g.Tensors[id].Declared.Symbols = symbols[g.Tensors[id].Name]
		}
		return &graph.Model{Opsets: []graph.Opset{{Version: 21}}, Graph: g}
	}
	concat := func() *graph.Model {
		return build("y=Concat(p,q,r)", "p q r", "y", nodeAttrs{"y": {attrInt("axis", 2)}}, nil,
			map[string][]string{"p": {"a", "b", "c"}, "q": {"d", "e", "f"}, "r": {"g", "h", "i"}})
	}
	steps := func() *graph.Model { // the second product fails only after the first is settled
		return build("s=MatMul(p,q); y=MatMul(s,r)", "p q r", "y", nil, nil,
			map[string][]string{"p": {"a", "b"}, "q": {"c", "d"}, "r": {"e", "f"}})
	}
	weights := func() *graph.Model {
		return build("y=MatMul(p,w)", "p", "y", nil, constants{"w": {Type: graph.Float32, Dims: []int64{2, 1}, Floats: []float64{1, 2}, Bytes: 8}}, map[string][]string{"p": {"a", "b"}})
	}
	for _, c := range []struct {
		doc   string
		model func() *graph.Model
		dims  map[string]int64
		want  string // the shape of y, or "error: PART"
		taken []string
	}{
		{"nothing contradicts", concat, nil, "[1,1,3]", nil},
		{"one length", concat, map[string]int64{"a": 5, "g": 5}, "[5,1,3]", []string{`"d" is unbound: taken as 5, like "a", "g"`}},
		{"two of one node", concat, map[string]int64{"a": 5}, "[5,1,3]", []string{`"d" is unbound: taken as 5, like "a"`, `"g" is unbound: taken as 5, like "a"`}},
		{"two lengths", concat, map[string]int64{"a": 5, "b": 7, "g": 5, "h": 7}, "[5,7,3]", []string{`"d" is unbound: taken as 5, like "a", "g"`, `"e" is unbound: taken as 7, like "b", "h"`}},
		{"two nodes, one after the other", steps, map[string]int64{"b": 5, "d": 7}, "[1,1]", []string{`"c" is unbound: taken as 5, like "b"`, `"e" is unbound: taken as 7, like "d"`}},
		{"given lengths that contradict", concat, map[string]int64{"a": 5, "d": 7}, `error: node "y" (Concat): input 1 "q" has shape [7,1,1], expected 5 on axis 0`, nil},
		{
			"a length that no other has", weights, nil,
			`; taken as 1: "a" (say --dim a=N or p[0]=N), "b" (say --dim b=N or p[1]=N)`, nil,
		},
	} {
		if c.want[0] == ';' {
			c.want = "error: " + c.want
		}
		m := c.model()
		inf, err := Infer(m, Options{Dims: c.dims})
		if want, is := strings.CutPrefix(c.want, "error: "); is {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", c.doc, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.doc, err)
			continue
		}
		if got := graph.ShapeString(m.Graph.Tensors[m.Graph.Outputs[0]].Type.Shape); got != c.want {
			t.Errorf("%s: got %s, want %s", c.doc, got, c.want)
		}
		if len(inf.Warnings) != len(c.taken) || slices.ContainsFunc(inf.Warnings, func(w string) bool {
			return !slices.ContainsFunc(c.taken, func(part string) bool { return strings.Contains(w, "dimension "+part+", because") })
		}) {
			t.Errorf("%s: warnings %q, want %q", c.doc, inf.Warnings, c.taken)
		}
		// The lengths that were found give the same without a search.
		given := map[string]int64{}
		for _, d := range inf.Dims {
			if !d.Assumed {
				given[d.Name] = d.Value
			}
		}
		again, err := Infer(c.model(), Options{Dims: given})
		if err != nil || !slices.Equal(again.Dims, inf.Dims) || len(again.Warnings) > 0 {
			t.Errorf("%s: with %v: %v, %v", c.doc, given, again, err)
		}
	}
}

// TestFixedDimsAreNotBlamed: an error that no length changes names no dimension.
func TestFixedDimsAreNotBlamed(t *testing.T) {
	spec := graphSpec{
		in: "x", out: "y", nodes: "y=Relu(x); z=Add(k,m)", types: tensors{"x": graph.TensorOf(graph.Float32, graph.Unknown)},
		data: constants{"k": ints([]int64{2}, 1, 2), "m": ints([]int64{3}, 1, 2, 3)},
	}
	_, err := Infer(&graph.Model{Opsets: []graph.Opset{{Version: 21}}, Graph: spec.build()}, Options{})
	if err == nil || strings.Contains(err.Error(), "taken as 1") {
		t.Errorf("got %v", err)
	}
}
