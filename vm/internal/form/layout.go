package form

import (
	"fmt"

	"github.com/onnxmem/onnxmem/ops/attr"
)

// TransposeMoves is the copy of a Transpose.
func TransposeMoves(c *Call) ([]Move, error) {
	in := c.In[0]
	perm, err := attr.Permutation(c.Node, in.Rank())
	if err != nil {
		return nil, err
	}
	from := make([]int, len(perm))
	s := Strides(in.Shape)
	for i, a := range perm {
		from[i] = s[a]
	}
	return moveOf(c.Out[0].Shape, from, 0), nil
}

// DepthToSpaceMoves moves the b·b elements of a block from channels to height and
// width. The channels consist of block rows, block columns and the channels of the
// result, in this order (mode DCR) or with the latter first (CRD).
func DepthToSpaceMoves(c *Call) ([]Move, error) {
	b := c.Int("blocksize", 0)
	out := c.Out[0].Shape
	channels := out[1]
	// The axes of the result: image, channel, row, block row, column, block column.
	shape := []int{out[0], channels, out[2] / b, b, out[3] / b, b}
	s := Strides(c.In[0].Shape)
	from := []int{s[0], s[1], s[2], b * channels * s[1], s[3], channels * s[1]}
	if c.Str("mode", "DCR") == "CRD" {
		from[1], from[3], from[5] = b*b*s[1], b*s[1], s[1]
	}
	return c.moveBlocks(shape, from)
}

// SpaceToDepthMoves is the inverse of DepthToSpaceMoves.
func SpaceToDepthMoves(c *Call) ([]Move, error) {
	b := c.Int("blocksize", 0)
	in, out := c.In[0].Shape, c.Out[0].Shape
	s := Strides(in)
	// The axes of the result: image, block row, block column, channel, row, column.
	shape := []int{out[0], b, b, in[1], out[2], out[3]}
	from := []int{s[0], s[2], s[3], s[1], b * s[2], b * s[3]}
	if c.Str("mode", "DCR") == "CRD" {
		shape = []int{out[0], in[1], b, b, out[2], out[3]}
		from = []int{s[0], s[1], s[2], s[3], b * s[2], b * s[3]}
	}
	return c.moveBlocks(shape, from)
}

// moveBlocks writes the elements of input 0 in the order of the given axes.
func (c *Call) moveBlocks(shape, from []int) ([]Move, error) {
	in, out := c.In[0], c.Out[0]
	if Count(shape) != out.Len() || in.Len() != out.Len() {
		return nil, fmt.Errorf("shape %v, expected blocks of those of %v", out.Shape, in.Shape)
	}
	return moveOf(shape, from, 0), nil
}
