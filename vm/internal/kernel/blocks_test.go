package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// blocksOf returns an image [N, C, H, W] in blocks of channels; planesOf is its inverse.
func blocksOf(x *Tensor) *Tensor {
	y := blank(x.Type, x.Shape)
	y.Layout = form.NCHW16c
	moveBlocks(data[float32](y), data[float32](x), x.Shape, true)
	return y
}

func planesOf(x *Tensor) *Tensor {
	y := blank(x.Type, x.Shape)
	moveBlocks(data[float32](y), data[float32](x), x.Shape, false)
	return y
}

func moveBlocks(d, s []float32, shape []int, into bool) {
	pixels, channels := count(shape[2:]), shape[1]
	for i := range d {
		image, channel, pixel := i/pixels/channels, i/pixels%channels, i%pixels
		first := channel / gemm.BlockLen * gemm.BlockLen
		lanes := min(gemm.BlockLen, channels-first)
		k := (image*channels+first)*pixels + pixel*lanes + channel - first
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
	if got.Layout == form.NCHW16c {
		got = planesOf(got)
	}
	for i, w := range data[float32](want) {
		if g := data[float32](got)[i]; math.Float32bits(w) != math.Float32bits(g) {
			t.Fatalf("%s: element %d of %v: got %v (%#x), want %v (%#x)", what, i, want.Shape, g, math.Float32bits(g), w, math.Float32bits(w))
		}
	}
}

// oneNaN gives all NaN the same bits.
func oneNaN(x *Tensor) {
	for i, v := range data[float32](x) {
		if v != v {
			data[float32](x)[i] = float32(math.NaN())
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
	}
	w.fit()
	return w
}

// fit sets the size of the output.
func (w *randomWindow) fit() {
	for a := range 2 {
		w.out[a] = (int(w.pads[a]+w.pads[a+2])+w.in[a]-(w.kernel[a]-1)*w.dilation[a]-1)/w.stride[a] + 1
	}
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
		images, channels := 1+r.IntN(2), gemm.HalfLen*(1+r.IntN(5))
		if i%50 == 49 { // several bands
			w.in = [2]int{150, 33}
			w.fit()
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
			planes := &Invocation{Call: form.Call{Node: node, Version: 13, In: in, Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{}}, Then: then}
			blocks := &Invocation{Call: form.Call{Node: node, Version: 13, In: append([]*Tensor{blocksOf(x)}, in[1:]...), Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{pack: i%2 == 0}}, Then: then}
			blocks.Out[0].Layout = form.NCHW16c
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

// TestBlocksPool: pools in blocks have the bits of those in planes. A pool with padded planes
// may return another NaN.
func TestBlocksPool(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	r := rand.New(rand.NewPCG(43, 44))
	done := map[string]int{}
	const cases = 150
	for i := range cases {
		w := drawWindow(r, i)
		if i%50 == 49 { // several bands
			w.in = [2]int{150, 33}
			w.fit()
		}
		list := append(w.attrs(), ints("kernel_shape", int64(w.kernel[0]), int64(w.kernel[1])), whole1("count_include_pad", int64(i%2)))
		if i%4 == 3 { // one more place, where the window begins in the image
			list = append(list, whole1("ceil_mode", 1))
			for a := range w.out {
				if rest := (int(w.pads[a]+w.pads[a+2]) + w.in[a] - (w.kernel[a]-1)*w.dilation[a] - 1) % w.stride[a]; rest > 0 && w.out[a]*w.stride[a] < w.in[a]+int(w.pads[a]) {
					w.out[a]++
				}
			}
		}
		images, channels := 1+r.IntN(2), gemm.BlockLen*(1+r.IntN(2))
		for _, op := range []string{"MaxPool", "AveragePool"} {
			planar, blocked := makeMaxPool, makeBlocksMaxPool
			if op == "AveragePool" {
				planar, blocked = makeAveragePool, makeBlocksAveragePool
			}
			x := odd(r, i%3 == 1 && (op == "AveragePool" || w.kernel[0]*w.kernel[1] <= mostTogether), images, channels, w.in[0], w.in[1])
			for _, level := range gemm.Levels() {
				if err := gemm.Use(level); err != nil {
					t.Fatal(err)
				}
				shape := []int{images, channels, w.out[0], w.out[1]}
				node := &graph.Node{Op: op, Attrs: list}
				planes := &Invocation{Call: form.Call{Node: node, Version: 19, In: []*Tensor{x}, Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{}}}
				blocks := &Invocation{Call: form.Call{Node: node, Version: 19, In: []*Tensor{blocksOf(x)}, Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{}}}
				blocks.Out[0].Layout = form.NCHW16c
				if !canBlocksPool(blocks) {
					continue
				}
				done[op]++
				computeWith(t, planes, planar)
				computeWith(t, blocks, blocked)
				sameImages(t, fmt.Sprintf("case %d, %s, %s, %+v", i, op, level, w), planes.Out[0], blocks.Out[0])
			}
		}
	}
	if want := cases * (len(gemm.Levels()) - 1); done["MaxPool"] < want*8/10 || done["AveragePool"] < want*9/10 {
		t.Errorf("of %d pools, those are possible in blocks: %v", want, done)
	}
}

// TestBlocksGlobalPool: global pools of images in blocks have the bits of those in planes.
func TestBlocksGlobalPool(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	r := rand.New(rand.NewPCG(45, 46))
	for _, size := range [][2]int{{1, 1}, {3, 5}, {4, 4}, {1, 17}, {7, 7}, {14, 14}, {30, 37}, {1025, 1027}} {
		images, channels := 2, 3*gemm.BlockLen
		if size[0] > 1000 {
			images, channels = 1, gemm.BlockLen
		}
		for _, level := range gemm.Levels() {
			if err := gemm.Use(level); err != nil {
				t.Fatal(err)
			}
			for op, pair := range map[string][2]func(*Invocation) (Run, error){
				"GlobalAveragePool": {makeGlobalAveragePool, makeBlocksGlobalAveragePool}, "GlobalMaxPool": {makeGlobalMaxPool, makeBlocksGlobalMaxPool},
				"ReduceMean": {Lookup("", "ReduceMean").Make, Lookup("", "ReduceMean").Make},
			} {
				channels, node := channels, &graph.Node{Op: op}
				if op != "GlobalMaxPool" && images > 1 {
					channels += gemm.HalfLen
				}
				if op == "ReduceMean" {
					node.Attrs = attrs(ints("axes", 2, -1))
				}
				x := odd(r, false, images, channels, size[0], size[1])
				held := blocksOf(x)
				planes := &Invocation{Call: form.Call{Node: node, Version: 13, In: []*Tensor{x}, Out: []*Tensor{blank(graph.Float32, []int{images, channels, 1, 1})}, Runtime: alone{}}}
				blocks := &Invocation{Call: form.Call{Node: node, Version: 13, In: []*Tensor{held}, Out: []*Tensor{blank(graph.Float32, []int{images, channels, 1, 1})}, Runtime: alone{}}}
				vectors := level != "plain"
				if can := Lookup("", op).Blocks(blocks).In; can != (vectors && size != [2]int{1, 1}) {
					t.Fatalf("%s of %v at level %s: possible in blocks: %v", op, size, level, can)
				}
				if !vectors || op == "ReduceMean" && size == [2]int{1, 1} { // a copy, which keeps -0
					continue
				}
				computeWith(t, planes, pair[0])
				computeWith(t, blocks, pair[1])
				sameImages(t, fmt.Sprintf("%s of %v, %s", op, size, level), planes.Out[0], blocks.Out[0])
			}
		}
	}
}

// TestBlocksScaled: an operator on an image and a number for each channel has the same bits in
// blocks, on either side and for one image or several.
func TestBlocksScaled(t *testing.T) {
	r := rand.New(rand.NewPCG(47, 48))
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "PRelu"} {
		for _, size := range [][2]int{{1, 1}, {3, 5}, {7, 7}, {40, 41}} {
			for k, shape := range [][]int{{32, 1, 1}, {1, 32, 1, 1}, {2, 32, 1, 1}, {1, 24, 1, 1}, {2, 24, 1, 1}} {
				left := k%2 == 0 && op != "PRelu"
				x, y := odd(r, false, 2, shape[len(shape)-3], size[0], size[1]), odd(r, false, shape...)
				in := func(x *Tensor) []*Tensor {
					if left {
						return []*Tensor{y, x}
					}
					return []*Tensor{x, y}
				}
				planes := &Invocation{Call: form.Call{Node: &graph.Node{Op: op}, Version: 13, In: in(x), Out: []*Tensor{blank(graph.Float32, x.Shape)}, Runtime: alone{}}}
				blocks := &Invocation{Call: form.Call{Node: &graph.Node{Op: op}, Version: 13, In: in(blocksOf(x)), Out: []*Tensor{blank(graph.Float32, x.Shape)}, Runtime: alone{}}}
				blocks.Out[0].Layout = form.NCHW16c
				if !canBlocksScaled(blocks) {
					if size != [2]int{1, 1} || k < 2 {
						t.Errorf("%s of %v and %v is not possible in blocks", op, x.Shape, shape)
					}
					continue
				}
				computeWith(t, planes, Lookup("", op).Make)
				computeWith(t, blocks, makeBlocksScaled)
				oneNaN(planes.Out[0]) // 0/0 may have either sign
				oneNaN(blocks.Out[0])
				sameImages(t, fmt.Sprintf("%s of %v and %v", op, x.Shape, shape), planes.Out[0], blocks.Out[0])
			}
		}
	}
	for _, shape := range [][]int{{1}, {1, 32, 5, 1}, {2, 32, 5, 5}, {2, 1, 1, 1}, {5, 5}} {
		c := &Invocation{Call: form.Call{Node: &graph.Node{Op: "Mul"}, In: []*Tensor{blank(graph.Float32, []int{2, 32, 5, 5}), blank(graph.Float32, shape)}, Out: []*Tensor{blank(graph.Float32, []int{2, 32, 5, 5})}}}
		if canBlocksScaled(c) {
			t.Errorf("a factor of shape %v is taken for one number for each channel", shape)
		}
	}
}

// TestBlocksResize: images in blocks are resized to the bits of those in planes.
func TestBlocksResize(t *testing.T) {
	r := rand.New(rand.NewPCG(49, 50))
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, size := range [][4]int{{5, 7, 10, 14}, {5, 7, 15, 7}, {9, 4, 4, 11}, {6, 6, 6, 6}, {1, 3, 5, 300}} {
			x := odd(r, false, 2, 32, size[0], size[1])
			shape := []int{2, 32, size[2], size[3]}
			list := blank(graph.Int64, []int{4})
			for i, n := range shape {
				data[int64](list)[i] = int64(n)
			}
			list.Const = true
			node := &graph.Node{Op: "Resize", Attrs: attrs(text("mode", mode))}
			planes := &Invocation{Call: form.Call{Node: node, Version: 13, In: []*Tensor{x, nil, nil, list}, Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{}}}
			blocks := &Invocation{Call: form.Call{Node: node, Version: 13, In: []*Tensor{blocksOf(x), nil, nil, list}, Out: []*Tensor{blank(graph.Float32, shape)}, Runtime: alone{}}}
			blocks.Out[0].Layout = form.NCHW16c
			if !canBlocksResize(blocks) {
				t.Fatalf("%s from %v to %v is not possible in blocks", mode, x.Shape, shape)
			}
			computeWith(t, planes, makeResize)
			computeWith(t, blocks, makeBlocksResize)
			sameImages(t, fmt.Sprintf("%s from %v to %v", mode, x.Shape, shape), planes.Out[0], blocks.Out[0])
		}
	}
}
