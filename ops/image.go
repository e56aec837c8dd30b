package ops

import (
	"github.com/onnxmem/onnxmem/graph"
)

// images decode images and select boxes in them.
var images = family{"", []Op{
	{Name: "ImageDecoder", Class: Other, Infer: imageDecoder},
	{Name: "NonMaxSuppression", Class: Other, Infer: nonMaxSuppression},
}}

// imageDecoder: [height width channels]; the encoded image holds the first two.
func imageDecoder(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.WantRank(0, 1); err != nil {
		return err
	}
	format, err := c.OneOf("pixel_format", "RGB", "RGB", "BGR", "Grayscale")
	if err != nil {
		return err
	}
	channels := graph.Dim(3)
	if format == "Grayscale" {
		channels = 1
	}
	c.Set(0, graph.Uint8, []graph.Dim{graph.Unknown, graph.Unknown, channels})
	return nil
}

// nonMaxSuppression selects at most max_output_boxes_per_class (0 if left out)
// boxes per image and class. Boxes [batch boxes 4], scores [batch classes boxes];
// each result is an image, a class and a box.
func nonMaxSuppression(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	batch, boxes := TakeDim(c.DimOf(0, 0), c.DimOf(1, 0)), TakeDim(c.DimOf(0, 1), c.DimOf(1, 2))
	if err := c.WantShape(0, "batch, boxes, 4", batch, boxes, 4); err != nil {
		return err
	}
	if err := c.WantShape(1, "batch, classes, boxes", batch, graph.Unknown, boxes); err != nil {
		return err
	}
	each := graph.Dim(0)
	if c.Has(2) {
		each = boxes
		if v := c.In[2].Value; v != nil && len(v.Elems) == 1 {
			switch e := v.Elems[0]; {
			case e.State == Known && e.I <= 0:
				each = 0
			case e.State != Hidden:
				each = TakeDim(graph.AtMost(max(e.I, 0)), boundOf(boxes))
			}
		}
	}
	selected := boundOf(MulDims(MulDims(batch, c.DimOf(1, 1)), each))
	if selected == graph.AtMost(0) {
		selected = 0
	}
	c.Set(0, graph.Int64, []graph.Dim{selected, 3})
	return nil
}

// boundOf is the largest length that d can have.
func boundOf(d graph.Dim) graph.Dim {
	if n, ok := d.Max(); ok {
		return graph.AtMost(n)
	}
	return graph.Unknown
}
