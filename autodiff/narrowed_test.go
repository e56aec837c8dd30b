package autodiff

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestCastsAreRepeated: the backward pass widens again what was widened, and narrows again
// what it reads the wider tensor of anyway.
func TestCastsAreRepeated(t *testing.T) {
	for _, k := range []struct {
		name           string
		build          func(b *builder, x ID) ID
		saved, without string
	}{
		{
			"an operand that was widened",
			func(b *builder, x ID) ID {
				return b.op("sine", "Sin", nil, b.op("wide", "Cast", attrs{"to": graph.Float32}, b.op("half", "Cast", attrs{"to": graph.BFloat16}, x)))
			},
			"half", "wide",
		},
		{
			"a result that was narrowed, and is read wide, too",
			func(b *builder, x ID) ID {
				half := b.op("half", "Cast", attrs{"to": graph.BFloat16}, x)
				narrow := b.op("narrow", "Cast", attrs{"to": graph.BFloat16}, b.op("soft", "Softmax", attrs{"axis": -1}, x))
				return b.op("wide", "Cast", attrs{"to": graph.Float32}, b.op("product", "Mul", nil, half, narrow))
			},
			"half soft", "half narrow soft",
		},
		{
			"a result that is read narrow alone",
			func(b *builder, x ID) ID {
				half := b.op("half", "Cast", attrs{"to": graph.BFloat16}, x)
				narrow := b.op("narrow", "Cast", attrs{"to": graph.BFloat16}, b.op("twice", "Add", nil, x, x))
				return b.op("wide", "Cast", attrs{"to": graph.Float32}, b.op("product", "Mul", nil, half, narrow))
			},
			"half narrow", "half narrow",
		},
	} {
		t.Run(k.name, func(t *testing.T) {
			read := func(noLean ...string) string {
				b := newBuilder(k.name, 18)
				x := b.op("x", "Identity", nil, b.initializer("p", b.value(operand{shape: []int{3, 8}, elem: graph.Float32})))
				b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, k.build(b, x)))
				step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^p$"), KeepGradients: true, NoLean: noLean})
				return savedBy(step, b.m.Graph)
			}
			if got := read(); got != k.saved {
				t.Errorf("the backward pass reads %q, expected %q", got, k.saved)
			}
			if got := read("cast"); got != k.without {
				t.Errorf("without the saving it reads %q, expected %q", got, k.without)
			}
		})
	}
}

// TestGradientsOfFewRowsAreWide: the gradient of a matrix that is cast to 16 bits is one
// float32 product where the batch has few rows, and is widened where it has many.
func TestGradientsOfFewRowsAreWide(t *testing.T) {
	for rows, want := range map[int]graph.DType{4: graph.Float32, 96: graph.BFloat16} {
		b := newBuilder("matrix", 18)
		x := b.input("x", b.value(operand{shape: []int{rows, 24}, elem: graph.Float32}))
		w := b.initializer("w", b.value(operand{shape: []int{24, 40}, elem: graph.Float32}))
		half := func(name string, t ID) ID { return b.op(name, "Cast", attrs{"to": graph.BFloat16}, t) }
		y := b.op("y", "MatMul", nil, half("x16", x), half("w16", w))
		b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("wide", "Cast", attrs{"to": graph.Float32}, y)))
		step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^w$"), KeepGradients: true})
		var made []graph.DType
		for _, n := range step.Model.Graph.Nodes {
			if n.Op == "Gemm" {
				made = append(made, step.Model.Graph.Tensors[n.Outputs[0]].Type.Elem)
			}
		}
		if len(made) != 1 || made[0] != want {
			t.Errorf("%d rows: products of types %v, expected one of %v", rows, made, want)
		}
	}
}

// TestConvolutionsOfFewPlacesAreWide: so is the gradient of the weights of a convolution with few places
// in all images.
func TestConvolutionsOfFewPlacesAreWide(t *testing.T) {
	for images, want := range map[int]graph.DType{1: graph.Float32, 5: graph.BFloat16} {
		b := newBuilder("convolution", 18)
		x := b.input("x", b.value(operand{shape: []int{images, 8, 4, 4}, elem: graph.Float32}))
		w := b.initializer("w", b.value(operand{shape: []int{16, 8, 3, 3}, elem: graph.Float32}))
		half := func(name string, t ID) ID { return b.op(name, "Cast", attrs{"to": graph.BFloat16}, t) }
		y := b.op("y", "Conv", attrs{"pads": []int64{1, 1, 1, 1}}, half("x16", x), half("w16", w))
		b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("wide", "Cast", attrs{"to": graph.Float32}, y)))
		step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^w$"), KeepGradients: true, FusedGradients: FuseOn})
		var made []graph.DType
		for _, n := range step.Model.Graph.Nodes {
			if n.Op == graph.ConvWeightGrad {
				made = append(made, step.Model.Graph.Tensors[n.Outputs[0]].Type.Elem)
			}
		}
		if len(made) != 1 || made[0] != want {
			t.Errorf("%d images: gradients of types %v, expected one of %v", images, made, want)
		}
	}
}

