package kernel

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// halfCases are convolutions and products of 16-bit tensors that have other ways than those of
// float32.
var halfCases = []nodeCase{
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(wave(2, 19, 20, 23), wave(9, 19, 3, 3), wave(9))},
	{op: "Conv", attrs: attrs(ints("pads", 3, 3, 3, 3), ints("strides", 2, 2)), in: args(wave(1, 3, 64, 64), wave(7, 3, 7, 7))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 2)), in: args(wave(2, 33, 28, 28), wave(16, 33, 3, 3))},
	{op: "Conv", attrs: attrs(ints("strides", 2, 2)), in: args(wave(2, 70, 28, 30), wave(16, 70, 1, 1))},
	{op: "Conv", attrs: attrs(ints("strides", 3, 3), whole1("group", 2)), in: args(wave(2, 70, 28, 30), wave(16, 35, 1, 1))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(wave(2, 90, 7, 7), wave(64, 90, 3, 3))},
	{op: "Conv", in: args(wave(2, 300, 7, 7), wave(64, 300, 1, 1))},
	{op: "Conv", attrs: attrs(ints("pads", 12, 12, 12, 12), ints("dilations", 12, 12)), in: args(wave(1, 140, 20, 20), wave(5, 140, 3, 3))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1, 1, 1)), in: args(wave(1, 20, 5, 9, 9), wave(8, 20, 3, 3, 3))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 0, 2, 1, 1, 1), ints("strides", 2, 1, 2)), in: args(wave(2, 7, 6, 9, 11), wave(8, 7, 3, 2, 3))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1)), in: args(wave(2, 30, 50), wave(8, 30, 3))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), whole1("group", 6)), in: args(wave(2, 6, 14, 17), wave(6, 1, 3, 3), wave(6))},
	{op: "Conv", attrs: attrs(ints("pads", 2, 2, 2, 2), ints("strides", 2, 2), whole1("group", 6)), in: args(wave(2, 6, 15, 17), wave(6, 1, 5, 5))},
	weightGrad([]int64{3, 3}, 1, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, wave(3, 10, 17, 17), wave(3, 70, 17, 17)),
	weightGrad([]int64{7, 7}, 1, []int64{2, 2}, []int64{1, 1}, []int64{3, 3, 3, 3}, wave(1, 3, 64, 64), wave(1, 9, 32, 32)),
	weightGrad([]int64{3, 2}, 1, []int64{2, 3}, []int64{2, 1}, []int64{1, 0, 2, 1}, wave(2, 5, 16, 17), wave(2, 17, 7, 5)),
	weightGrad([]int64{3, 3}, 1, []int64{2, 2}, []int64{1, 1}, []int64{1, 1, 0, 0}, wave(2, 5, 14, 14), wave(2, 300, 7, 7)),
	weightGrad([]int64{1, 1}, 1, []int64{2, 2}, []int64{1, 1}, []int64{0, 0, 0, 0}, wave(2, 4, 14, 14), wave(2, 33, 7, 7)),
	weightGrad([]int64{3, 3}, 1, []int64{1, 2}, []int64{1, 1}, []int64{1, 1, 1, 1}, wave(1, 2, 9, 3000), wave(1, 9, 9, 1500)),
	weightGrad([]int64{3, 5}, 3, []int64{1, 1}, []int64{1, 1}, []int64{1, 0, 1, 0}, wave(2, 6, 11, 15), wave(2, 27, 11, 11)),
	weightGrad([]int64{2, 3, 3}, 1, []int64{1, 2, 1}, []int64{1, 1, 1}, []int64{1, 1, 1, 1, 1, 1}, wave(2, 6, 5, 6, 7), wave(2, 8, 6, 3, 7)),
	weightGrad([]int64{3, 3}, 6, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, wave(2, 6, 14, 14), wave(2, 6, 14, 14)),
	weightGrad([]int64{3, 3}, 3, []int64{2, 2}, []int64{1, 1}, []int64{1, 1, 0, 0}, wave(3, 3, 28, 28), wave(3, 6, 14, 14)),
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(wave(2, 6, 40, 23), wave(6, 70, 3, 3), wave(70))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(wave(2, 90, 7, 7), wave(90, 40, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 0, 2, 1, 2), ints("dilations", 1, 2), whole1("group", 2)), in: args(wave(2, 6, 20, 23), wave(6, 5, 2, 3), wave(10))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 4, 4, 4, 4)), in: args(wave(1, 3, 20, 23), wave(3, 20, 9, 9))},
	{op: "ConvTranspose", in: args(wave(2, 30, 7, 7), wave(30, 70, 1, 1))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1, 1, 1)), in: args(wave(1, 3, 6, 9, 9), wave(3, 4, 3, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 2), ints("output_padding", 1, 1)), in: args(wave(2, 30, 14, 14), wave(30, 25, 3, 3), wave(25))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("output_padding", 1, 1)), in: args(wave(2, 30, 14, 14), wave(30, 25, 1, 1))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2)), in: args(wave(2, 30, 14, 14), wave(30, 25, 2, 2), wave(25))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 3, 2)), in: args(wave(2, 5, 3, 7, 9), wave(5, 9, 3, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 2), ints("output_padding", 1, 1), whole1("group", 6)), in: args(wave(2, 6, 14, 14), wave(6, 1, 3, 3), wave(6))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1), whole1("group", 6)), in: args(wave(2, 6, 14, 14), wave(6, 1, 3, 3))},
	{op: "MatMul", in: args(wave(3, 50, 70), wave(3, 70, 33))},
	{op: "MatMul", in: args(wave(250, 270), wave(270, 40))},
	{op: "MatMul", in: args(wave(20, 1024), wave(1024, 100))},
	{op: "Gemm", attrs: attrs(whole1("transB", 1)), in: args(wave(1, 600), wave(70, 600), wave(70))},
	{op: "Gemm", attrs: attrs(whole1("transB", 1)), in: args(wave(50, 300), wave(70, 300), wave(70))},
	{op: "Gemm", attrs: attrs(whole1("transA", 1)), in: args(wave(50, 300), wave(50, 70))},
	{op: "Gemm", attrs: attrs(whole1("transA", 1), whole1("transB", 1)), in: args(wave(50, 30), wave(70, 50))},
}

