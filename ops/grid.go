package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// grids lists the operators that sample an image at positions given by an input.
var grids = family{"", []Op{
	{Name: "GridSample", Class: Window, Infer: inferGridSample, Cut: cutGridSample, Check: checkGridSample},
	{Name: "AffineGrid", Class: Other, Infer: inferAffineGrid},
}}

// inferGridSample: batch and channels of the image, positions of the grid.
func inferGridSample(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	x, grid := c.In[0], c.In[1]
	if err := c.MinRank(0, 3); err != nil {
		return err
	}
	if !x.Ranked || !grid.Ranked {
		c.SetUnranked(0, x.Elem)
		return nil
	}
	rank := len(x.Shape)
	if err := c.WantRank(1, rank); err != nil {
		return err
	}
	if differ(grid.Shape[rank-1], graph.Dim(rank-2)) || differ(grid.Shape[0], x.Shape[0]) {
		return c.BadInput(1, "%v on axis 0 and %d on the last to match input 0 %s", x.Shape[0], rank-2, graph.ShapeString(x.Shape))
	}
	shape := append([]graph.Dim{TakeDim(x.Shape[0], grid.Shape[0]), x.Shape[1]}, grid.Shape[1:rank-1]...)
	c.Set(0, x.Elem, shape)
	return nil
}

// checkGridSample: the images must have elements.
func checkGridSample(c *Call) error {
	if _, err := c.OneOf("mode", "linear", "linear", "bilinear", "nearest", "cubic", "bicubic"); err != nil {
		return err
	}
	if _, err := c.OneOf("padding_mode", "zeros", "zeros", "border", "reflection"); err != nil {
		return err
	}
	if slices.Contains(c.In[0].Shape[2:], 0) {
		return c.BadInput(0, "elements on every spatial axis")
	}
	return nil
}

// inferAffineGrid: theta is [N,2,3] or [N,3,4], size is the shape of the image;
// the grid has a position for each pixel.
func inferAffineGrid(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	size, err := c.list("", 1)
	if err != nil {
		return err
	}
	if err := c.WantRank(0, 3); err != nil {
		return err
	}
	n := len(size.elems)
	if size.counted && n != 4 && n != 5 {
		return c.Errf("size has %d elements, expected 4 (N, C, H, W) or 5", n)
	}
	if rows := c.DimOf(0, 1); !size.counted && (rows == 2 || rows == 3) {
		n = int(rows) + 2
	}
	if n == 0 {
		c.SetUnranked(0, c.In[0].Elem)
		return nil
	}
	shape := unknowns(n)
	if size.counted {
		for i, e := range size.elems {
			if e.State == Known && e.I < 0 {
				return c.Errf("size has %d for axis %d, expected a length", e.I, i)
			}
			shape[i] = e.Dim()
		}
	}
	batch := shape[0]
	if err := c.WantShape(0, "as size says", batch, graph.Dim(n-2), graph.Dim(n-1)); err != nil {
		return err
	}
	grid := append([]graph.Dim{TakeDim(batch, c.DimOf(0, 0))}, shape[2:]...)
	c.Set(0, c.In[0].Elem, append(grid, graph.Dim(n-2)))
	return nil
}

// cutGridSample: images, channels, and positions of the grid [N H W … n].
func cutGridSample(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	if axis < 2 {
		cut.In[0] = Same(axis, c.length(0, axis))
	}
	switch {
	case axis == 0:
		cut.In[1] = Same(0, c.length(1, 0))
	case axis > 1:
		cut.In[1] = Same(axis-1, c.length(1, axis-1))
	}
	return cut
}
