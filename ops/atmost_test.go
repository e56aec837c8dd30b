package ops

import (
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/models"
)

// inferOpen infers a network of the package models with lengths that are known only at run
// time.
func inferOpen(t *testing.T, network string, set map[string]string, dims map[string]int64, open []string) *graph.Graph {
	t.Helper()
	m, err := models.Build(network, models.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Infer(m, Options{Dims: dims, AtMost: open}); err != nil {
		t.Fatal(err)
	}
	return m.Graph
}

// TestAtMost: with lengths that are known only at run time, each tensor of the networks has
// the size that it has with the largest ones, and what may share storage then may share it
// with any smaller lengths.
func TestAtMost(t *testing.T) {
	for _, c := range []struct {
		network string
		set     map[string]string
		high    map[string]int64
		open    []string
		smaller []map[string]int64
	}{
		{
			"bert",
			map[string]string{"layers": "1"},
			map[string]int64{"batch": 4, "sequence": 64},
			[]string{"batch", "sequence"},
			[]map[string]int64{{"batch": 1, "sequence": 1}, {"batch": 1, "sequence": 64}, {"batch": 3, "sequence": 2}},
		},
		{"resnet18", nil, map[string]int64{"batch": 8}, []string{"batch"}, []map[string]int64{{"batch": 1}, {"batch": 5}}},
	} {
		t.Run(c.network, func(t *testing.T) {
			open := inferOpen(t, c.network, c.set, c.high, c.open)
			largest := inferOpen(t, c.network, c.set, c.high, nil)
			for i, x := range open.Tensors {
				if y := largest.Tensors[i]; x.Bytes != y.Bytes || x.Dynamic != y.Dynamic {
					t.Errorf("%s: expected %d bytes, found %d (%s)", x.Name, y.Bytes, x.Bytes, x.Dynamic)
				}
			}
			for _, dims := range c.smaller {
				small := inferOpen(t, c.network, c.set, dims, nil)
				for i, n := range open.Nodes {
					for _, lists := range [][2][]graph.Alias{{n.Semantics.Views, small.Nodes[i].Semantics.Views}, {n.Semantics.Inplace, small.Nodes[i].Semantics.Inplace}} {
						for _, a := range lists[0] {
							found := false
							for _, b := range lists[1] {
								found = found || a == b
							}
							if !found {
								t.Errorf("%v: %s: input %d and output %d share storage with any lengths, but not with these", dims, n.Name, a.In, a.Out)
							}
						}
					}
				}
			}
		})
	}
}

// TestIdentities: the length of a range, of the beginning of an axis and of what a Reshape
// leaves over is the length that it follows from.
func TestIdentities(t *testing.T) {
	n := graph.AtMost(8).WithIdentity(3)
	length := argInt(0)
	length.Value = &Value{Shape: []int64{}, Elems: []Scalar{FromDim(n)}}
	shape := func(c *Call) string { return graph.ShapeString(c.Out[0].Shape) }
	for _, c := range []struct {
		doc, op string
		in      []Arg
		keeps   bool
	}{
		{"counting up to it", "Range", []Arg{argInt(0), length, argInt(1)}, true},
		{"in steps of 2", "Range", []Arg{argInt(0), length, argInt(2)}, false},
		{"from 1", "Range", []Arg{argInt(1), length, argInt(1)}, false},
		{"the first of a longer axis", "Slice", []Arg{arg(graph.Float32, 512), argInts(0), argDims(n), argInts(0)}, true},
		{"of a shorter axis", "Slice", []Arg{arg(graph.Float32, 7), argInts(0), argDims(n), argInts(0)}, false},
		{"all of an axis", "Slice", []Arg{arg(graph.Float32, n), argInts(0), argInts(1 << 40), argInts(0)}, true},
		{"all but the first", "Slice", []Arg{arg(graph.Float32, n), argInts(1), argInts(1 << 40), argInts(0)}, false},
		{"what is left over", "Reshape", []Arg{arg(graph.Float32, n, 12, 4), argInts(-1, 48)}, true},
		{"twice what is left over", "Reshape", []Arg{arg(graph.Float32, n, 12, 4), argInts(-1, 24)}, false},
	} {
		t.Run(c.doc, func(t *testing.T) {
			call, err := callOp(c.op, 21, c.in, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := call.Out[0].Shape[0].Identity() == 3; got != c.keeps {
				t.Errorf("expected the length to keep its identity: %t, found %s", c.keeps, shape(call))
			}
		})
	}
}

// TestProducts: a product of lengths is the same length wherever it is computed, and divides
// out again.
func TestProducts(t *testing.T) {
	build := func() *graph.Model {
		b := graph.NewBuilder("heads", 18)
		x := b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown, graph.Unknown, 16), "batch", "tokens", "")
		one := func(name string, at int64) graph.TensorID {
			return b.Node("Gather", name, b.Node("Shape", name+".shape", x), b.Ints(name+".at", []int64{1}, []int64{at}))
		}
		batch, tokens := one("b", 0), one("t", 1)
		four, sixteen, rest := b.Ints("four", []int64{1}, []int64{4}), b.Ints("sixteen", []int64{1}, []int64{16}), b.Ints("rest", []int64{1}, []int64{-1})
		list := func(name string, parts ...graph.TensorID) graph.TensorID {
			return b.Add(&graph.Node{Op: "Concat", Inputs: parts, Attrs: []*graph.Attr{{Name: "axis", Type: graph.AttrInt}}}, name)[0]
		}
		turned := func(name string, x graph.TensorID) graph.TensorID {
			return b.Add(&graph.Node{Op: "Transpose", Inputs: []graph.TensorID{x}, Attrs: []*graph.Attr{{Name: "perm", Type: graph.AttrInts, Ints: []int64{0, 2, 1, 3}}}}, name)[0]
		}
		heads := turned("heads", b.Node("Reshape", "split", x, list("split.shape", batch, tokens, four, four)))
		merged := b.Node("Reshape", "merged", heads, list("merged.shape", b.Node("Mul", "times", batch, four), tokens, four))
		apart := b.Node("Reshape", "apart", b.Node("Reshape", "again", merged, list("again.shape", rest, tokens, four)), list("apart.shape", batch, four, tokens, four))
		b.Output(b.Node("Add", "sum", apart, heads))
		rows := b.Node("Reshape", "rows", x, list("rows.shape", rest, sixteen))
		b.Output(b.Node("Add", "both", b.Node("Reshape", "back", rows, list("back.shape", batch, tokens, sixteen)), x))
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, positive := range [][]string{nil, {"batch", "tokens"}} {
		m := build()
		if _, err := Infer(m, Options{Dims: map[string]int64{"batch": 8, "tokens": 32}, AtMost: []string{"batch", "tokens"}, Positive: positive}); err != nil {
			t.Fatal(err)
		}
		g := m.Graph
		x := g.Tensors[g.Inputs[0]].Type.Shape
		of := func(name string) []graph.Dim {
			for _, u := range g.Tensors {
				if u.Name == name {
					return u.Type.Shape
				}
			}
			t.Fatalf("no tensor %q", name)
			return nil
		}
		if a, b := of("merged")[0], of("again")[0]; a != b || a.Identity() == 0 {
			t.Errorf("expected one length for the batch times 4, found %v and %v", a, b)
		}
		if n := of("sum"); n[0] != x[0] || n[2] != x[1] {
			t.Errorf("expected the lengths of the input, found %s", graph.ShapeString(n))
		}
		// With lengths of 0, a 0 in the shape may mean another length.
		if n := of("back"); (n[0] == x[0] && n[1] == x[1]) != (positive != nil) {
			t.Errorf("positive %q: found %s, of the input %s", positive, graph.ShapeString(n), graph.ShapeString(x))
		}
		if n, _ := of("rows")[0].Max(); n != 256 {
			t.Errorf("expected at most 256 rows, found %d", n)
		}
	}
}

func TestAtMostErrors(t *testing.T) {
	m, err := models.Build("resnet18", models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Infer(m, Options{Dims: map[string]int64{"bacth": 8}, AtMost: []string{"bacth"}}); err == nil || !strings.Contains(err.Error(), `no dimension "bacth"`) {
		t.Errorf("expected an error that names the dimension, found %v", err)
	}
}
