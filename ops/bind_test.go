package ops

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// literal is a literal of rank 1, or a number that fills any shape.
func literal(numbers ...string) graph.Literal {
	l := graph.Literal{}
	for _, x := range numbers {
		l.Data = append(l.Data, json.Number(x))
	}
	if len(l.Data) > 1 {
		l.Shape = []int64{int64(len(l.Data))}
	}
	return l
}

// bound infers Identity nodes of inputs whose axes are "n" for a symbol, "8" for a
// length and "" for no name; nil is no shape. It returns the types of the outputs, the dimensions and the
// warnings.
func bound(inputs map[string][]string, elem graph.DType, opt Options) (text string, warnings []string) {
	spec := graphSpec{types: tensors{}}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		spec.in += name + " "
		spec.out += name + "2 "
		spec.nodes += fmt.Sprintf("%s2=Identity(%s);", name, name)
		spec.types[name] = graph.TensorOf(elem)
	}
	g := spec.build()
	for _, id := range g.Inputs {
		t := g.Tensors[id]
		t.Declared.Type.Ranked = inputs[t.Name] != nil
		for _, axis := range inputs[t.Name] {
			d := graph.Unknown
			if _, err := fmt.Sscan(axis, &d); err == nil {
				axis = ""
			}
			t.Declared.Type.Shape = append(t.Declared.Type.Shape, d)
			t.Declared.Symbols = append(t.Declared.Symbols, axis)
		}
	}
	inf, err := Infer(&graph.Model{Graph: g, Opsets: []graph.Opset{{Version: 21}}}, opt)
	if err != nil {
		return "error: " + err.Error(), nil
	}
	var parts []string
	for _, id := range g.Outputs {
		parts = append(parts, graph.ShapeString(g.Tensors[id].Type.Shape))
	}
	for _, d := range inf.Dims {
		assumed := ""
		if d.Assumed {
			assumed = "?"
		}
		parts = append(parts, fmt.Sprintf("%s=%d%s", d.Name, d.Value, assumed))
	}
	return strings.Join(parts, " "), inf.Warnings
}

