package kernel

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// transposedCases are transposed convolutions by larger steps: several small images, taps
// side by side, positions that no tap reaches, and taps that reach beyond the output.
var transposedCases = []nodeCase{
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2)), in: args(noise(1, 20, 19, 23), noise(20, 70, 2, 2), noise(70))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("output_padding", 1, 1)), in: args(noise(3, 20, 19, 23), noise(20, 30, 1, 1), noise(30))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 3, 2), ints("pads", 1, 1, 0, 1)), in: args(noise(5, 20, 7, 7), noise(20, 17, 2, 2))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 3, 3), ints("dilations", 2, 4), whole1("group", 2)), in: args(noise(2, 6, 9, 10), noise(6, 20, 2, 3), noise(40))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1), ints("output_padding", 1, 1)), in: args(noise(5, 300, 7, 7), noise(300, 33, 3, 3), noise(33))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(1, 24, 20, 21), noise(24, 40, 4, 4), noise(40))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("pads", 4, 3, 5, 4)), in: args(noise(2, 9, 9, 12), noise(9, 13, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 4, 6), ints("dilations", 3, 4), whole1("group", 3)), in: args(noise(1, 6, 8, 9), noise(6, 14, 5, 4), noise(42))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 3), ints("output_padding", 0, 1)), in: args(noise(2, 9, 9, 12), noise(9, 13, 5, 1))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 8), ints("pads", 4, 4)), in: args(noise(3, 20, 100), noise(20, 16, 16), noise(16))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 1, 2), ints("pads", 1, 1, 1, 1, 1, 1)), in: args(noise(2, 5, 4, 5, 6), noise(5, 18, 3, 3, 4), noise(18))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2, 2)), in: args(noise(2, 5, 4, 5, 6), noise(5, 18, 2, 2, 2))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), text("auto_pad", "SAME_UPPER")), in: args(noise(1, 20, 9, 13), noise(20, 30, 3, 3), noise(30))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("output_shape", 22, 31)), in: args(noise(1, 20, 10, 15), noise(20, 30, 3, 3), noise(30))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(2, 300, 9, 9), noise(300, 3, 4, 4), noise(3))},
}

// togetherCases are convolutions of small images, some of which are one product.
var togetherCases = []nodeCase{
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(4, 130, 7, 7), noise(20, 130, 3, 3), noise(20))},     // Spread, if constant
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(6, 20, 7, 7), noise(70, 20, 3, 3), noise(70))},       // across
	{op: "Conv", attrs: attrs(ints("strides", 2, 1, 3)), in: args(noise(4, 10, 1, 3, 4), noise(10, 10, 1, 1, 1), noise(10))}, // several images, with a stride that meets one place
	{op: "Conv", attrs: attrs(ints("strides", 3, 2, 2), ints("pads", 0, 1, 1, 0, 1, 1)), in: args(noise(4, 10, 2, 5, 7), noise(6, 10, 1, 3, 3))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 1, 1), ints("pads", 0, 1, 1, 0, 1, 1)), in: args(noise(4, 10, 1, 5, 6), noise(10, 8, 1, 3, 3), noise(8))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 2)), in: args(noise(2, 20, 14, 14), noise(33, 20, 3, 3))},
	{op: "Conv", in: args(noise(3, 20, 5, 9), noise(33, 20, 1, 1))},
	{op: "Conv", attrs: attrs(ints("dilations", 2)), in: args(noise(5, 20, 19), noise(33, 20, 3), noise(33))},
	{op: "ConvTranspose", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(4, 20, 7, 7), noise(20, 33, 3, 3), noise(33))},
	{op: "ConvTranspose", in: args(noise(3, 20, 5, 9), noise(20, 13, 1, 1), noise(13))},
	{op: "ConvTranspose", in: args(noise(3, 20, 5), noise(20, 13, 2))},
}

// TestTransposed: transposed convolutions agree with the plain float64 evaluator, with
// constant weights and others, and the micro-kernels of every level.
func TestTransposed(t *testing.T) {
	before := gemm.Level()
	t.Cleanup(func() { _ = gemm.Use(before) })
	for _, level := range gemm.Levels() {
		if err := gemm.Use(level); err != nil {
			t.Fatal(err)
		}
		for i, k := range slices.Concat(transposedCases, togetherCases) {
			for _, fresh := range []bool{false, true} {
				k.fresh = fresh
				t.Run(fmt.Sprintf("%s/%03d/fresh=%v", level, i, fresh), func(t *testing.T) { k.check(t, graph.Float32) })
			}
		}
	}
}

// TestImagesTogether: an image gives the same bits alone and among others.
func TestImagesTogether(t *testing.T) {
	for i, k := range slices.Concat(transposedCases, togetherCases) {
		for _, fresh := range []bool{false, true} {
			k.fresh = fresh
			whole := bitsOf(t, &k)
			x := k.in[0]
			images := x.Shape[0]
			for image := range images {
				one := k
				each := len(x.F) / images
				one.in = append(args(reference.Reals(append([]int{1}, x.Shape[1:]...), x.F[image*each:(image+1)*each]...)), k.in[1:]...)
				if got, size := bitsOf(t, &one), len(whole)/images; string(got) != string(whole[image*size:(image+1)*size]) {
					t.Errorf("case %d, fresh: %v: image %d of %d has other bits alone", i, fresh, image, images)
				}
			}
		}
	}
}

// bitsOf runs a case in float32 and returns its first output.
func bitsOf(t *testing.T, k *nodeCase) []byte {
	t.Helper()
	n, want, err := k.node(k.in)
	if err != nil {
		t.Fatal(err)
	}
	given := make([]*Tensor, len(k.in))
	for i, x := range k.in {
		given[i] = store(x, graph.Float32)
		given[i].Const = i > 0 && !k.fresh
	}
	got, err := k.run(n, given, want, graph.Float32, 1, alone{pack: true})
	if err != nil {
		t.Fatal(err)
	}
	return raw(got[0])
}
