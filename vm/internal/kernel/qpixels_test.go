package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// channelsLast moves the channels of an image behind its other axes.
func channelsLast(t *reference.Tensor) *reference.Tensor {
	n, c, pixels := t.Shape[0], t.Shape[1], count(t.Shape[2:])
	to := &reference.Tensor{Type: t.Type, Shape: append(append([]int{n}, t.Shape[2:]...), c), I: make([]int64, len(t.I))}
	for i, v := range t.I {
		to.I[(i/pixels/c*pixels+i%pixels)*c+i/pixels%c] = v
	}
	return to
}

// TestPixelsConv: a QLinearConv in NHWC has the bits of the one in NCHW, and both have those
// of the plain kernel. So it is with every set of micro-kernels, constant scales or not, and
// whether its weights are prepacked or not, and where the image is in NCHW and the output in NHWC.
func TestPixelsConv(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	r := rand.New(rand.NewPCG(7, 8))
	types := []graph.DType{graph.Uint8, graph.Int8}
	for i := range 240 {
		dx, dw, dy := types[r.IntN(2)], types[r.IntN(2)], types[r.IntN(2)]
		single := i%2 == 0
		in, kernel, stride, dilation := [2]int{1 + r.IntN(19), 1 + r.IntN(19)}, [2]int{1 + r.IntN(4), 1 + r.IntN(4)}, [2]int{1 + r.IntN(2), 1 + r.IntN(3)}, [2]int{1 + r.IntN(2), 1}
		if i%3 == 0 {
			kernel, stride, dilation = [2]int{3, 3}, [2]int{1 + i%4/2, 1 + i%4/2}, [2]int{1, 1}
		}
		if i%5 == 1 {
			kernel, stride = [2]int{1, 1}, [2]int{1, 1}
		}
		if i == 60 { // more taps, and later more pixels, than are computed together
			in, kernel = [2]int{23, 21}, [2]int{9, 10}
		}
		if i == 62 {
			in = [2]int{9, 300}
		}
		var pads [4]int64
		for a := range 2 {
			extent := (kernel[a]-1)*dilation[a] + 1
			pads[a], pads[a+2] = int64(r.IntN(extent)), int64(r.IntN(extent))
			in[a] = max(in[a], extent)
		}
		group, channels := 1, 1+r.IntN(40)
		weights := []int{1 + r.IntN(40), channels, kernel[0], kernel[1]}
		if single {
			channels = []int{32, 33, 48, 63, 64, 100, 5}[r.IntN(7)]
			group, weights = channels, []int{channels, 1, kernel[0], kernel[1]}
		}
		x, w := quants(dx, 1+r.IntN(2), channels, in[0], in[1]), quants(dw, weights...)
		m := weights[0]
		zeroW, scaleW, bias := quants(dw, m), positive(m), words(m)
		if r.IntN(2) == 0 {
			zeroW, scaleW = quants(dw), scalar(0.9)
		}
		if r.IntN(3) == 0 {
			bias = nil
		}
		quads := i%8 > 3 // what is computed as quads with VNNI
		if quads {
			for k := range zeroW.I {
				zeroW.I[k] = map[graph.DType]int64{graph.Uint8: 128}[dw]
			}
		}
		step := 0.01 / math.Sqrt(float64(count(weights[1:])))
		list := args(x, scalar(step), quants(dx), w, scaleW, zeroW, scalar(0.73), quants(dy), bias)
		common := attrs(ints("pads", pads[:]...), ints("strides", int64(stride[0]), int64(stride[1])), ints("dilations", int64(dilation[0]), int64(dilation[1])), whole1("group", int64(group)))
		first := &nodeCase{op: "QLinearConv", version: 10, attrs: common, in: list}
		last := &nodeCase{op: "com.microsoft.QLinearConv", version: 1, attrs: append(attrs(whole1("channels_last", 1)), common...)}
		n, shapes, err := first.node(list)
		if err != nil {
			t.Fatal(err)
		}
		given := make([]*Tensor, len(list))
		for i, x := range list {
			if x != nil {
				given[i] = store(x, graph.Float32)
				given[i].Const = i > 0 && (quads || r.IntN(4) > 0 || i == 3 || i == 5)
			}
		}
		if err := gemm.Use("plain"); err != nil {
			t.Fatal(err)
		}
		planes, err := first.run(n, given, shapes, graph.Float32, 1, alone{})
		if err != nil {
			t.Fatal(err)
		}
		shapes[0].I = make([]int64, count(shapes[0].Shape))
		for i, b := range raw(planes[0]) {
			shapes[0].I[i] = int64(b)
		}
		want := channelsLast(shapes[0])
		given[0] = store(channelsLast(x), graph.Float32)
		node := &graph.Node{Op: "QLinearConv", Domain: "com.microsoft", Attrs: last.attrs, Inputs: n.Inputs, Outputs: n.Outputs}
		runtime := alone{pack: quads}
		for _, level := range gemm.Levels() {
			if err := gemm.Use(level); err != nil {
				t.Fatal(err)
			}
			run, err := makePixelsConv(&Invocation{Call: form.Call{Node: node, In: given, Out: []*Tensor{blank(dy, want.Shape)}, Runtime: runtime}})
			if taken := !single || channels >= 32; err != nil || (run != nil) != taken {
				t.Fatalf("%d channels, single %v: computed as pixels: %v, %v", channels, single, run != nil, err)
			}
			given := slices.Clone(given)
			for _, workers := range []int{1, 3} {
				given[0] = store(x, graph.Float32)
				again, err := first.run(n, given, shapes, graph.Float32, workers, runtime)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(raw(again[0]), raw(planes[0])) {
					t.Fatalf("case %d, %s, %d workers, image %v, %s: not the bytes of the plain kernel in planes", i, level, workers, x.Shape, fmt.Sprint(weights, pads, stride, dilation))
				}
				if !single {
					half := &Invocation{Call: form.Call{Node: n, Version: first.opset(), In: given, Out: []*Tensor{blank(dy, shapes[0].Shape)}, Runtime: runtime}}
					half.Out[0].Layout = form.NHWC
					if err := prepareAndRun(half, Lookup("", "QLinearConv"), workers); err != nil {
						t.Fatal(err)
					}
					for k, b := range raw(half.Out[0]) {
						if b != byte(want.I[k]) {
							t.Fatalf("case %d, %s, %d workers, image %v, %s: from planes to pixels, byte %d is %d, expected %d", i, level, workers, x.Shape, fmt.Sprint(weights, pads, stride, dilation), k, b, byte(want.I[k]))
						}
					}
				}
				given[0] = store(channelsLast(x), graph.Float32)
				got, err := last.run(node, given, []*reference.Tensor{want}, graph.Float32, workers, runtime)
				if err != nil {
					t.Fatal(err)
				}
				for k, b := range raw(got[0]) {
					if b != byte(want.I[k]) {
						t.Fatalf("case %d, %s, %d workers, image %v, %s: byte %d is %d, expected %d", i, level, workers, x.Shape, fmt.Sprint(weights, pads, stride, dilation), k, b, byte(want.I[k]))
					}
				}
			}
		}
	}
}
