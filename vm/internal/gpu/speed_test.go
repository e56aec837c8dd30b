package gpu

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// speedCase is a product whose speed is measured.
type speedCase struct {
	name string
	op   string
	attr []*graph.Attr
	in   [][]int
	y    []int
	work float64 // multiplications
}

// convSpeed lists a convolution of b images of ch channels and size x size elements with
// m x ch x taps x taps weights, and its gradients.
func convSpeed(name string, b, ch, size, m, taps, stride int) []speedCase {
	out := (size + stride - 1) / stride
	pad := int64(taps / 2)
	list := func() []*graph.Attr {
		return attrs(ints("kernel_shape", int64(taps), int64(taps)), ints("strides", int64(stride), int64(stride)), ints("pads", pad, pad, pad, pad), ints("dilations", 1, 1), whole("group", 1))
	}
	extra := int64(size - ((out-1)*stride + taps - 2*int(pad)))
	x, w, y := []int{b, ch, size, size}, []int{m, ch, taps, taps}, []int{b, m, out, out}
	n := float64(m*ch*taps*taps) * float64(b*out*out)
	shape := fmt.Sprintf("%s/batch=%d/%dx%d/%d-%d/k%d/s%d", name, b, size, size, ch, m, taps, stride)
	return []speedCase{
		{shape + "/forward", "Conv", list(), [][]int{x, w}, y, n},
		{shape + "/data", "ConvTranspose", append(list(), ints("output_padding", extra, extra)), [][]int{y, w}, x, n},
		{shape + "/weights", graph.SwapDomain + "." + graph.ConvWeightGrad, list(), [][]int{x, y}, w, n},
	}
}

// speedCases lists the convolutions of ResNet-50 and VGG-16 and the products of BERT.
func speedCases() (list []speedCase) {
	for _, b := range []int{32, 8} {
		list = append(list, convSpeed("resnet50", b, 3, 224, 64, 7, 2)...)
		for i, size := range []int{56, 28, 14, 7} {
			ch := 64 << i
			if i > 0 {
				list = append(list, convSpeed("resnet50", b, 2*ch, 2*size, ch, 1, 1)...)
				list = append(list, convSpeed("resnet50", b, ch, 2*size, ch, 3, 2)...)
				list = append(list, convSpeed("resnet50", b, 2*ch, 2*size, 4*ch, 1, 2)...)
			}
			list = append(list, convSpeed("resnet50", b, 4*ch, size, ch, 1, 1)...)
			list = append(list, convSpeed("resnet50", b, ch, size, ch, 3, 1)...)
			list = append(list, convSpeed("resnet50", b, ch, size, 4*ch, 1, 1)...)
		}
	}
	for _, c := range [][3]int{{64, 224, 64}, {64, 112, 128}, {128, 112, 128}, {128, 56, 256}, {256, 56, 256}, {256, 28, 512}, {512, 28, 512}, {512, 14, 512}} {
		list = append(list, convSpeed("vgg16", 8, c[0], c[1], c[2], 3, 1)[0])
	}
	for _, rows := range []int{1024, 4096} {
		for _, c := range [][2]int{{768, 768}, {768, 3072}, {3072, 768}} {
			in, out := c[0], c[1]
			n := float64(rows) * float64(in*out)
			shape := fmt.Sprintf("bert/%dx%dx%d", rows, in, out)
			list = append(list,
				speedCase{shape + "/forward", "MatMul", nil, [][]int{{rows, in}, {in, out}}, []int{rows, out}, n},
				speedCase{shape + "/data", "Gemm", attrs(whole("transB", 1)), [][]int{{rows, out}, {in, out}}, []int{rows, in}, n},
				speedCase{shape + "/weights", "Gemm", attrs(whole("transA", 1)), [][]int{{rows, in}, {rows, out}}, []int{in, out}, n})
		}
	}
	return list
}

