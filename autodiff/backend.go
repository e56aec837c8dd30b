package autodiff

import (
	"fmt"
	"sort"

	onnxgo "github.com/owulveryck/onnx-go"
	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/simple"
	"gorgonia.org/tensor"

	"github.com/onnxmem/onnxmem/graph"
)

// tape is a backend of onnx-go: it receives the graph node by node and edge by
// edge, then the operation that makes each node. feedBackend drives it with the nodes
// that our reader decoded; onnx-go's decoder can drive it as well.
var _ onnxgo.Backend = (*tape)(nil)

// vertices are the tensors known to onnx-go, and the edges to the tensors from
// which each is made. A node that reads a tensor twice has two edges.
type vertices struct {
	list  []*vertex
	reads map[int64][]gonum.WeightedEdge
}

// vertex is a tensor on the side of onnx-go.
type vertex struct {
	id   int64
	t    *tape
	name string
	of   ID
	data tensor.Tensor
}

// ID is the vertex's number.
func (v *vertex) ID() int64 { return v.id }

// SetName names the tensor.
func (v *vertex) SetName(name string) { v.name = name }

// GetName is the tensor's name.
func (v *vertex) GetName() string { return v.name }

// SetTensor keeps the type or the elements that onnx-go decoded.
func (v *vertex) SetTensor(d tensor.Tensor) error {
	v.data = d
	return nil
}

// GetTensor returns the tensor that onnx-go decoded.
func (v *vertex) GetTensor() tensor.Tensor { return v.data }

// NewNode returns a vertex that is not yet in the graph.
func (t *tape) NewNode() gonum.Node {
	return &vertex{id: int64(len(t.grow.list)), t: t, of: graph.None}
}

// AddNode adds a vertex.
func (t *tape) AddNode(n gonum.Node) { t.grow.list = append(t.grow.list, n.(*vertex)) }

// NewWeightedEdge returns an edge from an output to input number w of its maker.
func (t *tape) NewWeightedEdge(from, to gonum.Node, w float64) gonum.WeightedEdge {
	return simple.WeightedEdge{F: from, T: to, W: w}
}

// SetWeightedEdge adds an edge; there may be several between two vertices.
func (t *tape) SetWeightedEdge(e gonum.WeightedEdge) {
	if t.grow.reads == nil {
		t.grow.reads = map[int64][]gonum.WeightedEdge{}
	}
	t.grow.reads[e.From().ID()] = append(t.grow.reads[e.From().ID()], e)
}

// nodeKey is the attribute in which our reader passes the whole node.
const nodeKey = "onnxmem.node"

// ApplyOperation sets the operation that makes the given vertices from those to
// which their edges lead.
func (t *tape) ApplyOperation(op onnxgo.Operation, made ...gonum.Node) error {
	n, ok := op.Attributes[nodeKey].(*graph.Node)
	if !ok {
		return fmt.Errorf("autodiff: operation %s: expected one from our own reader", op.Name)
	}
	if len(made) == 0 {
		return fmt.Errorf("autodiff: operation %s has no output", op.Name)
	}
	edges := t.grow.reads[made[0].ID()]
	sort.SliceStable(edges, func(i, j int) bool { return edges[i].Weight() < edges[j].Weight() })
	k := 0
	for _, id := range n.Inputs {
		if id == graph.None {
			continue
		}
		if k == len(edges) || edges[k].To().(*vertex).of != id {
			return fmt.Errorf("autodiff: operation %s: its edges do not lead to its inputs", op.Name)
		}
		k++
	}
	return t.record(n)
}

// feedBackend passes the part of the forward graph through which gradients flow to the
// backend; all other tensors are leaves.
func (t *tape) feedBackend(nodes []*graph.Node) error {
	at := map[ID]*vertex{}
	find := func(id ID) *vertex {
		v := at[id]
		if v == nil {
			v = t.NewNode().(*vertex)
			v.SetName(t.g.Tensors[id].Name)
			v.of = id
			t.AddNode(v)
			at[id] = v
		}
		return v
	}
	for _, n := range nodes {
		needed := false
		for i, id := range n.Inputs {
			needed = needed || id != graph.None && t.reached[id] && t.flows(n, i)
		}
		if !needed {
			continue
		}
		var made []gonum.Node
		for _, id := range n.Outputs {
			if id != graph.None {
				made = append(made, find(id))
			}
		}
		for i, id := range n.Inputs {
			if id != graph.None {
				t.SetWeightedEdge(t.NewWeightedEdge(made[0], find(id), float64(i)))
			}
		}
		if err := t.ApplyOperation(onnxgo.Operation{Name: n.Op, Attributes: map[string]any{nodeKey: n}}, made...); err != nil {
			return err
		}
	}
	return nil
}

// The rest of the interface lets others read the graph.

// Node returns the vertex with that number, nil if there is none.
func (t *tape) Node(id int64) gonum.Node {
	if id < 0 || id >= int64(len(t.grow.list)) {
		return nil
	}
	return t.grow.list[id]
}

// Nodes returns all vertices.
func (t *tape) Nodes() gonum.Nodes { return t.pick(func(int64) bool { return true }) }

// From returns the inputs of the maker of a vertex.
func (t *tape) From(id int64) gonum.Nodes {
	return t.pick(func(to int64) bool { return t.HasEdgeFromTo(id, to) })
}

// To returns the outputs of the readers of a vertex.
func (t *tape) To(id int64) gonum.Nodes {
	return t.pick(func(from int64) bool { return t.HasEdgeFromTo(from, id) })
}

// HasEdgeBetween reports whether one of two vertices is made from the other.
func (t *tape) HasEdgeBetween(x, y int64) bool { return t.HasEdgeFromTo(x, y) || t.HasEdgeFromTo(y, x) }

// HasEdgeFromTo reports whether u is made from v.
func (t *tape) HasEdgeFromTo(u, v int64) bool { return t.Edge(u, v) != nil }

// Edge returns the first edge from u to v, nil if there is none.
func (t *tape) Edge(u, v int64) gonum.Edge {
	for _, e := range t.grow.reads[u] {
		if e.To().ID() == v {
			return e
		}
	}
	return nil
}

func (t *tape) pick(keep func(int64) bool) gonum.Nodes {
	var list []gonum.Node
	for _, v := range t.grow.list {
		if keep(v.id) {
			list = append(list, v)
		}
	}
	return iterator.NewOrderedNodes(list)
}
