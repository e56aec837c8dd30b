package ops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestRanges: which bytes of outputs are bytes of inputs.
func TestRanges(t *testing.T) {
	axis := func(v int64) []*graph.Attr { return []*graph.Attr{{Name: "axis", Type: graph.AttrInt, Int: v}} }
	x := arg(graph.Float32, 1, 4, 6)
	for _, c := range []struct {
		doc, op string
		in      []Arg
		outs    int
		attrs   []*graph.Attr
		want    string // "OUT[AT:END] = IN[FROM:]"
	}{
		{"a Concat behind one image", "Concat", []Arg{x, arg(graph.Float32, 1, 2, 6)}, 1, axis(1), "0[0:96] = 0[0:], 0[96:144] = 1[0:]"},
		{"of several images: rows are interleaved", "Concat", []Arg{arg(graph.Float32, 2, 4), arg(graph.Float32, 2, 4)}, 1, axis(1), ""},
		{"along the first axis", "Concat", []Arg{arg(graph.Int8, 2, 4), arg(graph.Int8, 3, 4)}, 1, axis(0), "0[0:8] = 0[0:], 0[8:20] = 1[0:]"},
		{"an empty operand", "Concat", []Arg{arg(graph.Float32, 0, 2), arg(graph.Float32, 1, 2)}, 1, axis(0), "0[0:8] = 1[0:]"},
		{"one operand is a view", "Concat", []Arg{x}, 1, axis(1), ""},
		{"half bytes", "Concat", []Arg{arg(graph.Int4, 2, 4), arg(graph.Int4, 3, 4)}, 1, axis(0), ""},
		{"strings", "Concat", []Arg{arg(graph.String, 2), arg(graph.String, 3)}, 1, axis(0), ""},
		{"a length that is a bound", "Concat", []Arg{arg(graph.Float32, graph.AtMost(2)), arg(graph.Float32, 3)}, 1, axis(0), ""},
		{"a Split into parts", "Split", []Arg{x, argInts(1, 3)}, 2, axis(1), "0[0:24] = 0[0:], 1[0:72] = 0[24:]"},
		{"a Split into equal parts", "Split", []Arg{x}, 2, axis(-2), "0[0:48] = 0[0:], 1[0:48] = 0[48:]"},
		{"a Split of the last axis", "Split", []Arg{x}, 2, axis(2), ""},
		{"a Slice of one axis", "Slice", []Arg{x, argInts(1), argInts(3), argInts(1)}, 1, nil, "0[0:48] = 0[24:]"},
		{"from the end", "Slice", []Arg{x, argInts(-2), argInts(1 << 40), argInts(1)}, 1, nil, "0[0:48] = 0[48:]"},
		{"of two axes", "Slice", []Arg{x, argInts(1, 1), argInts(3, 3), argInts(1, 2)}, 1, nil, ""},
		{"with a step", "Slice", []Arg{x, argInts(0), argInts(4), argInts(1), argInts(2)}, 1, nil, ""},
		{"backwards", "Slice", []Arg{x, argInts(3), argInts(0), argInts(1), argInts(-1)}, 1, nil, ""},
		{"of all rows", "Slice", []Arg{x, argInts(0), argInts(4), argInts(1)}, 1, nil, ""},
		{"at an unknown place", "Slice", []Arg{x, argHidden(1), argInts(3), argInts(1)}, 1, nil, ""},
		{"one row", "Gather", []Arg{x, argInt(2)}, 1, axis(1), "0[0:24] = 0[48:]"},
		{"one row, from the end", "Gather", []Arg{x, argInts(-1)}, 1, axis(1), "0[0:24] = 0[72:]"},
		{"two rows", "Gather", []Arg{x, argInts(0, 1)}, 1, axis(1), ""},
		{"a row at an unknown place", "Gather", []Arg{x, argHidden(1)}, 1, axis(1), ""},
	} {
		call, err := callOp(c.op, 18, c.in, c.outs, c.attrs...)
		if err != nil {
			t.Errorf("%s: %v", c.doc, err)
			continue
		}
		var list []string
		for _, r := range call.Node.Semantics.Ranges {
			list = append(list, fmt.Sprintf("%d[%d:%d] = %d[%d:]", r.Out, r.At, r.At+r.Bytes, r.In, r.From))
		}
		if got := strings.Join(list, ", "); got != c.want {
			t.Errorf("%s: %s: got %q, want %q", c.doc, c.op, got, c.want)
		}
	}
}
