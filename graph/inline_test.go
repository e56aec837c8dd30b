package graph_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/ops"
)

// inlined reads a model, inlines its functions, writes it and reads it again.
func inlined(t *testing.T, name string) (before, after *graph.Model) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "functions", name))
	if err != nil {
		t.Fatal(err)
	}
	if before, err = onnx.Parse(name, b); err != nil {
		t.Fatal(err)
	}
	m, err := graph.Inline(before)
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = im.Bytes(); err != nil {
		t.Fatal(err)
	}
	if after, err = onnx.Parse("inlined.onnx", b); err != nil {
		t.Fatal(err)
	}
	return before, after
}

// TestInlineKeepsResults: inlining changes no result, for functions that call functions,
// for attributes that are stated, defaulted, or passed on under another name, and for
// inputs and outputs that are left out.
func TestInlineKeepsResults(t *testing.T) {
	before, after := inlined(t, "calls.onnx")
	feeds := map[string]*reference.Tensor{"X": {Type: graph.Float32, Shape: []int{2, 3}, F: []float64{-1, 2, 0.5, 0.25, -3, 1}}}
	want, err := reference.Eval(before, feeds)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reference.Eval(after, feeds)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got["Y"].F, want["Y"].F) {
		t.Errorf("Y is %v, expected %v", got["Y"].F, want["Y"].F)
	}
	if _, err := ops.Infer(after, ops.Options{}); err != nil {
		t.Error(err)
	}
	var made []string
	for _, n := range after.Graph.Nodes {
		made = append(made, n.Name)
	}
	if want := []string{"n1/Leaf/LeakyRelu", "n1/Leaf/Mul"}; !slices.Equal(made[:2], want) {
		t.Errorf("the first nodes are %q, expected %q", made[:2], want)
	}
}

// TestInlineLeavesNothing: after inlining, neither the graph nor a body has a
// function, a call, or two tensors of one name.
func TestInlineLeavesNothing(t *testing.T) {
	for _, name := range []string{"calls.onnx", "bodies.onnx"} {
		_, after := inlined(t, name)
		if len(after.Functions) != 0 {
			t.Errorf("%s: %d functions are left", name, len(after.Functions))
		}
		seen := map[string]bool{}
		var walk func(g *graph.Graph)
		walk = func(g *graph.Graph) {
			for _, x := range g.Tensors {
				if x.Capture {
					continue
				}
				if seen[x.Name] {
					t.Errorf("%s: two tensors are named %q", name, x.Name)
				}
				seen[x.Name] = true
			}
			for _, n := range g.Nodes {
				if n.Domain != "" {
					t.Errorf("%s: node %q calls %s", name, n.Name, n.OpName())
				}
				for _, a := range n.Bodies() {
					for _, b := range a.All() {
						walk(b)
					}
				}
			}
		}
		walk(after.Graph)
		if _, err := ops.Infer(after, ops.Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// function returns a local function x -> y with one node for each operator.
func function(name string, version int64, calls ...string) *graph.Function {
	g := &graph.Graph{}
	last := g.NewTensor("x")
	g.Inputs = []graph.TensorID{last}
	for i, op := range calls {
		n := &graph.Node{Op: op, Inputs: []graph.TensorID{last}}
		if op == strings.ToLower(op) {
			n.Domain = "loc"
		}
		last = g.NewTensor(fmt.Sprintf("t%d", i))
		n.Outputs = []graph.TensorID{last}
		g.Nodes = append(g.Nodes, n)
	}
	g.Outputs = []graph.TensorID{last}
	g.Link()
	return &graph.Function{Domain: "loc", Name: name, Body: g, Opsets: []graph.Opset{{Version: version}, {Domain: "loc", Version: 1}}}
}

// calling returns a model that calls function a.
func calling(functions ...*graph.Function) *graph.Model {
	m := function("main", 18, "a")
	return &graph.Model{IRVersion: 8, Opsets: m.Opsets, Graph: m.Body, Functions: functions}
}

func TestInlineRefuses(t *testing.T) {
	bomb := []*graph.Function{function("a", 18, slices.Repeat([]string{"b"}, 300)...)}
	for c := 'b'; c < 'g'; c++ {
		bomb = append(bomb, function(string(c), 18, slices.Repeat([]string{string(c + 1)}, 300)...))
	}
	for _, c := range []struct {
		name string
		m    *graph.Model
		want string
	}{
		{"a cycle", calling(function("a", 18, "b"), function("b", 18, "a")), `function "a" calls itself`},
		{"another version", calling(function("a", 17, "Relu")), `function "a" imports version 17 of ai.onnx, the model version 18: expected one version to inline it`},
		{"calls that multiply", calling(bomb...), "inlining makes more than 1000000 nodes and tensors"},
	} {
		_, err := graph.Inline(c.m)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q", c.name, err, c.want)
		}
	}
}

// TestInlineOfAnInputThatIsAnOutput: if a function's input is its output, the call
// becomes an Identity.
func TestInlineOfAnInputThatIsAnOutput(t *testing.T) {
	m, err := graph.Inline(calling(function("a", 18)))
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Graph.Nodes; len(n) != 1 || n[0].Op != "Identity" {
		t.Errorf("found %d nodes, expected one Identity", len(n))
	}
}
