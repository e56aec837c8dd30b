package autodiff

import (
	"fmt"
	"math"
	"regexp"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// scanModel is a Scan with everything that its rule distinguishes. The gradient flows through
// one state, one counts, and no weight reaches the third. Inputs are scanned forwards and
// backwards, and there are outputs in both directions. Weights are captured, one of them in
// an If within the body. used says which outputs the loss reads: the states, then the scanned
// outputs.
func scanModel(used []bool) *builder {
	b := newBuilder(fmt.Sprint(used), 18)
	w, v := b.initializer("p0", b.value(param(3, 3))), b.initializer("p1", b.value(param(3)))
	state, xs := b.initializer("p2", b.value(param(2, 3))), b.initializer("p3", b.value(param(5, 3)))
	fed := b.input("fed", b.value(param(5, 2, 3)))
	other := b.input("other", b.value(param(2, 3)))
	count := b.input("count", b.value(list(0)))

	body := newBuilder("body", 18)
	g := body.m.Graph
	in := func(name string) ID {
		id := g.NewTensor(name)
		g.Tensors[id].Input = true
		g.Inputs = append(g.Inputs, id)
		return id
	}
	capture := func(g *graph.Graph, name string, outer ID) ID {
		id := g.NewTensor(name)
		g.Tensors[id].Capture = true
		g.Captures = append(g.Captures, graph.Capture{Inner: id, Outer: outer})
		return id
	}
	s, o, n, u, x := in("s"), in("o"), in("n"), in("u"), in("x")
	cw, cv := capture(g, "p0", w), capture(g, "p1", v)
	one := body.initializer("one", body.value(list(1)))
	gates := body.op("gates", "Add", nil, body.op("product", "MatMul", nil, s, cw), body.op("scaled", "Mul", nil, u, cv))
	after := body.op("after", "Tanh", nil, body.op("sum", "Add", nil, gates, x))
	still := body.op("still", "Neg", nil, o)
	// The first iterations scale the state by a captured weight, the others do not.
	branch := func(name string, scaled bool) *graph.Attr {
		in := newBuilder(name, 18)
		a := capture(in.m.Graph, "after", after)
		if scaled {
			in.finish(in.op(name+".scaled", "Mul", nil, a, capture(in.m.Graph, "p1", cv)))
		} else {
			in.finish(in.op(name+".copied", "Identity", nil, a))
		}
		return &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: in.m.Graph}
	}
	first := body.op("first", "Less", nil, n, body.initializer("two", body.value(list(2))))
	chosen := body.op("chosen", "If", nil, body.op("flag", "Squeeze", nil, first))
	choice := g.Nodes[len(g.Nodes)-1]
	choice.Attrs = []*graph.Attr{branch("then_branch", true), branch("else_branch", false)}
	choice.SetCaptures()
	next := body.op("next", "Add", nil, n, one)
	y := body.op("y", "Mul", nil, after, s)
	z := body.op("z", "Mul", nil, body.op("squared", "Mul", nil, x, x), body.op("row", "ReduceSum", attrs{"keepdims": 0}, after, body.initializer("axis", body.value(list(0)))))
	body.finish(chosen, still, next, y, z)

	names := []string{"s1", "o1", "n1", "ys", "zs"}
	outs := b.node("", "Scan", attrs{
		"num_scan_inputs": 2, "scan_input_directions": []int64{1, 0}, "scan_output_directions": []int64{0, 1},
	}, []ID{state, other, count, fed, xs}, names...)
	node := b.m.Graph.Nodes[len(b.m.Graph.Nodes)-1]
	node.Attrs = append(node.Attrs, &graph.Attr{Name: "body", Type: graph.AttrGraph, Graph: g})
	node.SetCaptures()
	total := ID(graph.None)
	for k, read := range used {
		if !read {
			continue
		}
		weights := b.input(names[k]+".weights", b.value(param([][]int{{2, 3}, {2, 3}, nil, {5, 2, 3}, {5, 3}}[k]...)))
		part := b.op(names[k]+".sum", "ReduceSum", attrs{"keepdims": 0}, b.op(names[k]+".part", "Mul", nil, outs[k], weights))
		if total != graph.None {
			part = b.op(names[k]+".total", "Add", nil, total, part)
		}
		total = part
	}
	b.finish(total)
	return b
}

