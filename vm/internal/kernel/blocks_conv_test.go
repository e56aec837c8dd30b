package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// inLayouts runs a node on planes, and then with its image and its result in blocks or not,
// and compares the bits.
func inLayouts(t *testing.T, what string, node *graph.Node, in []*Tensor, shape []int, then func() *Finish, run func(*Invocation) (Run, error), compared *int) {
	t.Helper()
	call := func(x *Tensor, blocks bool) *Invocation {
		out := blank(graph.Float32, shape)
		if blocks {
			out.Layout = form.NCHW16c
		}
		return &Invocation{Call: form.Call{Node: node, In: append([]*Tensor{x}, in[1:]...), Out: []*Tensor{out}, Runtime: alone{}}, Then: then()}
	}
	planes := call(in[0], false)
	computeWith(t, planes, run)
	form := Lookup("", node.Op).BlockForm(planes)
	for _, l := range []struct{ x, out bool }{{true, true}, {true, false}, {false, true}} {
		if form.Alike && l.x != l.out || form.Needs && l.out && !l.x || l.x && !form.In || l.out && !form.Out {
			continue
		}
		*compared++
		x := in[0]
		if l.x {
			x = blocksOf(x)
		}
		c := call(x, l.out)
		computeWith(t, c, run)
		sameImages(t, fmt.Sprintf("%s, blocks %+v, %s", what, l, gemm.Level()), planes.Out[0], c.Out[0])
	}
}

// TestBlocksConv: a convolution has the same bits with its image or its result in blocks, or
// both, with an activation or none, and so has a transposed one whose kernel tiles its output.
func TestBlocksConv(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	r := rand.New(rand.NewPCG(51, 52))
	activations := []func() *Finish{
		func() *Finish { return nil }, func() *Finish { return finishRelu(nil) }, func() *Finish { return clamps(-0.5, 2) },
		func() *Finish { f, _ := finishOf(&form.Activation{Name: "Tanh"}); return f },
	}
	for _, level := range gemm.Levels()[1:] {
		if err := gemm.Use(level); err != nil {
			t.Fatal(err)
		}
		compared := 0
		for i := range 60 {
			group, taps := 1+r.IntN(4)/3, 1+2*r.IntN(3)/2
			ch, m, h, w := 16*(1+r.IntN(8)), 16*(1+r.IntN(5)), taps+r.IntN(20), taps+r.IntN(20)
			if i%5 == 4 { // a picture
				ch = 1 + r.IntN(9)
			}
			pad, stride := int64(r.IntN(taps)), int64(1+r.IntN(2))
			if group == 1 {
				m += gemm.HalfLen * r.IntN(2)
				if taps == 1 && stride == 1 {
					ch += gemm.HalfLen * r.IntN(2)
				}
			}
			x, weight, bias := odd(r, false, 2, group*ch, h, w), odd(r, false, group*m, ch, taps, taps), odd(r, false, group*m)
			weight.Const = true
			out := func(n int) int { return (n+2*int(pad)-taps)/int(stride) + 1 }
			node := &graph.Node{Op: "Conv", Attrs: attrs(whole1("group", int64(group)), ints("pads", pad, pad, pad, pad), ints("strides", stride, stride))}
			inLayouts(t, fmt.Sprintf("convolution %d", i), node, []*Tensor{x, weight, bias}, []int{2, group * m, out(h), out(w)}, activations[i%4], makeConv, &compared)
		}
		for _, ch := range []int{32, 272} {
			x, weight, bias := odd(r, false, 2, ch, 7, 9), odd(r, false, ch, 48, 3, 2), odd(r, false, 48)
			weight.Const = true
			node := &graph.Node{Op: "ConvTranspose", Attrs: attrs(ints("strides", 3, 2))}
			inLayouts(t, "transposed", node, []*Tensor{x, weight, bias}, []int{2, 48, 21, 18}, activations[0], makeConvTranspose, &compared)
		}
		if compared < 120 {
			t.Errorf("%s: %d results are compared, expected most of 182", level, compared)
		}
	}
}
