package autodiff

import (
	"math"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestMasksAreNotTrained: what is added to hide places from an attention looks
// like a bias, but for its values.
func TestMasksAreNotTrained(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		mask   bool
	}{
		{"weights", []float64{0.5, -3, 0, 90}, false},
		{"a large number", []float64{0, -10000, 0, 0}, true},
		{"infinity", []float64{0, math.Inf(-1), 0, 0}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(c.name, 18)
			x := b.input("x", b.value(operand{elem: graph.Float32, shape: []int{2, 2}}))
			w := b.initializer("w", b.value(operand{elem: graph.Float32, shape: []int{2, 2}}))
			m := b.initializer("m", b.value(operand{elem: graph.Float32, shape: []int{2, 2}, reals: c.values}))
			y := b.node("", "MatMul", nil, []ID{x, w}, "p")
			b.m.Graph.Outputs = b.node("", "Add", nil, []ID{y[0], m}, "y")
			b.m.Graph.Tensors[b.m.Graph.Outputs[0]].Output = true
			b.m.Graph.Link()
			step := train(t, b.m, Options{})
			want := []string{"w", "m"}
			if c.mask {
				want = want[:1]
			}
			if !slices.Equal(step.Parameters, want) {
				t.Errorf("parameters %v, expected %v", step.Parameters, want)
			}
		})
	}
}
