package passes_test

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
)

// scopeBuilder builds a graph node by node; tensors are known by name.
type scopeBuilder struct {
	g     *graph.Graph
	names map[string]graph.TensorID
}

func newScope() *scopeBuilder {
	return &scopeBuilder{&graph.Graph{Name: "g"}, map[string]graph.TensorID{}}
}

func (b *scopeBuilder) tensor(name string) graph.TensorID {
	if id, ok := b.names[name]; ok {
		return id
	}
	id := b.g.NewTensor(name)
	b.names[name] = id
	return id
}

func (b *scopeBuilder) node(op, domain string, in, out []string, attrs ...*graph.Attr) {
	n := &graph.Node{Op: op, Domain: domain, Attrs: attrs}
	for _, s := range in {
		n.Inputs = append(n.Inputs, b.tensor(s))
	}
	for _, s := range out {
		n.Outputs = append(n.Outputs, b.tensor(s))
	}
	b.g.Nodes = append(b.g.Nodes, n)
}

func float(shape ...graph.Dim) *graph.Declared {
	return &graph.Declared{Type: graph.TensorOf(graph.Float32, shape...), Symbols: make([]string, len(shape))}
}

// branch doubles x twice and adds the two, in an order that holds both at once:
// a, b, then their readers.
func branch() *graph.Graph {
	b := newScope()
	axis := &graph.Attr{Name: "axis", Type: graph.AttrInt, Int: 0}
	drop := &graph.Attr{Name: "keepdims", Type: graph.AttrInt, Int: 0}
	b.node("Concat", "", []string{"x", "x"}, []string{"a"}, axis)
	b.node("Concat", "", []string{"x", "x"}, []string{"b"}, axis)
	b.node("ReduceSum", "", []string{"a"}, []string{"sa"}, drop)
	b.node("ReduceSum", "", []string{"b"}, []string{"sb"}, drop)
	b.node("Add", "", []string{"sa", "sb"}, []string{"s"})
	b.g.Outputs = []graph.TensorID{b.tensor("s")}
	b.g.Tensors[b.tensor("s")].Declared = float()
	return b.g
}

// TestBodiesInFunctionsKeepTheirOrder: the bodies of an If in the main graph may
// be reordered; those of an If in a local function may not, since the functions
// of the file stay as they are.
func TestBodiesInFunctionsKeepTheirOrder(t *testing.T) {
	ifNode := func(b *scopeBuilder) {
		b.node("If", "", []string{"c"}, []string{"y"},
			&graph.Attr{Name: "then_branch", Type: graph.AttrGraph, Graph: branch()},
			&graph.Attr{Name: "else_branch", Type: graph.AttrGraph, Graph: branch()})
	}
	finish := func(b *scopeBuilder, functions ...*graph.Function) []byte {
		for _, name := range []string{"x", "c"} {
			id := b.tensor(name)
			b.g.Tensors[id].Input = true
			b.g.Inputs = append(b.g.Inputs, id)
		}
		b.g.Tensors[b.tensor("x")].Declared = float(64)
		b.g.Tensors[b.tensor("c")].Declared = &graph.Declared{Type: graph.TensorOf(graph.Bool)}
		b.g.Tensors[b.tensor("y")].Declared = float()
		b.g.Tensors[b.tensor("y")].Output = true
		b.g.Outputs = []graph.TensorID{b.tensor("y")}
		im, err := onnx.Encode(&graph.Model{
			IRVersion: 8, Opsets: []graph.Opset{{Domain: "", Version: 17}, {Domain: "f", Version: 1}},
			Graph: b.g, Functions: functions,
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := im.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	direct := newScope()
	ifNode(direct)
	_, p := planned(t, finish(direct), passes.Options{})
	// One doubled x (512 B), the sum that waits, and the sum being made.
	if got := p.Subgraphs[0].Bytes; got != 512+2*64 {
		t.Errorf("workspace of a body of the main graph: %d bytes, expected %d", got, 512+2*64)
	}

	inner := newScope()
	inner.g.Inputs = []graph.TensorID{inner.tensor("x"), inner.tensor("c")}
	ifNode(inner)
	inner.g.Outputs = []graph.TensorID{inner.tensor("y")}
	caller := newScope()
	caller.node("F", "f", []string{"x", "c"}, []string{"y"})
	f := &graph.Function{Domain: "f", Name: "F", Opsets: []graph.Opset{{Domain: "", Version: 17}}, Body: inner.g}
	_, p = planned(t, finish(caller, f), passes.Options{})
	workspace := int64(0)
	for _, b := range p.Buffers {
		if b.Node != nil {
			workspace = b.Bytes
		}
	}
	// Both doubled x at once and the first sum, plus y beside the bodies.
	if want := int64(2*512 + 64 + 64); workspace != want {
		t.Errorf("workspace of a function: %d bytes, expected %d", workspace, want)
	}
}
