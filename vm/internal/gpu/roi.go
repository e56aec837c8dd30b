package gpu

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// regions lists the operators that pool over regions of an image.
var regions = []Row{
	{Name: "RoiAlign", Make: makeRoiAlign},
	{Name: "MaxRoiPool", Make: makeMaxRoiPool},
}

// alignment is Align of kernels/roi.cu.
type alignment struct {
	Images, Channels, Height, Width, Rows, Columns int32
	Ratio, Largest                                 int32
	Scale, Shift, Least                            float32
}

// mostRatio bounds the samples that attribute sampling_ratio asks of a bin along an axis: a
// kernel cannot be stopped.
const mostRatio = 1 << 7

// regionsOf reads the shapes of images, of regions with width numbers each, and of their bins,
// which are the last two axes of the output.
func regionsOf(x, rois, y *form.Tensor, width int) (s alignment, err error) {
	if x.Type != graph.Float32 && x.Type != graph.Float16 && x.Type != graph.BFloat16 {
		return s, unsupportedf("dtype %v", x.Type)
	}
	if err := needTypes(x.Type, rois, y); err != nil {
		return s, err
	}
	if err := tooLarge(x, y); err != nil {
		return s, err
	}
	if len(x.Shape) != 4 || len(y.Shape) != 4 || rois.Len() != width*y.Shape[0] || y.Shape[1] != x.Shape[1] {
		return s, unsupportedf("regions of shape %v of images of %v", rois.Shape, x.Shape)
	}
	if y.Len() > 0 && count(x.Shape[2:]) == 0 {
		return s, unsupportedf("images without elements")
	}
	return alignment{
		Images: int32(x.Shape[0]), Channels: int32(x.Shape[1]), Height: int32(x.Shape[2]), Width: int32(x.Shape[3]),
		Rows: int32(y.Shape[2]), Columns: int32(y.Shape[3]),
	}, nil
}

// ofImage is the fault of a region whose image is not there.
func (n *Node) ofImage(images int) faults {
	return n.checks(checked{wrong: func(i int) error {
		return fmt.Errorf("the image of region %d: expected a whole number in [0, %d)", i, images)
	}})
}

// makeRoiAlign computes the mean or the maximum of bilinear samples in each bin of each
// region.
func makeRoiAlign(n *Node) error {
	x, y := n.In[0], n.Out[0]
	s, err := regionsOf(x, n.In[1], y, 4)
	if err != nil {
		return err
	}
	if err := needTypes(graph.Int64, n.In[2]); err != nil {
		return err
	}
	ratio := n.Int("sampling_ratio", 0)
	if ratio > mostRatio || n.In[2].Len() != y.Shape[0] {
		return unsupportedf("%d x %d samples for each bin of %d regions", ratio, ratio, n.In[2].Len())
	}
	s.Ratio, s.Scale, s.Shift, s.Least = int32(max(ratio, 0)), n.Float("spatial_scale", 1), 0.5, float32(math.Inf(-1))
	if n.Str("mode", "avg") == "max" {
		s.Largest = 1
	}
	if n.Version < 16 || n.Str("coordinate_transformation_mode", "half_pixel") == "output_half_pixel" {
		s.Shift, s.Least = 0, 1
	}
	if y.Len() == 0 {
		return nil
	}
	at, err := n.addresses(y, x, n.In[1], n.In[2])
	if err != nil {
		return err
	}
	large := n.checks(checked{wrong: func(i int) error {
		return fmt.Errorf("region %d takes more samples for each bin than 2147483648 along an axis (sampling_ratio)", i)
	}})
	return n.launch(n.kernel("roi.cu", "roi_align", "ELEMENT="+cType[x.Type]), blocksFor(y.Len()), threadsPerBlock,
		at[0], at[1], at[2], at[3], s, uint32(y.Len()), n.ofImage(x.Shape[0]), large)
}

// makeMaxRoiPool computes the maximum of each bin of each region.
func makeMaxRoiPool(n *Node) error {
	x, y := n.In[0], n.Out[0]
	s, err := regionsOf(x, n.In[1], y, 5)
	if err != nil || y.Len() == 0 {
		return err
	}
	s.Scale = n.Float("spatial_scale", 1)
	at, err := n.addresses(y, x, n.In[1])
	if err != nil {
		return err
	}
	return n.launch(n.kernel("roi.cu", "max_roi_pool", "ELEMENT="+cType[x.Type]), blocksFor(y.Len()), threadsPerBlock,
		at[0], at[1], at[2], s, uint32(y.Len()), n.ofImage(x.Shape[0]))
}
