package form

import (
	"fmt"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// BlockTable is the table of a GatherBlockQuantized node: numbers of 2, 4 or 8 bits, the
// first in the lowest bits of a byte. Along one axis they lie in blocks, each of which has
// a scale and a zero point. Of bytes, the zero points of a row of the last axis begin with
// a byte.
type BlockTable struct {
	Numbers, Scale, Zero *Tensor // Zero may be nil
	Shape                []int   // of the numbers
	Bits                 int
	Axis, Block          int // of the blocks
	Signed               bool
	Middle               int // the zero point where none is given
	Slices               int // the axis of the indices
}

// BlockTable reads the form of a GatherBlockQuantized node.
func (c *Call) BlockTable() (*BlockTable, error) {
	b := &BlockTable{Numbers: c.In[0], Scale: c.In[2], Zero: c.Input(3), Bits: 4, Block: c.Int("block_size", 128), Slices: c.Int("gather_axis", 0)}
	b.Shape = slices.Clone(b.Numbers.Shape)
	rank := len(b.Shape)
	switch b.Numbers.Type {
	case graph.Uint8:
		if b.Bits = c.Int("bits", 4); b.Bits != 2 && b.Bits != 4 && b.Bits != 8 {
			return nil, Unsupportedf("numbers of %d bits", b.Bits)
		}
		b.Shape[rank-1] *= 8 / b.Bits
		b.Middle = 1 << (b.Bits - 1)
	case graph.Int4, graph.Uint4:
		b.Signed = b.Numbers.Type == graph.Int4
	default:
		return nil, Unsupported(b.Numbers.Type)
	}
	if b.Axis = c.Int("quantize_axis", 1); b.Axis < 0 {
		b.Axis += rank
	}
	if b.Axis < 0 || b.Axis >= rank {
		return nil, fmt.Errorf("quantize_axis is %d, expected one in [%d, %d)", c.Int("quantize_axis", 1), -rank, rank)
	}
	if b.Block < 16 || b.Block&(b.Block-1) != 0 || b.Block > 1<<20 {
		return nil, fmt.Errorf("block_size is %d, expected a power of 2 from 16 to %d", b.Block, 1<<20)
	}
	shape := slices.Clone(b.Shape)
	shape[b.Axis] = (shape[b.Axis] + b.Block - 1) / b.Block
	if !slices.Equal(b.Scale.Shape, shape) {
		return nil, fmt.Errorf("scales have shape %v, expected %v for numbers of shape %v and blocks of %d along axis %d", b.Scale.Shape, shape, b.Shape, b.Block, b.Axis)
	}
	if b.Zero != nil {
		if b.Numbers.Type == graph.Uint8 {
			shape[rank-1] = (shape[rank-1]*b.Bits + 7) / 8
		}
		if b.Zero.Type != b.Numbers.Type || !slices.Equal(b.Zero.Shape, shape) {
			return nil, fmt.Errorf("zero points are %v of shape %v, expected %v of shape %v", b.Zero.Type, b.Zero.Shape, b.Numbers.Type, shape)
		}
	}
	if b.Slices < 0 {
		b.Slices += rank
	}
	if b.Scale.Type != graph.Float32 && !IsHalf(b.Scale) {
		return nil, Unsupported(b.Scale.Type)
	}
	return b, nil
}
