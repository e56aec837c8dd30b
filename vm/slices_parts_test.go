package vm_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/onnx"
	"github.com/onnxmem/onnxmem/passes"
	"github.com/onnxmem/onnxmem/vm"
)

// Queries, keys and values that one product makes and a Split takes apart run in slices
// of heads, for which the product runs in parts. The bits are those of the whole.
func TestSlicesOfSplitProducts(t *testing.T) {
	const rows, width, heads, layers = 48, 64, 4, 2
	for _, flat := range []bool{false, true} {
		b, r := graph.NewBuilder("attention", 17), rand.New(rand.NewPCG(1, 2))
		count := 0
		next := func() string { count++; return fmt.Sprintf("t%d", count) }
		weight := func(dims ...int64) graph.TensorID {
			n := int64(1)
			for _, d := range dims {
				n *= d
			}
			list := make([]float32, n)
			for i := range list {
				list[i] = float32(r.NormFloat64()) / 8
			}
			return b.Floats(next(), dims, list)
		}
		attr := func(name string, v ...int64) []*graph.Attr {
			if len(v) == 1 {
				return []*graph.Attr{{Name: name, Type: graph.AttrInt, Int: v[0]}}
			}
			return []*graph.Attr{{Name: name, Type: graph.AttrInts, Ints: v}}
		}
		shape := func(dims ...int64) graph.TensorID { return b.Ints(next(), []int64{int64(len(dims))}, dims) }
		add := func(op string, attrs []*graph.Attr, in ...graph.TensorID) graph.TensorID {
			return b.Add(&graph.Node{Op: op, Inputs: in, Name: next(), Attrs: attrs}, next())[0]
		}
		x := b.Input("x", graph.TensorOf(graph.Float32, 1, rows, width))
		for range layers {
			n := add("LayerNormalization", attr("axis", -1), x, weight(width), weight(width))
			var y graph.TensorID
			if flat { // as PyTorch writes GPT-2
				y = add("Reshape", nil, n, shape(rows, width))
				y = add("Gemm", nil, y, weight(width, 3*width), weight(3*width))
				y = add("Reshape", nil, y, shape(1, rows, 3*width))
			} else {
				y = add("MatMul", nil, n, weight(width, 3*width))
				y = add("Add", nil, y, weight(3*width))
			}
			qkv := slices.Clone(b.Add(&graph.Node{Op: "Split", Name: next(), Inputs: []graph.TensorID{y, shape(width, width, width)}, Attrs: attr("axis", 2)}, next(), next(), next()))
			for i, perm := range [][]int64{{0, 2, 1, 3}, {0, 2, 3, 1}, {0, 2, 1, 3}} {
				qkv[i] = add("Transpose", attr("perm", perm...), add("Reshape", nil, qkv[i], shape(1, rows, heads, width/heads)))
			}
			p := add("Softmax", attr("axis", -1), add("MatMul", nil, qkv[0], qkv[1]))
			o := add("Transpose", attr("perm", 0, 2, 1, 3), add("MatMul", nil, p, qkv[2]))
			x = add("Add", nil, x, add("Reshape", nil, o, shape(1, rows, width)))
		}
		b.Output(x)
		m, err := b.Model()
		if err != nil {
			t.Fatal(err)
		}
		im, err := onnx.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "attention.onnx")
		if err := onnx.Write(file, m, im, onnx.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		whole, _ := program(t, file, passes.Options{})
		want, _ := runSteps(t, whole, vm.Options{}, nil, 1)
		sliced, found := program(t, file, passes.Options{Slices: passes.SlicesExact, Limit: &passes.Limit{Percent: 60}, Device: passes.Device{FLOPS: 50e9, Bandwidth: 20e9}})
		if len(found.Plan.Slices.Parts) == 0 || slices.ContainsFunc(found.Model.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "Split" }) {
			t.Errorf("flat %t: expected parts and no Split", flat)
		}
		got, _ := runSteps(t, sliced, vm.Options{}, nil, 1)
		sameBits(t, "in slices", got, want)
		t.Logf("peak %d of %d B", found.Plan.Summary.PeakBytes, found.Plan.Summary.UnslicedPeakBytes)
	}
}
