package graph_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestCheck: for each fault of a hand-built graph the message names its place. The graph
// is that of small: tensors x, w, matmul, y, y_2, left, right; nodes matmul, y, y_2,
// split.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(m *graph.Model)
		want  string
	}{
		{"no graph", func(m *graph.Model) { m.Graph = nil }, "a model without a graph"},
		{"a function without a body", func(m *graph.Model) { m.Functions = []*graph.Function{{}} }, "function 0 has no body"},
		{"a nil node", func(m *graph.Model) { m.Graph.Nodes[1] = nil }, "node 1 is nil"},
		{"a nil tensor", func(m *graph.Model) { m.Graph.Tensors[1] = nil }, "tensor 1 is nil"},
		{"a nil attribute", func(m *graph.Model) { m.Graph.Nodes[3].Attrs[1] = nil }, `node "split" (Split): attribute 1 is nil`},
		{"an input out of range", func(m *graph.Model) { m.Graph.Nodes[0].Inputs[1] = 99 }, `node "matmul" (MatMul): input 1 is tensor 99: expected one of 7, or None`},
		{"an output out of range", func(m *graph.Model) { m.Graph.Nodes[0].Outputs[0] = -2 }, `node "matmul" (MatMul): output 0 is tensor -2`},
		{"no operator", func(m *graph.Model) { m.Graph.Nodes[0].Op = "" }, `node "matmul" (): no operator`},
		{"two nodes make one tensor", func(m *graph.Model) { m.Graph.Nodes[2].Outputs[0] = 3 }, `node "y_2" (Relu): output 0 is "y": expected a tensor that no other output is`},
		{"one node twice", func(m *graph.Model) { m.Graph.Nodes[2] = m.Graph.Nodes[1] }, `node "y" (Relu): is listed twice in the graph's nodes`},
		{"one tensor twice", func(m *graph.Model) { m.Graph.Tensors[4] = m.Graph.Tensors[3] }, `tensor "y": is listed twice in the graph's tensors`},
		{"two tensors of one name", func(m *graph.Model) { m.Graph.Tensors[4].Name = "y" }, `tensor "y": two tensors have this name`},
		{"nothing makes what is read", func(m *graph.Model) { m.Graph.Nodes[1].Outputs = nil }, `tensor "y": input 0 of node "y_2" (Relu): nothing makes it`},
		{"nothing makes an output", func(m *graph.Model) { m.Graph.Nodes[3].Outputs[1] = graph.None }, `tensor "right": is a graph output, but nothing makes it`},
		{"an input that a node makes", func(m *graph.Model) { m.Graph.Inputs = append(m.Graph.Inputs, 3) }, `tensor "y": is a graph input, and is made`},
		{"an initializer that a node makes", func(m *graph.Model) { m.Graph.Tensors[3].Data = m.Graph.Tensors[1].Data }, `tensor "y": a node makes it, and it has elements`},
		{"an input listed twice", func(m *graph.Model) { m.Graph.Inputs = append(m.Graph.Inputs, 0) }, `tensor "x": is a graph input, and`},
		{"stale links", func(m *graph.Model) { m.Graph.Nodes[1].Inputs[0] = 0 }, "its links are not those of the graph: expected Graph.Link after the last change"},
		{"stale outputs", func(m *graph.Model) { m.Graph.Outputs = m.Graph.Outputs[:1] }, `tensor "right": its links are not those of the graph`},
		{"a cycle", func(m *graph.Model) { m.Graph.Nodes[1].Inputs[0] = 4; m.Graph.Link() }, `nodes form a cycle: "y" -> "y_2" -> "y"`},
		{"captures without an outside", func(m *graph.Model) { m.Graph.Captures = []graph.Capture{{}} }, `graph "small" reads from outside`},
		{"captures that no body has", func(m *graph.Model) { m.Graph.Nodes[1].Captures = []graph.TensorID{0}; m.Graph.Link() }, `node "y" (Relu): its bodies read tensors [], its captures are [0]`},
		{"a graph within itself", func(m *graph.Model) {
			m.Graph.Nodes[1].Attrs = []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: m.Graph}}
		}, `node "y" (Relu): attribute "body": graph "small" stands in two places`},
		{"an element type that there is not", func(m *graph.Model) { m.Graph.Tensors[0].Declared.Type.Elem = 99 }, `tensor "x": its declared type: data type 99`},
		{"bytes that are not those of the shape", func(m *graph.Model) { m.Graph.Tensors[1].Data.Bytes = 5 }, `tensor "w": its elements: 5 bytes: expected 32 for float32[4 2]`},
	} {
		m := small(t)
		c.spoil(m)
		err := graph.Check(m)
		var e *graph.Error
		if !errors.As(err, &e) || !strings.Contains(e.Error(), c.want) {
			t.Errorf("%s: got %v, expected an *Error with %q", c.name, err, c.want)
		}
	}
}

// TestLinkOutputs: the graph's list of outputs counts, whatever its tensors say.
func TestLinkOutputs(t *testing.T) {
	m := small(t)
	m.Graph.Tensors[3].Output = true
	m.Graph.Outputs = slices.Clone(m.Graph.Outputs[1:])
	m.Graph.Link()
	if err := graph.Check(m); err != nil {
		t.Error(err)
	}
	if m.Graph.Tensors[3].Output || m.Graph.Tensors[5].Output || !m.Graph.Tensors[6].Output {
		t.Error("Tensor.Output disagrees with the list of outputs")
	}
}