// The gradients of a Scan agree with central differences, whichever outputs the loss
// reads.
func TestScanGradients(t *testing.T) {
	for _, c := range []struct {
		name      string
		used      []bool
		trainable string
	}{
		{"everything", []bool{true, true, false, true, true}, `^p\d$`},
		{"the last state", []bool{true, false, false, false, false}, `^p\d$`},
		{"an output of each iteration", []bool{false, false, false, true, false}, `^p\d$`},
		{"in reverse", []bool{false, false, false, false, true}, `^p\d$`},
		{"a captured weight alone", []bool{true, false, false, true, false}, `^p1$`},
		{"a scanned input alone", []bool{false, false, false, true, true}, `^p3$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := scanModel(c.used)
			output := b.m.Graph.Tensors[b.m.Graph.Outputs[0]].Name
			step, err := Train(b.m, Options{Loss: "none:" + output, Trainable: regexp.MustCompile(c.trainable), KeepGradients: true})
			if err != nil {
				t.Fatal(err)
			}
			checkGradients(t, step, b.feeds, 30)
		})
	}
}

// A Scan whose gradient reads no scanned input has as many iterations in reverse: the
// weight is added to the state in each of them.
func TestScanGradientsWithoutScannedInputs(t *testing.T) {
	b := newBuilder("counted", 18)
	w, state, xs := b.initializer("p0", b.value(param(3))), b.initializer("p1", b.value(param(2, 3))), b.input("xs", b.value(param(4, 3)))
	body := newBuilder("body", 18)
	g := body.m.Graph
	for _, name := range []string{"s", "x"} {
		g.Inputs = append(g.Inputs, g.NewTensor(name))
	}
	cw := g.NewTensor("p0")
	g.Tensors[cw].Capture = true
	g.Captures = []graph.Capture{{Inner: cw, Outer: w}}
	body.finish(body.op("after", "Add", nil, g.Inputs[0], cw), body.op("y", "Neg", nil, g.Inputs[1]))
	outs := b.node("", "Scan", attrs{"num_scan_inputs": 1}, []ID{state, xs}, "last", "ys")
	node := b.m.Graph.Nodes[0]
	node.Attrs = append(node.Attrs, &graph.Attr{Name: "body", Type: graph.AttrGraph, Graph: g})
	node.SetCaptures()
	weighted := b.op("weighted", "Mul", nil, outs[0], b.input("weights", b.value(param(2, 3))))
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, weighted))
	b.checkAlone(t)
}

// The gradients of a Loop that counts its iterations agree with central differences.
func TestLoopGradients(t *testing.T) {
	b := newBuilder("loop", 18)
	w, state := b.initializer("p0", b.value(param(3, 3))), b.initializer("p1", b.value(param(2, 3)))
	count := b.initializer("count", b.value(number(4)))
	yes := b.initializer("yes", &reference.Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{1}})

	body := newBuilder("body", 18)
	g := body.m.Graph
	for _, name := range []string{"i", "go", "s"} {
		g.Inputs = append(g.Inputs, g.NewTensor(name))
	}
	cw := g.NewTensor("p0")
	g.Tensors[cw].Capture = true
	g.Captures = []graph.Capture{{Inner: cw, Outer: w}}
	i := body.op("real", "Cast", attrs{"to": graph.Float64}, g.Inputs[0])
	after := body.op("after", "Tanh", nil, body.op("sum", "Add", nil, body.op("product", "MatMul", nil, g.Inputs[2], cw), i))
	body.finish(body.op("on", "Identity", nil, g.Inputs[1]), after, body.op("y", "Mul", nil, after, g.Inputs[2]))

	outs := b.node("", "Loop", nil, []ID{count, yes, state}, "last", "ys")
	node := b.m.Graph.Nodes[0]
	node.Attrs = []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: g}}
	node.SetCaptures()
	weights := b.input("weights", b.value(param(4, 2, 3)))
	all := b.op("all", "Mul", nil, b.op("added", "Add", nil, outs[1], outs[0]), weights)
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, all))
	step, err := Train(b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d$`), KeepGradients: true})
	if err != nil {
		t.Fatal(err)
	}
	checkGradients(t, step, b.feeds, 30)
}

