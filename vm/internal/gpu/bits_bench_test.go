package gpu

import (
	"fmt"
	"os"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// BenchmarkBits measures products of rows and weights of 4 bits in blocks of 32, of the sizes
// of a decoder of 7e9 weights: as BenchmarkMemoryBound does, on a GPU. GB/s are those of
// weights and scales. The numbers of rows lie around those at which the kernel changes.
func BenchmarkBits(b *testing.B) {
	if os.Getenv("ONNXMEM_TEST_GPU") == "" {
		b.Skip("the fake driver's times say nothing (ONNXMEM_TEST_GPU=1 asks for the GPU)")
	}
	d := newBench(b)
	var list []timed
	for _, s := range [][2]int{{1024, 4096}, {4096, 4096}, {14336, 4096}, {4096, 14336}} {
		for _, rows := range []int{1, 2, 4, 8, 16, 17, 32, 128, 512} {
			list = append(list, d.bits(rows, s[0], s[1]))
		}
	}
	d.must(d.kernels.Ready(func(int64) error { return nil }))
	for _, w := range list {
		b.Run(w.name, func(b *testing.B) { d.measure(b, &w) })
	}
	d.t = b
}

// bits prepares a product in float16 by n rows of k weights.
func (b *bench) bits(rows, n, k int) timed {
	const block = 32
	weights, scales := b.emptyOf(graph.Uint8, n, k/block, block/2), b.emptyOf(graph.Float16, n*k/block)
	run, err := b.kernels.Prepare(&form.Call{
		Node:    &graph.Node{Op: "MatMulNBits", Domain: "com.microsoft", Attrs: bitWeights(int64(n), int64(k), 4, block)},
		Version: 1, Runtime: alone{}, In: []*form.Tensor{b.emptyOf(graph.Float16, rows, k), weights, scales}, Out: []*form.Tensor{b.emptyOf(graph.Float16, rows, n)},
	})
	b.must(err)
	return timed{fmt.Sprintf("rows=%d/weights=%dx%d", rows, n, k), weights.Bytes() + scales.Bytes(), run}
}
