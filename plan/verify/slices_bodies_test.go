package verify_test

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/plan"
	"github.com/onnxmem/onnxmem/plan/verify"
)

// behind is a network with a body behind a region. The planner gives the nodes of the body
// another order. Nothing reads one of them, and one stands in a body of its own.
var behind = text{
	main: `
		in x float32[1,1,32,32]
		in p bool[]
		init w float32[16,1,1,1] = ...
		a = Conv(x, w)
		s = Relu(a)
		b = MaxPool(s) kernel_shape=[8, 8] strides=[8, 8]
		y = If(p)
		out y
	`,
	bodies: map[string]string{
		"y.then_branch": `
			init c float32[1,1,1,1] = ...
			k = Concat(b, b) axis=1
			l = Concat(b, b) axis=1
			unread = Sub(b, c)
			m = Add(l, c)
			q = ReduceMean(k) keepdims=0
			r = ReduceMax(m) keepdims=0
			t = If(p)
			u = Sub(q, r)
			z = Add(u, t)
			out z
		`,
		"y.else_branch": "e = ReduceMax(b) keepdims=0\nout e",
		"t.then_branch": "v = Sub(q, r)\nout v",
		"t.else_branch": "v = Sub(r, q)\nout v",
	},
}

// planBehind plans it in slices.
func planBehind(t *testing.T) (file []byte, p *plan.Plan, source *graph.Model) {
	t.Helper()
	m := behind.build(t)
	found, err := passes.Optimize(t.Context(), m, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 75}})
	if err != nil {
		t.Fatal(err)
	}
	im, err := onnx.Encode(found.Model)
	if err != nil {
		t.Fatal(err)
	}
	found.Plan.Model = plan.ImageOf("out.onnx", im)
	return encode(t, found.Model), found.Plan, parse(t, m.Source.Bytes)
}

// bodiesOf returns the bodies of the node If of the main graph and those within.
func bodiesOf(m *graph.Model) (list []*graph.Graph) {
	var add func(g *graph.Graph)
	add = func(g *graph.Graph) {
		for _, n := range g.Nodes {
			for _, a := range n.Bodies() {
				for _, b := range a.All() {
					list = append(list, b)
					add(b)
				}
			}
		}
	}
	add(m.Graph)
	return list
}

// TestBodiesInAnotherOrder: the nodes of a body may stand in any order, and every change of
// what they compute is found.
func TestBodiesInAnotherOrder(t *testing.T) {
	file, p, source := planBehind(t)
	good := parse(t, file)
	if r, err := verify.Plan(good, p, verify.Options{Source: source}); err != nil || !r.Valid || slices.Contains(r.Claimed, "slices") {
		t.Fatal(err, r)
	}
	first := func(m *graph.Model) (names []string) {
		b := slices.MaxFunc(bodiesOf(m), func(a, b *graph.Graph) int { return len(a.Nodes) - len(b.Nodes) })
		for _, n := range b.Nodes {
			names = append(names, b.Tensors[n.Outputs[0]].Name)
		}
		return names
	}
	if slices.Equal(first(good), first(source)) {
		t.Fatalf("the order of the body is that of the source, %v: expected another one", first(source))
	}
	faults := func(change func(bodies []*graph.Graph)) []string {
		t.Helper()
		m := parse(t, file)
		change(bodiesOf(m))
		m.Graph.Link()
		list, err := verify.SliceFaults(m, p, source)
		if err != nil {
			return []string{err.Error()} // refused by inference
		}
		return list
	}
	changes := 0
	for i, b := range bodiesOf(good) {
		for k, n := range b.Nodes {
			change := func(what string, do func(g *graph.Graph, n *graph.Node)) {
				changes++
				if list := faults(func(bodies []*graph.Graph) { do(bodies[i], bodies[i].Nodes[k]) }); len(list) == 0 {
					t.Errorf("body %d, %s of %q: not found", i, what, b.Tensors[n.Outputs[0]].Name)
				}
			}
			if other := others[n.Op]; other != "" {
				change("the operator", func(_ *graph.Graph, n *graph.Node) { n.Op = other })
			}
			change("a new attribute", func(_ *graph.Graph, n *graph.Node) {
				n.Attrs = append(slices.Clone(n.Attrs), &graph.Attr{Name: "extra", Type: graph.AttrInt, Int: 1})
			})
			if len(n.Inputs) > 1 && n.Inputs[0] != n.Inputs[1] {
				change("the order of inputs", func(_ *graph.Graph, n *graph.Node) { n.Inputs[0], n.Inputs[1] = n.Inputs[1], n.Inputs[0] })
			}
			if n.Op == "If" {
				change("the order of branches", func(_ *graph.Graph, n *graph.Node) {
					n.Attrs[0].Name, n.Attrs[1].Name = n.Attrs[1].Name, n.Attrs[0].Name
				})
			}
			for j := range n.Inputs {
				for u, x := range b.Tensors {
					if graph.TensorID(u) != n.Inputs[j] && x.Maker < graph.NodeID(k) && x.Type.Elem == b.Tensors[n.Inputs[j]].Type.Elem {
						change("input "+x.Name, func(_ *graph.Graph, n *graph.Node) {
							n.Inputs = slices.Clone(n.Inputs)
							n.Inputs[j] = graph.TensorID(u)
						})
					}
				}
			}
		}
		changes++
		if list := faults(func(bodies []*graph.Graph) { bodies[i].Outputs[0] = bodies[i].Nodes[0].Outputs[0] }); len(list) == 0 && len(b.Nodes) > 1 {
			t.Errorf("body %d, another output: not found", i)
		}
	}
	if changes < 60 {
		t.Errorf("%d changes: expected more", changes)
	}
}

// TestBoundsOfSlicesWithBodies: whatever strategy orders the nodes, a bound for slices counts
// for a node with bodies no more than these need in their best order: they may be ordered
// otherwise once there are slices.
func TestBoundsOfSlicesWithBodies(t *testing.T) {
	x := text{
		main: `
			in x float32[1,4,8,8]
			in z float32[1,4,8,8]
			in p bool[]
			y = If(p)
			r, s = Split(y) axis=1 num_outputs=2
			m = Relu(r)
			o = Sigmoid(m)
			out o
		`,
		bodies: map[string]string{
			"y.then_branch": "a = Relu(x)\nb = Relu(z)\nc = Sigmoid(a)\nout c",
			"y.else_branch": "d = Sigmoid(z)\nout d",
		},
	}
	sliced := 0
	for _, name := range []string{"", "reverse-dfs", "dfs", "bfs", "greedy", "lpmf"} {
		for _, x := range []text{x, behind} {
			found, err := passes.Optimize(t.Context(), x.build(t), passes.Options{Slices: passes.SlicesExact, ExtraPercent: 1000, Schedule: name})
			if err != nil {
				t.Fatal(name, err)
			}
			for _, x := range found.GivenUp {
				t.Errorf("%q: %+v", name, x)
			}
			if found.Plan.Slices != nil {
				sliced++
			}
		}
	}
	if sliced < 6 {
		t.Errorf("%d plans with slices: expected more", sliced)
	}
}
