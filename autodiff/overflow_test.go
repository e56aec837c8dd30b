package autodiff

import (
	"regexp"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestWaitingGradientsAreRepeated: at a small batch, a large gradient is checked in float16 and made again
// in float32 for its update, but no more of them than it takes to need no more memory than in float32; at a
// large one, or where it is asked for, it waits.
func TestWaitingGradientsAreRepeated(t *testing.T) {
	for _, k := range []struct {
		name string
		rows int
		opt  Options
		want int
	}{
		{"two rows", 2, Options{}, 2},
		{"many rows", 512, Options{}, 0},
		{"gradients are outputs", 2, Options{KeepGradients: true}, 0},
		{"gradients are clipped together", 2, Options{ClipNorm: 1}, 0},
		{"without the saving", 2, Options{NoLean: []string{"cast"}}, 0},
	} {
		t.Run(k.name, func(t *testing.T) {
			b := newBuilder("layers", 22)
			half := func(name string, x ID) ID { return b.op(name, "Cast", attrs{"to": graph.Float16}, x) }
			x := half("x16", b.input("x", b.value(operand{shape: []int{k.rows, 32}, elem: graph.Float32})))
			for _, name := range []string{"a", "b", "c"} {
				w := b.initializer(name, b.value(operand{shape: []int{32, 32}, elem: graph.Float32}))
				if name == "b" {
					w = b.op("turned", "Transpose", attrs{"perm": []int64{1, 0}}, w)
				}
				w = half(name+"16", w)
				x = b.op(name+".tanh", "Tanh", nil, b.op(name+".product", "MatMul", nil, x, w))
			}
			b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("wide", "Cast", attrs{"to": graph.Float32}, x)))
			k.opt.Loss, k.opt.Trainable, k.opt.LossScale = "none:objective", regexp.MustCompile("^[abc]$"), DynamicScale()
			g := train(t, b.m, k.opt).Model.Graph
			checked, again := 0, 0
			for _, n := range g.Nodes {
				if n.Op == "ReduceMean" && g.Tensors[n.Inputs[0]].Type.Elem == graph.Float16 {
					checked++
				}
				if n.Op == "Identity" && strings.Contains(n.Name, ".grad/") && k.opt.NoLean == nil && !k.opt.KeepGradients {
					t.Errorf("%s copies a gradient to name it", n.Name)
				}
				if strings.Contains(n.Name, "/again/") && n.Op == "Gemm" && g.Tensors[n.Outputs[0]].Type.Elem == graph.Float32 {
					again++
				}
			}
			if k.opt.NoLean == nil && checked != 3 && k.opt.ClipNorm == 0 {
				t.Errorf("%d gradients are checked in float16, expected 3", checked)
			}
			if again != k.want {
				t.Errorf("%d gradients are made again, expected %d", again, k.want)
			}
			for _, name := range []string{"a.grad", "b.grad", "c.grad"} {
				if strings.Count(named(g), " "+name+" ") != 1 {
					t.Errorf("no single tensor is %s", name)
				}
			}
		})
	}
}

// named lists the names of a graph's tensors.
func named(g *graph.Graph) string {
	list := " "
	for _, t := range g.Tensors {
		list += t.Name + " "
	}
	return list
}

// TestRowsAreChecked: the gradient of a table is checked by the rows that are added into it, so that it is
// made when the table is updated.
func TestRowsAreChecked(t *testing.T) {
	b := newBuilder("table", 18)
	x := b.op("rows", "Gather", nil, b.initializer("p", b.value(operand{shape: []int{64, 4}, elem: graph.Float32})), b.initializer("at", b.value(list32(3, 5, 3))))
	b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("t", "Tanh", nil, x)))
	g := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p$"), LossScale: DynamicScale()}).Model.Graph
	for _, n := range g.Nodes {
		if n.Op == "ReduceL1" {
			if shape := g.Tensors[n.Inputs[0]].Type.Shape; shape[0] != 3 {
				t.Errorf("checked is a tensor of %v, expected that of 3 rows", shape)
			}
			return
		}
	}
	t.Error("nothing is checked")
}
