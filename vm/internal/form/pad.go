package form

import (
	"fmt"

	"github.com/onnxmem/onnxmem/ops/attr"
)

// PadsBefore returns the number of elements that are added in front of each axis, or,
// if negative, cropped.
func (c *Call) PadsBefore(rank int) ([]int, error) {
	pads, err := c.ListOr("pads", 1)
	if list := c.Ints("paddings"); list != nil && c.Version == 1 {
		pads, err = list, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := c.Value(3)
	if err != nil {
		return nil, err
	}
	axes, err := attr.Axes("axes", toInt64s(list), rank)
	if err != nil {
		return nil, err
	}
	before := make([]int, rank)
	for i := range len(pads) / 2 {
		a := i
		if list != nil {
			a = axes[i]
		}
		before[a] = pads[i]
	}
	return before, nil
}

// Crop applies the negative lengths of a Pad, which come first. It returns the lengths that
// are left of the input and the position of the first element that is left, and sets the
// negative elements of before to 0.
func Crop(in, out, before, strides []int, mode string) (kept []int, skip int, err error) {
	for a, n := range in {
		front, after := max(-before[a], 0), out[a]-n-before[a]
		left := max(n-front-max(-after, 0), 0)
		if left == 0 && out[a] > 0 && mode != "constant" {
			return nil, 0, fmt.Errorf("axis %d of %d elements is cropped to none and padded with mode %s: expected elements that are left to copy", a, n, mode)
		}
		kept, skip = append(kept, left), skip+front*strides[a]
		before[a] = max(before[a], 0)
	}
	return kept, skip, nil
}

// CenterCropPadMoves is the copy of the elements that stay. Both ends of an axis are
// cropped or padded; if the number is odd, the front gets the smaller half.
func CenterCropPadMoves(c *Call) ([]Move, error) {
	in, out := c.In[0], c.Out[0]
	m := Move{Shape: make([]int, in.Rank()), From: Strides(in.Shape), To: Strides(out.Shape)}
	for a := range m.Shape {
		m.Shape[a] = min(in.Shape[a], out.Shape[a])
		m.FromOff += (in.Shape[a] - m.Shape[a]) / 2 * m.From[a]
		m.ToOff += (out.Shape[a] - m.Shape[a]) / 2 * m.To[a]
	}
	return []Move{m}, nil
}
