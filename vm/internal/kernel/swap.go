package kernel

import "github.com/onnxmem/onnxmem/graph"

// swaps lists the transfers to a host and back. These kernels run them in the
// foreground, for example in a session with separate tensors.
var swaps = family{graph.SwapDomain, []Kernel{
	{Name: graph.SwapOut, Make: makeCopy, Half: true},
	{Name: graph.SwapIn, Make: makeCopy, Half: true},
}}
