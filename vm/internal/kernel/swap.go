package kernel

import "github.com/onnxmem/onnxmem/graph"

// swaps are the transfers to a host and back, where they run like other nodes: on
// tensors that lie apart, or in a body.
var swaps = family{graph.SwapDomain, []Kernel{
	{Name: graph.SwapOut, Make: makeCopy, Half: true},
	{Name: graph.SwapIn, Make: makeCopy, Half: true},
}}
