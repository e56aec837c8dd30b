package gpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// TestProductTiles: products agree with the plain evaluator in tiles of each size, also
// where the choice of the best would not take them.
func TestProductTiles(t *testing.T) {
	b := newBench(t)
	all := productTiles
	defer func() { productTiles = all }()
	list := []nodeCase{
		{op: "MatMul", in: args(noise(2, 150, 37), noise(37, 140))},
		{op: "Gemm", attrs: attrs(whole("transA", 1), whole("transB", 1)), in: args(noise(19, 131), noise(135, 19), noise(135))},
		{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 1)), in: args(noise(2, 3, 21, 13), noise(130, 3, 3, 3), noise(130))},
		{op: "Conv", in: args(noise(3, 19, 8, 8), noise(130, 19, 1, 1), noise(130))},
		{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(20, 2, 12, 12), noise(40, 2, 12, 12))},
		{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 40, 9, 9), noise(70, 40, 3, 3), noise(70))},
		{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(2, 40, 9, 9), noise(40, 70, 3, 3), noise(70))},
		bitsCase(131, 135, 70, 4, 32, true, nil, noise(135)),
		weightGrad([]int64{2, 2}, 1, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(3, 33, 10, 10), noise(3, 34, 9, 9)),
	}
	var run []*prepared
	for i := range all {
		productTiles = all[i : i+1]
		for k := range list {
			if p := b.prepare(&list[k], graph.Float32); p != nil {
				run = append(run, p)
			}
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for i, p := range run {
		t.Run(fmt.Sprintf("%s-%s-%d", all[i/len(list)].suffix, p.c.op, i%len(list)), func(t *testing.T) { b.check(t, p) })
	}
	b.t = t
}

// TestSplitProduct: the choice of tiles follows the shape of a product, and no part of a
// sum is without a part of the depth.
func TestSplitProduct(t *testing.T) {
	for _, c := range []struct {
		m, n, k, batches int
		tile             string
		parts            int
	}{
		{4096, 4096, 4096, 1, "128", 1},
		{32, 100352, 288, 1, "32x128", 1},
		{1, 1000, 2048, 1, "32x128", 16},
		{64, 576, 100352, 1, "64x128", 78},
		{1, 1, 0, 1, "32", 1},
	} {
		s := splitProduct(tilesOf(4), c.m, c.n, c.k, c.batches)
		if s.tile.suffix != c.tile || s.parts != c.parts {
			t.Errorf("%dx%d and depth %d: tile %s in %d parts, want %s in %d", c.m, c.n, c.k, s.tile.suffix, s.parts, c.tile, c.parts)
		}
		if c.k > 0 && (s.parts-1)*s.chunk >= c.k {
			t.Errorf("%d parts of %d exceed the depth of %d", s.parts, s.chunk, c.k)
		}
		if strings.Contains(splitProduct(tilesOf(8), c.m, c.n, c.k, c.batches).tile.suffix, "128") {
			t.Error("elements of 64 bits in a wide tile")
		}
	}
}

// TestProductInPart: the result of a product may begin at any multiple of its elements, as
// it does where it is an operand of a Concat in place.
func TestProductInPart(t *testing.T) {
	b := newBench(t)
	var list []*prepared
	for _, part := range []struct {
		c nodeCase
		y []int
	}{
		{nodeCase{op: "MatMul", in: args(noise(3, 9), noise(9, 8))}, []int{3, 8}},
		{nodeCase{op: "Conv", in: args(noise(1, 5, 4, 4), noise(3, 5, 1, 1))}, []int{1, 3, 4, 4}},
		{nodeCase{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(1, 5, 4, 4), noise(3, 5, 3, 3))}, []int{1, 3, 4, 4}},
	} {
		at := b.kernels.At
		var moved *form.Tensor
		b.kernels.At = func(t *form.Tensor) (driver.Ptr, error) {
			if moved == nil && slices.Equal(t.Shape, part.y) {
				moved = t
				b.at[t] += 4
			}
			return at(t)
		}
		if p := b.prepare(&part.c, graph.Float32); p != nil {
			if moved != p.n.Out[0] {
				t.Fatalf("%s: the result has not been moved", part.c.op)
			}
			list = append(list, p)
		}
		b.kernels.At = at
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for _, p := range list {
		b.check(t, p)
	}
}

// TestProductOfParts: so may the operands, which then are not fetched in fours.
func TestProductOfParts(t *testing.T) {
	b := newBench(t)
	b.skip = 4
	cases := []nodeCase{
		{op: "MatMul", in: args(noise(20, 24), noise(24, 16))},
		{op: "Gemm", attrs: attrs(whole("transA", 1), whole("transB", 1)), in: args(noise(24, 20), noise(16, 24))},
		{op: "Conv", in: args(noise(2, 24, 4, 6), noise(20, 24, 1, 1))},
		{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 24, 6, 6), noise(20, 24, 3, 3))},
		weightGrad([]int64{1, 1}, 1, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(2, 24, 8, 8), noise(2, 20, 8, 8)),
	}
	var list []*prepared
	for i := range cases {
		if p := b.prepare(&cases[i], graph.Float32); p != nil {
			list = append(list, p)
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for _, p := range list {
		b.check(t, p)
	}
}
