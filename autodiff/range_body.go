package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// nested is the main graph, or the body of a node.
type nested struct {
	g     *graph.Graph
	outer int // of a body: the index of the graph around it
	node  int // its node there
}

// nestedGraphs lists a graph and all bodies within it, each after the graph around it.
func nestedGraphs(g *graph.Graph) []nested {
	list := []nested{{g: g}}
	for k := 0; k < len(list); k++ {
		for i, n := range list[k].g.Nodes {
			for _, a := range n.Bodies() {
				for _, body := range a.All() {
					list = append(list, nested{body, k, i})
				}
			}
		}
	}
	return list
}

// noteVarying notes the declared lengths of inputs and outputs of bodies that differ from
// those of the step s, which has the same bodies: other runtimes believe what is declared.
func (r *ranger) noteVarying(s *Step) {
	for k, n := range nestedGraphs(s.Model.Graph) {
		if k == 0 {
			continue
		}
		own := r.graphs[k].g
		for _, lists := range [][2][]ID{{own.Inputs, n.g.Inputs}, {own.Outputs, n.g.Outputs}} {
			for i, id := range lists[0] {
				a, b := own.Tensors[id], n.g.Tensors[lists[1][i]]
				if a.Declared == nil || b.Declared == nil {
					continue
				}
				x, y := a.Declared.Type.Shape, b.Declared.Type.Shape
				for axis := range min(len(x), len(y)) {
					if x[axis] != y[axis] && !slices.Contains(r.varying[a], axis) {
						r.varying[a] = append(r.varying[a], axis)
					}
				}
			}
		}
	}
}

// heldBy returns the constant that a tensor of graph k is, or captures; nil if it is none.
func heldBy(list []nested, k int, t ID) *graph.Data {
	for t != graph.None {
		x := list[k].g.Tensors[t]
		if x.Data != nil || !x.Capture {
			return x.Data
		}
		i := slices.IndexFunc(list[k].g.Captures, func(c graph.Capture) bool { return c.Inner == t })
		if i < 0 {
			return nil
		}
		t, k = list[k].g.Captures[i].Outer, list[k].outer
	}
	return nil
}

// capture returns the tensor by which graph k reads one of the main graph.
func capture(list []nested, k int, t ID) ID {
	if k == 0 {
		return t
	}
	outer := capture(list, list[k].outer, t)
	g, around := list[k].g, list[list[k].outer].g
	for _, c := range g.Captures {
		if c.Outer == outer {
			return c.Inner
		}
	}
	inner := g.NewTensor(around.Tensors[outer].Name)
	g.Tensors[inner].Capture, g.Tensors[inner].Type = true, around.Tensors[outer].Type
	g.Captures = append(g.Captures, graph.Capture{Inner: inner, Outer: outer})
	return inner
}

// dropCaptures removes from graph k what it captures and no longer reads.
func (r *ranger) dropCaptures(k int) {
	if k == 0 {
		return
	}
	dropUnreadCaptures(r.graphs[k].g)
	outer := r.graphs[r.graphs[k].outer].g
	outer.Nodes[r.graphs[k].node].SetCaptures()
}

// dropUnreadCaptures removes what a body captures and does not read.
func dropUnreadCaptures(g *graph.Graph) {
	g.Link()
	unread := func(t ID) bool {
		x := g.Tensors[t]
		return x.Capture && len(x.Readers) == 0 && !x.Output
	}
	g.Captures = slices.DeleteFunc(g.Captures, func(c graph.Capture) bool { return unread(c.Inner) })
	g.DropTensors(unread)
}

// comparison compares two steps, graph by graph.
type comparison struct {
	a, b    []nested
	to      [][]ID // by graph and tensor of a: the same tensor of b
	found   map[use]*graph.Data
	lengths map[axis]int64
	other   func(format string, args ...any) error
}

