package form

import (
	"slices"
)

// LegacyShape is the shape of input 1 for which numpy's rule broadcasts as opsets before
// 7 do. It appends axes of length 1, one for each axis of input 0 that follows. The axes
// of input 1 are the last ones of input 0, or begin at attribute axis; the slopes of
// PRelu belong to axis 1, the channels.
func (c *Call) LegacyShape() []int {
	rank, right := c.In[0].Rank(), c.In[1]
	if right.Len() == 1 {
		return []int{}
	}
	behind := 0
	switch at := c.Node.Attr("axis"); {
	case c.Node.Op == "PRelu":
		return append([]int{right.Len()}, slices.Repeat([]int{1}, max(0, rank-2))...)
	case at != nil && c.Int("broadcast", 0) != 0:
		k := int(at.Int)
		if k < 0 {
			k += rank
		}
		behind = max(0, rank-k-right.Rank())
	}
	return append(slices.Clone(right.Shape), slices.Repeat([]int{1}, behind)...)
}
