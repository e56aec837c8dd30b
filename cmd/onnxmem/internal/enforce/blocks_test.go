package enforce

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops"
	"github.com/onnxmem/onnxmem/passes"
)

// TestBlocks: what ONNX Runtime allocates for a small model, as NAME@FIRST-LAST, with
// <NAME if it is written over another block, and ! if it is a result.
func TestBlocks(t *testing.T) {
	matrix := graph.TensorOf(graph.Float32, 8, 8)
	unknown := graph.TensorOf(graph.Float32, graph.Unknown, 8)
	for _, c := range []struct {
		name string
		own  InPlace
		want string
		make func(b *graph.Builder, x graph.TensorID)
	}{
		{"a sum lies over an operand, an activation has no block", Inferred, "t@0-1 u@1-3 y@3-3!", func(b *graph.Builder, x graph.TensorID) {
			u := b.Node("Transpose", "u", b.Node("Transpose", "t", x))
			b.Output(b.Node("Transpose", "y", b.Node("Relu", "r", u)))
		}},
		{"none in place", Never, "t@0-1 u@1-2 r@2-3<u y@3-3!", func(b *graph.Builder, x graph.TensorID) {
			u := b.Node("Transpose", "u", b.Node("Transpose", "t", x))
			b.Output(b.Node("Transpose", "y", b.Node("Relu", "r", u)))
		}},
		{"shapes that ONNX Runtime knows", Declared, "t@0-2 y@2-2!", func(b *graph.Builder, x graph.TensorID) {
			u := b.Node("Transpose", "t", x)
			b.Declare(u, matrix)
			r := b.Node("Relu", "r", u)
			b.Declare(r, matrix)
			b.Output(b.Node("Transpose", "y", r))
		}},
		{"shapes that it does not know", Declared, "t@0-1 r@1-2<t y@2-2!", func(b *graph.Builder, x graph.TensorID) {
			u := b.Node("Transpose", "t", x)
			b.Declare(u, unknown)
			r := b.Node("Relu", "r", u)
			b.Declare(r, unknown)
			b.Output(b.Node("Transpose", "y", r))
		}},
		{"lengths with one name are one", Declared, "t@0-2 y@2-2!", func(b *graph.Builder, x graph.TensorID) {
			u := b.Node("Transpose", "t", x)
			b.Declare(u, unknown, "n")
			r := b.Node("Relu", "r", u)
			b.Declare(r, unknown, "n")
			b.Output(b.Node("Transpose", "y", r))
		}},
		{"without declared shapes", Declared, "t@0-1 r@1-2<t y@2-2!", func(b *graph.Builder, x graph.TensorID) {
			b.Output(b.Node("Transpose", "y", b.Node("Relu", "r", b.Node("Transpose", "t", x))))
		}},
		{"without declared shapes, as inferred", Completed, "t@0-2 y@2-2!", func(b *graph.Builder, x graph.TensorID) {
			b.Output(b.Node("Transpose", "y", b.Node("Relu", "r", b.Node("Transpose", "t", x))))
		}},
		{"sums and views", Inferred, "t@0-2 v@1-4 s@2-4<t y@4-4!", func(b *graph.Builder, x graph.TensorID) {
			u, v := b.Node("Transpose", "t", x), b.Node("Tanh", "v", x)
			s := b.Node("Add", "s", u, v)
			b.Output(b.Node("Add", "y", b.Node("Identity", "i", s), v))
		}},
		{"what nobody reads lives to the end", Inferred, "d@0-3 t@1-2 y@2-2!", func(b *graph.Builder, x graph.TensorID) {
			b.Node("Tanh", "d", x)
			b.Output(b.Node("Transpose", "y", b.Node("Transpose", "t", x)))
		}},
		{"a shape is made early", Inferred, "n@0-3 t@1-2 c@2-3 y@3-3!", func(b *graph.Builder, x graph.TensorID) {
			u := b.Node("Transpose", "t", x)
			v := b.Node("Transpose", "c", u)
			b.Output(b.Node("Reshape", "y", v, b.Node("Shape", "n", x)))
		}},
		{"behind a node whose results have no known size", Inferred, "n@1-2 e@2-4 t@3-4 s@4-5 y@5-5!", func(b *graph.Builder, x graph.TensorID) {
			n := b.Node("Size", "n", b.Node("NonZero", "i", x))
			e := b.Node("Gather", "e", b.Floats("table", []int64{200}, make([]float32, 200)), n)
			u := b.Node("Add", "s", b.Node("Transpose", "t", x), e)
			b.Output(b.Node("Transpose", "y", u))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := graph.NewBuilder("test", 20)
			c.make(b, b.Input("x", matrix))
			m, err := b.Model()
			if err != nil {
				t.Fatal(err)
			}
			r, err := passes.Optimize(context.Background(), m, passes.Options{Runtime: ops.ONNXRuntimeArena, Disable: []string{"fold"}})
			if err != nil {
				t.Fatal(err)
			}
			l, err := Blocks(r.Model, r.Plan, c.own)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range l.Blocks {
				text := fmt.Sprintf("%s@%d-%d", b.Tensor, b.First, b.Last)
				if b.Over != none {
					text += "<" + l.Blocks[b.Over].Tensor
				}
				if b.Output {
					text += "!"
				}
				got = append(got, text)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

func TestBlocksOfOtherPlans(t *testing.T) {
	b := graph.NewBuilder("test", 20)
	b.Output(b.Node("Relu", "y", b.Input("x", graph.TensorOf(graph.Float32, graph.Unknown), "n")))
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	r, err := passes.Optimize(context.Background(), m, passes.Options{Dims: map[string]int64{"n": 8}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Blocks(r.Model, r.Plan, Inferred); err == nil || !strings.Contains(err.Error(), "expected one of optimize --runtime onnxruntime-arena") {
		t.Errorf("got error %v", err)
	}
}
