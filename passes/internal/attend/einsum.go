package attend

import (
	"slices"
	"strings"

	"github.com/onnxmem/onnxmem/graph"
)

// Keras, and models that are written with einsum, spell the products as an Einsum. One of two operands
// without an ellipsis is a MatMul between Transposes, if each letter stands for axes of the batch, for one
// axis of one operand, or for the one that is summed.

// contraction is an Einsum as a MatMul: which input stands on which side, and the orders of axes of both
// sides and of the result, empty where they are as they lie.
type contraction struct {
	sides [2]int
	perms [2][]int64
	back  []int64
}

// contracts reads an equation.
func contracts(equation string) (c contraction, ok bool) {
	left, out, stated := strings.Cut(strings.ReplaceAll(equation, " ", ""), "->")
	in := strings.Split(left, ",")
	if !stated || len(in) != 2 || len(out) < 3 || !once(in[0]) || !once(in[1]) || !once(out) {
		return c, false
	}
	last := out[len(out)-1:]
	c.sides = [2]int{0, 1}
	if strings.Contains(in[0], last) {
		c.sides = [2]int{1, 0}
	}
	x, y := in[c.sides[0]], in[c.sides[1]]
	var batch, rows, columns, summed string
	for _, l := range out + x {
		switch a := string(l); {
		case strings.Contains(batch+rows+columns+summed, a):
		case strings.Contains(x, a) && strings.Contains(y, a) && strings.Contains(out, a):
			batch += a
		case strings.Contains(x, a) && strings.Contains(out, a):
			rows += a
		case strings.Contains(y, a) && strings.Contains(out, a):
			columns += a
		case strings.Contains(x, a) && strings.Contains(y, a):
			summed += a
		default:
			return c, false
		}
	}
	if len(rows) != 1 || columns != last || len(summed) != 1 || len(x) != len(batch)+2 || len(y) != len(batch)+2 {
		return c, false
	}
	c.perms = [2][]int64{order(x, batch+rows+summed), order(y, batch+summed+columns)}
	c.back = order(batch+rows+columns, out)
	return c, true
}

// once reports whether letters stand in a term once each, and nothing else.
func once(term string) bool {
	for i, l := range term {
		if strings.ContainsRune(term[:i], l) || l == '.' {
			return false
		}
	}
	return true
}

// order is the permutation that makes one term of another; nil if they are equal.
func order(from, to string) (perm []int64) {
	for _, l := range to {
		perm = append(perm, int64(strings.IndexRune(from, l)))
	}
	if slices.IsSorted(perm) {
		return nil
	}
	return perm
}

// products replaces an Einsum at either end of a Softmax by nodes that the search knows, where the graph is
// a copy. It returns what the MatMuls stand for, by their results.
func products(g *graph.Graph, chosen func(*graph.Node) bool) map[graph.TensorID]*graph.Node {
	stands := map[graph.TensorID]*graph.Node{}
	taken := map[string]bool{}
	for _, t := range g.Tensors {
		taken[t.Name] = true
	}
	var nodes []*graph.Node
	for _, n := range g.Nodes {
		c, is := contractionOf(g, n)
		if !is || !chosen(n) {
			nodes = append(nodes, n)
			continue
		}
		p := parts{g: g, taken: taken, of: n}
		in := make([]graph.TensorID, 2)
		for i, side := range c.sides {
			if in[i] = n.Inputs[side]; c.perms[i] != nil {
				in[i] = p.transposed(in[i], c.perms[i], p.tensor(".turned", turned(g.Tensors[in[i]].Type.Shape, c.perms[i])))
			}
		}
		y := n.Outputs[0]
		if c.back != nil {
			y = p.tensor(".product", unturned(g.Tensors[n.Outputs[0]].Type.Shape, c.back))
		}
		p.nodes = append(p.nodes, &graph.Node{Name: n.Name, Op: "MatMul", Inputs: in, Outputs: []graph.TensorID{y}})
		if c.back != nil {
			p.transposed(y, c.back, n.Outputs[0])
		}
		stands[y] = n
		nodes = append(nodes, p.nodes...)
	}
	g.Nodes = nodes
	return stands
}

// contractionOf reads an Einsum whose tensors have exact lengths.
func contractionOf(g *graph.Graph, n *graph.Node) (c contraction, ok bool) {
	switch n.Op {
	case "Einsum":
	default:
		return c, false
	}
	at := n.Attr("equation")
	if n.Domain != "" || at == nil || len(n.Inputs) != 2 || len(n.Outputs) != 1 {
		return c, false
	}
	for _, t := range append(slices.Clone(n.Inputs), n.Outputs[0]) {
		if t < 0 || !g.Tensors[t].Type.Exact() {
			return c, false
		}
	}
	if c, ok = contracts(at.String); !ok {
		return c, false
	}
	return c, sums(g, n, c)
}

// sums reports whether the axis that is summed has one length in both operands: an Einsum repeats the other
// where one is 1, and a MatMul does not.
func sums(g *graph.Graph, n *graph.Node, c contraction) bool {
	var shapes [2][]graph.Dim
	for i, side := range c.sides {
		if shapes[i] = g.Tensors[n.Inputs[side]].Type.Shape; c.perms[i] != nil {
			shapes[i] = turned(shapes[i], c.perms[i])
		}
	}
	return shapes[0][len(shapes[0])-1] == shapes[1][len(shapes[1])-2]
}

// parts are the nodes that stand for an Einsum.
type parts struct {
	g     *graph.Graph
	taken map[string]bool
	of    *graph.Node
	nodes []*graph.Node
}

// tensor adds one of the type of the Einsum's result.
func (p *parts) tensor(suffix string, shape []graph.Dim) graph.TensorID {
	name := p.g.Tensors[p.of.Outputs[0]].Name + suffix
	for p.taken[name] {
		name += "_"
	}
	p.taken[name] = true
	t := p.g.NewTensor(name)
	p.g.Tensors[t].Type = graph.TensorOf(p.g.Tensors[p.of.Outputs[0]].Type.Elem, shape...)
	return t
}

// transposed adds a Transpose that makes a tensor, and returns this.
func (p *parts) transposed(from graph.TensorID, perm []int64, to graph.TensorID) graph.TensorID {
	attrs := []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: perm}}
	p.nodes = append(p.nodes, &graph.Node{Name: p.g.Tensors[to].Name, Op: "Transpose", Inputs: []graph.TensorID{from}, Outputs: []graph.TensorID{to}, Attrs: attrs})
	return to
}

// turned are the lengths of what a Transpose with an order makes.
func turned(shape []graph.Dim, perm []int64) (to []graph.Dim) {
	for _, a := range perm {
		to = append(to, shape[a])
	}
	return to
}

// unturned are the lengths of what a Transpose with an order makes a shape of.
func unturned(shape []graph.Dim, perm []int64) []graph.Dim {
	from := make([]graph.Dim, len(shape))
	for i, a := range perm {
		from[a] = shape[i]
	}
	return from
}