// A Loop that ends when its condition says so, or after a number of iterations that is only
// bounded, has the gradient of the iterations that ran.
func TestBoundedLoopGradients(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64 // the condition ends the Loop after so many iterations
		fed   bool  // the number of iterations is data, bounded by a constant
	}{
		{"the condition ends it", 3, false},
		{"it runs to the bound", 9, false},
		{"one iteration", 1, false},
		{"a bounded number", 9, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder("bounded", 18)
			w, state := b.initializer("p0", b.value(param(3, 3))), b.initializer("p1", b.value(param(2, 3)))
			limit := b.input("limit", b.value(number(c.limit)))
			count := b.initializer("count", b.value(number(5)))
			if c.fed {
				found := b.op("found", "NonZero", nil, b.input("marks", b.value(param(5).of(1, 0, 2, 0, 3))))
				count = b.op("bounded", "Gather", attrs{"axis": 0}, b.op("lengths", "Shape", nil, found), b.initializer("second", b.value(number(1))))
			}
			body := newBuilder("body", 18)
			g := body.m.Graph
			for _, name := range []string{"i", "go", "s", "n"} {
				g.Inputs = append(g.Inputs, g.NewTensor(name))
			}
			capture := func(name string, outer ID) ID {
				id := g.NewTensor(name)
				g.Tensors[id].Capture = true
				g.Captures = append(g.Captures, graph.Capture{Inner: id, Outer: outer})
				return id
			}
			cw, cl := capture("p0", w), capture("limit", limit)
			after := body.op("after", "Tanh", nil, body.op("product", "MatMul", nil, g.Inputs[2], cw))
			next := body.op("next", "Add", nil, g.Inputs[3], body.initializer("one", body.value(number(1))))
			body.finish(body.op("on", "Less", nil, next, cl), after, next, body.op("y", "Identity", nil, after))
			outs := b.node("", "Loop", nil, []ID{count, graph.None, state, b.initializer("zero", b.value(number(0)))}, "last", "number", "ys")
			node := b.m.Graph.Nodes[len(b.m.Graph.Nodes)-1]
			node.Attrs = []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: g}}
			node.SetCaptures()
			weighted := b.op("weighted", "Mul", nil, outs[0], b.input("weights", b.value(param(2, 3))))
			b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, weighted))
			b.checkAlone(t)
		})
	}
}

