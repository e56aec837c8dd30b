package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// parseGraph builds a graph from nodes such as "c,d=Op(a,b)". A name without a producer
// is an input. Reshape and Identity make views. The node that makes c is called "n.c".
func parseGraph(text, outputs string) *graph.Graph {
	g, ids := &graph.Graph{}, map[string]graph.TensorID{}
	id := func(name string) graph.TensorID {
		if _, known := ids[name]; !known {
			ids[name] = g.NewTensor(name)
		}
		return ids[name]
	}
	for _, line := range strings.Split(text, ";") {
		made, call, _ := strings.Cut(strings.TrimSpace(line), "=")
		op, args, _ := strings.Cut(strings.TrimSuffix(call, ")"), "(")
		n := &graph.Node{Op: op, Name: "n." + strings.Split(made, ",")[0], Semantics: graph.Semantics{Known: true}}
		for _, a := range strings.FieldsFunc(args, func(r rune) bool { return r == ',' }) {
			n.Inputs = append(n.Inputs, id(a))
		}
		for _, m := range strings.Split(made, ",") {
			n.Outputs = append(n.Outputs, id(m))
		}
		if op == "Reshape" {
			n.Semantics.Views = []graph.Alias{{}}
		}
		g.Nodes = append(g.Nodes, n)
	}
	for _, name := range strings.Fields(outputs) {
		g.Outputs = append(g.Outputs, id(name))
		g.Tensors[id(name)].Output = true
	}
	g.Link()
	return g
}

// TestRepeatSwaps: later readers of a swapped tensor read the tensor that was swapped
// in, also through views.
func TestRepeatSwaps(t *testing.T) {
	const text = "a=Relu(x);v=Reshape(a);b=Exp(v);c=Tanh(b);d=Add(v,c);y=Sub(d,a)"
	for _, c := range []struct {
		name  string
		views bool
		steps []graph.NodeID
		want  string
	}{
		{"with views", true, []graph.NodeID{0, 1, 2, 6, 3, 7, 4, 5}, `a=Relu(x); v=Reshape(a); b=Exp(v); a/host=SwapOut(a); c=Tanh(b); a/back=SwapIn(a/host); v/again1=Reshape(a/back); d=Add(v/again1,c); y=Sub(d,a/back) -> y`},
		{"views are ordinary nodes", false, []graph.NodeID{0, 1, 2, 6, 3, 7, 4, 5}, `a=Relu(x); v=Reshape(a); b=Exp(v); a/host=SwapOut(a); c=Tanh(b); a/back=SwapIn(a/host); d=Add(v,c); y=Sub(d,a/back) -> y`},
		{"recomputed while it is swapped out", true, []graph.NodeID{0, 1, 2, 6, 0, 3, 4, 7, 5}, `a=Relu(x); v=Reshape(a); b=Exp(v); a/host=SwapOut(a); a/again1=Relu(x); c=Tanh(b); v/again1=Reshape(a/again1); d=Add(v/again1,c); a/back=SwapIn(a/host); y=Sub(d,a/back) -> y`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parseGraph(text, "y")
			a := g.Nodes[0].Outputs[0]
			_, err := g.Repeat(c.steps, graph.RepeatOptions{Views: c.views, Swaps: []graph.TensorID{a}})
			if err != nil {
				t.Fatal(err)
			}
			if got := printGraph(g); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if out := g.Nodes[3]; out.Name != "a/out" || out.Domain != graph.SwapDomain {
				t.Errorf("node 3 is %q of domain %q, expected the SwapOut a/out", out.Name, out.Domain)
			}
		})
	}
	for _, c := range []struct {
		name   string
		tensor string
		steps  []graph.NodeID
		want   string
	}{
		{"before it is made", "a", []graph.NodeID{6}, `"a" leaves before node "n.a" (Relu) makes it`},
		{"a view", "v", []graph.NodeID{0, 1, 6}, `"v" cannot leave`},
		{"a graph output", "y", []graph.NodeID{0, 1, 2, 3, 4, 5, 6}, `"y" cannot leave`},
		{"twice", "a", []graph.NodeID{0, 6, 6}, `"a" leaves twice`},
		{"back before it has left", "a", []graph.NodeID{0, 7}, "returns before it has left"},
		{"no swap", "a", []graph.NodeID{8}, "expected a node below 8, found 8"},
	} {
		g := parseGraph(text, "y")
		var tensor graph.TensorID
		for i, x := range g.Tensors {
			if x.Name == c.tensor {
				tensor = graph.TensorID(i)
			}
		}
		if _, err := g.Repeat(c.steps, graph.RepeatOptions{Views: true, Swaps: []graph.TensorID{tensor}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: expected %q", c.name, err, c.want)
		}
	}
}

