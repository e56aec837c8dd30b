package ops

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/ops/attr"
)

// blockedImages lists the operators that ONNX Runtime writes with all of its
// optimizations, for images whose channels are divided into blocks (attr.Nchwc).
var blockedImages = family{attr.Nchwc, []Op{
	{Name: "ReorderInput", Class: Move, Infer: reorderInput},
	{Name: "ReorderOutput", Class: Move, Infer: reorderOutput, Check: checkBlocked},
	{Name: "Conv", Class: Product, Form: Channels, Infer: convAs(0, 1, 2, channelsFirst), Inplace: overAddend, FLOPs: convFLOPs(1), Check: checkFusedConv},
	{Name: "MaxPool", Class: Window, Form: Planes, Infer: poolAs(channelsFirst), FLOPs: poolFLOPs, Check: checkBlocked},
	{Name: "AveragePool", Class: Window, Form: Planes, Infer: poolAs(channelsFirst), FLOPs: poolFLOPs, Check: checkBlocked},
	{Name: "GlobalMaxPool", Class: Window, Infer: globalPool, FLOPs: perElement(1), Check: checkBlocked},
	{Name: "GlobalAveragePool", Class: Window, Form: Planes, Infer: globalPool, FLOPs: perElement(1), Check: checkBlocked},
	{Name: "Upsample", Class: Window, Infer: upsampleBlocked, Check: checkBlocked},
}}

// reorderInput divides the channels of an image into blocks. If they do not fill the
// last block, the convolution that reads them says how many there are with padding.
func reorderInput(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	t := c.In[0].Type
	if !t.Ranked {
		c.Set(0, t.Elem, unknowns(4))
		return nil
	}
	l := imageLayout(c.Int("channels_last", 0) != 0)
	channels, spatial := l.split(t.Shape)
	padded, err := c.paddedChannels(channels)
	if err != nil {
		return err
	}
	c.Set(0, t.Elem, channelsFirst.join(t.Shape[0], padded, spatial))
	return nil
}

// paddedChannels returns the channels of output 0 of ReorderInput.
func (c *Call) paddedChannels(channels graph.Dim) (graph.Dim, error) {
	if !channels.Exact() || channels%16 == 0 {
		return channels, nil
	}
	if c.Graph != nil && len(c.Node.Outputs) > 0 && c.Node.Outputs[0] >= 0 {
		for _, reader := range c.Graph.Tensors[c.Node.Outputs[0]].Readers {
			n := c.Graph.Nodes[reader]
			shape := attr.NchwcWeights(c.Graph, n)
			if shape == nil || n.Inputs[0] != c.Node.Outputs[0] {
				continue
			}
			if most := graph.Dim(clampMul(shape[1], attr.Int(n, "group", 1))); most >= channels && most < channels+16 {
				return most, nil
			}
		}
	}
	block := graph.Dim(attr.NchwcBlock(c.Graph))
	if block == 0 {
		return 0, c.BadInput(0, "a multiple of 16 channels, as the graph does not show how long the blocks of its channels are")
	}
	return MulDims((channels-1)/block+1, block), nil
}

// reorderOutput leads back; attribute channels counts those without padding.
func reorderOutput(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	channels, err := c.Positive("channels", 0)
	if err != nil {
		return err
	}
	t := c.In[0].Type
	if !t.Ranked {
		c.Set(0, t.Elem, unknowns(4))
		return nil
	}
	if have := t.Shape[1]; have.Exact() && (int64(have) < channels || int64(have) >= channels+16) {
		return c.BadInput(0, "%d channels, padded by less than a block", channels)
	}
	l := imageLayout(c.Int("channels_last", 0) != 0)
	c.Set(0, t.Elem, l.join(t.Shape[0], graph.Dim(channels), slices.Clone(t.Shape[2:])))
	return nil
}

// upsampleBlocked repeats or interpolates the elements along the last two axes.
func upsampleBlocked(c *Call) error {
	if err := c.takes(1, 1); err != nil {
		return err
	}
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	scales := c.Ints("scales")
	if len(scales) != 4 || scales[0] != 1 || scales[1] != 1 || scales[2] < 1 || scales[3] < 1 {
		return c.Errf("scales are %v, expected four: 1, 1, and two of at least 1", scales)
	}
	t := c.In[0].Type
	if !t.Ranked {
		c.Set(0, t.Elem, unknowns(4))
		return nil
	}
	c.Set(0, t.Elem, []graph.Dim{t.Shape[0], t.Shape[1], MulDims(t.Shape[2], graph.Dim(scales[2])), MulDims(t.Shape[3], graph.Dim(scales[3]))})
	return nil
}

// checkBlocked: the image has two spatial axes, and whole blocks of channels.
func checkBlocked(c *Call) error {
	if err := c.WantRank(0, 4); err != nil {
		return err
	}
	if c.In[0].Shape[1]%8 != 0 {
		return c.BadInput(0, "a multiple of 8 channels")
	}
	return nil
}
