package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// blocksOf returns an image [N, C, H, W] in blocks of channels; planesOf is its inverse.
func blocksOf(x *Tensor) *Tensor {
	y := blank(x.Type, x.Shape)
	y.Blocks = true
	moveBlocks(data[float32](y), data[float32](x), x.Shape, true)
	return y
}

func planesOf(x *Tensor) *Tensor {
	y := blank(x.Type, x.Shape)
	moveBlocks(data[float32](y), data[float32](x), x.Shape, false)
	return y
}

func moveBlocks(d, s []float32, shape []int, into bool) {
	pixels := count(shape[2:])
	for i := range d {
		channel, pixel := i/pixels, i%pixels
		k := (channel/gemm.BlockLen*pixels+pixel)*gemm.BlockLen + channel%gemm.BlockLen
		if into {
			d[k] = s[i]
		} else {
			d[i] = s[k]
		}
	}
}

// odd returns an image with numbers that bits may differ in: 0, -0, tiny ones, and, if asked
// for, NaN and infinities.
func odd(r *rand.Rand, nan bool, shape ...int) *Tensor {
	x := blank(graph.Float32, shape)
	for i := range data[float32](x) {
		v := 4*r.Float32() - 2
		switch r.IntN(24) {
		case 0, 1:
			v = 0
		case 2, 3:
			v = float32(math.Copysign(0, -1))
		case 4:
			v *= 1e-30
		case 5:
			if nan && r.IntN(8) == 0 {
				v = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(3)]
			}
		}
		data[float32](x)[i] = v
	}
	return x
}

// computeWith prepares and runs a kernel.
func computeWith(t testing.TB, c *Invocation, make func(*Invocation) (Run, error)) {
	t.Helper()
	run, err := make(c)
	if err != nil {
		t.Fatalf("%s: %v", c.Node.Op, err)
	}
	pool := work.New(2)
	defer pool.Close()
	stride := (c.EachBytes + 63) &^ 63
	pool.SetScratch(blank(graph.Uint8, []int{c.SharedBytes + 1}).At, blank(graph.Uint8, []int{2*stride + 1}).At, stride)
	for range 2 {
		if err := run(pool); err != nil {
			t.Fatalf("%s: %v", c.Node.Op, err)
		}
	}
}

// sameImages compares a result in planes with one in blocks, bit by bit.
func sameImages(t *testing.T, what string, want, got *Tensor) {
	t.Helper()
	if got.Blocks {
		got = planesOf(got)
	}
	for i, w := range data[float32](want) {
		if g := data[float32](got)[i]; math.Float32bits(w) != math.Float32bits(g) {
			t.Fatalf("%s: element %d of %v: got %v (%#x), want %v (%#x)", what, i, want.Shape, g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

// randomWindow is a window of the operators on blocks, with an image that it fits.
type randomWindow struct {
	in, kernel, stride, dilation, out [2]int
	pads                              [4]int64
}

func drawWindow(r *rand.Rand, i int) randomWindow {
	w := randomWindow{dilation: [2]int{1 + r.IntN(2), 1 + r.IntN(2)}}
	for a := range 2 {
		w.kernel[a], w.stride[a], w.in[a] = 1+r.IntN(7), 1+r.IntN(3), 1+r.IntN(40)
	}
	if i%3 == 0 {
		w.kernel, w.stride, w.dilation = [2]int{3, 3}, [2]int{1 + i/3%2, 1 + i/3%2}, [2]int{1, 1}
	}
	for a := range 2 {
		extent := (w.kernel[a]-1)*w.dilation[a] + 1
		w.pads[a], w.pads[a+2] = int64(r.IntN(extent)), int64(r.IntN(extent))
		if i%3 == 0 {
			w.pads[a], w.pads[a+2] = 1, 1
		}
		if int(w.pads[a]+w.pads[a+2])+w.in[a] < extent {
			w.in[a] = extent
		}
		w.out[a] = (int(w.pads[a]+w.pads[a+2])+w.in[a]-extent)/w.stride[a] + 1
	}
	return w
}

func (w *randomWindow) attrs() []*graph.Attr {
	return attrs(ints("pads", w.pads[:]...), ints("strides", int64(w.stride[0]), int64(w.stride[1])), ints("dilations", int64(w.dilation[0]), int64(w.dilation[1])))
}

// TestBlocksDepthwise: a convolution of single channels in blocks has the bits of the one in
// planes, with every set of micro-kernels and activation.
func TestBlocksDepthwise(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	r := rand.New(rand.NewPCG(41, 42))
	done := 0
	for i := range 150 {
		w := drawWindow(r, i)
		images, channels := 1+r.IntN(2), gemm.BlockLen*(1+r.IntN(2))
		if i%50 == 49 { // several bands
			w.in = [2]int{150, 33}
			for a := range 2 {
				w.out[a] = (int(w.pads[a]+w.pads[a+2])+w.in[a]-(w.kernel[a]-1)*w.dilation[a]-1)/w.stride[a] + 1
			}
		}
		x, weight := odd(r, i%4 == 1, images, channels, w.in[0], w.in[1]), odd(r, i%8 == 1, channels, 1, w.kernel[0], w.kernel[1])
		weight.Const = true
		in := []*Tensor{x, weight}
		if i%5 > 0 {
			in = append(in, odd(r, false, channels))
		}
		list := append(w.attrs(), whole1("group", int64(channels)))
		then := []*Finish{nil, clamps(0, float32(math.Inf(1))), clamps(-0.5, 1), rows(hardSwish)(nil)}[i%4]
		for _, level := range gemm.Levels() {
			if err := gemm.Use(level); err != nil {
				t.Fatal(err)
			}
			node := &graph.Node{Op: "Conv", Attrs: list}
			shape := []int{images, channels, w.out[0], w.out[1]}
			planes := &Invocation{Node: node, Version: 13, In: in, Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{}, Then: then}
			blocks := &Invocation{Node: node, Version: 13, In: append([]*Tensor{blocksOf(x)}, in[1:]...), Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{pack: i%2 == 0}, Then: then}
			blocks.Out[0].Blocks = true
			if !canBlocksDepthwise(blocks) {
				continue
			}
			done++
			computeWith(t, planes, makeConv)
			computeWith(t, blocks, makeBlocksDepthwise)
			if blocks.Taken != (then != nil) {
				t.Fatalf("the activation is taken: %v", blocks.Taken)
			}
			sameImages(t, fmt.Sprintf("case %d, %s, %+v", i, level, w), planes.Out[0], blocks.Out[0])
		}
	}
	if want := 150 * (len(gemm.Levels()) - 1); done < want*9/10 {
		t.Errorf("%d of %d convolutions are possible in blocks", done, want)
	}
}