// TestHalfProducts: convolutions, their gradients and products of 16-bit tensors have the bits of
// those in float32, rounded once, with the micro-kernels of every level, whether weights are constant
// or not.
func TestHalfProducts(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	for i := range halfCases {
		k := &halfCases[i]
		node, want, err := k.node(k.in)
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range gemm.Levels() {
			if err := gemm.Use(level); err != nil {
				t.Fatal(err)
			}
			for _, d := range []graph.DType{graph.Float16, graph.BFloat16} {
				for _, fixed := range []bool{false, true} {
					if fixed && k.op == "ConvTranspose" {
						continue // float32 adds in another order
					}
					got := k.half(t, node, want[0].Shape, d, d, fixed)
					wide := k.half(t, node, want[0].Shape, d, graph.Float32, fixed)
					expected := blank(d, want[0].Shape)
					simd.Round(data[uint16](expected), data[float32](wide), narrowType(d))
					if !slices.Equal(raw(got), raw(expected)) {
						t.Errorf("%s: case %d, %s of %v, constant weights: %v: other bits than of float32, rounded once", level, i, k.op, d, fixed)
					}
				}
			}
		}
	}
}

// half computes a case with inputs of a 16-bit type, or with the same numbers in float32.
func (k *nodeCase) half(t *testing.T, node *graph.Node, shape []int, d, run graph.DType, fixed bool) *Tensor {
	t.Helper()
	c := &Invocation{Call: form.Call{Node: node, Version: k.opset(), Out: []*Tensor{blank(run, shape)}, Runtime: alone{pack: true}}}
	for j, x := range k.in {
		in := store(x, d)
		if run == graph.Float32 {
			wide := blank(run, in.Shape)
			simd.Widen(data[float32](wide), data[uint16](in), narrowType(d))
			in = wide
		}
		in.Const = fixed && j == 1
		c.In = append(c.In, in)
	}
	if err := prepareAndRun(c, Lookup(node.Domain, node.Op), 2); err != nil {
		t.Fatalf("%s: %v", k.op, err)
	}
	return c.Out[0]
}