func printGraph(g *graph.Graph) string {
	names := func(list []graph.TensorID) string {
		var out []string
		for _, t := range list {
			if t < 0 {
				out = append(out, "")
				continue
			}
			out = append(out, g.Tensors[t].Name)
		}
		return strings.Join(out, ",")
	}
	var lines []string
	for _, n := range g.Nodes {
		lines = append(lines, fmt.Sprintf("%s=%s(%s)", names(n.Outputs), n.Op, names(n.Inputs)))
	}
	return strings.Join(lines, "; ") + " -> " + names(g.Outputs)
}

func TestRepeat(t *testing.T) {
	second := func(n *graph.Node, out int) bool { return n.Op == "Two" && out == 1 }
	for _, c := range []struct {
		name, text, outputs string
		steps               []graph.NodeID
		opt                 graph.RepeatOptions
		want                string
	}{
		{
			"readers read the newest instance",
			"a=Op(x); b=Op(a); c=Op(b,a); d=Op(c,a)", "d",
			[]graph.NodeID{0, 1, 0, 2, 0, 3},
			graph.RepeatOptions{},
			"a=Op(x); b=Op(a); a/again1=Op(x); c=Op(b,a/again1); a/again2=Op(x); d=Op(c,a/again2) -> d",
		},
		{
			"a chain is made of what was made before it",
			"a=Op(x); b=Op(a); c=Op(b); d=Op(c,b)", "d",
			[]graph.NodeID{0, 1, 2, 0, 1, 3},
			graph.RepeatOptions{},
			"a=Op(x); b=Op(a); c=Op(b); a/again1=Op(x); b/again1=Op(a/again1); d=Op(c,b/again1) -> d",
		},
		{
			"the last instance of an output has its name",
			"a=Op(x); b=Op(a); c=Op(b,a)", "a c",
			[]graph.NodeID{0, 1, 0, 2},
			graph.RepeatOptions{},
			"a/again0=Op(x); b=Op(a/again0); a=Op(x); c=Op(b,a) -> a,c",
		},
		{
			"what nobody reads is left out where it may be",
			"a,m=Two(x); b=Op(a,m); c,k=Many(b); d=Op(c,k); e=Op(d,c,a)", "e",
			[]graph.NodeID{0, 1, 2, 3, 0, 2, 4},
			graph.RepeatOptions{Optional: second},
			"a,m=Two(x); b=Op(a,m); c,k=Many(b); d=Op(c,k); a/again1=Two(x); c/again1,k/again1=Many(b); e=Op(d,c/again1,a/again1) -> e",
		},
		{
			"each instance has views of its own, made where they are read",
			"a=Op(x); v=Reshape(a,s); w=Reshape(v,s); b=Op(v); c=Op(b,w); d=Op(c,a)", "d",
			[]graph.NodeID{0, 1, 2, 3, 0, 4, 5},
			graph.RepeatOptions{Views: true},
			"a=Op(x); v=Reshape(a,s); w=Reshape(v,s); b=Op(v); a/again1=Op(x); v/again1=Reshape(a/again1,s); w/again1=Reshape(v/again1,s); c=Op(b,w/again1); d=Op(c,a/again1) -> d",
		},
		{
			"a view that is there is not made again",
			"a=Op(x); v=Reshape(a,s); b=Op(v); c=Op(b,v)", "c",
			[]graph.NodeID{0, 1, 2, 0, 1, 1, 3},
			graph.RepeatOptions{Views: true},
			"a=Op(x); v=Reshape(a,s); b=Op(v); a/again1=Op(x); v/again1=Reshape(a/again1,s); c=Op(b,v/again1) -> c",
		},
		{
			"views that have storage of their own are kept",
			"a=Op(x); v=Reshape(a,s); b=Op(v); c=Op(b,v)", "c",
			[]graph.NodeID{0, 1, 2, 0, 3},
			graph.RepeatOptions{},
			"a=Op(x); v=Reshape(a,s); b=Op(v); a/again1=Op(x); c=Op(b,v) -> c",
		},
		{
			"a repetition reads what was written over its input",
			"y,m2=Norm(x,m); b=Op(y); c=Op(b,y)", "c m2",
			[]graph.NodeID{0, 1, 0, 2},
			graph.RepeatOptions{
				Instead:   func(n graph.NodeID, in int) (graph.TensorID, bool) { return 3, n == 0 && in == 1 }, // m2
				Byproduct: func(n graph.NodeID, out int) bool { return n == 0 && out == 1 },
			},
			"y,m2=Norm(x,m); b=Op(y); y/again1,m2/again1=Norm(x,m2); c=Op(b,y/again1) -> c,m2",
		},
		{
			"a name that is taken gets a number",
			"a=Op(x); a/again1=Op(a); b=Op(a/again1,a)", "b",
			[]graph.NodeID{0, 1, 0, 2},
			graph.RepeatOptions{},
			"a=Op(x); a/again1=Op(a); a/again1_2=Op(x); b=Op(a/again1,a/again1_2) -> b",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parseGraph(c.text, c.outputs)
			r, err := g.Repeat(c.steps, c.opt)
			if err != nil {
				t.Fatal(err)
			}
			if got := printGraph(g); got != c.want {
				t.Errorf("got      %s\nexpected %s", got, c.want)
			}
			for i, of := range r.Of {
				first := slices.Contains(r.First, graph.NodeID(i))
				if r.Of[of] != of || first != (of == graph.NodeID(i)) || g.Nodes[of].Op != g.Nodes[i].Op {
					t.Errorf("step %d, %s, repeats step %d", i, g.Nodes[i].Name, of)
				}
			}
			if !slices.IsSorted(r.First) && c.steps[0] == 0 {
				t.Errorf("first runs at %v", r.First)
			}
			for id, x := range g.Tensors {
				if x.Output != slices.Contains(g.Outputs, graph.TensorID(id)) {
					t.Errorf("%q: output %t", x.Name, x.Output)
				}
			}
		})
	}
}

