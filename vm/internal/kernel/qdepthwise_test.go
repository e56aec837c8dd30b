package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
)

// byteSums adds up the products of a depthwise convolution as integers, in the simplest
// way.
func byteSums(v *form.Window, x, weights []int64, zeroX, zeroW int64) []int32 {
	var sums []int32
	for d := range v.Out[0] {
		for h := range v.Out[1] {
			for w := range v.Out[2] {
				sum, tap := int64(0), 0
				for kd := range v.Kernel[0] {
					for kh := range v.Kernel[1] {
						for kw := range v.Kernel[2] {
							id, ih, iw := d*v.Stride[0]-v.Pad[0]+kd*v.Dilation[0], h*v.Stride[1]-v.Pad[1]+kh*v.Dilation[1], w*v.Stride[2]-v.Pad[2]+kw*v.Dilation[2]
							if uint(id) < uint(v.In[0]) && uint(ih) < uint(v.In[1]) && uint(iw) < uint(v.In[2]) {
								sum += (x[(id*v.In[1]+ih)*v.In[2]+iw] - zeroX) * (weights[tap] - zeroW)
							}
							tap++
						}
					}
				}
				sums = append(sums, int32(sum))
			}
		}
	}
	return sums
}

// same8 returns integers of an 8-bit type that are all the same.
func same8(d graph.DType, v int64, shape ...int) *reference.Tensor {
	t := quants(d, shape...)
	fill(t.I, v)
	return t
}

