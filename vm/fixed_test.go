package vm_test

import (
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// constantOperand is a node with operands that are constants, by their place among its inputs.
type constantOperand struct {
	name  string
	input []int64
	make  func(b *graph.Builder, x graph.TensorID, constant func(of graph.TensorID) graph.TensorID)
}

// constantOperands are nodes that compute in another order, or from bytes, if their operands
// are constant.
func constantOperands() []constantOperand {
	weight := func(b *graph.Builder, dims ...int64) graph.TensorID { return drawn(b)("w", dims...) }
	ints := func(name string, v ...int64) *graph.Attr {
		return &graph.Attr{Name: name, Type: graph.AttrInts, Ints: v}
	}
	node := func(op string, a []*graph.Attr, dims ...int64) func(b *graph.Builder, x graph.TensorID, constant func(graph.TensorID) graph.TensorID) {
		return func(b *graph.Builder, x graph.TensorID, constant func(graph.TensorID) graph.TensorID) {
			n := &graph.Node{Op: op, Name: "n", Inputs: []graph.TensorID{x, constant(weight(b, dims...))}, Attrs: a}
			b.Output(b.Add(n, "y")...)
		}
	}
	pair := func(b *graph.Builder, x graph.TensorID, constant func(graph.TensorID) graph.TensorID) {
		number := func(name string, v float32) graph.TensorID { return b.Floats(name, []int64{}, []float32{v}) }
		scale, small := constant(number("scale", 0.02)), constant(number("small", 0.01))
		zero := b.Initializer("zero", &graph.Data{Type: graph.Int8, Dims: []int64{}, Raw: []byte{0}})
		var bytes []byte
		for i := range 8 * 4 * 3 * 3 {
			bytes = append(bytes, byte(i*37))
		}
		w := b.Initializer("w", &graph.Data{Type: graph.Int8, Dims: []int64{8, 4, 3, 3}, Raw: bytes})
		q := b.Node("QuantizeLinear", "q", x, scale, zero)
		d := b.Node("DequantizeLinear", "d", q, scale, zero)
		f := b.Node("DequantizeLinear", "f", w, small, zero)
		y := b.Node("Conv", "c", d, f)
		y = b.Node("QuantizeLinear", "p", y, scale, zero)
		b.Output(b.Node("DequantizeLinear", "y", y, scale, zero))
	}
	return []constantOperand{
		{"Conv of a few large images", []int64{1, 16, 16, 16}, node("Conv", []*graph.Attr{ints("strides", 2, 2), ints("pads", 1, 0, 1, 0)}, 4, 16, 3, 1)},
		{"Conv with channels in blocks", []int64{2, 32, 9, 9}, node("Conv", []*graph.Attr{ints("pads", 1, 1, 1, 1)}, 32, 32, 3, 3)},
		{"Conv with few outputs", []int64{3, 5, 9, 9}, node("Conv", nil, 6, 5, 8, 8)},
		{"Conv of a sequence", []int64{1, 32, 4}, node("Conv", nil, 11, 32, 3)},
		{"Conv of single channels", []int64{2, 16, 9, 9}, node("Conv", []*graph.Attr{attr("group", 16)}, 16, 1, 3, 3)},
		{"ConvTranspose by single steps", []int64{2, 8, 9, 9}, node("ConvTranspose", nil, 8, 6, 3, 3)},
		{"ConvTranspose that tiles", []int64{1, 16, 8, 8}, node("ConvTranspose", []*graph.Attr{ints("strides", 2, 2)}, 16, 16, 2, 2)},
		{"MatMul", []int64{3, 5, 24}, node("MatMul", nil, 24, 17)},
		{"Gemm", []int64{5, 24}, node("Gemm", []*graph.Attr{attr("transB", 1)}, 17, 24)},
		{"pair of bytes", []int64{2, 4, 9, 9}, pair},
	}
}

// constantForms are ways in which a constant may reach a node: all have its bits.
var constantForms = []struct {
	name string
	of   func(b *graph.Builder, c graph.TensorID) graph.TensorID
}{
	{"an initializer", func(_ *graph.Builder, c graph.TensorID) graph.TensorID { return c }},
	{"a view", func(b *graph.Builder, c graph.TensorID) graph.TensorID { return b.Node("Identity", "", c) }},
	{"computed", func(b *graph.Builder, c graph.TensorID) graph.TensorID {
		return b.Node("Mul", "", c, b.Floats("one", []int64{}, []float32{1}))
	}},
	{"a view of what is computed", func(b *graph.Builder, c graph.TensorID) graph.TensorID {
		return b.Node("Identity", "", b.Node("Neg", "", b.Node("Neg", "", c)))
	}},
}

// TestConstantOperands: a node gives the same bits whether a constant operand is an
// initializer, a view of one or computed, folded or not, packed or not, and wherever the
// plan puts it.
func TestConstantOperands(t *testing.T) {
	for _, c := range constantOperands() {
		t.Run(c.name, func(t *testing.T) {
			var want map[string]vm.Value
			for _, form := range constantForms {
				for name, opt := range map[string]passes.Options{
					"folded": {}, "not folded": {Fold: passes.FoldOff}, "without sharing": {Fold: passes.FoldOff, NoViews: true, NoInplace: true},
				} {
					b := graph.NewBuilder("m", 13)
					var dims []graph.Dim
					for _, n := range c.input {
						dims = append(dims, graph.Dim(n))
					}
					x := b.Input("x", graph.TensorOf(graph.Float32, dims...))
					c.make(b, x, func(of graph.TensorID) graph.TensorID { return form.of(b, of) })
					m, err := b.Model()
					if err != nil {
						t.Fatal(err)
					}
					p, _ := programOf(t, m, opt)
					for how, run := range map[string]vm.Options{"": {}, ", not packed": {NoPack: true}, ", apart": {Separate: true}, ", apart and not packed": {Separate: true, NoPack: true}, ", guarded": {Guard: vm.GuardEnd}} {
						got, s := runSteps(t, p, run, nil, 1)
						s.Close()
						if want == nil {
							want = got
						}
						sameBits(t, fmt.Sprintf("%s, %s%s", form.name, name, how), got, want)
					}
				}
			}
		})
	}
}
