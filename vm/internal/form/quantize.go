package form

import (
	"github.com/onnxmem/onnxmem/ops/attr"
)

// Scales finds the scale and zero point of an element: there is one for all elements,
// one for each position along an axis, or one for each block of positions.
type Scales struct {
	Axis, N, Inner int // the axis, its length, the product of the lengths after it
	PerAxis        bool
	Block          int // positions along the axis that share a scale; 0: no blocks
}

// ScalesOf finds the scales of x.
func ScalesOf(c *Call, x, scale *Tensor) (*Scales, error) {
	s := &Scales{Inner: 1, N: 1}
	block := 0
	if c.Version >= 21 {
		block = c.Int("block_size", 0)
	}
	if scale.Len() == 1 && (block == 0 || scale.Rank() < 2) {
		return s, nil
	}
	at := c.Int("axis", 1)
	if x.Rank() == 1 && block == 0 {
		at = 0
	}
	k, err := attr.Axis("axis", int64(at), x.Rank())
	if err != nil {
		return nil, err
	}
	s.Axis, s.N, s.Inner = k, x.Shape[k], Count(x.Shape[k+1:])
	s.Block, s.PerAxis = min(block, s.N), block == 0
	return s, nil
}

// ScaleAxis is the axis of input 0 along which each position has a scale of its own in
// input 1; -1 if all elements have the same one. blocks reports that blocks of positions
// share scales.
func (c *Call) ScaleAxis() (axis int, blocks bool, err error) {
	s, err := ScalesOf(c, c.In[0], c.In[1])
	switch {
	case err != nil:
		return 0, false, err
	case s.PerAxis:
		return s.Axis, false, nil
	}
	return -1, s.Block > 0, nil
}