// TestProductSpeed prints what products take: each with the tile and the parts that it was
// divided into. $ONNXMEM_TEST_SPEED is "best" for the choice of bestSplit, or "all" for every
// tile and up to 32 parts; a second word, after a comma, selects cases by a part of their
// names. Every line is a time and TFLOP/s (a multiplication and an addition are two).
func TestProductSpeed(t *testing.T) {
	mode, filter, _ := strings.Cut(os.Getenv("ONNXMEM_TEST_SPEED"), ",")
	if mode == "" {
		t.Skip("ONNXMEM_TEST_SPEED asks for no measurement")
	}
	defer func() { splitProduct = bestSplit }()
	b := newBench(t)
	room := int64(2 << 30)
	if os.Getenv("ONNXMEM_TEST_GPU") == "" {
		room = 1 << 29 // the fake driver: only to see that it runs
	}
	block, err := b.device.Take(2*room, "tensors")
	b.must(err)
	b.blocks = append(b.blocks, block)
	some, r := make([]float32, 1<<20), draws(nil)
	for i := range some {
		some[i] = 4*r.Float32() - 2
	}
	b.must(driver.UploadNow(block.At, unsafe.Pointer(&some[0]), int64(4*len(some))))
	for n := int64(4 * len(some)); n < room; n *= 2 {
		b.must(driver.Copy(block.At+driver.Ptr(n), block.At, n, b.kernels.Queue.Stream))
	}
	type measured struct {
		c   *speedCase
		s   split
		run form.Run
	}
	var list []measured
	cases := speedCases()
	for i := range cases {
		c := &cases[i]
		if !strings.Contains(c.name, filter) {
			continue
		}
		prepare := func(force func(tiles []productTile, m, n, k, batches int) split) {
			var chosen split
			splitProduct = func(tiles []productTile, m, n, k, batches int) split {
				chosen = force(tiles, m, n, k, batches)
				return chosen
			}
			v := &form.Call{Node: &graph.Node{Op: c.op, Attrs: c.attr}, Version: 18, Runtime: alone{}}
			if at := strings.LastIndex(c.op, "."); at >= 0 {
				v.Node.Domain, v.Node.Op = c.op[:at], c.op[at+1:]
			}
			place := func(shape []int, at driver.Ptr) *form.Tensor {
				x := &form.Tensor{Type: graph.Float32, Shape: shape}
				if int64(x.Bytes()) > room {
					t.Fatalf("%s: a tensor of %d bytes", c.name, x.Bytes())
				}
				b.at[x] = at
				return x
			}
			g := &graph.Graph{}
			for i, shape := range c.in {
				v.In = append(v.In, place(shape, block.At))
				v.Node.Inputs = append(v.Node.Inputs, g.NewTensor(fmt.Sprint("x", i)))
			}
			v.Out = []*form.Tensor{place(c.y, block.At+driver.Ptr(room))}
			v.Node.Outputs = append(v.Node.Outputs, g.NewTensor("y"))
			run, err := b.kernels.Prepare(v)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			list = append(list, measured{c, chosen, run})
		}
		if mode == "best" {
			prepare(bestSplit)
			continue
		}
		for i := range productTiles {
			tile := &productTiles[i]
			for parts := 1; parts <= 32; parts *= 2 {
				enough := false
				prepare(func(_ []productTile, m, n, k, batches int) split {
					s := tile.split(m, n, k, batches, parts)
					enough = s.parts < parts || s.chunk < leastChunk || s.tiles*s.parts > 16*multiprocessors
					return s
				})
				if enough {
					break
				}
			}
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for _, m := range list {
		if m.s.tile == nil { // a kernel without tiles
			m.s.tile = &productTile{suffix: "none"}
		}
		b.timed(m.run, 1) // which also loads the kernel
		once := b.timed(m.run, 1)
		took := b.timed(m.run, min(40, max(2, int(3*time.Millisecond/max(once, 1)))))
		fmt.Printf("%-60s tile %-7s parts %-3d %9.1f us %6.2f TFLOP/s\n", m.c.name, m.s.tile.suffix, m.s.parts, float64(took)/1e3, 2*m.c.work/float64(took)/1e3)
	}
}

// timed runs a node some times and returns what each took.
func (b *bench) timed(run form.Run, times int) time.Duration {
	stream := b.kernels.Queue.Stream
	b.must(stream.Synchronize())
	from, err := driver.NewEvent(true)
	b.must(err)
	to, err := driver.NewEvent(true)
	b.must(err)
	b.must(from.Record(stream))
	for range times {
		b.must(run((*work.Pool)(nil)))
	}
	b.must(to.Record(stream))
	b.must(to.Synchronize())
	ms, err := driver.Elapsed(from, to)
	b.must(err)
	b.must(from.Destroy())
	b.must(to.Destroy())
	return time.Duration(float64(ms)*1e6) / time.Duration(times)
}
