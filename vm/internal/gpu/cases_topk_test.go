package gpu

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

func init() {
	cases = append(cases, topCases...)
	exactCases = append(append(exactCases, topCases...),
		nodeCase{op: "TopK", in: args(strange(600), list(300)), outputs: 2, consts: []int{1}, types: allReals},
		nodeCase{op: "TopK", attrs: attrs(whole("largest", 0)), in: args(strange(600), list(600)), outputs: 2, consts: []int{1}},
	)
}

// strange returns reals with NaN, infinities and zeros of both signs among them.
func strange(n int) *reference.Tensor {
	t := noise(n)
	for i := range t.F {
		if i%3 == 0 {
			t.F[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}[i/3%5]
		}
	}
	return t
}

var topCases = []nodeCase{
	{op: "TopK", in: args(noise(7, 50), list(5)), outputs: 2, consts: []int{1}, types: allReals},
	{op: "TopK", attrs: attrs(whole("axis", 1), whole("largest", 0)), in: args(wholes(graph.Int32, -9, 9, 3, 77, 5), list(20)), outputs: 2, consts: []int{1}}, // many are equal
	{op: "TopK", attrs: attrs(whole("axis", 0)), in: args(wholes(graph.Uint8, 0, 256, 300, 3), list(300)), outputs: 2, consts: []int{1}},
	{op: "TopK", attrs: attrs(whole("largest", 0)), in: args(wholes(graph.Int64, -1<<60, 1<<60, 2, 2048), list(2048)), outputs: 2, consts: []int{1}},
	{op: "TopK", in: args(wholes(graph.Int8, -128, 128, 9000), list(700)), outputs: 2, consts: []int{1}, types: inSingle},
	{op: "TopK", in: args(noise(1, 1), list(1)), outputs: 2, consts: []int{1}},
	{op: "TopK", in: args(noise(2, 9), list(0)), outputs: 2, consts: []int{1}},
	{op: "TopK", in: args(noise(2, 40000), list(2048)), outputs: 2, consts: []int{1}, types: inSingle},
	{op: "TopK", attrs: attrs(whole("axis", 1), whole("largest", 0)), in: args(wholes(graph.Int64, -99, 99, 1, 33000, 2), list(7)), outputs: 2, consts: []int{1}},
}

// TestTopKOfTooMany: a line that is too long to be sorted, of which too many elements are
// asked for, is left to the host.
func TestTopKOfTooMany(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		d    graph.DType
		n, k int
		fits bool
	}{{graph.Float32, 4096, 4096, true}, {graph.Float32, 4097, 2048, true}, {graph.Float32, 4097, 2049, false}, {graph.Int64, 2049, 1025, false}} {
		n := &form.Call{Node: &graph.Node{Op: "TopK"}, Version: 18, Runtime: alone{}, In: tensors(blank(c.d, c.n), blank(graph.Int64, 1)), Out: tensors(blank(c.d, c.k), blank(graph.Int64, c.k))}
		for _, x := range append(n.In, n.Out...) {
			b.upload(x)
		}
		if _, err := b.kernels.Prepare(n); (err == nil) != c.fits || err != nil && !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: got %v, expected a kernel: %v", fmt.Sprint(c), err, c.fits)
		}
	}
}
