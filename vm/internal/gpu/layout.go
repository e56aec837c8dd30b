package gpu

import "github.com/onnxmem/onnxmem/vm/internal/kernel"

// layouts lists the operators that change the shape or the order of the elements.
var layouts = []Row{
	{Name: "Reshape", Make: makeCopy},
	{Name: "Flatten", Make: makeCopy},
	{Name: "Squeeze", Make: makeCopy},
	{Name: "Unsqueeze", Make: makeCopy},
	{Name: "Transpose", Make: moving(kernel.TransposeMoves)},
	{Name: "DepthToSpace", Make: moving(kernel.DepthToSpaceMoves)},
	{Name: "SpaceToDepth", Make: moving(kernel.SpaceToDepthMoves)},
}
