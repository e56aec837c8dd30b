package ops

import "github.com/onnxmem/onnxmem/graph"

// swaps is the operators by which a tensor leaves the arena and returns. A model
// has them as functions whose bodies are Identity; what they make is a copy all
// the same, never a view.
var swaps = family{graph.SwapDomain, []Op{
	{Name: graph.SwapOut, Infer: inferIdentity, Fold: foldSame},
	{Name: graph.SwapIn, Infer: inferIdentity, Fold: foldSame},
}}
