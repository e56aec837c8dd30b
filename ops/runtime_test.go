package ops_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
)

// TestRuntimeRows: a row is of an operator that ops knows, occurs once, says where it is
// from, and has a pair.
func TestRuntimeRows(t *testing.T) {
	for _, r := range ops.Runtimes {
		if ops.LookupRuntime(r.Name) == nil || r.Version == "" || r.Doc == "" {
			t.Errorf("%s: expected a runtime with a version and a description", r.Name)
		}
		seen := map[string]bool{}
		for _, w := range r.Rows {
			name := w.Domain + "::" + w.Name
			if ops.Lookup(w.Domain, w.Name) == nil || w.Source == "" || len(w.Views)+len(w.Inplace) == 0 || seen[name] {
				t.Errorf("%s: %s: expected one row of a known operator, with a source and a pair", r.Name, name)
			}
			seen[name] = true
		}
	}
	if ops.LookupRuntime("") != nil {
		t.Error("a runtime without a name")
	}
}

// TestRestrict: what ONNX Runtime shares of a small graph, as VIEW:node or OVER:node.
func TestRestrict(t *testing.T) {
	for _, c := range []struct {
		name, runtime, want string
		build               func(b *restrictGraph)
	}{
		{"a chain of activations", ops.ONNXRuntime, "over:r over:s", func(b *restrictGraph) {
			b.node("a", "Transpose", "x").node("r", "Relu", "a").node("s", "Sigmoid", "r").node("y", "Transpose", "s")
		}},
		{"a graph input and a graph output keep their bytes", ops.ONNXRuntime, "", func(b *restrictGraph) {
			b.node("r", "Relu", "x").node("t", "Transpose", "r").node("y", "Relu", "t")
		}},
		{"a graph output is not written over", ops.ONNXRuntime, "", func(b *restrictGraph) {
			b.node("y", "Transpose", "x").node("r", "Relu", "y").node("t", "Transpose", "r")
		}},
		{"a view of a graph input is a view, and is not written over", ops.ONNXRuntime, "view:v", func(b *restrictGraph) {
			b.node("v", "Identity", "x").node("r", "Relu", "v").node("y", "Transpose", "r")
		}},
		{"a view that is a graph output is a copy", ops.ONNXRuntime, "", func(b *restrictGraph) {
			b.node("t", "Transpose", "x").node("y", "Identity", "t")
		}},
		{"a view that ONNX Runtime copies onto its operand", ops.ONNXRuntime, "over:c", func(b *restrictGraph) {
			b.node("t", "Transpose", "x").node("c", "Cast", "t").node("y", "Transpose", "c")
		}},
		{"sums of the registered kernels have a block of their own", ops.ONNXRuntime, "", func(b *restrictGraph) {
			b.node("t", "Transpose", "x").node("u", "Transpose", "x").node("a", "Add", "t", "u").node("y", "Transpose", "a")
		}},
		{"an allocator puts sums over an operand", ops.ONNXRuntimeArena, "over:a over:a", func(b *restrictGraph) {
			b.node("t", "Transpose", "x").node("u", "Transpose", "x").node("a", "Add", "t", "u").node("y", "Transpose", "a")
		}},
		{"what a node reads twice has two users", ops.ONNXRuntimeArena, "", func(b *restrictGraph) {
			b.node("t", "Transpose", "x").node("a", "Add", "t", "t").node("y", "Transpose", "a")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &restrictGraph{m: &graph.Model{Graph: &graph.Graph{}, Opsets: []graph.Opset{{Version: 21}}}, names: map[string]graph.TensorID{}}
			x := b.tensor("x")
			b.m.Graph.Inputs = append(b.m.Graph.Inputs, x)
			b.m.Graph.Tensors[x].Input = true
			b.m.Graph.Tensors[x].Declared = &graph.Declared{Type: graph.TensorOf(graph.Float32, 5, 5)}
			c.build(b)
			y := b.tensor("y")
			b.m.Graph.Outputs, b.m.Graph.Tensors[y].Output = []graph.TensorID{y}, true
			b.m.Graph.Link()
			if _, err := ops.Infer(b.m, ops.Options{}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // twice is once
				ops.Restrict(b.m, ops.LookupRuntime(c.runtime))
				var got []string
				for _, n := range b.m.Graph.Nodes {
					got = append(got, slices.Repeat([]string{"view:" + n.Name}, len(n.Semantics.Views))...)
					got = append(got, slices.Repeat([]string{"over:" + n.Name}, len(n.Semantics.Inplace))...)
				}
				if s := strings.Join(got, " "); s != c.want {
					t.Errorf("expected %q, found %q", c.want, s)
				}
			}
		})
	}
}

// restrictGraph builds a graph of nodes with one output, which have its name.
type restrictGraph struct {
	m     *graph.Model
	names map[string]graph.TensorID
}

func (b *restrictGraph) tensor(name string) graph.TensorID {
	if _, known := b.names[name]; !known {
		b.names[name] = b.m.Graph.NewTensor(name)
	}
	return b.names[name]
}

func (b *restrictGraph) node(out, op string, in ...string) *restrictGraph {
	n := &graph.Node{Name: out, Op: op, Outputs: []graph.TensorID{b.tensor(out)}}
	if op == "Cast" {
		n.Attrs = []*graph.Attr{{Name: "to", Type: graph.AttrInt, Int: int64(graph.Float32)}}
	}
	for _, name := range in {
		n.Inputs = append(n.Inputs, b.tensor(name))
	}
	b.m.Graph.Nodes = append(b.m.Graph.Nodes, n)
	return b
}
