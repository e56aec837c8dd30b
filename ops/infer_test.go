package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// Tests state a graph in its printed form (graph.Parse): "y=Relu(x); z=Add(y,x)". Attributes,
// initializers and types are values of Go, since tests compute them; attributes and bodies
// are keyed by the name of the node's first output.

// graphSpec is one scope.
type graphSpec struct {
	in, out string // names, separated by spaces
	nodes   string // "a,b=Op(x,y); c=com.acme::Op(a,_)"
	attrs   map[string][]*graph.Attr
	bodies  map[string]map[string]graphSpec // node, attribute
	data    map[string]*graph.Data          // initializers
	types   map[string]graph.Type           // of inputs
}

// build makes the graph. It panics if the text is wrong.
func (s graphSpec) build() *graph.Graph {
	m, err := graph.Parse("test", s.text())
	if err != nil {
		panic(err)
	}
	s.complete(m.Graph)
	return m.Graph
}

func (s graphSpec) text() string {
	var b strings.Builder
	for _, name := range strings.Fields(s.in) {
		fmt.Fprintf(&b, "in %q\n", name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.data)) {
		fmt.Fprintf(&b, "init %q float32[0] = []\n", name)
	}
	for node := range strings.SplitSeq(s.nodes, ";") {
		b.WriteString(node)
		bodies := s.bodies[firstOutput(node)]
		for _, name := range slices.Sorted(maps.Keys(bodies)) {
			fmt.Fprintf(&b, " %s=graph {\n%s}", name, bodies[name].text())
		}
		b.WriteString("\n")
	}
	for _, name := range strings.Fields(s.out) {
		fmt.Fprintf(&b, "out %q\n", name)
	}
	return b.String()
}

func firstOutput(node string) string {
	outs, _, _ := strings.Cut(node, "=")
	first, _, _ := strings.Cut(outs, ",")
	return strings.TrimSpace(first)
}

// complete adds what the text does not say.
func (s graphSpec) complete(g *graph.Graph) {
	for _, t := range g.Tensors {
		if t.Data != nil {
			t.Data = s.data[t.Name]
		}
		if typ, ok := s.types[t.Name]; ok && t.Input {
			t.Declared = &graph.Declared{Type: typ, Symbols: make([]string, len(typ.Shape))}
		}
	}
	for i, node := range strings.Split(strings.Trim(s.nodes, "; "), ";") {
		if i == len(g.Nodes) {
			break // no node at all
		}
		n, first := g.Nodes[i], firstOutput(node)
		outs, _, _ := strings.Cut(node, "=")
		n.Name = strings.TrimSpace(outs)
		for _, a := range n.Attrs {
			s.bodies[first][a.Name].complete(a.Graph)
		}
		n.Attrs = append(slices.Clone(s.attrs[first]), n.Attrs...)
	}
}

// infer runs Infer on a model of opset 21 and prints the types of the outputs.
func (s graphSpec) infer(t *testing.T, functions ...*graph.Function) (*graph.Model, string) {
	t.Helper()
	m := &graph.Model{Opsets: []graph.Opset{{Version: 21}, {Domain: "f", Version: 1}}, Graph: s.build(), Functions: functions}
	if _, err := Infer(m, Options{}); err != nil {
		return m, "error: " + err.Error()
	}
	var parts []string
	for _, id := range m.Graph.Outputs {
		parts = append(parts, m.Graph.Tensors[id].Type.String())
	}
	return m, strings.Join(parts, ", ")
}

// ints is an int64 initializer; without a shape it is a scalar.
func ints(shape []int64, v ...int64) *graph.Data {
	return &graph.Data{Type: graph.Int64, Dims: shape, Ints: v, Bytes: int64(8 * len(v))}
}

func bools(v int64) *graph.Data {
	return &graph.Data{Type: graph.Bool, Ints: []int64{v}, Bytes: 1}
}

func floats(dims ...graph.Dim) graph.Type { return graph.TensorOf(graph.Float32, dims...) }

// inferCase is one row of a table of models.
type inferCase struct {
	name  string
	graph graphSpec
	want  string // the types of the outputs, or "error: PART OF THE MESSAGE"
}

func runInferCases(t *testing.T, cases []inferCase) {
	t.Helper()
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			_, got := k.graph.infer(t)
			if text, isError := strings.CutPrefix(k.want, "error: "); isError && strings.HasPrefix(got, "error: ") && strings.Contains(got, text) {
				return
			}
			if got != k.want {
				t.Errorf("\n got  %s\n want %s", got, k.want)
			}
		})
	}
}

