package graph_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
)

// parseGraph reads a graph in its printed form. Reshape makes views. The node that makes c is
// called "n.c".
func parseGraph(t *testing.T, text string) *graph.Graph {
	t.Helper()
	g := parsed(t, "test", text).Graph
	for _, n := range g.Nodes {
		n.Name = "n." + g.Tensors[n.Outputs[0]].Name
		if n.Semantics.Known = true; n.Op == "Reshape" {
			n.Semantics.Views = []graph.Alias{{}}
		}
	}
	return g
}

// printGraph is the printed form of a graph without the names and domains of its nodes.
func printGraph(g *graph.Graph) string {
	g = g.Clone()
	for _, n := range g.Nodes {
		n.Name, n.Domain = "", ""
	}
	return graph.Text(&graph.Model{Graph: g})
}

// TestRepeatSwaps: later readers of a swapped tensor read the tensor that was swapped
// in, also through views.
func TestRepeatSwaps(t *testing.T) {
	const text = "in x; a=Relu(x); v=Reshape(a); b=Exp(v); c=Tanh(b); d=Add(v,c); y=Sub(d,a); out y"
	for _, c := range []struct {
		name  string
		views bool
		steps []graph.NodeID
		want  string
	}{
		{"with views", true, []graph.NodeID{0, 1, 2, 6, 3, 7, 4, 5}, `in x; a=Relu(x); v=Reshape(a); b=Exp(v); a/host=SwapOut(a); c=Tanh(b); a/back=SwapIn(a/host); v/again1=Reshape(a/back); d=Add(v/again1,c); y=Sub(d,a/back); out y`},
		{"views are ordinary nodes", false, []graph.NodeID{0, 1, 2, 6, 3, 7, 4, 5}, `in x; a=Relu(x); v=Reshape(a); b=Exp(v); a/host=SwapOut(a); c=Tanh(b); a/back=SwapIn(a/host); d=Add(v,c); y=Sub(d,a/back); out y`},
		{"recomputed while it is swapped out", true, []graph.NodeID{0, 1, 2, 6, 0, 3, 4, 7, 5}, `in x; a=Relu(x); v=Reshape(a); b=Exp(v); a/host=SwapOut(a); a/again1=Relu(x); c=Tanh(b); v/again1=Reshape(a/again1); d=Add(v/again1,c); a/back=SwapIn(a/host); y=Sub(d,a/back); out y`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parseGraph(t, text)
			a := g.Nodes[0].Outputs[0]
			_, err := g.Repeat(c.steps, graph.RepeatOptions{Views: c.views, Swaps: []graph.TensorID{a}})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := printGraph(g), graph.Text(parsed(t, "want", c.want)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
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
		g := parseGraph(t, text)
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

func TestRepeat(t *testing.T) {
	second := func(n *graph.Node, out int) bool { return n.Op == "Two" && out == 1 }
	for _, c := range []struct {
		name, text string
		steps      []graph.NodeID
		opt        graph.RepeatOptions
		want       string
	}{
		{
			"readers read the newest instance",
			"in x; a=Op(x); b=Op(a); c=Op(b,a); d=Op(c,a); out d",
			[]graph.NodeID{0, 1, 0, 2, 0, 3},
			graph.RepeatOptions{},
			"in x; a=Op(x); b=Op(a); a/again1=Op(x); c=Op(b,a/again1); a/again2=Op(x); d=Op(c,a/again2); out d",
		},
		{
			"a chain is made of what was made before it",
			"in x; a=Op(x); b=Op(a); c=Op(b); d=Op(c,b); out d",
			[]graph.NodeID{0, 1, 2, 0, 1, 3},
			graph.RepeatOptions{},
			"in x; a=Op(x); b=Op(a); c=Op(b); a/again1=Op(x); b/again1=Op(a/again1); d=Op(c,b/again1); out d",
		},
		{
			"the last instance of an output has its name",
			"in x; a=Op(x); b=Op(a); c=Op(b,a); out a; out c",
			[]graph.NodeID{0, 1, 0, 2},
			graph.RepeatOptions{},
			"in x; a/again0=Op(x); b=Op(a/again0); a=Op(x); c=Op(b,a); out a; out c",
		},
		{
			"what nobody reads is left out where it may be",
			"in x; a,m=Two(x); b=Op(a,m); c,k=Many(b); d=Op(c,k); e=Op(d,c,a); out e",
			[]graph.NodeID{0, 1, 2, 3, 0, 2, 4},
			graph.RepeatOptions{Optional: second},
			"in x; a,m=Two(x); b=Op(a,m); c,k=Many(b); d=Op(c,k); a/again1=Two(x); c/again1,k/again1=Many(b); e=Op(d,c/again1,a/again1); out e",
		},
		{
			"each instance has views of its own, made where they are read",
			"in x; in s; a=Op(x); v=Reshape(a,s); w=Reshape(v,s); b=Op(v); c=Op(b,w); d=Op(c,a); out d",
			[]graph.NodeID{0, 1, 2, 3, 0, 4, 5},
			graph.RepeatOptions{Views: true},
			"in x; in s; a=Op(x); v=Reshape(a,s); w=Reshape(v,s); b=Op(v); a/again1=Op(x); v/again1=Reshape(a/again1,s); w/again1=Reshape(v/again1,s); c=Op(b,w/again1); d=Op(c,a/again1); out d",
		},
		{
			"a view that is there is not made again",
			"in x; in s; a=Op(x); v=Reshape(a,s); b=Op(v); c=Op(b,v); out c",
			[]graph.NodeID{0, 1, 2, 0, 1, 1, 3},
			graph.RepeatOptions{Views: true},
			"in x; in s; a=Op(x); v=Reshape(a,s); b=Op(v); a/again1=Op(x); v/again1=Reshape(a/again1,s); c=Op(b,v/again1); out c",
		},
		{
			"views that have storage of their own are kept",
			"in x; in s; a=Op(x); v=Reshape(a,s); b=Op(v); c=Op(b,v); out c",
			[]graph.NodeID{0, 1, 2, 0, 3},
			graph.RepeatOptions{},
			"in x; in s; a=Op(x); v=Reshape(a,s); b=Op(v); a/again1=Op(x); c=Op(b,v); out c",
		},
		{
			"a repetition reads what was written over its input",
			"in x; in m; y,m2=Norm(x,m); b=Op(y); c=Op(b,y); out c; out m2",
			[]graph.NodeID{0, 1, 0, 2},
			graph.RepeatOptions{
				Instead:   func(n graph.NodeID, in int) (graph.TensorID, bool) { return 3, n == 0 && in == 1 }, // m2
				Byproduct: func(n graph.NodeID, out int) bool { return n == 0 && out == 1 },
			},
			"in x; in m; y,m2=Norm(x,m); b=Op(y); y/again1,m2/again1=Norm(x,m2); c=Op(b,y/again1); out c; out m2",
		},
		{
			"a name that is taken gets a number",
			"in x; a=Op(x); a/again1=Op(a); b=Op(a/again1,a); out b",
			[]graph.NodeID{0, 1, 0, 2},
			graph.RepeatOptions{},
			"in x; a=Op(x); a/again1=Op(a); a/again1_2=Op(x); b=Op(a/again1,a/again1_2); out b",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := parseGraph(t, c.text)
			r, err := g.Repeat(c.steps, c.opt)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := printGraph(g), graph.Text(parsed(t, "want", c.want)); got != want {
				t.Errorf("got\n%s\nexpected\n%s", got, want)
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
	g := parseGraph(t, `in x; in c; a = Op(x); b = If(c) then_branch=graph {
		y = Op(a)
		z = If() then_branch=graph { y = Op(a); out y }
		out y
	}; d = Op(b); e = Op(d, b); out e`)
	if _, err := g.Repeat([]graph.NodeID{0, 1, 2, 0, 1, 3}, graph.RepeatOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = `in x; in c; a = Op(x); b = If(c) then_branch=graph {
		y = Op(a)
		z = If() then_branch=graph { y = Op(a); out y }
		out y
	}; d = Op(b); a/again1 = Op(x); b/again1 = If(c) then_branch=graph {
		y = Op(a/again1)
		z = If() then_branch=graph { y = Op(a/again1); out y }
		out y
	}; e = Op(d, b/again1); out e`
	if diff := cmp.Diff(graph.Text(parsed(t, "want", want)), printGraph(g)); diff != "" {
		t.Error(diff)
	}
	for _, i := range []int{1, 4} {
		if n := g.Nodes[i]; len(n.Captures) != 1 {
			t.Errorf("%s captures %v: expected one tensor", n.Name, n.Captures)
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
		g := parseGraph(t, "in x; a=Op(x); b=Op(a); c=Op(b); out c")
		before := printGraph(g)
		if _, err := g.Repeat(c.steps, graph.RepeatOptions{}); err == nil || err.Error() != c.want {
			t.Errorf("%v: error %v, expected %s", c.steps, err, c.want)
		}
		if after := printGraph(g); after != before {
			t.Errorf("%v: after the error the graph is %s", c.steps, after)
		}
	}
}
