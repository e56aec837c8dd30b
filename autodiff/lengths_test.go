package autodiff

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// A resampling whose matrix is too large to be written out has the same gradient.
func TestResizeWithoutMatrix(t *testing.T) {
	defer func(n int64) { maxMatrix = n }(maxMatrix)
	maxMatrix = 0
	for _, c := range resizeCases {
		for _, opset := range c.opsets {
			t.Run(fmt.Sprintf("%s/opset=%d", c.name, opset), func(t *testing.T) { c.check(t, opset) })
		}
	}
}

// No tensor of a step is larger than the lengths of the model ask for: no rule
// writes out the matrix of a linear map along a long axis.
func TestStepsAreLinearInLengths(t *testing.T) {
	const length = 8000
	resized := operand{shape: []int{1}, reals: []float64{1.7}, elem: graph.Float32, known: true}
	for _, c := range []ruleCase{
		{op: "Pad", name: "reflect", in: []operand{param(length), list(700, 300)}, attrs: attrs{"mode": "reflect"}},
		{op: "Pad", name: "edge", in: []operand{param(length), list(700, 300)}, attrs: attrs{"mode": "edge"}},
		{op: "Pad", name: "wrap", in: []operand{param(length), list(700, 300)}, attrs: attrs{"mode": "wrap"}, opsets: []int64{19}},
		{op: "Pad", name: "wrap, many rounds", in: []operand{param(100), list(length, 0)}, attrs: attrs{"mode": "wrap"}, opsets: []int64{19}},
		{op: "Resize", name: "linear", in: []operand{param(length), omitted, resized}, attrs: attrs{"mode": "linear"}},
		{op: "Resize", name: "nearest", in: []operand{param(length), omitted, resized}, attrs: attrs{"mode": "nearest"}},
		{op: "Slice", in: []operand{param(length), list(0), list(length), list(0), list(3)}},
		{op: "Gather", in: []operand{param(length), indices([]int{3}, 1, 4, 3)}},
		{op: "CumSum", in: []operand{param(length), number(0)}},
	} {
		t.Run(c.op+"/"+c.name, func(t *testing.T) {
			opset := int64(18)
			if c.opsets != nil {
				opset = c.opsets[0]
			}
			step, err := Train(c.model(t, opset).m, Options{Loss: "none:objective", Trainable: regexp.MustCompile(`^p\d+$`)})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range step.Model.Graph.Tensors {
				if n, _ := x.Type.Elements(); n > 8*length {
					t.Errorf("%s has %d elements", x.Name, n)
				}
			}
		})
	}
}
