package gpu

import (
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/sweep"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/cuda/kernels"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// fragments is a kernel in which each lane of a warp takes what the PTX ISA says that it holds
// of the operands of an mma, element by element from memory, and writes its part of the result.
// If wrong is set, it swaps two registers.
const fragments = `
#include "tensor.cuh"
KERNEL(fragments, (float *y, const ELEMENT *a, const ELEMENT *b, int wrong)) {
	const bool half = sizeof(ELEMENT) == 2;
	const int K = half ? 16 : 8;
	int group = threadIdx.x >> 2, member = threadIdx.x % 4;
	u32 x[4] = {}, w[2] = {};
	for (int i = 0; i < (half ? 8 : 4); i++) {
		int row = half ? (i < 2 || i >= 4 && i < 6 ? group : group + 8) : (i == 0 || i == 2 ? group : group + 8);
		int column = half ? member * 2 + (i & 1) + (i < 4 ? 0 : 8) : (i < 2 ? member : member + 4);
		x[half ? i / 2 : i] |= (u32)bits(a[row * K + column]) << (half && i % 2 ? 16 : 0);
	}
	for (int i = 0; i < (half ? 4 : 2); i++) {
		int row = half ? member * 2 + (i & 1) + (i < 2 ? 0 : 8) : member + 4 * i;
		w[half ? i / 2 : i] |= (u32)bits(b[row * 8 + group]) << (half && i % 2 ? 16 : 0);
	}
	if (wrong) {
		u32 first = x[1];
		x[1] = x[2], x[2] = first;
	}
	float c[4] = {1, 1, 1, 1};
	mma(c, x, w[0], w[1], ELEMENT());
	for (int i = 0; i < 4; i++) y[(i < 2 ? group : group + 8) * 8 + member * 2 + (i & 1)] = c[i];
}
`

// TestFragments: an mma multiplies what lies in the lanes' registers as the PTX ISA has it. It
// does not if two registers are swapped, so a kernel that reads a fragment in a wrong place
// fails on the fake driver, too.
func TestFragments(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		d graph.DType
		k int
	}{{graph.Float16, 16}, {graph.BFloat16, 16}, {graph.Float32, 8}} {
		x, w, y := noise(16, c.k), noise(c.k, 8), noise(16, 8)
		for i := range x.F { // whole numbers, of which all sums are exact
			x.F[i] = float64(int(20 * x.F[i]))
		}
		for i := range w.F {
			w.F[i] = float64(int(20 * w.F[i]))
		}
		tensors := [3]*form.Tensor{b.tensor(y, graph.Float32, false, true), b.tensor(x, c.d, false, false), b.tensor(w, c.d, false, false)}
		source := &cuda.Source{Name: "fragments.cu", Text: fragments, Headers: kernels.Headers(fragments), Options: []string{"-DELEMENT=" + cType[c.d]}}
		for wrong := range int32(2) {
			one := driver.Dim3{X: 1, Y: 1, Z: 1}
			l, err := b.kernels.Queue.Launch(cuda.Kernel{Source: source, Name: "fragments"}, one, driver.Dim3{X: 32, Y: 1, Z: 1}, 0, b.at[tensors[0]], b.at[tensors[1]], b.at[tensors[2]], wrong)
			b.must(err)
			b.must(b.kernels.Ready(func(int64) error { return nil }))
			b.must(l.Run())
			b.must(b.kernels.Queue.Stream.Synchronize())
			got := make([]float32, 16*8)
			b.must(driver.DownloadNow(unsafe.Pointer(&got[0]), b.at[tensors[0]], int64(4*len(got))))
			want := make([]float32, 16*8)
			for i := range want {
				want[i] = 1
				for k := range c.k {
					want[i] += float32(x.F[i/8*c.k+k] * w.F[k*8+i%8])
				}
			}
			if same := slices.Equal(got, want); same != (wrong == 0) {
				t.Errorf("%v, wrong: %d: the product is right: %t", c.d, wrong, same)
			}
		}
	}
}

// TestTensorTiles: products on tensor cores agree with the plain evaluator in tiles of each
// size, whether operands lie along the depth or across it.
func TestTensorTiles(t *testing.T) {
	sweep.Only(t)
	b := newBench(t)
	all := tensorTiles
	defer func() { tensorTiles = all }()
	halves := []nodeCase{
		{op: "MatMul", in: args(noise(2, 150, 37), noise(37, 140))},
		{op: "MatMul", in: args(noise(150, 72), noise(72, 136))},
		{op: "Gemm", attrs: attrs(whole("transA", 1), whole("transB", 1)), in: args(noise(72, 136), noise(132, 72), noise(132))},
		{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1), ints("strides", 2, 1)), in: args(noise(2, 3, 21, 13), noise(130, 3, 3, 3), noise(130))},
		{op: "Conv", attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(2, 40, 9, 9), noise(70, 40, 3, 3), noise(70))},
		{op: "ConvTranspose", attrs: attrs(ints("strides", 2, 2), ints("pads", 1, 1, 1, 1)), in: args(noise(2, 40, 9, 9), noise(40, 70, 3, 3), noise(70))},
		weightGrad([]int64{2, 2}, 1, []int64{1, 1}, []int64{1, 1}, []int64{0, 0, 0, 0}, noise(3, 33, 10, 10), noise(3, 34, 9, 9)),
	}
	type named struct {
		*prepared
		name string
	}
	var list []named
	add := func(suffix string, c *nodeCase, d graph.DType) {
		if p := b.prepare(c, d); p != nil {
			list = append(list, named{p, fmt.Sprintf("%s-%s-%v-%d", suffix, c.op, d, len(list))})
		}
	}
	for i := range all {
		tensorTiles = all[i : i+1]
		for k := range halves {
			add(all[i].suffix, &halves[k], graph.Float16)
		}
		for k := range tf32Cases[:2] {
			c := tf32Cases[k]
			c.tolerance, c.onHost = 4e-3, 4e-3
			b.kernels.TF32 = true
			add(all[i].suffix, &c, graph.Float32)
			b.kernels.TF32 = false
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for _, p := range list {
		t.Run(p.name, func(t *testing.T) { b.check(t, p.prepared) })
	}
	b.t = t
}

// TestTensorAttention: attention of 16 bits on tensor cores agrees with the plain evaluator,
// whatever masks it has.
func TestTensorAttention(t *testing.T) {
	b := newBench(t)
	var list []*prepared
	for i := range attentionCases {
		c := &attentionCases[i]
		for _, d := range []graph.DType{graph.Float16, graph.BFloat16} {
			if types := c.types; types == nil && d == graph.BFloat16 || types != nil && !slices.Contains(types, d) {
				continue
			}
			if p := b.prepare(c, d); p != nil && p.n.Way == "on tensor cores" {
				list = append(list, p)
			}
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	if len(list) < 10 {
		t.Errorf("%d cases on tensor cores, expected more", len(list))
	}
	for i, p := range list {
		t.Run(fmt.Sprintf("%02d-%s-%v", i, p.c.op, p.d), func(t *testing.T) { b.check(t, p) })
	}
	b.t = t
}