// checkAlone trains on the model's output, compares the gradients with central
// differences, and the loss with the model's.
func (b *builder) checkAlone(t *testing.T) {
	t.Helper()
	want, err := reference.Eval(b.m, b.feeds, "objective")
	if err != nil {
		t.Fatal(err)
	}
	step, err := Train(b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d$`), KeepGradients: true})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := checkGradients(t, step, b.feeds, 30)
	if v, w := got["loss"].F[0], want["objective"].F[0]; math.Abs(v-w) > 1e-9 {
		t.Errorf("loss %v, expected %v as before training", v, w)
	}
}

// What is expanded in the graph is expanded in bodies, too: a Loop in the body of a Loop,
// and a Loop and attention in a branch of an If.
func TestNestedGradients(t *testing.T) {
	capture := func(g *graph.Graph, name string, outer ID) ID {
		id := g.NewTensor(name)
		g.Tensors[id].Capture = true
		g.Captures = append(g.Captures, graph.Capture{Inner: id, Outer: outer})
		return id
	}
	// loop adds a Loop of n iterations: s is a tanh of s · w, after what inside makes of it.
	loop := func(b *builder, name string, n int64, s, w ID, inside func(b *builder, s, w ID) ID) ID {
		count := b.initializer(name+".count", b.value(number(n)))
		body := newBuilder(name, 23)
		g := body.m.Graph
		for _, in := range []string{"i", "go", "s"} {
			g.Inputs = append(g.Inputs, g.NewTensor(name+"."+in))
		}
		cw := capture(g, "p0", w)
		h := g.Inputs[2]
		if inside != nil {
			h = inside(body, h, cw)
		}
		after := body.op(name+".after", "Tanh", nil, body.op(name+".product", "MatMul", nil, h, cw))
		body.finish(body.op(name+".on", "Identity", nil, g.Inputs[1]), after)
		out := b.node("", "Loop", nil, []ID{count, graph.None, s}, name+".last")[0]
		node := b.m.Graph.Nodes[len(b.m.Graph.Nodes)-1]
		node.Attrs = []*graph.Attr{{Name: "body", Type: graph.AttrGraph, Graph: g}}
		node.SetCaptures()
		return out
	}
	b := newBuilder("nested", 23)
	w, state := b.initializer("p0", b.value(param(4, 4))), b.initializer("p1", b.value(param(2, 3, 4)))
	y := loop(b, "outer", 3, state, w, func(b *builder, s, w ID) ID { return loop(b, "inner", 2, s, w, nil) })
	branch := func(name string, inside func(b *builder, s, w ID) ID) *graph.Attr {
		in := newBuilder(name, 23)
		g := in.m.Graph
		in.finish(inside(in, capture(g, "y", y), capture(g, "p0", w)))
		return &graph.Attr{Name: name, Type: graph.AttrGraph, Graph: g}
	}
	z := b.op("z", "If", nil, b.input("flag", &reference.Tensor{Type: graph.Bool, Shape: []int{}, I: []int64{1}}))
	node := b.m.Graph.Nodes[len(b.m.Graph.Nodes)-1]
	node.Attrs = []*graph.Attr{
		branch("then_branch", func(b *builder, s, w ID) ID {
			q := b.op("q", "Attention", attrs{"q_num_heads": 2, "kv_num_heads": 2}, s, s, s)
			return loop(b, "branch", 2, q, w, nil)
		}),
		branch("else_branch", func(b *builder, s, _ ID) ID { return b.op("same", "Identity", nil, s) }),
	}
	node.SetCaptures()
	b.finish(b.op("objective", "ReduceSum", attrs{"keepdims": 0}, b.op("weighted", "Mul", nil, z, b.input("weights", b.value(param(2, 3, 4))))))
	b.checkAlone(t)
}

// A Scan along other axes than the first has the gradient of the transposed one.
func TestTurnedScanGradients(t *testing.T) {
	b := newBuilder("turned", 18)
	w, state, xs := b.initializer("p0", b.value(param(3, 3))), b.initializer("p1", b.value(param(2, 3))), b.initializer("p2", b.value(param(2, 4, 3)))
	body := newBuilder("body", 18)
	g := body.m.Graph
	for _, name := range []string{"s", "x"} {
		g.Inputs = append(g.Inputs, g.NewTensor(name))
	}
	cw := g.NewTensor("p0")
	g.Tensors[cw].Capture = true
	g.Captures = []graph.Capture{{Inner: cw, Outer: w}}
	after := body.op("after", "Tanh", nil, body.op("sum", "Add", nil, body.op("product", "MatMul", nil, g.Inputs[0], cw), g.Inputs[1]))
	body.finish(after, body.op("y", "Mul", nil, after, g.Inputs[1]), body.op("z", "Identity", nil, after))
	outs := b.node("", "Scan", attrs{
		"num_scan_inputs": 1, "scan_input_axes": []int64{1}, "scan_output_axes": []int64{-1, 0}, "scan_input_directions": []int64{1}, "scan_output_directions": []int64{0, 1},
	}, []ID{state, xs}, "last", "ys", "zs")
	node := b.m.Graph.Nodes[0]
	node.Attrs = append(node.Attrs, &graph.Attr{Name: "body", Type: graph.AttrGraph, Graph: g})
	node.SetCaptures()
	total := ID(graph.None)
	for k, shape := range [][]int{{2, 3}, {2, 3, 4}, {4, 2, 3}} {
		part := b.op(fmt.Sprintf("part%d", k), "Mul", nil, outs[k], b.input(fmt.Sprintf("weights%d", k), b.value(param(shape...))))
		part = b.op(fmt.Sprintf("sum%d", k), "ReduceSum", attrs{"keepdims": 0}, part)
		if total != graph.None {
			part = b.op(fmt.Sprintf("total%d", k), "Add", nil, total, part)
		}
		total = part
	}
	b.finish(b.op("objective", "Identity", nil, total))
	b.checkAlone(t)
}

// The step of a recurrent layer has as many nodes for many steps as for some.
func TestRecurrentStepsAreFew(t *testing.T) {
	nodes := map[int]int{}
	for _, steps := range []int{20, 200} {
		c := ruleCase{op: "GRU", in: []operand{param(steps, 2, 4), param(1, 24, 4), param(1, 24, 8), param(1, 48)}, attrs: attrs{"hidden_size": 8}, outputs: 2}
		step, err := Train(c.model(t, 18).m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`)})
		if err != nil {
			t.Fatal(err)
		}
		nodes[steps] = len(step.Model.Graph.Nodes)
	}
	if nodes[20] != nodes[200] {
		t.Errorf("%d nodes for 20 steps, %d for 200: expected as many", nodes[20], nodes[200])
	}
}