// function makes a local function of domain f.
func function(name string, s graphSpec) *graph.Function {
	return &graph.Function{Domain: "f", Name: name, Opsets: []graph.Opset{{Version: 21}, {Domain: "f", Version: 1}}, Body: s.build()}
}

func TestFunctionsAreInferredByLookingInside(t *testing.T) {
	double := function("Double", graphSpec{in: "a", out: "s", nodes: "s=Add(a,a)"})
	twice := function("Twice", graphSpec{in: "a", out: "y", nodes: "d=f::Double(a); y=Relu(d)"})
	m, got := graphSpec{in: "x", out: "y z", nodes: "y=f::Twice(x); w=f::Twice(y); z=f::Twice(w)", types: map[string]graph.Type{"x": floats(2, 3)}}.infer(t, double, twice)
	if want := "float32[2,3], float32[2,3]"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	a, b := m.Graph.Nodes[0].Semantics, m.Graph.Nodes[1].Semantics
	if a.Call == nil || a.Call != b.Call {
		t.Error("calls with the same types: expected one instance")
	}
	if a.FLOPs != 12 {
		t.Errorf("a call takes %d operations, expected 12", a.FLOPs)
	}
	if f := twice.Body.Tensors[0]; f.Type.Kind != graph.KindUnknown {
		t.Error("inference changed the function itself")
	}
}

// TestInstanceDependsOnAllAxes: two calls that differ only in axis 17 get separate
// instances of the function.
func TestInstanceDependsOnAllAxes(t *testing.T) {
	relu := function("F", graphSpec{in: "a", out: "y", nodes: "y=Relu(a)"})
	long := func(last graph.Dim) graph.Type { return floats(append(slices.Repeat([]graph.Dim{1}, 17), last)...) }
	m, got := graphSpec{in: "x z", out: "p q", nodes: "p=f::F(x); q=f::F(z)", types: map[string]graph.Type{"x": long(3), "z": long(5)}}.infer(t, relu)
	if strings.HasPrefix(got, "error") {
		t.Fatal(got)
	}
	if q := m.Graph.Tensors[m.Graph.Outputs[1]]; q.Bytes != 20 {
		t.Errorf("q takes %d bytes, expected 20", q.Bytes)
	}
}

