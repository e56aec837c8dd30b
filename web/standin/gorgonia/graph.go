// Package gorgonia stands in for gorgonia.org/gorgonia in the build for browsers. Gorgonia and
// what it imports are half of the program, for machines that run graphs; package autodiff only
// differentiates. This package has what it uses of expression graphs, with the same results: it
// visits nodes in the same order and adds the terms of gradients in the same order. A test
// compares the steps of both.
//
//	graph.go          expression graphs
//	differentiate.go  Backpropagate
package gorgonia

import (
	"errors"
	"fmt"
	"hash"

	"github.com/chewxy/hm"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gorgonia.org/tensor"
)

// Op is an operator.
type Op interface {
	Arity() int
	Type() hm.Type
	InferShape(...DimSizer) (tensor.Shape, error)
	Do(...Value) (Value, error)
	ReturnsPtr() bool
	CallsExtern() bool
	OverwritesInput() int
	WriteHash(h hash.Hash)
	Hashcode() uint32
	fmt.Stringer
}

// SDOp is an operator that has gradients.
type SDOp interface {
	Op
	DiffWRT(inputs int) []bool
	SymDiff(inputs Nodes, output, grad *Node) (Nodes, error)
}

// DimSizer would give the length of an axis.
type DimSizer interface{ DimSize(int) (int, error) }

// Value would be the result of a node.
type Value any

// TensorType is the type of a node: nothing looks at it.
type TensorType struct {
	Dims int
	Of   tensor.Dtype
}

// Name implements [hm.Type].
func (t TensorType) Name() string { return "Tensor" }

// Apply implements [hm.Type].
func (t TensorType) Apply(hm.Subs) hm.Substitutable { return t }

// FreeTypeVar implements [hm.Type].
func (t TensorType) FreeTypeVar() hm.TypeVarSet { return nil }

// Normalize implements [hm.Type].
func (t TensorType) Normalize(_, _ hm.TypeVarSet) (hm.Type, error) { return t, nil }

// Types implements [hm.Type].
func (t TensorType) Types() hm.Types { return hm.Types{t} }

// Format implements [fmt.Formatter].
func (t TensorType) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "Tensor-%d %v", t.Dims, t.Of) }

// String describes the type.
func (t TensorType) String() string { return fmt.Sprintf("Tensor-%d %v", t.Dims, t.Of) }

// Eq implements [hm.Type].
func (t TensorType) Eq(other hm.Type) bool { return other == hm.Type(t) }

// Node is an operator with its operands, or a leaf.
type Node struct {
	id       int64
	g        *ExprGraph
	op       Op // nil: a leaf
	children Nodes
}

// ID is the node's number.
func (n *Node) ID() int64 { return n.id }

// Op is the node's operator.
func (n *Node) Op() Op { return n.op }

// Nodes are several nodes.
type Nodes []*Node

// ExprGraph is an expression graph: edges lead from an operator to its operands.
type ExprGraph struct{ all Nodes }

// NewGraph returns an empty graph.
func NewGraph() *ExprGraph { return &ExprGraph{} }

// NodeConsOpt is a property of a new node.
type NodeConsOpt func(*Node)

// WithType does nothing: all nodes have one type.
func WithType(hm.Type) NodeConsOpt { return func(*Node) {} }

// WithShape does nothing: all nodes have one shape.
func WithShape(...int) NodeConsOpt { return func(*Node) {} }

// WithName does nothing: nodes are told apart by number.
func WithName(string) NodeConsOpt { return func(*Node) {} }

// WithOp sets the operator.
func WithOp(op Op) NodeConsOpt { return func(n *Node) { n.op = op } }

// In sets the graph.
func In(g *ExprGraph) NodeConsOpt { return func(n *Node) { n.g = g } }

// NewUniqueNode adds a node to its graph.
func NewUniqueNode(opts ...NodeConsOpt) *Node {
	n := &Node{}
	for _, set := range opts {
		set(n)
	}
	n.id = int64(len(n.g.all))
	n.g.all = append(n.g.all, n)
	return n
}

// NewTensor adds a leaf.
func NewTensor(g *ExprGraph, _ tensor.Dtype, _ int, opts ...NodeConsOpt) *Node {
	return NewUniqueNode(append(opts, In(g))...)
}

// ApplyOp adds an operator.
func ApplyOp(op Op, children ...*Node) (*Node, error) {
	if len(children) == 0 {
		return nil, errors.New("no graph supplied")
	}
	return NewUniqueNode(WithOp(op), In(children[0].g), func(n *Node) { n.children = children }), nil
}

// AllNodes returns the nodes.
func (g *ExprGraph) AllNodes() Nodes { return g.all }

// Node implements [graph.Graph].
func (g *ExprGraph) Node(id int64) graph.Node {
	if id < 0 || id >= int64(len(g.all)) {
		return nil
	}
	return g.all[id]
}

// Nodes implements [graph.Graph].
func (g *ExprGraph) Nodes() graph.Nodes { return listed(g.all) }

// From returns the operands of a node.
func (g *ExprGraph) From(id int64) graph.Nodes { return listed(g.all[id].children) }

// To returns the nodes that have a node as operand.
func (g *ExprGraph) To(id int64) graph.Nodes {
	var list Nodes
	for _, n := range g.all {
		if g.HasEdgeFromTo(n.id, id) {
			list = append(list, n)
		}
	}
	return listed(list)
}

// HasEdgeBetween implements [graph.Graph].
func (g *ExprGraph) HasEdgeBetween(x, y int64) bool {
	return g.HasEdgeFromTo(x, y) || g.HasEdgeFromTo(y, x)
}

// HasEdgeFromTo reports whether v is an operand of u.
func (g *ExprGraph) HasEdgeFromTo(u, v int64) bool { return g.Edge(u, v) != nil }

// Edge implements [graph.Graph].
func (g *ExprGraph) Edge(u, v int64) graph.Edge {
	for _, n := range g.all[u].children {
		if n.id == v {
			return edge{g.all[u], n}
		}
	}
	return nil
}

type edge struct{ from, to *Node }

func (e edge) From() graph.Node         { return e.from }
func (e edge) To() graph.Node           { return e.to }
func (e edge) ReversedEdge() graph.Edge { return edge{e.to, e.from} }

func listed(nodes Nodes) graph.Nodes {
	list := make([]graph.Node, len(nodes))
	for i, n := range nodes {
		list[i] = n
	}
	return iterator.NewOrderedNodes(list)
}
