package autodiff

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// TestTableReadTwice: the gradient of a table that is gathered from and also read transposed
// takes one tensor of its size. The embeddings of a language model are such a table. The
// product makes the gradient as the table lies, and the gathered rows are added into it.
// Where the transposed table has two readers, one of them no product, it is transposed.
func TestTableReadTwice(t *testing.T) {
	for _, k := range []struct {
		name   string
		twice  bool // another node reads the transposed table
		noLean []string
		want   string // the operators that make tensors of the table's size in the backward pass
	}{
		{"lean", false, nil, "Gemm ScatterND"},
		{"without product", false, []string{"product"}, "Gemm ScatterND Transpose"},
		{"without in-place", false, []string{"in-place"}, "Add ConstantOfShape Gemm ScatterND"},
		{"without both", false, []string{"product", "in-place"}, "Add ConstantOfShape Gemm ScatterND Transpose"},
		{"two readers", true, nil, "Add Gemm Mul ScatterND Transpose"},
	} {
		t.Run(k.name, func(t *testing.T) {
			b := newBuilder(k.name, 18)
			table := b.initializer("p", b.value(operand{shape: []int{7, 3}, elem: graph.Float64}))
			ids := b.input("ids", &reference.Tensor{Type: graph.Int64, Shape: []int{5}, I: []int64{2, 0, 6, 2, 3}})
			rows := b.op("rows", "Gather", nil, table, ids)
			turned := b.op("turned", "Transpose", attrs{"perm": []int64{1, 0}}, table)
			loss := b.op("squares", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("logits", "MatMul", nil, rows, turned))
			if k.twice {
				loss = b.op("both", "Add", nil, loss, b.op("own", "ReduceSumSquare", attrs{"keepdims": 0}, turned))
			}
			b.finish(b.op("objective", "Identity", nil, loss))
			step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p$"), KeepGradients: true, NoLean: k.noLean})
			checkGradients(t, step, b.feeds, 21)
			g := step.Model.Graph
			var made []string
			for _, n := range g.Nodes {
				phase, _ := n.Prop(keyPhase)
				size := int64(1)
				for _, d := range g.Tensors[n.Outputs[0]].Type.Shape {
					size *= int64(d)
				}
				if (phase == phaseBackward || phase == phaseAccumulate) && size == 7*3 {
					made = append(made, n.Op)
				}
			}
			slices.Sort(made)
			if got := strings.Join(slices.Compact(made), " "); got != k.want {
				t.Errorf("%s make tensors of the size of the table: expected %s", got, k.want)
			}
		})
	}
}
