package ops

import "github.com/onnxmem/onnxmem/graph"

// swaps lists the operators that move a tensor out of the arena and back. In a
// model they are functions whose body is Identity, but they always copy: their
// result is never a view.
var swaps = family{graph.SwapDomain, []Op{
	{Name: graph.SwapOut, Class: Move, Infer: inferIdentity, Fold: foldSame},
	{Name: graph.SwapIn, Class: Move, Infer: inferIdentity, Fold: foldSame},
}}
