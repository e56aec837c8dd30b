package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// layouts lists the operators that change the shape or the order of the elements.
var layouts = []Row{
	{Name: "Reshape", Make: makeCopy},
	{Name: "Flatten", Make: makeCopy},
	{Name: "Squeeze", Make: makeCopy},
	{Name: "Unsqueeze", Make: makeCopy},
	{Name: "Transpose", Make: moving(kernel.TransposeMoves)},
	{Name: "DepthToSpace", Make: moving(kernel.DepthToSpaceMoves)},
	{Name: "SpaceToDepth", Make: moving(kernel.SpaceToDepthMoves)},
	{Name: "Concat", Make: moving(kernel.ConcatMoves)},
	{Name: "Split", Make: moving(kernel.SplitMoves)},
	{Name: "Slice", Make: moving(kernel.SliceMoves)},
	{Name: "Tile", Make: moving(kernel.TileMoves)},
	{Name: "Crop", Make: moving(kernel.CropMoves)},
	{Name: "CenterCropPad", Make: makeCenterCropPad},
}

// putting lists the operator that writes rows into a tensor.
var putting = []Row{{Name: graph.PutRows, Make: moving(kernel.PutRowsMoves)}}

// makeCenterCropPad fills the output with zeros before it copies.
func makeCenterCropPad(n *Node) error {
	at, err := n.addresses(n.Out[0], n.In[0])
	if err != nil || at[0] == at[1] {
		return err
	}
	n.zero(at[0], int64(n.Out[0].Bytes()))
	return moving(kernel.CenterCropPadMoves)(n)
}
