package autodiff

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestBiasJoinsItsProduct: a product in 16 bits and its bias are one node, so that their sum is rounded
// once. In float32, or where the product is read elsewhere too, they stay as they are.
func TestBiasJoinsItsProduct(t *testing.T) {
	for _, k := range []struct {
		name  string
		elem  graph.DType
		shape []int // of the bias
		twice bool  // the product is read twice
		want  string
	}{
		{"in bfloat16", graph.BFloat16, []int{5}, false, "Reshape Gemm Reshape"},
		{"in float16, a bias of three axes", graph.Float16, []int{1, 1, 5}, false, "Reshape Gemm Reshape Reshape"},
		{"a number", graph.Float16, []int{}, false, "MatMul Add"},
		{"read twice", graph.BFloat16, []int{5}, true, "MatMul Add Mul"},
		{"in float32", graph.Float32, []int{5}, false, "MatMul Add"},
	} {
		t.Run(k.name, func(t *testing.T) {
			b := newBuilder(k.name, 22)
			cast := func(name string, x ID, to graph.DType) ID { return b.op(name, "Cast", attrs{"to": to}, x) }
			x := cast("x16", b.input("x", b.value(operand{shape: []int{2, 3, 4}, elem: graph.Float32})), k.elem)
			w := cast("w16", b.initializer("w", b.value(operand{shape: []int{4, 5}, elem: graph.Float32})), k.elem)
			c := cast("c16", b.initializer("c", b.value(operand{shape: k.shape, elem: graph.Float32})), k.elem)
			m := b.op("m", "MatMul", nil, x, w)
			y := b.op("y", "Add", nil, m, c)
			if k.twice {
				y = b.op("z", "Mul", nil, m, y)
			}
			b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, cast("wide", y, graph.Float32)))
			step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^[wc]$"), KeepGradients: true})
			var made []string
			for _, n := range step.Model.Graph.Nodes {
				if phase, _ := n.Prop(keyPhase); phase == phaseForward && slices.Contains([]string{"Reshape", "Gemm", "MatMul", "Add", "Mul"}, n.Op) {
					made = append(made, n.Op)
				}
			}
			slices.Sort(made)
			want := strings.Fields(k.want)
			slices.Sort(want)
			if !slices.Equal(made, want) {
				t.Errorf("the forward pass has %v, expected %v", made, want)
			}
		})
	}
}

// TestTermsAreAddedWide: what is narrowed for several products gets its gradient in float32, as if each
// of them had narrowed it.
func TestTermsAreAddedWide(t *testing.T) {
	b := newBuilder("terms", 22)
	x := b.op("x", "Tanh", nil, b.initializer("p", b.value(operand{shape: []int{6, 4}, elem: graph.Float32})))
	half := b.op("half", "Cast", attrs{"to": graph.BFloat16}, x)
	w := b.op("w16", "Cast", attrs{"to": graph.BFloat16}, b.initializer("w", b.value(operand{shape: []int{4, 4}, elem: graph.Float32})))
	sum := b.op("sum", "Add", nil, b.op("a", "MatMul", nil, half, w), b.op("b", "Sigmoid", nil, half))
	b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("wide", "Cast", attrs{"to": graph.Float32}, sum)))
	step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p$"), KeepGradients: true})
	for _, n := range step.Model.Graph.Nodes {
		if phase, _ := n.Prop(keyPhase); phase == phaseAccumulate && n.Op == "Add" {
			if e := step.Model.Graph.Tensors[n.Outputs[0]].Type.Elem; e != graph.Float32 {
				t.Errorf("%s adds in %v, expected float32", n.Name, e)
			}
			return
		}
	}
	t.Error("no terms are added")
}

// TestStatesOfCellsAreWide: what an LSTM or a GRU in 16 bits adds to is float32 from step to step.
func TestStatesOfCellsAreWide(t *testing.T) {
	for op, gates := range map[string]int{"GRU": 3, "LSTM": 4} {
		for _, steps := range []int{3, mostUnrolled + 2} {
			const hidden = 2
			b := newBuilder(op, 22)
			in := func(name string, shape ...int) ID {
				return b.op(name+"16", "Cast", attrs{"to": graph.BFloat16}, b.initializer(name, b.value(operand{shape: shape, elem: graph.Float32})))
			}
			x := b.op("x16", "Cast", attrs{"to": graph.BFloat16}, b.input("x", b.value(operand{shape: []int{steps, 3, 4}, elem: graph.Float32})))
			y := b.op("y", op, attrs{"hidden_size": hidden}, x, in("w", 1, gates*hidden, 4), in("r", 1, gates*hidden, hidden))
			b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("wide", "Cast", attrs{"to": graph.Float32}, y)))
			step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^w$"), KeepGradients: true})
			g := step.Model.Graph
			for _, n := range g.Nodes {
				if body := n.Attr("body"); body != nil && body.Graph != nil {
					g = body.Graph
					break
				}
			}
			wide := 0
			for _, n := range g.Nodes {
				if n.Op == "Add" && g.Tensors[n.Outputs[0]].Type.Elem == graph.Float32 {
					wide++
				}
			}
			if wide == 0 {
				t.Errorf("%s of %d steps: no sum is float32", op, steps)
			}
		}
	}
}
