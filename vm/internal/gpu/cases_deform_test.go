package gpu

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func init() {
	cases = append(cases, deformCases...)
}

var deformCases = []nodeCase{
	{op: "DeformConv", version: 19, attrs: attrs(ints("pads", 1, 1, 1, 1)), in: args(noise(3, 6, 9, 8), noise(8, 6, 3, 3), noise(3, 18, 9, 8), noise(8), positive(3, 9, 9, 8)), tolerance: 1e-5, types: inSingle},
	{op: "DeformConv", version: 19, attrs: attrs(whole("group", 2), whole("offset_group", 3), ints("strides", 2, 1), ints("dilations", 1, 2)), in: args(noise(2, 6, 10, 11), noise(4, 3, 3, 2), noise(2, 36, 4, 9), noise(4)), tolerance: 1e-5, types: inSingle},
	{op: "DeformConv", version: 19, in: args(noise(1, 2, 7, 7), noise(3, 2, 2, 2), noise(1, 8, 6, 6)), tolerance: 1e-5},
}

// TestDeformConvInParts: the result is the same if the matrices of the images do not fit into
// scratch together.
func TestDeformConvInParts(t *testing.T) {
	was := deformBytes
	t.Cleanup(func() { deformBytes = was })
	for _, deformBytes = range []int{1, 2 * 6 * 9 * 9 * 8 * 4} { // one image, two of three
		b := newBench(t)
		p := b.prepare(&deformCases[0], graph.Float32)
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		b.check(t, p)
	}
}
