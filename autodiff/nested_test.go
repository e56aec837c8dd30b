package autodiff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// nest makes nodes with bodies in the bodies of others. Each maps a state to the next: a tanh
// of the state times the weight, after what the inner ones make of the state.
type nest struct {
	kinds []string // outermost first
	names int
}

// nestings are the nodes with bodies that have gradients.
var nestings = []string{"If", "Loop", "ending Loop", "Scan", "turned Scan"}

func (n *nest) name(s string) string {
	n.names++
	return fmt.Sprintf("%s%d", s, n.names)
}

func captured(g *graph.Graph, name string, outer ID) ID {
	id := g.NewTensor(name)
	g.Tensors[id].Capture = true
	g.Captures = append(g.Captures, graph.Capture{Inner: id, Outer: outer})
	return id
}

// add adds the nodes of the kinds from depth on, and returns the state that they make.
func (n *nest) add(b *builder, depth int, s, w ID) ID {
	if depth == len(n.kinds) {
		return b.op(n.name("after"), "Tanh", nil, b.op(n.name("product"), "MatMul", nil, s, w))
	}
	kind := n.kinds[depth]
	g := b.m.Graph
	inner := func() *builder { return newBuilder(n.name("body"), 18) }
	put := func(op string, a attrs, in []ID, bodies ...*graph.Attr) ID {
		outs := b.node("", op, a, in, n.name("made"))
		node := g.Nodes[len(g.Nodes)-1]
		node.Attrs = append(node.Attrs, bodies...)
		node.SetCaptures()
		return outs[0]
	}
	attr := func(name string, x *builder) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: x.m.Graph}
	}
	body := inner()
	cw := captured(body.m.Graph, g.Tensors[w].Name, w)
	in := func(name string) ID {
		id := body.m.Graph.NewTensor(n.name(name))
		body.m.Graph.Inputs = append(body.m.Graph.Inputs, id)
		return id
	}
	switch kind {
	case "If":
		other := inner()
		flag := b.op(n.name("flag"), "Less", nil, b.op(n.name("sum"), "ReduceSum", attrs{"keepdims": 0}, s), b.initializer(n.name("far"), b.value(operand{elem: graph.Float64, shape: []int{}, reals: []float64{1e6}})))
		body.finish(n.add(body, depth+1, captured(body.m.Graph, g.Tensors[s].Name, s), cw))
		other.finish(other.op(n.name("same"), "Neg", nil, captured(other.m.Graph, g.Tensors[s].Name, s)))
		return put("If", nil, []ID{flag}, attr("then_branch", body), attr("else_branch", other))
	case "Loop", "ending Loop":
		i, goes, state := in("i"), in("go"), in("s")
		next := n.add(body, depth+1, state, cw)
		on := body.op(n.name("on"), "Identity", nil, goes)
		if kind == "ending Loop" {
			on = body.op(n.name("on"), "Less", nil, i, body.initializer(n.name("one"), body.value(number(1))))
		}
		body.finish(on, next)
		return put("Loop", nil, []ID{b.initializer(n.name("count"), b.value(number(3))), graph.None, s}, attr("body", body))
	case "Scan", "turned Scan":
		state, x := in("s"), in("x")
		next := n.add(body, depth+1, body.op(n.name("moved"), "Add", nil, state, x), cw)
		body.finish(next, body.op(n.name("y"), "Mul", nil, next, x))
		a, xs := attrs{"num_scan_inputs": 1}, param(2, 3)
		if kind == "turned Scan" {
			a["scan_input_axes"], a["scan_output_axes"], xs = []int64{1}, []int64{1}, param(3, 2)
		}
		outs := b.node("", "Scan", a, []ID{s, b.initializer(n.name("xs"), b.value(xs))}, n.name("last"), n.name("ys"))
		node := g.Nodes[len(g.Nodes)-1]
		node.Attrs = append(node.Attrs, attr("body", body))
		node.SetCaptures()
		axis := int64(0)
		if kind == "turned Scan" {
			axis = 1
		}
		return b.op(n.name("both"), "Add", nil, outs[0], b.op(n.name("mean"), "ReduceMean", attrs{"keepdims": 0}, outs[1], b.initializer(n.name("axes"), b.value(list(axis)))))
	}
	panic(kind)
}

// TestNestingGradients nests nodes with bodies two and three deep, in the graph and in a
// local function: the gradients agree with central differences, and no graph of the step has
// a tensor that is not in its file.
func TestNestingGradients(t *testing.T) {
	var all [][]string
	for _, x := range nestings {
		for _, y := range nestings {
			all = append(all, []string{x, y})
			for _, z := range nestings {
				all = append(all, []string{x, y, z})
			}
		}
	}
	for _, kinds := range all {
		for _, function := range []bool{false, true} {
			name := strings.Join(kinds, " in ")
			if function {
				if len(kinds) == 3 && kinds[0] != kinds[1] {
					continue // a sample
				}
				name += " in a function"
			}
			t.Run(name, func(t *testing.T) {
				n := &nest{kinds: kinds}
				b := newBuilder("nested", 18)
				w, s := b.initializer("p0", b.value(param(3, 3))), b.initializer("p1", b.value(param(3)))
				var y ID
				if function {
					f := newBuilder("function", 18)
					for _, name := range []string{"fs", "fw"} {
						f.m.Graph.Inputs = append(f.m.Graph.Inputs, f.m.Graph.NewTensor(name))
					}
					f.finish(n.add(f, 0, f.m.Graph.Inputs[0], f.m.Graph.Inputs[1]))
					constants(f.m.Graph)
					b.m.Opsets = append(b.m.Opsets, graph.Opset{Domain: "local", Version: 1})
					b.m.Functions = append(b.m.Functions, &graph.Function{Domain: "local", Name: "Nest", Opsets: b.m.Opsets, Body: f.m.Graph})
					y = b.node("local", "Nest", nil, []ID{s, w}, "y")[0]
				} else {
					y = n.add(b, 0, s, w)
				}
				b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, b.op("weighted", "Mul", nil, y, b.input("weights", b.value(param(3))))))
				b.checkAlone(t)
			})
		}
	}
}

// constants makes Constant nodes of a graph's initializers: a function has none.
func constants(g *graph.Graph) {
	var nodes []*graph.Node
	for id, t := range g.Tensors {
		if t.Data != nil {
			nodes = append(nodes, &graph.Node{Op: "Constant", Outputs: []ID{ID(id)}, Attrs: attrs{"value": t.Data}.list()})
			t.Data = nil
		}
	}
	g.Nodes = append(nodes, g.Nodes...)
	g.Link()
}

// checkMade checks that each tensor of a graph, and of the bodies in it, is one of its file: a
// node makes it, or it is an input, an initializer, or captured.
func checkMade(t *testing.T, g *graph.Graph) {
	t.Helper()
	made := make([]bool, len(g.Tensors))
	for _, id := range g.Inputs {
		made[id] = true
	}
	for _, n := range g.Nodes {
		for _, id := range n.Outputs {
			if id != graph.None {
				made[id] = true
			}
		}
		for _, a := range n.Bodies() {
			for _, b := range a.All() {
				checkMade(t, b)
			}
		}
	}
	for id, x := range g.Tensors {
		if !made[id] && x.Data == nil && !x.Capture {
			t.Errorf("graph %q: nothing makes tensor %q", g.Name, x.Name)
		}
	}
}