// TestByteDepthwise: a depthwise QLinearConv has the bits of its integer sums, rounded
// once, also where the sums are as large as they can be, and with every set of
// micro-kernels.
func TestByteDepthwise(t *testing.T) {
	const u, s = graph.Uint8, graph.Int8
	for _, k := range []struct {
		doc       string
		attrs     []*graph.Attr
		x, w      *reference.Tensor
		zx, zw, z *reference.Tensor
		bias      *reference.Tensor
		unit      float64 // of the sums; 0: their usual size is a byte
		general   bool    // computed as a product of integers
	}{
		{"3 x 3", attrs(ints("pads", 1, 1, 1, 1)), quants(u, 2, 6, 14, 19), quants(s, 6, 1, 3, 3), point(u, 120), quants(s, 6), point(u, 99), words(6), 0, false},
		{"both signed", attrs(ints("pads", 1, 1, 0, 2), ints("strides", 2, 2)), quants(s, 1, 5, 31, 18), quants(s, 5, 1, 3, 3), point(s, -7), nil, point(s, 3), words(5), 0, false},
		{"unsigned, stride 2", attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 2)), quants(u, 2, 5, 15, 23), quants(s, 5, 1, 3, 3), point(u, 120), quants(s, 5), point(u, 99), words(5), 0, false},
		{"signed, stride 1", attrs(ints("pads", 2, 2, 2, 2)), quants(s, 1, 3, 13, 14), quants(s, 3, 1, 5, 5), point(s, 11), nil, point(s, -3), words(3), 0, false},
		{"sums that wrap around beside the padding", attrs(ints("pads", 1, 1, 1, 1)), same8(u, 255, 1, 2, 12, 20), same8(s, 127, 2, 1, 3, 3), point(u, 1), point(s, -128), point(u, 9), wholes([]int{2}, math.MaxInt32-500000, math.MinInt32), 1e-7, false},
		{"both unsigned", attrs(ints("dilations", 2, 3), ints("strides", 1, 3)), quants(u, 1, 5, 31, 40), quants(u, 5, 1, 5, 2), point(u, 140), point(u, 117), point(u, 128), nil, 0, false},
		{"signed by unsigned", attrs(ints("pads", 2, 2)), quants(s, 3, 4, 300), quants(u, 4, 1, 5), nil, quants(u, 4), nil, words(4), 0, false},
		{"3 axes", attrs(ints("pads", 1, 0, 1, 1, 2, 1), ints("strides", 2, 1, 1)), quants(u, 1, 3, 5, 9, 11), quants(s, 3, 1, 3, 3, 2), point(u, 3), point(s, 5), point(u, 128), nil, 0, false},
		{"more rows than a band", attrs(ints("pads", 1, 1, 1, 1)), quants(u, 1, 2, 70, 90), quants(s, 2, 1, 3, 3), point(u, 120), nil, point(u, 99), words(2), 0, false},
		{"unsigned weights around 128", attrs(ints("pads", 1, 0, 0, 2)), quants(u, 1, 5, 9, 64), quants(u, 5, 1, 3, 3), point(u, 140), point(u, 128), point(s, -9), words(5), 0, false},
		{"rows that fill vectors, stride 2", attrs(ints("pads", 2, 2, 2, 2), ints("strides", 2, 2)), quants(s, 1, 3, 11, 128), quants(s, 3, 1, 5, 5), point(s, 12), nil, point(u, 99), words(3), 0, false},
		{"rows of a byte more than vectors", attrs(ints("pads", 1, 3, 1, 3)), quants(u, 1, 3, 3, 129), quants(s, 3, 1, 3, 7), point(u, 3), nil, point(u, 99), nil, 0, false},
		{"a kernel that ends within the image", attrs(ints("strides", 2, 2)), quants(u, 1, 3, 20, 24), quants(s, 3, 1, 3, 3), point(u, 3), nil, point(u, 99), words(3), 0, false},
		{"one vector", attrs(ints("pads", 1, 1, 1, 1)), quants(u, 2, 6, 7, 9), quants(s, 6, 1, 3, 3), point(u, 120), quants(s, 6), point(u, 99), words(6), 0, false},
		{"one vector, no zero points", attrs(ints("pads", 1, 1, 1, 1)), quants(u, 2, 70, 7, 9), quants(s, 70, 1, 3, 3), nil, nil, point(u, 99), words(70), 0, false},
		{"one vector, wide kernel", attrs(ints("pads", 2, 2, 2, 2)), quants(s, 2, 6, 7, 7), quants(s, 6, 1, 5, 5), point(s, -7), nil, point(s, 3), words(6), 0, false},
		{"one vector, stride 2", attrs(ints("pads", 1, 2, 0, 1), ints("strides", 2, 2)), quants(u, 2, 60, 7, 7), quants(s, 60, 1, 3, 3), point(u, 120), nil, point(s, 3), words(60), 0, false},
		{"a byte more than one vector with its padding", attrs(ints("pads", 1, 1, 1, 1)), quants(u, 2, 6, 8, 8), quants(s, 6, 1, 3, 3), point(u, 120), nil, point(u, 99), words(6), 0, false},
		{"largest sums", nil, same8(u, 255, 1, 2, 12, 20), same8(s, 127, 2, 1, 8, 8), point(u, 0), point(s, -128), point(u, 9), wholes([]int{2}, 100-64*255*255, 1-64*255*255), 1, false},
		{"least sums", nil, same8(u, 0, 1, 2, 12, 20), same8(s, 127, 2, 1, 8, 8), point(u, 255), point(s, -128), point(u, 200), wholes([]int{2}, 64*255*255-100, 64*255*255+17), 1, false},
		{"more taps than are exact in float32", nil, same8(u, 255, 1, 2, 14, 20), same8(s, 127, 2, 1, 9, 8), point(u, 0), point(s, -128), point(u, 9), wholes([]int{2}, 100-72*255*255, 1-72*255*255), 1, true},
		{"sums that wrap around", nil, same8(u, 255, 1, 2, 12, 20), same8(s, 127, 2, 1, 3, 3), point(u, 0), point(s, -128), point(u, 9), wholes([]int{2}, math.MaxInt32, math.MinInt32), 1e-7, false},
		{"bias beyond the integers of float32", nil, quants(u, 1, 2, 12, 20), quants(s, 2, 1, 3, 3), point(u, 17), nil, point(u, 9), wholes([]int{2}, 1<<27+1, -1<<27-1), 7e-7, false},
		{"two kernels for each channel", attrs(ints("pads", 1, 1, 1, 1)), quants(u, 2, 3, 14, 19), quants(s, 6, 1, 3, 3), point(u, 120), nil, point(u, 99), words(6), 0, true},
	} {
		t.Run(k.doc, func(t *testing.T) {
			if k.bias != nil {
				k.bias.Type = graph.Int32
			}
			taps := count(k.w.Shape[2:])
			step := 0.37 * k.unit
			if k.unit == 0 {
				step = 0.003 / math.Sqrt(float64(taps))
			}
			channels, group := k.w.Shape[0], k.x.Shape[1]
			scales := positive(channels)
			in := args(k.x, scalar(step), k.zx, k.w, scales, k.zw, scalar(0.37), k.z, k.bias)
			if k.z == nil {
				in[7] = point(u, 0)
			}
			node := &nodeCase{op: "QLinearConv", version: 10, attrs: append(attrs(whole1("group", int64(group))), k.attrs...), in: in}
			n, want, err := node.node(in)
			if err != nil {
				t.Fatal(err)
			}
			given := make([]*Tensor, len(in))
			for i, x := range in {
				if x != nil {
					given[i] = store(x, graph.Float32)
				}
			}
			zero := func(z *reference.Tensor, i int) int64 {
				if z == nil {
					return 0
				}
				return z.I[i%len(z.I)]
			}
			var bytes []byte
			for i := range k.x.Shape[0] * channels {
				ch := i % channels
				v, err := form.NewWindow(&form.Call{Node: n}, k.w.Shape[2:], k.x.Shape[2:], want[0].Shape[2:])
				if err != nil {
					t.Fatal(err)
				}
				plane := i/channels*group + ch*group/channels
				sums := byteSums(v, k.x.I[plane*v.Inputs():][:v.Inputs()], k.w.I[ch*taps:][:taps], zero(k.zx, 0), zero(k.zw, ch))
				bias := int32(0)
				if k.bias != nil {
					bias = int32(k.bias.I[ch])
				}
				row := make([]byte, len(sums))
				factor := float32(step) * float32(scales.F[ch]) / float32(0.37)
				simd.Requantize(row, sums, bias, factor, simd.Byte{Signed: want[0].Type == s, Zero: int32(zero(k.z, 0))})
				bytes = append(bytes, row...)
			}
			seen := map[byte]bool{}
			for _, b := range bytes {
				seen[b] = true
			}
			if k.unit == 0 && len(seen) < 100 {
				t.Errorf("only %d different bytes: most are saturated", len(seen))
			}
			before := gemm.Level()
			t.Cleanup(func() { _ = gemm.Use(before) })
			for _, level := range gemm.Levels() {
				if err := gemm.Use(level); err != nil {
					t.Fatal(err)
				}
				out := &Tensor{Type: want[0].Type, Shape: want[0].Shape}
				_, d, err := byteDepthwise(&Invocation{Call: form.Call{Node: n, In: given, Out: []*Tensor{out}, Runtime: alone{}}})
				if general := d == nil; err != nil || general != (k.general || level == "plain") {
					t.Errorf("%s: as a product of integers: %v, %v", level, general, err)
				}
				for _, workers := range []int{1, 3} {
					for _, x := range given[1:] {
						if x != nil {
							x.Const = workers > 1
						}
					}
					got, err := node.run(n, given, want, graph.Float32, workers, alone{})
					if err != nil {
						t.Fatal(err)
					}
					for i, b := range raw(got[0]) {
						if b != bytes[i] {
							t.Fatalf("%s, %d workers, constant weights %v: byte %d is %d, want %d", level, workers, workers > 1, i, b, bytes[i])
						}
					}
				}
			}
		})
	}
}

