package gpu

import "github.com/onnxmem/onnxmem/vm/internal/form"

// layouts lists the operators that change the shape or the order of the elements.
var layouts = []Row{
	{Name: "Reshape", Make: makeCopy},
	{Name: "Flatten", Make: makeCopy},
	{Name: "Squeeze", Make: makeCopy},
	{Name: "Unsqueeze", Make: makeCopy},
	{Name: "Transpose", Make: moving(form.TransposeMoves)},
	{Name: "DepthToSpace", Make: moving(form.DepthToSpaceMoves)},
	{Name: "SpaceToDepth", Make: moving(form.SpaceToDepthMoves)},
}
