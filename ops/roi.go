package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// regions pool over regions of an image.
var regions = family{"", []Op{
	{Name: "RoiAlign", Class: Window, Infer: roiAlign, Cut: cutRoiAlign, Check: checkRoiAlign},
	{Name: "MaxRoiPool", Class: Window, Infer: maxRoiPool},
}}

// roiAlign covers RoiAlign: image [N C H W], regions [R 4], their images [R].
func roiAlign(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	height, err := c.Positive("output_height", 1)
	if err != nil {
		return err
	}
	width, err := c.Positive("output_width", 1)
	if err != nil {
		return err
	}
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	regions := TakeDim(c.DimOf(1, 0), c.DimOf(2, 0))
	if err := c.WantShape(1, "a box per region", regions, 4); err != nil {
		return err
	}
	if err := c.WantShape(2, "an image per region", regions); err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{regions, c.DimOf(0, 1), graph.Dim(height), graph.Dim(width)})
	return nil
}

// mostSamples limits sampling_ratio: each bin is the mean of that number squared.
const mostSamples = 1 << 10

// checkRoiAlign limits the work per bin.
func checkRoiAlign(c *Call) error {
	if _, err := c.OneOf("mode", "avg", "avg", "max"); err != nil {
		return err
	}
	if _, err := c.OneOf("coordinate_transformation_mode", "half_pixel", "half_pixel", "output_half_pixel"); err != nil {
		return err
	}
	if n := c.Int("sampling_ratio", 0); n > mostSamples {
		return c.Errf("sampling_ratio is %d, expected at most %d", n, mostSamples)
	}
	if slices.Contains(c.In[0].Shape[2:], 0) {
		return c.BadInput(0, "elements on both spatial axes")
	}
	return nil
}

// maxRoiPool covers MaxRoiPool: image [N C H W], regions [R 5].
func maxRoiPool(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	if len(c.Ints("pooled_shape")) == 0 {
		return c.Errf("pooled_shape is missing: expected a height and a width")
	}
	pooled, err := attr.List(c.Node, "pooled_shape", 2, 1, 1)
	if err != nil {
		return err
	}
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	if err := c.WantShape(1, "an image and a box per region", graph.Unknown, 5); err != nil {
		return err
	}
	c.Set(0, c.In[0].Elem, []graph.Dim{c.DimOf(1, 0), c.DimOf(0, 1), graph.Dim(pooled[0]), graph.Dim(pooled[1])})
	return nil
}

// cutRoiAlign: regions and channels.
func cutRoiAlign(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	switch axis {
	case 0:
		cut.In[1], cut.In[2] = Same(0, c.length(1, 0)), Same(0, c.length(2, 0))
	case 1:
		cut.In[0] = Same(1, c.length(0, 1))
	default:
		return nil
	}
	return cut
}