// TestByteDepthwiseZeroPoints: a zero point of another type than its bytes makes
// differences that do not fit into 8 bits, and so sums that may not be exact in float32.
func TestByteDepthwiseZeroPoints(t *testing.T) {
	in := args(quants(graph.Uint8, 1, 6, 14, 19), scalar(0.031), point(graph.Uint8, 120), quants(graph.Int8, 6, 1, 3, 3), scalar(0.3), nil, scalar(0.7), point(graph.Uint8, 9))
	for _, i := range []int{2, 5, 7} {
		t.Run(fmt.Sprintf("input %d", i), func(t *testing.T) {
			c := &Invocation{Call: form.Call{Node: &graph.Node{Op: "QLinearConv", Attrs: attrs(whole1("group", 6))}, Runtime: alone{}}}
			for _, x := range in {
				var given *Tensor
				if x != nil {
					given = store(x, graph.Float32)
				}
				c.In = append(c.In, given)
			}
			c.Out = []*Tensor{blank(graph.Uint8, []int{1, 6, 12, 17})}
			c.In[i] = store(point(graph.Int16, 300), graph.Float32)
			if _, d, err := byteDepthwise(c); d != nil || err != nil {
				t.Errorf("taken as bytes: %v, %v", d, err)
			}
		})
	}
}
