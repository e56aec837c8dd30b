package gpu

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/cuda/fake"
)

// tf32Cases are products and convolutions whose first two inputs are rounded to TF32.
var tf32Cases = []nodeCase{
	{op: "MatMul", in: args(noise(3, 17, 40), noise(40, 21))},
	{op: "Gemm", attrs: attrs(whole("transA", 1), whole("transB", 1), real("alpha", 0.5)), in: args(noise(40, 17), noise(21, 40), noise(21))},
	{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 5, 9, 11), noise(20, 5, 3, 3), noise(20))},
	{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2)), in: args(noise(2, 30, 4, 6), noise(30, 20, 3, 3), noise(20))},
	weightGrad([]int64{3, 3}, 1, []int64{1, 1}, []int64{1, 1}, []int64{1, 1, 1, 1}, noise(2, 20, 8, 9), noise(2, 20, 8, 9)),
}

// rounded is a case with its first two inputs rounded to 10 bits of fraction.
func (c nodeCase) rounded() nodeCase {
	in := append([]*reference.Tensor{}, c.in...)
	for i, t := range in[:2] {
		r := *t
		r.F = make([]float64, len(t.F))
		for k, v := range t.F {
			bits := math.Float32bits(float32(v)) + 1<<12
			r.F[k] = float64(math.Float32frombits(bits &^ (1<<13 - 1)))
		}
		in[i] = &r
	}
	c.in = in
	return c
}

// farthest is the largest distance of two tensors, relative to the largest element.
func farthest(a, b *reference.Tensor) float64 {
	distance, size := 0.0, 0.0
	for i, v := range a.F {
		distance, size = max(distance, math.Abs(v-b.F[i])), max(size, math.Abs(v))
	}
	return distance / size
}

// TestTF32: with TF32, products and convolutions of float32 are those of operands with 10 bits
// of fraction, summed up in float32, whoever computes them; and the node says so.
func TestTF32(t *testing.T) {
	for _, by := range []string{"libraries", "onnxmem"} {
		t.Run(by, func(t *testing.T) {
			b, f := benchWith(t, func(f *fake.Fake, t testing.TB) {
				f.UseBLAS(t)
				f.UseDNN(t)
			})
			if by == "libraries" {
				b.kernels.OwnProducts, b.kernels.OwnConvolutions, b.kernels.LibraryFloat32 = false, false, true
			}
			b.kernels.TF32 = true
			var list []*prepared
			for i := range tf32Cases {
				c, r := tf32Cases[i], tf32Cases[i].rounded()
				c.onHost, c.tolerance = 4e-3, 4e-3
				p, rounded := b.prepare(&c, graph.Float32), b.prepare(&r, graph.Float32)
				if f != nil { // else a library may cut the bits off
					if d := farthest(p.want[0], rounded.want[0]); d < 1e-4 {
						t.Errorf("%s: TF32 changes %g of the largest element: too little to be seen", c.op, d)
					}
					c.tolerance, p.want = 0, rounded.want
				}
				list = append(list, p)
			}
			b.must(b.kernels.Ready(func(int64) error { return nil }))
			for i, p := range list {
				t.Run(fmt.Sprintf("%d-%s", i, p.c.op), func(t *testing.T) { b.check(t, p) })
			}
			for _, c := range b.kernels.Computed() {
				if c.In != TensorFloat || by == "onnxmem" && c.By != by || by != "onnxmem" && !strings.HasPrefix(c.By, "cu") {
					t.Errorf("%d nodes in %s by %s, expected all in TF32 by the %s", c.Nodes, c.In, c.By, by)
				}
			}
		})
	}
}
