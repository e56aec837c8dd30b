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

func TestAtMostErrors(t *testing.T) {
	m, err := models.Build("resnet18", models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Infer(m, Options{Dims: map[string]int64{"bacth": 8}, AtMost: []string{"bacth"}}); err == nil || !strings.Contains(err.Error(), `no dimension "bacth"`) {
		t.Errorf("expected an error that names the dimension, found %v", err)
	}
}