func TestFunctionAttributes(t *testing.T) {
	f := function("F", graphSpec{
		in: "a", out: "y", nodes: "y=Concat(a,a)",
		attrs: map[string][]*graph.Attr{"y": {{Name: "axis", Type: graph.AttrInt, Ref: "along"}}},
	})
	f.Defaults = []*graph.Attr{{Name: "along", Type: graph.AttrInt, Int: 1}}
	_, got := graphSpec{
		in: "x", out: "p q", nodes: "p=f::F(x); q=f::F(x)", types: map[string]graph.Type{"x": floats(2, 3)},
		attrs: map[string][]*graph.Attr{"q": {{Name: "along", Type: graph.AttrInt, Int: 0}}},
	}.infer(t, f)
	if want := "float32[2,6], float32[4,3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFunctionInputLeftOut: an input that a call leaves out is left out in the body,
// too.
func TestFunctionInputLeftOut(t *testing.T) {
	f := function("F", graphSpec{in: "a b", out: "y", nodes: "y=OptionalHasElement(b)"})
	m, got := graphSpec{
		in: "x", out: "y", nodes: "h=f::F(x); y=If(h)", types: map[string]graph.Type{"x": floats(2, 3)},
		bodies: map[string]map[string]graphSpec{"y": {
			"then_branch": {out: "a", nodes: "a=Relu(x)"},
			"else_branch": {out: "a", nodes: "a=Concat(x,x)", attrs: map[string][]*graph.Attr{"a": {attrInt("axis", 0)}}},
		}},
	}.infer(t, f)
	if want := "float32[4,3]"; got != want {
		t.Errorf("got %s, want %s (%v)", got, want, m.Graph.Nodes[0].Semantics)
	}
}

func TestRecursion(t *testing.T) {
	self := function("Self", graphSpec{in: "a", out: "b", nodes: "b=f::Self(a)"})
	f0 := function("F0", graphSpec{in: "a", out: "b", nodes: "b=f::F1(a)"})
	f1 := function("F1", graphSpec{in: "a", out: "b", nodes: "c=Cast(a); b=If(c)", bodies: map[string]map[string]graphSpec{"b": {
		"then_branch": {out: "t", nodes: "t=f::F0(a)"}, "else_branch": {out: "t", nodes: "t=Relu(a)"},
	}}})
	main := graphSpec{in: "x", out: "y", nodes: "y=Relu(x)", types: map[string]graph.Type{"x": floats(2)}}
	for _, k := range []struct {
		doc  string
		fs   []*graph.Function
		want string
	}{
		{"a function that nobody calls", []*graph.Function{self}, `function "Self" calls itself: "Self" -> "Self"`},
		{"two, through a body", []*graph.Function{f0, f1}, `function "F0" calls itself: "F0" -> "F1" -> "F0"`},
	} {
		if _, got := main.infer(t, k.fs...); got != "error: "+k.want {
			t.Errorf("%s:\n got  %s\n want error: %s", k.doc, got, k.want)
		}
	}
}

// TestDeepDoubling: 60 functions that each call the next one twice give 60 instances.
func TestDeepDoubling(t *testing.T) {
	var fs []*graph.Function
	for i := range 60 {
		nodes := fmt.Sprintf("c=f::F%d(a); b=f::F%d(c)", i+1, i+1)
		if i == 59 {
			nodes = "b=Relu(a)"
		}
		fs = append(fs, function(fmt.Sprintf("F%d", i), graphSpec{in: "a", out: "b", nodes: nodes}))
	}
	m, got := graphSpec{in: "x", out: "y", nodes: "y=f::F0(x)", types: map[string]graph.Type{"x": floats(64)}}.infer(t, fs...)
	if got != "float32[64]" {
		t.Errorf("got %s", got)
	}
	inf := newInferrer(m, Options{})
	if err := inf.run(); err != nil {
		t.Fatal(err)
	}
	// A body of two nodes and three tensors, and at the end one of one node and two tensors.
	if want := 59*6 + 4; len(inf.calls) != 60 || inf.visits != want {
		t.Errorf("%d instances, %d visits: expected 60, %d", len(inf.calls), inf.visits, want)
	}
	if flops := m.Graph.Nodes[0].Semantics.FLOPs; flops <= 0 {
		t.Errorf("%d operations: overflow", flops)
	}
}

// TestNestedLoopsAreBounded: a loop infers its body several times, so the work grows
// with the depth of nested loops; it must stay bounded.
func TestNestedLoopsAreBounded(t *testing.T) {
	body := graphSpec{in: "i c v", out: "c w", nodes: "w=Concat(v,v)", attrs: map[string][]*graph.Attr{"w": {attrInt("axis", 0)}}}
	for range 20 {
		body = graphSpec{in: "i c v", out: "c w", nodes: "w=Loop(_,c,v)", bodies: map[string]map[string]graphSpec{"w": {"body": body}}}
	}
	m, got := graphSpec{
		in: "c x", out: "y", nodes: "y=Loop(_,c,x)", bodies: map[string]map[string]graphSpec{"y": {"body": body}},
		types: map[string]graph.Type{"c": graph.TensorOf(graph.Bool), "x": floats(2)},
	}.infer(t)
	inf := newInferrer(m, Options{})
	if err := inf.run(); err != nil {
		t.Fatal(err)
	}
	if got != "float32[?]" || inf.visits > 2000 { // 1644
		t.Errorf("got %s after %d visits", got, inf.visits)
	}
}

// TestFoldedElementsAreBounded: if there are too many folded values, inference drops
// some.
func TestFoldedElementsAreBounded(t *testing.T) {
	inf := &inferrer{}
	big := Arg{Type: graph.TensorOf(graph.Int64, FoldLimit), Value: &Value{Shape: []int64{FoldLimit}, Elems: make([]Scalar, FoldLimit)}}
	kept := 0
	for range 10 * maxFolded / FoldLimit {
		if inf.keep(big) != nil {
			kept++
		}
	}
	if kept > maxFolded/FoldLimit {
		t.Errorf("%d values of %d elements are kept", kept, FoldLimit)
	}
	small := Arg{Type: graph.TensorOf(graph.Int64, 2), Value: NewInts(1, 2)}
	if inf.keep(small) == nil {
		t.Error("a shape is dropped")
	}
	small.Shape = []graph.Dim{3}
	if inf.keep(small) != nil {
		t.Error("a value that does not fit its type is kept")
	}
}
