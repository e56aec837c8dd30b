package autodiff

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onnxmem/onnxmem/graph"
)

// TestSpellings: two spellings of the same attributes give the same gradient. An empty
// string or list means the default.
func TestSpellings(t *testing.T) {
	conv := []operand{param(1, 2, 5), param(2, 2, 3)}
	image := []operand{param(4, 4), omitted, omitted, list(3, 5)}
	whole := []operand{param(4, 4), factors(0, 0, 1, 1), omitted, list(3, 5)}
	for _, c := range []struct{ got, want ruleCase }{
		{
			ruleCase{op: "Conv", in: conv, attrs: attrs{"auto_pad": "", "strides": []int64{}, "dilations": []int64{}, "pads": []int64{}}},
			ruleCase{op: "Conv", in: conv},
		},
		{
			ruleCase{op: "ConvTranspose", in: conv, attrs: attrs{"output_shape": []int64{}, "strides": []int64{2}, "pads": []int64{0, 2}}},
			ruleCase{op: "ConvTranspose", in: conv, attrs: attrs{"strides": []int64{2}, "pads": []int64{0, 2}}},
		},
		{
			ruleCase{op: "ConvTranspose", in: conv, attrs: attrs{"auto_pad": "", "strides": []int64{2}, "pads": []int64{0, 2}}},
			ruleCase{op: "ConvTranspose", in: conv, attrs: attrs{"strides": []int64{2}, "pads": []int64{0, 2}}},
		},
		{
			ruleCase{op: "ConvTranspose", in: conv, attrs: attrs{"output_shape": []int64{1, 2, 8}, "strides": []int64{2}}},
			ruleCase{op: "ConvTranspose", in: conv, attrs: attrs{"output_shape": []int64{8}, "strides": []int64{2}}},
		},
		{ // no window fits: the result has no elements
			ruleCase{op: "AveragePool", in: []operand{param(2, 2, 2, 1)}, attrs: attrs{"kernel_shape": []int64{3, 1}, "pads": []int64{}}},
			ruleCase{op: "AveragePool", in: []operand{param(2, 2, 2, 1)}, attrs: attrs{"kernel_shape": []int64{3, 1}}},
		},
		{
			ruleCase{op: "Resize", in: image, attrs: attrs{"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}},
			ruleCase{op: "Resize", in: whole, attrs: attrs{"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}},
		},
		{
			ruleCase{op: "ReduceMean", in: []operand{param(2, 3, 4), list(1, -2)}},
			ruleCase{op: "ReduceMean", in: []operand{param(2, 3, 4), list(1)}},
		},
	} {
		got, want := backwardText(t, &c.got), backwardText(t, &c.want)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s with %v: the gradient is not that of %v (-want +got):\n%s", c.got.op, c.got.attrs, c.want.attrs, d)
		}
	}
}

// backwardText lists the nodes of the backward pass with their attributes and the
// constants that they read.
func backwardText(t *testing.T, c *ruleCase) []string {
	t.Helper()
	r, err := Train(c.squared(18), Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`)})
	if err != nil {
		t.Fatalf("%s with %v: %v", c.op, c.attrs, err)
	}
	var lines []string
	g := r.Model.Graph
	for _, n := range g.Nodes {
		if phase, _ := n.Prop(keyPhase); phase != phaseBackward {
			continue
		}
		var line strings.Builder
		line.WriteString(n.Op)
		for _, a := range n.Attrs {
			fmt.Fprint(&line, " ", a.Name, "=", a.Int, a.Ints, a.String)
		}
		for _, in := range n.Inputs {
			if in != graph.None && g.Tensors[in].Data != nil {
				fmt.Fprintf(&line, " %x", g.Tensors[in].Data.Raw)
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}
