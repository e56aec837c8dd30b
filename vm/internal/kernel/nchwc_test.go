package kernel

import (
	"fmt"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// inBlocks says how many channels are in a block, and that images are held in planes.
type inBlocks struct {
	block  int
	planes bool
}

// compute runs one operator and returns its output. It compares those on images in blocks
// with the plain evaluator.
func compute(t *testing.T, domain, op string, in inBlocks, list []*graph.Attr, shape []int, args ...*Tensor) *Tensor {
	t.Helper()
	out := blank(graph.Float32, shape)
	if in.planes && domain == attr.Nchwc && op != "ReorderOutput" {
		out.Layout = form.NCHW
	}
	c := &Invocation{Call: form.Call{Node: &graph.Node{Domain: domain, Op: op, Attrs: list}, Block: int32(in.block), Version: 13, In: args, Out: []*Tensor{out}, Runtime: alone{pack: true}}}
	computeWith(t, c, Lookup(domain, op).Prepare)
	if domain == attr.Nchwc {
		agrees(t, c)
	}
	return out
}

// blockedWeights puts weights [m, ch, h, w] into blocks: [m/b, ch/b, h, w, b, b], or
// [m/b, ch, h, w, b] if inner is 1.
func blockedWeights(w *Tensor, block, inner int) *Tensor {
	to := blank(w.Type, w.Shape)
	d, s, k := data[float32](to), data[float32](w), 0
	m, ch, taps := w.Shape[0], w.Shape[1], w.Shape[2]*w.Shape[3]
	for o := 0; o < m; o += block {
		for i := 0; i < ch; i += inner {
			for t := range taps {
				for ii := range inner {
					for oo := range block {
						d[k] = s[((o+oo)*ch+i+ii)*taps+t]
						k++
					}
				}
			}
		}
	}
	return to
}

// TestBlockedImages: between ReorderInput and ReorderOutput, the operators on images in
// blocks give the bits of the operators of ONNX, whether the images between them are held
// in blocks or in planes.
func TestBlockedImages(t *testing.T) {
	const m = 48
	pads := ints("pads", 1, 1, 1, 1)
	for _, held := range []inBlocks{{8, false}, {16, false}, {8, true}, {16, true}} {
		block := held.block
		for _, k := range []struct {
			name             string
			channels, group  int
			plain, with, sum bool // the image is not in blocks; the weights are not constant; input 3
		}{
			{name: "planes", channels: 3, group: 1, plain: true},
			{name: "blocks", channels: 32, group: 1},
			{name: "groups", channels: 96, group: 3},
			{name: "depthwise", channels: 48, group: 48},
			{name: "sum", channels: 32, group: 1, sum: true},
			{name: "weights that vary", channels: 32, group: 1, with: true, sum: true},
		} {
			t.Run(fmt.Sprint(held, " ", k.name), func(t *testing.T) {
				ch := k.channels / k.group
				x, w := store(noise(2, k.channels, 9, 11), graph.Float32), store(noise(m, ch, 3, 3), graph.Float32)
				bias, sum := store(noise(m), graph.Float32), store(noise(2, m, 9, 11), graph.Float32)
				w.Const = !k.with
				list := attrs(pads, whole1("group", int64(k.group)), text("activation", "Tanh"))
				plain := []*Tensor{x, w, bias}
				inner := block
				if ch < block {
					inner = 1
				}
				wb := blockedWeights(w, block, inner)
				wb.Const = !k.with
				in := []*Tensor{x, wb, bias}
				shape := []int{2, m, 9, 11}
				if !k.plain {
					in[0] = compute(t, attr.Nchwc, "ReorderInput", held, nil, x.Shape, x)
				}
				if k.sum {
					plain, in = append(plain, sum), append(in, compute(t, attr.Nchwc, "ReorderInput", held, nil, shape, sum))
				}
				want := compute(t, "com.microsoft", "FusedConv", inBlocks{}, list, shape, plain...)
				y := compute(t, attr.Nchwc, "Conv", held, list, shape, in...)
				got := compute(t, attr.Nchwc, "ReorderOutput", held, attrs(whole1("channels", m)), shape, y)
				if string(raw(got)) != string(raw(want)) {
					t.Errorf("other bits than FusedConv")
				}
			})
		}
		window := attrs(ints("kernel_shape", 3, 3), pads)
		for _, k := range []struct {
			op, plain string
			attrs     []*graph.Attr
			to        []int
		}{
			{"MaxPool", "MaxPool", window, []int{2, 40, 9, 11}},
			{"AveragePool", "AveragePool", window, []int{2, 40, 9, 11}},
			{"GlobalAveragePool", "GlobalAveragePool", nil, []int{2, 40, 1, 1}},
			{"GlobalMaxPool", "GlobalMaxPool", nil, []int{2, 40, 1, 1}},
			{"Upsample", "Upsample", attrs(ints("scales", 1, 1, 2, 3)), []int{2, 40, 18, 33}},
		} {
			t.Run(fmt.Sprint(held, " ", k.op), func(t *testing.T) {
				x := store(noise(2, 40, 9, 11), graph.Float32)
				pixels := compute(t, "", "Transpose", inBlocks{}, attrs(ints("perm", 0, 2, 3, 1)), []int{2, 9, 11, 40}, x)
				padded := (40 + block - 1) / block * block
				in := compute(t, attr.Nchwc, "ReorderInput", held, attrs(whole1("channels_last", 1)), []int{2, padded, 9, 11}, pixels)
				y := compute(t, attr.Nchwc, k.op, held, k.attrs, []int{2, padded, k.to[2], k.to[3]}, in)
				got := compute(t, attr.Nchwc, "ReorderOutput", held, attrs(whole1("channels", 40), whole1("channels_last", 1)), []int{2, k.to[2], k.to[3], 40}, y)
				plain := []*Tensor{x}
				if k.op == "Upsample" {
					plain = append(plain, store(realList(1, 1, 2, 3), graph.Float32))
				}
				whole := compute(t, "", k.plain, inBlocks{}, k.attrs, k.to, plain...)
				want := compute(t, "", "Transpose", inBlocks{}, attrs(ints("perm", 0, 2, 3, 1)), got.Shape, whole)
				if string(raw(got)) != string(raw(want)) {
					t.Errorf("other bits than %s", k.plain)
				}
			})
		}
	}
}

// TestBlocksThatDoNotFit: channels that the blocks do not divide are refused.
func TestBlocksThatDoNotFit(t *testing.T) {
	c := &Invocation{Call: form.Call{
		Node: &graph.Node{Domain: attr.Nchwc, Op: "MaxPool", Attrs: attrs(ints("kernel_shape", 1, 1))}, Block: 16,
		In: []*Tensor{blank(graph.Float32, []int{1, 24, 3, 3})}, Out: []*Tensor{blank(graph.Float32, []int{1, 24, 3, 3})}, Runtime: alone{},
	}}
	if _, err := Lookup(attr.Nchwc, "MaxPool").Prepare(c); err == nil || err.Error() != "no kernel for 24 channels in blocks of 16" {
		t.Errorf("got %v", err)
	}
}