// TestBindDims: a dimension is bound by its name or by its place; the place wins, and
// what binds nothing is refused.
func TestBindDims(t *testing.T) {
	dims := func(text string) map[string]int64 {
		m := map[string]int64{}
		for _, part := range strings.Fields(text) {
			name, n, _ := strings.Cut(part, "=")
			v := int64(0)
			_, _ = fmt.Sscan(n, &v)
			m[name] = v
		}
		return m
	}
	one := map[string][]string{"x": {"n", "3", "w"}}
	two := map[string][]string{"x": {"n", "w"}, "y": {"w"}}
	three := map[string][]string{"x": {"w"}, "y": {"w"}, "z": {"w"}}
	for _, c := range []struct {
		doc      string
		inputs   map[string][]string
		dims     string
		want     string
		warnings []string
	}{
		{"by name", one, "n=2 w=5", "[2,3,5] n=2 w=5", nil},
		{"by place", one, "n=2 x[2]=5", "[2,3,5] n=2 w=5", nil},
		{"a place gives the name its length", two, "x[1]=5", "[1,5] [5] n=1? w=5", nil},
		{"by place and by name, equal", two, "x[1]=5 w=5", "[1,5] [5] n=1? w=5", nil},
		{
			"the place wins over the name", two, "x[1]=5 w=4", "[1,5] [4] n=1? w=4 x[1]=5",
			[]string{`dimension "x[1]" is 5, but its name "w" is 4: the length by place is used`},
		},
		{
			"two places of a name that contradict", three, "x[0]=5 y[0]=4", "[5] [4] [1] w=1? x[0]=5 y[0]=4",
			[]string{`dimension "x[0]" is 5, but its name "w" is 1: the length by place is used`, `dimension "y[0]" is 4, but its name "w" is 1: the length by place is used`},
		},
		{
			"all places of a name that contradict",
			map[string][]string{"x": {"w"}, "y": {"w"}},
			"x[0]=5 y[0]=4", "[5] [4] x[0]=5 y[0]=4",
			[]string{`dimension "x[0]" is 5, but other places of "w" have other lengths`, `dimension "y[0]" is 4, but other places of "w" have other lengths`},
		},
		{"each ? is a dimension of its own", map[string][]string{"x": {"?", "?", "3"}}, "x[1]=7", "[1,7,3] x[0]=1? x[1]=7", nil},
		{"an expression follows", map[string][]string{"x": {"past", "past + 1"}}, "past=3", "[3,4] past=3 past + 1=4", nil},
		{
			"an expression that is given by place",
			map[string][]string{"x": {"past", "past + 1"}},
			"past=3 x[1]=9", "[3,9] past=3 past + 1=9",
			[]string{`dimension "past + 1" is 9, but 4 follows from the other dimensions: the length given is used`},
		},
		{"no shape, by places", map[string][]string{"x": nil}, "x[1]=5 x[0]=4", "[4,5] x[0]=4 x[1]=5", nil},
		{"no shape, by its last place", map[string][]string{"x": nil}, "x[2]=5", "[1,1,5] x[0]=1? x[1]=1? x[2]=5", nil},
		{"no shape, of an impossible rank", map[string][]string{"x": nil}, "x[999]=5", `error: tensor "x": graph input without a shape: say --dim 'x[0]=N' and so on for each axis`, nil},
		{"a name that no input has", one, "m=2", `error: no dimension "m": this model has n (x[0]), w (x[2])`, nil},
		{"? is no name", map[string][]string{"x": {"?"}}, "?=2", `error: no dimension "?": this model has x[0]`, nil},
		{"a place that does not exist", one, "x[3]=2", `error: no dimension "x[3]": this model has n (x[0]), w (x[2])`, nil},
		{"a place with a fixed length", one, "x[1]=2", `error: dimension "x[1]" cannot be bound: its length is 3 in the file`, nil},
		{"a negative length", one, "n=-2", `error: dimension "n" is -2: expected a length >= 0`, nil},
	} {
		got, warnings := bound(c.inputs, graph.Float32, Options{Dims: dims(c.dims)})
		if got != c.want || !slices.Equal(warnings, c.warnings) {
			t.Errorf("%s: got %s %q, want %s %q", c.doc, got, warnings, c.want, c.warnings)
		}
	}
}

