package gpu

import (
	"github.com/onnxmem/onnxmem/vm/internal/kernel"
)

// layouts lists the operators that change the shape or the order of the elements.
var layouts = []Row{
	{Name: "Reshape", Make: makeCopy},
	{Name: "Flatten", Make: makeCopy},
	{Name: "Squeeze", Make: makeCopy},
	{Name: "Unsqueeze", Make: makeCopy},
	{Name: "Identity", Make: makeCopy},
	{Name: "BitCast", Make: makeCopy},
	{Name: "Transpose", Make: moving(kernel.TransposeMoves)},
	{Name: "DepthToSpace", Make: moving(kernel.DepthToSpaceMoves)},
	{Name: "SpaceToDepth", Make: moving(kernel.SpaceToDepthMoves)},
	{Name: "Concat", Make: moving(kernel.ConcatMoves)},
	{Name: "Split", Make: moving(kernel.SplitMoves)},
	{Name: "Slice", Make: moving(kernel.SliceMoves)},
	{Name: "Expand", Make: moving(kernel.ExpandMoves)},
	{Name: "Tile", Make: moving(kernel.TileMoves)},
	{Name: "Crop", Make: moving(kernel.CropMoves)},
	{Name: "CenterCropPad", Make: makeCenterCropPad},
}

// makeCopy copies input 0, whatever its shape, unless the output is a view of it.
func makeCopy(n *Node) error {
	in, out := n.In[0], n.Out[0]
	if in.Bytes() != out.Bytes() {
		return unsupportedf("an output of %d bytes and an input of %d", out.Bytes(), in.Bytes())
	}
	at, err := n.addresses(out, in)
	if err != nil {
		return err
	}
	n.copy(at[0], at[1], int64(out.Bytes()))
	return nil
}

// makeCenterCropPad fills the output with zeros before it copies.
func makeCenterCropPad(n *Node) error {
	at, err := n.addresses(n.Out[0], n.In[0])
	if err != nil || at[0] == at[1] {
		return err
	}
	n.zero(at[0], int64(n.Out[0].Bytes()))
	return moving(kernel.CenterCropPadMoves)(n)
}
