package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

func init() { cases = append(cases, bitCases...) }

// bitWeights returns the attributes of a MatMulNBits node.
func bitWeights(n, k, bits, block int64) []*graph.Attr {
	return attrs(whole("N", n), whole("K", k), whole("bits", bits), whole("block_size", block))
}

// bitsCase is a product of rows and weights of few bits, with packed zero points if they are
// wanted; more are real zero points, a group index and a bias.
func bitsCase(rows, n, k, bits, block int, packed bool, more ...*reference.Tensor) nodeCase {
	blocks := cuts(k, block)
	in := args(noise(rows, k), bytes8(n, blocks, block*bits/8), positive(n*blocks))
	if packed {
		in = append(in, bytes8(n*cuts(blocks*bits, 8)))
	}
	return nodeCase{op: "com.microsoft.MatMulNBits", version: 1, types: halfAndSingle, attrs: bitWeights(int64(n), int64(k), int64(bits), int64(block)), in: append(in, more...)}
}

// only is a case with reals of one dtype: the compiler takes seconds for a file of products.
func only(d graph.DType, c nodeCase) nodeCase {
	c.types = []graph.DType{d}
	return c
}

var bitCases = []nodeCase{
	bitsCase(1, 70, 1100, 4, 32, false),
	bitsCase(1, 2120, 64, 4, 32, true),
	bitsCase(1, 4230, 33, 4, 16, true, nil, noise(4230)),
	bitsCase(2, 2120, 96, 4, 64, true),
	bitsCase(3, 4230, 32, 4, 32, false),
	bitsCase(8, 37, 3000, 4, 128, true, nil, noise(37)),
	bitsCase(13, 2120, 70, 4, 32, true),
	bitsCase(2, 9, 70, 4, 16, false, noise(9*5)),
	bitsCase(1, 9, 700, 8, 64, true),
	bitsCase(4, 9, 70, 8, 16, false, nil, nil, noise(9)),
	bitsCase(1, 9, 3000, 2, 32, true),
	bitsCase(5, 9, 70, 2, 16, false, noise(9*5)),
	bitsCase(40, 70, 1100, 4, 32, true, nil, noise(70)),
	bitsCase(17, 70, 33, 4, 16, false),
	only(graph.Float16, bitsCase(20, 68, 70, 8, 32, true)),
	only(graph.BFloat16, bitsCase(20, 9, 70, 2, 16, false, noise(9*5))),
	{ // a vector; the device does not round it, and the host does
		op: "com.microsoft.MatMulNBits", version: 1, onHost: 1e-2, attrs: append(bitWeights(9, 96, 4, 32), whole("accuracy_level", 4)),
		in: args(noise(96), bytes8(9, 3, 16), positive(27)),
	},

	{
		op: "com.microsoft.GatherBlockQuantized", version: 1, types: halfAndSingle, attrs: attrs(whole("block_size", 16)),
		in: args(bytes8(7, 20), reference.Ints([]int{2, 2}, 6, -7, 9, 3), noise(7, 3), bytes8(7, 2)),
	},
	{op: "com.microsoft.GatherBlockQuantized", version: 1, attrs: attrs(whole("block_size", 32), whole("bits", 2)), in: args(bytes8(7, 20), below(7, 5), noise(7, 3))},
	{ // blocks along the axis in the middle, and slices of the last one
		op: "com.microsoft.GatherBlockQuantized", version: 1, attrs: attrs(whole("block_size", 16), whole("bits", 8), whole("gather_axis", 2)),
		in: args(bytes8(3, 33, 70), below32(70, 2), noise(3, 3, 70), bytes8(3, 3, 70)),
	},
	{
		op: "com.microsoft.GatherBlockQuantized", version: 1, attrs: attrs(whole("block_size", 16), whole("quantize_axis", -2), whole("gather_axis", 1)),
		in: args(wholes(graph.Int4, -8, 8, 3, 33, 5), below(33, 9), noise(3, 3, 5), wholes(graph.Int4, -8, 8, 3, 3, 5)),
	},
	{op: "com.microsoft.GatherBlockQuantized", version: 1, attrs: attrs(whole("block_size", 16)), in: args(wholes(graph.Uint4, 0, 16, 6, 39), below(6, 3), noise(6, 3))},
}