// TestBindValues: the value of an input gives its open axes their lengths, and is known
// to all that depends on it.
func TestBindValues(t *testing.T) {
	for _, c := range []struct {
		doc    string
		inputs map[string][]string
		opt    Options
		want   string
	}{
		{"a number fills the input", map[string][]string{"s": {"2", "2"}}, Options{Values: map[string]graph.Literal{"s": literal("3")}}, "[2,2]"},
		{"a list binds an axis", map[string][]string{"s": {"n"}, "x": {"n"}}, Options{Values: map[string]graph.Literal{"s": literal("3", "4")}}, "[2] [2] n=2"},
		{"a list gives the rank", map[string][]string{"s": nil}, Options{Values: map[string]graph.Literal{"s": literal("3", "4")}}, "[2] s[0]=2"},
		{"of another rank", map[string][]string{"s": {"n", "n"}}, Options{Values: map[string]graph.Literal{"s": literal("3", "4")}}, `error: tensor "s": its value has shape [2], expected [?,?]`},
		{"of another length", map[string][]string{"s": {"3"}}, Options{Values: map[string]graph.Literal{"s": literal("3", "4")}}, `error: tensor "s": its value has shape [2], expected [3]`},
		{
			"of another length than its place",
			map[string][]string{"s": {"n"}},
			Options{Values: map[string]graph.Literal{"s": literal("3", "4")}, Dims: map[string]int64{"s[0]": 3}},
			`error: tensor "s": its value has length 2 along axis 0, but dimension "s[0]" is 3`,
		},
		{"of no input", map[string][]string{"s": {"3"}}, Options{Values: map[string]graph.Literal{"t": literal("3")}}, `error: no input "t": this model has s`},
		{"of no input, in a batch", map[string][]string{"s": {"3"}}, Options{SpareDims: true, Values: map[string]graph.Literal{"t": literal("3")}}, "[3]"},
		{"that is too large", map[string][]string{"s": {"5000"}}, Options{Values: map[string]graph.Literal{"s": literal("3")}}, `error: tensor "s": has a value, but is int64[5000]: expected a tensor of at most 4096 elements`},
		{"of another type", map[string][]string{"s": {}}, Options{Values: map[string]graph.Literal{"s": literal("0.5")}}, `error: tensor "s": its value: 0.5: expected an element of int64`},
	} {
		if got, _ := bound(c.inputs, graph.Int64, c.opt); got != c.want {
			t.Errorf("%s: got %s, want %s", c.doc, got, c.want)
		}
	}
	m := &graph.Model{Opsets: []graph.Opset{{Version: 21}}, Graph: graphSpec{
		in: "s", types: tensors{"s": graph.TensorOf(graph.Int64, 2)}, nodes: "y=ConstantOfShape(s)", out: "y",
	}.build()}
	if _, err := Infer(m, Options{Values: map[string]graph.Literal{"s": literal("6", "7")}}); err != nil {
		t.Fatal(err)
	}
	if got := m.Graph.Tensors[m.Graph.Outputs[0]].Type.String(); got != "float32[6,7]" {
		t.Errorf("a shape that is the value of an input: got %s", got)
	}
}

// TestImpossibleBranch: a branch whose shapes contradict each other is named, and
// nothing in it has a size.
func TestImpossibleBranch(t *testing.T) {
	squeeze := graphSpec{out: "u", nodes: "t=Squeeze(x,k); u=Relu(t)", data: constants{"k": ints([]int64{1}, 0)}}
	spec := graphSpec{
		in: "c x", out: "y", nodes: "y=If(c)", types: tensors{"c": graph.TensorOf(graph.Bool), "x": floats(2, 3)},
		bodies: nodeBodies{"y": {"then_branch": squeeze, "else_branch": {out: "t", nodes: "t=Relu(x)"}}},
	}
	m := &graph.Model{Opsets: []graph.Opset{{Version: 21}}, Graph: spec.build()}
	inf, err := Infer(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const reason = `node "t" (Squeeze): `
	if len(inf.Warnings) != 1 || !strings.HasPrefix(inf.Warnings[0], `node "y" (If): then_branch is planned as never taken, since it cannot run with these shapes: `+reason) {
		t.Errorf("warnings: %q", inf.Warnings)
	}
	then, other := m.Graph.Nodes[0].Attr("then_branch").Graph, m.Graph.Nodes[0].Attr("else_branch").Graph
	if !strings.HasPrefix(then.NeverRuns, reason) || other.NeverRuns != "" {
		t.Errorf("never run: then_branch %q, else_branch %q", then.NeverRuns, other.NeverRuns)
	}
	for _, x := range then.Tensors {
		if x.Maker >= 0 && (x.Dynamic == "" || x.Bytes != 0) {
			t.Errorf("tensor %q of the impossible branch: %d bytes, dynamic %q", x.Name, x.Bytes, x.Dynamic)
		}
	}
	// With a value, the branch is known, and the other one is no matter for a warning.
	inf, err = Infer(m, Options{Values: map[string]graph.Literal{"c": literal("0")}})
	if err != nil || len(inf.Warnings) > 0 || then.NeverRuns != "the condition is known" {
		t.Errorf("with a value: %v, warnings %q, then_branch %q", err, inf.Warnings, then.NeverRuns)
	}
	if _, err = Infer(m, Options{Values: map[string]graph.Literal{"c": literal("1")}}); err == nil {
		t.Error("the impossible branch is taken: expected an error")
	}
}
