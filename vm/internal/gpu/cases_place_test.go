package gpu

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() {
	cases = append(cases, placeCases...)
	exactCases = append(append(exactCases, placeCases...),
		// Of several elements at one place the last one stays.
		nodeCase{op: "MaxUnpool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 2, 2)), in: args(noise(2, 3, 40, 50), wholes(graph.Int64, 0, 2*3*80*100, 2, 3, 40, 50))},
		nodeCase{op: "MaxUnpool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 2, 2)), in: args(noise(1, 1, 40, 50), wholes(graph.Int64, 0, 90, 1, 1, 40, 50))},
	)
}

// corners are places in an image of twice the lengths, as MaxPool gives them: that of each
// element is one of the four under its window.
func corners(shape ...int) *reference.Tensor {
	t := wholes(graph.Int64, 0, 4, shape...)
	rows, columns := shape[len(shape)-2], shape[len(shape)-1]
	for i, corner := range t.I {
		plane, row, column := i/columns/rows, i/columns%rows, i%columns
		t.I[i] = int64((plane*2*rows+2*row+int(corner/2))*2*columns + 2*column + int(corner%2))
	}
	return t
}

var placeCases = []nodeCase{
	{op: "ReverseSequence", in: args(noise(7, 5, 3), reference.Ints([]int{5}, 0, 1, 7, 4, 6)), types: allReals},
	{op: "ReverseSequence", attrs: attrs(whole("batch_axis", 0), whole("time_axis", 1)), in: args(noise(3, 6, 2, 4), reference.Ints([]int{3}, 6, 1, 5))},
	{op: "ReverseSequence", attrs: attrs(whole("batch_axis", 0), whole("time_axis", 1)), in: args(wholes(graph.Uint8, 0, 99, 2, 9), reference.Ints([]int{2}, 9, 2))},
	{op: "MaxUnpool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 2, 2)), in: args(noise(2, 3, 7, 9), corners(2, 3, 7, 9)), types: allReals},
	{op: "MaxUnpool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 2, 2)), in: args(noise(1, 1, 7, 9), corners(1, 1, 7, 9), list(1, 1, 15, 18)), consts: []int{2}},
	{op: "Col2Im", attrs: attrs(ints("pads", 1, 2, 0, 1), ints("strides", 2, 1), ints("dilations", 1, 2)), in: args(noise(2, 3*6, 5*9), list(9, 10), list(2, 3)), consts: []int{1, 2}},
	{op: "Col2Im", in: args(noise(2, 4*3, 8), list(10), list(3)), consts: []int{1, 2}, types: []graph.DType{graph.Float32, graph.Float64}},
	{op: "Col2Im", attrs: attrs(ints("strides", 2, 2, 2)), in: args(noise(1, 2*8, 2*3*4), list(4, 6, 8), list(2, 2, 2)), consts: []int{1, 2}},
}

// TestUnpoolPlaces: a place outside of the image is reported, and nothing is written there.
func TestUnpoolPlaces(t *testing.T) {
	b := newBench(t)
	b.must(b.kernels.WatchFaults())
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	for _, place := range []int64{-1, 16, 1 << 40, -1 << 63} {
		c := nodeCase{op: "MaxUnpool", attrs: attrs(ints("kernel_shape", 2, 2), ints("strides", 2, 2)), in: args(noise(1, 1, 2, 2), reference.Ints([]int{1, 1, 2, 2}, 0, 2, 8, 10))}
		p := b.prepare(&c, graph.Float32)
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		b.must(b.kernels.ClearFaults())
		b.put(p.n.In[1], 3, place)
		b.must(p.run(nil))
		if node, err := b.kernels.Fault(); node != p.n.Node || err == nil || err.Error() != "place 3: expected one of an image of [1 1 4 4]" {
			t.Errorf("place %d: got fault %v of %v", place, err, node)
		}
	}
}

// TestReversedLengths: a wrong length is reported.
func TestReversedLengths(t *testing.T) {
	b := newBench(t)
	b.must(b.kernels.WatchFaults())
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	for _, length := range []int64{-1, 8, 1 << 40} {
		p := b.prepare(&placeCases[0], graph.Float32)
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		b.must(b.kernels.ClearFaults())
		b.put(p.n.In[1], 2, length)
		b.must(p.run(nil))
		if node, err := b.kernels.Fault(); node != p.n.Node || err == nil || err.Error() != "the length of sequence 2: expected one in [0, 7]" {
			t.Errorf("length %d: got fault %v of %v", length, err, node)
		}
	}
}
