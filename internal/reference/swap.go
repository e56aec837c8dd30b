package reference

import "github.com/onnxmem/onnxmem/graph"

// Transfers to host memory and back.
var swapOperators = []operator{
	{graph.SwapOut, func(c *evaluation) []*Tensor { return one(c.x(0)) }},
	{graph.SwapIn, func(c *evaluation) []*Tensor { return one(c.x(0)) }},
}