// TestOverflowIsReadFrom16Bits: whether gradients are finite is computed from the tensors of 16
// bits, so that the float32 ones are made for the updates alone.
func TestOverflowIsReadFrom16Bits(t *testing.T) {
	b := newBuilder("scaled", 18)
	x := b.input("x", b.value(operand{shape: []int{96, 24}, elem: graph.Float32}))
	w := b.initializer("w", b.value(operand{shape: []int{24, 40}, elem: graph.Float32}))
	half := func(name string, t ID) ID { return b.op(name, "Cast", attrs{"to": graph.Float16}, t) }
	y := b.op("y", "MatMul", nil, half("x16", x), half("w16", w))
	b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("wide", "Cast", attrs{"to": graph.Float32}, y)))
	for _, noLean := range [][]string{nil, {"cast"}} {
		step := train(t, b.m, Options{Loss: "none:objective", Trainable: regexp.MustCompile("^w$"), LossScale: DynamicScale(), NoLean: noLean})
		g := step.Model.Graph
		from := ID(graph.None)
		for _, n := range g.Nodes {
			if n.Op == "ReduceL1" || n.Op == "ReduceMean" {
				from = n.Inputs[0]
			}
		}
		if from == graph.None {
			t.Fatal("nothing computes the magnitude of the gradient")
		}
		if x := g.Tensors[from]; (x.Type.Elem == graph.Float16) != (noLean == nil) {
			t.Errorf("without %v: the magnitude is computed from %q of %v", noLean, x.Name, x.Type)
		}
	}
}

// TestClippedGradientsWaitIn16Bits: while gradients wait for the norm of all, 16 bits of each are kept, and
// what is widened for the norm is read by nothing else. The parameters become the same, bit by bit, as
// where one tensor serves both.
func TestClippedGradientsWaitIn16Bits(t *testing.T) {
	for _, k := range []struct {
		elem  graph.DType
		rows  int
		scale *LossScale
	}{{graph.BFloat16, 96, nil}, {graph.BFloat16, 4, nil}, {graph.Float16, 96, DynamicScale()}} {
		b := newBuilder("clipped", 18)
		x := b.input("x", b.value(operand{shape: []int{k.rows, 24}, elem: graph.Float32}))
		w := b.initializer("w", b.value(operand{shape: []int{24, 40}, elem: graph.Float32}))
		v := b.initializer("v", b.value(operand{shape: []int{40, 24}, elem: graph.Float32}))
		half := func(name string, t ID) ID { return b.op(name, "Cast", attrs{"to": k.elem}, t) }
		y := b.op("y", "MatMul", nil, b.op("h", "MatMul", nil, half("x16", x), half("w16", w)), half("v16", v))
		b.finish(b.op("objective", "ReduceSumSquare", attrs{"keepdims": 0}, b.op("wide", "Cast", attrs{"to": graph.Float32}, y)))
		opt := Options{Loss: "none:objective", Trainable: regexp.MustCompile("^[wv]$"), ClipNorm: 0.5, LossScale: k.scale}
		step := train(t, b.m, opt)
		g, apart := step.Model.Graph, 0
		for _, n := range g.Nodes {
			if n.Op == "ReduceSumSquare" && strings.HasPrefix(n.Name, "clip/") {
				in := g.Tensors[n.Inputs[0]]
				if len(in.Readers) == 1 && in.Type.Elem == graph.Float32 {
					apart++
				}
			}
		}
		if apart != 2 {
			t.Errorf("%v, %d rows: %d gradients are widened for the norm alone: expected 2", k.elem, k.rows, apart)
		}
		opt.KeepGradients = true
		kept := train(t, b.m, opt)
		got, want := feedsOf(t, step, b.feeds), feedsOf(t, kept, b.feeds)
		advance(t, step, got)
		advance(t, kept, want)
		for _, name := range step.Parameters {
			if !slices.Equal(got[name].F, want[name].F) {
				t.Errorf("%v, %d rows: %s becomes another with gradients that are kept", k.elem, k.rows, name)
			}
		}
	}
}
