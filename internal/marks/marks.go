// Package marks lists the groups of nodes that autodiff writes for one purpose, and for which a
// runtime may have one kernel, such as the gradient of a BatchNormalization. A group is a table
// of roles, operators and operands. autodiff emits the nodes from the table and marks each with
// its role in the metadata. [Find] finds the groups of a graph by their marks, and holds every
// operator, attribute and operand to the table: a file may say anything.
package marks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Key is the metadata key of a node of a group. Its value is the group's name, a slash, the
// number of the group in its graph, a blank, and the node's role ([Group.Mark]).
const Key = "onnxmem.group"

// Group is a table of nodes. Its last node is the one that [Find] begins with.
type Group struct {
	Name  string
	Nodes []Node // makers before readers
}

// Node is a node of a group. The operands that no node of the group makes have names of their
// own. Two operands of one name are one tensor.
type Node struct {
	Role  string // names what the node makes, its only output
	Op    string // of domain ai.onnx
	In    []string
	Attrs []*graph.Attr // all that it has: integers
}

// BatchNormGradient is the gradient of a BatchNormalization in training: x is the image, d the
// gradient of the result, scale has the shape [1, channels, 1, ...]. axes are all but that of
// the channels, and part is 1 over the number of elements of a channel.
var BatchNormGradient = parse("batchnorm.gradient", `
	in x; in d; in scale; in axes; in part; in epsilon
	mean = ReduceMean(x, axes) keepdims=1
	centred = Sub(x, mean)
	squares = ReduceSumSquare(centred, axes) keepdims=1
	variance = Mul(squares, part)
	shifted = Add(variance, epsilon)
	deviation = Sqrt(shifted)
	inverse = Reciprocal(deviation)
	factor = Mul(scale, inverse)
	normal = Mul(centred, inverse)
	sums = ReduceSum(d, axes) keepdims=1
	product = Mul(d, normal)
	products = ReduceSum(product, axes) keepdims=1
	shift = Mul(sums, part)
	lowered = Sub(d, shift)
	slope = Mul(products, part)
	sloped = Mul(normal, slope)
	rest = Sub(lowered, sloped)
	result = Mul(rest, factor)
`)

// LayerNormGradient is the gradient of a LayerNormalization: normal are the normalized rows, d is
// the gradient of the result, and inverse 1 over the deviation of each row. axes are those of a
// row, and rows all axes before them.
var LayerNormGradient = parse("layernorm.gradient", `
	in normal; in d; in scale; in inverse; in axes; in rows
	product = Mul(d, normal)
	products = ReduceSum(product, rows) keepdims=1
	sums = ReduceSum(d, rows) keepdims=1
	scaled = Mul(d, scale)
	shift = ReduceMean(scaled, axes) keepdims=1
	lowered = Sub(scaled, shift)
	along = Mul(scaled, normal)
	slope = ReduceMean(along, axes) keepdims=1
	sloped = Mul(normal, slope)
	rest = Sub(lowered, sloped)
	result = Mul(inverse, rest)
`)

// Groups are all tables.
var Groups = []*Group{BatchNormGradient, LayerNormGradient}

// parse reads a table, the body of a graph in its printed form.
func parse(name, text string) *Group {
	m, err := graph.Parse(name, "ir 10\nopset 18\n"+text)
	if err != nil {
		panic(fmt.Sprintf("marks: %v", err))
	}
	g := &Group{Name: name}
	for _, n := range m.Graph.Nodes {
		row := Node{Role: m.Graph.Tensors[n.Outputs[0]].Name, Op: n.Op, Attrs: n.Attrs}
		for _, t := range n.Inputs {
			row.In = append(row.In, m.Graph.Tensors[t].Name)
		}
		g.Nodes = append(g.Nodes, row)
	}
	return g
}

// Node returns the node of a role; nil if the name is that of an operand.
func (g *Group) Node(role string) *Node {
	if i := slices.IndexFunc(g.Nodes, func(n Node) bool { return n.Role == role }); i >= 0 {
		return &g.Nodes[i]
	}
	return nil
}

// Mark is the value of the metadata entry of a node, in the group of a graph with that number.
func (g *Group) Mark(number int, role string) string {
	return fmt.Sprintf("%s/%d %s", g.Name, number, role)
}

// cut takes a mark apart: the group, or nil if there is none of that name, the group's name with
// its number, and the role.
func cut(mark string) (g *Group, instance, role string) {
	instance, role, _ = strings.Cut(mark, " ")
	name, _, _ := strings.Cut(instance, "/")
	if i := slices.IndexFunc(Groups, func(g *Group) bool { return g.Name == name }); i >= 0 {
		g = Groups[i]
	}
	return g, instance, role
}
