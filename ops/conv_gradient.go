package ops

import "github.com/onnxmem/onnxmem/graph"

// convGradients lists the gradient of a convolution's weights. In a model it is a function
// (graph.ConvWeightGrad).
var convGradients = family{graph.SwapDomain, []Op{
	{Name: graph.ConvWeightGrad, Class: Product, Infer: inferConvWeightGrad, Cut: cutConvWeightGrad, Sum: sumConvWeightGrad, FLOPs: convWeightGradFLOPs},
}}

// inferConvWeightGrad: image [N C D1…] and the gradient [N M O1…] of the result give that of
// the weights [M C/group K1…], where the attribute kernel_shape is K1…. The result may be
// shorter than that of the convolution, whose last windows are then left out.
func inferConvWeightGrad(c *Call) error {
	if err := c.takes(2, 2); err != nil {
		return err
	}
	if err := c.sameElem(0, 1); err != nil {
		return err
	}
	for i := range 2 {
		if err := c.MinRank(i, 3); err != nil {
			return err
		}
	}
	for _, name := range []string{"dilations", "group", "kernel_shape", "pads", "strides"} {
		if !c.HasAttr(name) {
			return c.Errf("attribute %s is missing: expected all of the convolution", name)
		}
	}
	if c.HasAttr("auto_pad") {
		return c.Errf("found attribute auto_pad: expected the padding in pads")
	}
	group, err := c.Positive("group", 1)
	if err != nil {
		return err
	}
	win, err := c.poolWindow()
	if err != nil {
		return err
	}
	spatial := len(win.Kernel)
	for i := range 2 {
		if err := c.WantRank(i, spatial+2); err != nil {
			return err
		}
	}
	channels, m := c.DimOf(0, 1), c.DimOf(1, 1)
	if differ(c.DimOf(0, 0), c.DimOf(1, 0)) {
		return c.BadInput(1, "as many images as input 0 %s", graph.ShapeString(c.In[0].Shape))
	}
	for i, n := range []graph.Dim{channels, m} {
		if n.Exact() && int64(n)%group != 0 {
			return c.BadInput(i, "a multiple of group %d as channels", group)
		}
	}
	for i := range spatial {
		places, made := win.slide(i, c.DimOf(0, 2+i)), c.DimOf(1, 2+i)
		if places.Exact() && made.Exact() && made > places {
			return c.BadInput(1, "at most %s along spatial axis %d: the kernel has no more places", places, i)
		}
	}
	if !channels.Exact() {
		c.Set(0, c.In[0].Elem, append([]graph.Dim{m, graph.Unknown}, win.Kernel...))
		return nil
	}
	c.Set(0, c.In[0].Elem, append([]graph.Dim{m, graph.Dim(int64(channels) / group)}, win.Kernel...))
	return nil
}

// convWeightGradFLOPs counts what the convolution itself takes: a multiply-add for each
// element of the result, channel of the group and element of the kernel.
func convWeightGradFLOPs(c *Call) int64 {
	return opCount(2, elements(c.In[1].Type), countOf(c.OutType(0).Shape[1:]))
}

// cutConvWeightGrad: without groups, the channels of the result and those of the image.
func cutConvWeightGrad(c *Call, axis int) *Cut {
	if axis > 1 || c.Int("group", 1) != 1 {
		return nil
	}
	cut := c.cut(axis)
	i := 1 - axis
	cut.In[i] = Same(1, c.length(i, 1))
	return cut
}

// sumConvWeightGrad: the sum over images.
func sumConvWeightGrad(c *Call, _ []int) *Sum {
	n := c.length(0, 0)
	return &Sum{By: "Add", In: []Rows{Same(0, n), Same(0, n)}, Length: n}
}
