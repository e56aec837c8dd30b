package graph_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestPrintGolden: these two models have everything that the printed form can say. Each is
// what Print makes of it.
func TestPrintGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.graph")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files: %v: expected two or more", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := graph.Parse(file, string(b))
		if err != nil {
			t.Error(err)
			continue
		}
		got := graph.Text(m)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(b), got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// TestDocsExample: the example of docs/graph.md is what Print writes, but for its comments.
func TestDocsExample(t *testing.T) {
	page, err := os.ReadFile("../docs/graph.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "    ir 8\n")
	example, _, _ := strings.Cut(rest, "\n\n")
	text := "ir 8\n"
	for line := range strings.Lines(example + "\n") {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), "  // ")
		text += strings.TrimPrefix(line, "    ") + "\n"
	}
	if diff := cmp.Diff(text, graph.Text(parsed(t, "docs/graph.md", text))); diff != "" {
		t.Error(diff)
	}
}

// TestPrintBuilt: a model that was built in memory is the same after printing and parsing.
func TestPrintBuilt(t *testing.T) {
	b := graph.NewBuilder("net 1", 17)
	b.Import("com.acme", 2)
	x := b.Input("x:0", graph.TensorOf(graph.Float32, graph.Unknown, 4), "past + 1")
	any := b.Input("any", graph.Type{Kind: graph.KindSequence, Of: &graph.Type{Kind: graph.KindTensor, Elem: graph.Float16}})
	w := b.Floats("w", []int64{2, 2}, []float32{1, -0.5, 1e-30, 3})
	big := b.Floats("big", []int64{100}, make([]float32, 100))
	out := b.Add(&graph.Node{Name: "n 1", Op: "Two", Domain: "com.acme", Overload: "v2", Inputs: []graph.TensorID{x, graph.None, w}, Attrs: []*graph.Attr{
		{Name: "whole", Type: graph.AttrFloat, Float: 3},
		{Name: "empty", Type: graph.AttrInts},
		{Name: "value", Type: graph.AttrTensor, Tensor: &graph.Data{Name: "value", Type: graph.Int64, Raw: make([]byte, 8), Bytes: 8}},
	}, Props: []graph.Prop{{Key: "note", Value: "a\nb"}, {Key: "onnxmem.offset", Value: "in=arena:0:64"}}}, "in", "", "last")
	b.Declare(out[1+1], graph.TensorOf(graph.Float32, 3))
	b.Output(b.Node("Add", "", out[0], big), out[2], any)
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	text := graph.Text(m)
	for _, line := range []string{
		`in x:0 float32["past + 1",4]`, `in any sequence(float16[...])`, `init w float32[2,2] = [1, -0.5, 1e-30, 3]`, `init big float32[100] = ...`,
		`"in", _, last = com.acme::Two|v2(x:0, _, w) whole=3.0 empty=ints[] value=(value int64[] = 0) #"n 1" : _, _, float32[3] {"note"="a\nb"} @ arena:0:64`,
		`add = Add("in", big) #add`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	again, err := graph.Parse("net", text)
	if err != nil {
		t.Fatal(err)
	}
	if got := graph.Text(again); got != text {
		t.Error(cmp.Diff(text, got))
	}
	for _, tensor := range again.Graph.Tensors {
		if d := tensor.Data; d != nil && d.Elided() != (tensor.Name == "big") {
			t.Errorf("%s: elided is %t", tensor.Name, d.Elided())
		}
	}
	m.Graph.Tensors[big].Data.Raw = nil // the only thing that the printed form leaves out
	m.Graph.Tensors[any].Declared.Symbols = nil
	// The order of the tensors is that in which they are defined: initializers first.
	byName := func(m *graph.Model) (list map[string]*graph.Tensor) {
		list = map[string]*graph.Tensor{}
		for _, x := range m.Graph.Tensors {
			list[x.Name] = x
		}
		return list
	}
	if diff := cmp.Diff(byName(m), byName(again)); diff != "" {
		t.Error(diff)
	}
	for i := range m.Graph.Nodes {
		m.Graph.Nodes[i].Inputs, m.Graph.Nodes[i].Outputs = again.Graph.Nodes[i].Inputs, again.Graph.Nodes[i].Outputs // compared as text
	}
	m.Graph.Tensors, m.Graph.Inputs, m.Graph.Outputs = again.Graph.Tensors, again.Graph.Inputs, again.Graph.Outputs
	if diff := cmp.Diff(m, again); diff != "" {
		t.Error(diff)
	}
}

// TestPrintFound: a comment has the types that inference found, where they say more.
func TestPrintFound(t *testing.T) {
	m := parsed(t, "in x float32[batch,3] : float32[1,3]", "in x float32[batch,3]; y, z = Two(x) : float32[1,3]; out y; out z")
	g := m.Graph
	g.Tensors[0].Type = graph.TensorOf(graph.Float32, 1, 3)
	g.Tensors[1].Type = graph.TensorOf(graph.Float32, 1, 3)
	if got, want := graph.Text(m), "in x float32[batch,3]  // float32[1,3]\ny, z = Two(x) : float32[1,3]\nout y\nout z\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	g.Tensors[2].Type, g.Tensors[2].Dynamic = graph.TensorOf(graph.Int64, graph.AtMost(6)), "data"
	if got, want := graph.Text(m), "y, z = Two(x) : float32[1,3]  // float32[1,3], int64[<=6] dynamic\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func parsed(t *testing.T, name, text string) *graph.Model {
	t.Helper()
	m, err := graph.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPrintOptions: metadata of others and elements can be left out.
func TestPrintOptions(t *testing.T) {
	m := parsed(t, "m", `meta "trace" "long"; meta "onnxmem.dims" "{}"; init k int64[3] = [1, 2, 3]; y = Relu(k) {"stack"="a", "onnxmem.slice"="0"} @ arena:0:64; out y`)
	var b strings.Builder
	if err := graph.Print(&b, m, graph.PrintOptions{Elements: 2, OwnMetadata: true}); err != nil {
		t.Fatal(err)
	}
	if want := `meta "onnxmem.dims" "{}"
init k int64[3] = ...
y = Relu(k) {"onnxmem.slice"="0"} @ arena:0:64
out y
`; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

type fails struct{}

func (fails) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestPrintFails(t *testing.T) {
	if err := graph.Print(fails{}, parsed(t, "m", "in x; out x"), graph.PrintOptions{}); err != os.ErrClosed {
		t.Errorf("got %v, want the error of the writer", err)
	}
}

// TestParseErrors: every error says where and what was expected.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown name", "in x\ny = Relu(z)\nout y", `m: line 2, column 10: nothing makes "z": expected a node output, an input or an initializer`},
		{"an output without a maker", "in x\nout y", `m: line 2, column 5: nothing makes "y"`},
		{"two makers", "in x; x = Relu(x)", `m: line 1, column 7: "x" has two makers: expected names that differ`},
		{"no operator", "y = (x)", `line 1, column 5: found "(": expected an operator`},
		{"a list that does not end", "y = Relu(x", `line 1, column 11: found the end of the text: expected ","`},
		{"no equals sign", "in x\ny Relu(x)", `line 2, column 3: found "Relu": expected ","`},
		{"a string that does not end", `producer "abc`, `line 1, column 10: a string that does not end`},
		{"a character of no token", "y = Relu(x) \x01", `line 1, column 13: found "\x01": expected a name, a string`},
		{"an attribute without value", "in x; y = Relu(x) axis", `column 23: found the end of the text: expected "=" after an attribute's name`},
		{"an attribute twice", "in x; y = Relu(x) axis=1 axis=2", `column 26: attribute "axis" occurs twice`},
		{"a word as value", "in x; y = Relu(x) axis=abc", `column 24: found "abc": expected the value of an attribute`},
		{"kinds in a list", `in x; y = Relu(x) axes=[1,"a"]`, `column 24: a list of ints and strings: expected elements of one kind`},
		{"a brace too few", "in x; y = If(x) then_branch=graph {\nout x\n", `line 3, column 1: found the end of the text: expected`},
		{"a brace too many", "in x\n}", `line 2, column 1: found "}": expected`},
		{"a statement of the model in a body", "in x; y = If(x) then_branch=graph { ir 3 }", `column 37: found "ir": expected in, init, out or a node`},
		{"too few elements", "init k int64[3] = [1,2]", `column 19: 2 elements: expected 3 for int64[3]`},
		{"an element that does not fit", "init k int8[1] = 128", `column 18: found "128": expected an element of int8`},
		{"a negative length", "init k int8[-1] = 1", `column 8: int8[?]: expected lengths of 0 or more`},
		{"a size above 63 bits", "init k int64[4294967296,4294967296] = ...", `column 8: int64[4294967296,4294967296]: expected lengths of 0 or more and a size that fits 63 bits`},
		{"a large fill", "init k int8[4194305] = 1", `column 24: one number gives more than 4194304 bytes of elements`},
		{"many fills", strings.Repeat("init k int8[4194304] = 1\n", 2), `line 2, column 24: one number gives more than`},
		{"no type", "init k float33[1] = 1", `column 8: found "float33": expected an element type`},
		{"types without end", "in x " + strings.Repeat("sequence(", 100), "more than 64 types within each other"},
		{"bodies without end", strings.Repeat("y = If() a=graph {\n", 200), "line 101, column 19: graphs are nested more than 100 levels deep"},
		{"more types than outputs", "in x; y = Relu(x) : float32[1], float32[1]", `column 31: found ",": expected at most one type for each output`},
		{"more places than outputs", "in x; y = Relu(x) @ arena:0:1, arena:0:1", `found ",": expected at most one place`},
		{"a graph as default", "function f::F { attr a=graph { } }", `column 22: the default of attribute "a" is a graph`},
		{"sparse within sparse", "init w float32[1] = sparse (float32[1] = sparse (float32[1] = 1) (int64[1] = 0)) (int64[1] = 0)", `found "sparse": expected an element of float32`},
		{"sparse values of another type", "init w float32[2] = sparse (int8[1] = 1) (int64[1] = 0)", `values of int8: expected float32`},
		{"a cycle", "a = Relu(b) #p\nb = Relu(a) #q\nout b", `m: nodes form a cycle: "p" -> "q" -> "p"`},
		{"rest of a line", "in x float32[1] y", `column 17: found "y": expected the end of the line`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := graph.Parse("m", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestParseBounded: no text makes Parse allocate much more than its own length.
func TestParseBounded(t *testing.T) {
	nest := "in a; in b\n" + strings.Repeat("y = If(a) t=graph {\n", 90) + strings.Repeat("_ = F(a, b)\n", 2000) + strings.Repeat("}\n", 90)
	inputs, uses := "", ""
	for i := range 3000 {
		name := "x" + strings.Repeat("i", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		inputs += "in " + name + "\n"
		uses += "_ = F(" + name + ")\n"
	}
	for name, text := range map[string]string{
		"nested bodies":    nest,
		"captures":         inputs + strings.Repeat("y = If() t=graph {\n", 90) + uses + strings.Repeat("}\n", 90),
		"claimed lengths":  strings.Repeat("init w float32[1000000,1000000] = ...\n", 1) + "init v int64[1000000000] = [1]",
		"many attributes":  "y = F() " + attributes(20000),
		"open parentheses": strings.Repeat("y = F() a=(", 20000),
		"fills":            strings.Repeat("init w int8[1000000] = 1\n", 1000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := graph.Parse(name, text)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(8<<20+1000*len(text)); got > most {
			t.Errorf("%s: %d bytes for a text of %d: expected at most %d (%v)", name, got, len(text), most, err)
		}
		if (m == nil) == (err == nil) {
			t.Errorf("%s: model %v, error %v: expected one of them", name, m, err)
		}
	}
}

func attributes(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(" a" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + string(rune('a'+i/17576)) + "=1")
	}
	return b.String()
}

// FuzzParse: no text makes Parse panic, and what it accepts is the same after printing.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.graph")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			f.Add(string(b))
		}
	}
	f.Add("in x float32[batch,?]; y = Clip(x, _) a=nan:7fc00001 b=[1.5,2] : _ ; out y")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := graph.Parse("fuzz", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz: ") {
				t.Errorf("error does not name the text: %v", err)
			}
			return
		}
		if err := graph.Check(m); err != nil {
			t.Fatalf("a model that was accepted: %v", err)
		}
		printed := graph.Text(m)
		again, err := graph.Parse("printed", printed)
		if err != nil {
			t.Fatalf("%v:\n%s", err, printed)
		}
		if got := graph.Text(again); got != printed {
			t.Fatal(cmp.Diff(printed, got))
		}
		if !reflect.DeepEqual(kept(m), kept(again)) {
			t.Fatalf("%q: not the same model after printing:\n%s", text, printed)
		}
	})
}