// graph compares graph k; the graphs around it have been compared.
func (c *comparison) graph(k int) error {
	g, h := c.a[k].g, c.b[k].g
	to := make([]ID, len(g.Tensors))
	for i := range to {
		to[i] = graph.None
	}
	c.to = append(c.to, to)
	if c.a[k].outer != c.b[k].outer || c.a[k].node != c.b[k].node || len(g.Inputs) != len(h.Inputs) || len(g.Outputs) != len(h.Outputs) || len(g.Captures) != len(h.Captures) {
		return c.other("it has %d inputs and %d outputs instead of %d and %d", len(h.Inputs), len(h.Outputs), len(g.Inputs), len(g.Outputs))
	}
	for i, a := range g.Inputs {
		b := h.Inputs[i]
		x, y := g.Tensors[a], h.Tensors[b]
		if x.Name != y.Name || x.Type.Elem != y.Type.Elem || len(x.Type.Shape) != len(y.Type.Shape) {
			return c.other("input %q is %q, %v", graph.Short(x.Name), graph.Short(y.Name), y.Type)
		}
		for j, n := range y.Type.Shape {
			if k == 0 && n != x.Type.Shape[j] {
				c.lengths[axis{i, j}] = int64(n)
			}
		}
		to[a] = b
	}
	for i, x := range g.Captures {
		y := h.Captures[i]
		constant := heldBy(c.a, k, x.Inner) != nil && heldBy(c.b, k, y.Inner) != nil
		if !constant && c.to[c.a[k].outer][x.Outer] != y.Outer {
			return c.other("a body captures %q instead of %q", graph.Short(h.Tensors[y.Inner].Name), graph.Short(g.Tensors[x.Inner].Name))
		}
		to[x.Inner] = y.Inner
	}
	for i, n := range g.Nodes {
		if i >= len(h.Nodes) {
			return c.other("it has %d nodes instead of %d", len(h.Nodes), len(g.Nodes))
		}
		if err := c.node(k, i, n, h.Nodes[i]); err != nil {
			return err
		}
	}
	if len(h.Nodes) != len(g.Nodes) {
		return c.other("it has %d nodes instead of %d", len(h.Nodes), len(g.Nodes))
	}
	for i, a := range g.Outputs {
		if to[a] != h.Outputs[i] {
			return c.other("output %q is another tensor", graph.Short(g.Tensors[a].Name))
		}
	}
	return nil
}

// node compares node i of graph k.
func (c *comparison) node(k, i int, n, m *graph.Node) error {
	g, h, to := c.a[k].g, c.b[k].g, c.to[k]
	label := g.Label(graph.NodeID(i))
	if n.Op != m.Op || n.Domain != m.Domain || len(n.Inputs) != len(m.Inputs) || len(n.Outputs) != len(m.Outputs) {
		return c.other("instead of %s it has %s", label, h.Label(graph.NodeID(i)))
	}
	if len(n.Attrs) != len(m.Attrs) {
		return c.other("%s has other attributes", label)
	}
	for j, a := range n.Attrs {
		if !sameAttr(a, m.Attrs[j]) {
			return c.other("%s has another value of attribute %q", label, graph.Short(a.Name))
		}
	}
	for j, a := range n.Inputs {
		b := m.Inputs[j]
		x, y := heldBy(c.a, k, a), heldBy(c.b, k, b)
		switch {
		case x != nil && y != nil:
			if !sameData(x, y) {
				c.found[use{k, i, j}] = y
			}
		case (a == graph.None) != (b == graph.None) || a != graph.None && (to[a] != b || to[a] == graph.None):
			return c.other("%s reads another tensor as input %d", label, j)
		}
	}
	for j, a := range n.Outputs {
		if (a == graph.None) != (m.Outputs[j] == graph.None) {
			return c.other("%s has other outputs", label)
		}
		if a != graph.None {
			to[a] = m.Outputs[j]
		}
	}
	return nil
}