// TestRepeatOfBodies: each copy of a node has bodies that read the newest instance of
// what they capture, and so have bodies within them.
func TestRepeatOfBodies(t *testing.T) {
	g := parseGraph("a=Op(x); b=If(c); d=Op(b); e=Op(d,b)", "e")
	capture := func(outer graph.TensorID, name string) *graph.Graph {
		b := parseGraph("y=Op("+name+")", "y")
		b.Tensors[0].Capture, b.Captures = true, []graph.Capture{{Inner: 0, Outer: outer}}
		return b
	}
	body := capture(0, "a")
	inner := &graph.Node{Name: "inner", Op: "If", Outputs: []graph.TensorID{body.NewTensor("z")}, Attrs: []*graph.Attr{{Name: "then_branch", Type: graph.AttrGraph, Graph: capture(0, "a")}}}
	inner.SetCaptures()
	body.Nodes = append(body.Nodes, inner)
	body.Link()
	a := slices.IndexFunc(g.Tensors, func(t *graph.Tensor) bool { return t.Name == "a" })
	body.Captures[0].Outer = graph.TensorID(a)
	g.Nodes[1].Attrs = []*graph.Attr{{Name: "then_branch", Type: graph.AttrGraph, Graph: body}}
	g.Nodes[1].SetCaptures()
	g.Link()
	if _, err := g.Repeat([]graph.NodeID{0, 1, 2, 0, 1, 3}, graph.RepeatOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		node int
		want string
	}{{1, "a"}, {4, "a/again1"}} {
		n := g.Nodes[c.node]
		b := n.Attrs[0].Graph
		if len(n.Captures) != 1 || g.Tensors[n.Captures[0]].Name != c.want || b.Tensors[0].Name != c.want || b.Nodes[1].Attrs[0].Graph.Tensors[0].Name != c.want {
			t.Errorf("%s captures %v, %q within and %q within that: expected %q", n.Name, n.Captures, b.Tensors[0].Name, b.Nodes[1].Attrs[0].Graph.Tensors[0].Name, c.want)
		}
	}
}

func TestRepeatRefuses(t *testing.T) {
	for _, c := range []struct {
		steps []graph.NodeID
		want  string
	}{
		{[]graph.NodeID{0, 2}, `step 1: node "n.c" (Op): "b" is read before node "n.b" (Op) makes it`},
		{[]graph.NodeID{0, 1}, `node "n.c" (Op) does not run: expected every node at least once`},
		{[]graph.NodeID{0, 3}, `step 1: expected a node below 3, found 3`},
		{[]graph.NodeID{-1}, `step 0: expected a node below 3, found -1`},
	} {
		g := parseGraph("a=Op(x); b=Op(a); c=Op(b)", "c")
		before := printGraph(g)
		if _, err := g.Repeat(c.steps, graph.RepeatOptions{}); err == nil || err.Error() != c.want {
			t.Errorf("%v: error %v, expected %s", c.steps, err, c.want)
		}
		if after := printGraph(g); after != before {
			t.Errorf("%v: after the error the graph is %s", c.steps, after)
		}
	}
}