// kept removes the elements that Print leaves out.
func kept(m *graph.Model) *graph.Model {
	var data func(d *graph.Data)
	data = func(d *graph.Data) {
		switch {
		case d == nil:
		case d.Sparse != nil:
			data(d.Sparse.Values)
			data(d.Sparse.Indices)
			if d.Bytes = 0; d.Sparse.Values != nil && d.Sparse.Indices != nil {
				d.Bytes = d.Sparse.Values.Bytes + d.Sparse.Indices.Bytes
			}
		case d.Elements() > 32:
			d.Raw, d.Texts = nil, nil
			if d.Type == graph.String {
				d.Bytes = 0
			}
		}
	}
	var scope func(g *graph.Graph)
	attrs := func(list []*graph.Attr) {
		for _, a := range list {
			if a.Float != a.Float { // a NaN is not equal to itself
				a.Float = 0
			}
			for i, v := range a.Floats {
				if v != v {
					a.Floats[i] = 0
				}
			}
			data(a.Tensor)
			for _, d := range a.Tensors {
				data(d)
			}
			if a.Sparse != nil {
				data(&graph.Data{Sparse: a.Sparse})
			}
			for _, g := range a.All() {
				scope(g)
			}
		}
	}
	scope = func(g *graph.Graph) {
		for _, t := range g.Tensors {
			data(t.Data)
		}
		for _, n := range g.Nodes {
			attrs(n.Attrs)
		}
	}
	scope(m.Graph)
	for _, f := range m.Functions {
		attrs(f.Defaults)
		scope(f.Body)
	}
	return m
}
