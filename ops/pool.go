package ops

import "github.com/onnxmem/onnxmem/graph"

// pooling lists the operators that reduce windows of an image.
var pooling = family{"", []Op{
	{Name: "MaxPool", Class: Window, Form: Planes, Infer: poolAs(channelsFirst), Cut: cutPool(channelsFirst), FLOPs: poolFLOPs, Check: checkMaxPool, Optional: afterFirst, Rounds: ceils},
	{Name: "AveragePool", Class: Window, Form: Planes, Infer: poolAs(channelsFirst), Cut: cutPool(channelsFirst), FLOPs: poolFLOPs, Rounds: ceils},
	{Name: "LpPool", Class: Window, Infer: poolAs(channelsFirst), Cut: cutPool(channelsFirst), FLOPs: poolFLOPs, Check: checkPower, Rounds: ceils},
	{Name: "GlobalMaxPool", Class: Window, Infer: globalPool, Cut: cutGlobalPool(channelsFirst), Sum: sumGlobalMax, FLOPs: perElement(1)},
	{Name: "GlobalAveragePool", Class: Window, Form: Planes, Infer: globalPool, Cut: cutGlobalPool(channelsFirst), Sum: sumGlobalMean, FLOPs: perElement(1), Joins: true},
	{Name: "GlobalLpPool", Class: Window, Infer: globalPool, Cut: cutGlobalPool(channelsFirst), FLOPs: perElement(2), Check: checkPower},
	{Name: "MaxUnpool", Class: Scatter, Infer: maxUnpool, Rounds: always},
}}

// poolAs returns the Infer of a pooling operator in any version: a version without
// dilations and ceil_mode has their defaults. MaxPool's second output holds indices.
//
// auto_pad VALID with ceil_mode counts as pads of 0 do, as in ONNX's shape
// inference and ONNX Runtime; the formula in the operator's text would drop the
// last window.
func poolAs(l imageLayout) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(1); err != nil {
			return err
		}
		elem := c.In[0].Elem
		if err := c.MinRank(0, 3); err != nil {
			return err
		}
		win, err := c.poolWindow()
		if err != nil {
			return err
		}
		rank := len(win.Kernel) + 2
		if err := c.WantRank(0, rank); err != nil {
			return err
		}
		if !c.In[0].Ranked {
			c.Set(0, elem, unknowns(rank))
			c.Set(1, graph.Int64, unknowns(rank))
			return nil
		}
		channels, spatial := l.split(c.In[0].Shape)
		out := make([]graph.Dim, len(spatial))
		for i, n := range spatial {
			padded := win.padded(i, n)
			if over := int64(win.extent(i)) - int64(padded); n > 0 && padded.Exact() && over/win.Stride[i] > 1 {
				return c.BadInput(0, "at least %d along spatial axis %d, where it has %d with its padding", win.extent(i), i, padded)
			}
			out[i] = win.slide(i, n)
		}
		shape := l.join(c.In[0].Shape[0], channels, out)
		c.Set(0, elem, shape)
		c.Set(1, graph.Int64, shape)
		return nil
	}
}

// checkMaxPool: if the indices of the maxima are an output, every window must
// cover an element of the image.
func checkMaxPool(c *Call) error {
	if len(c.Out) < 2 || !c.Out[1].Present {
		return nil
	}
	win, err := c.poolWindow()
	if err != nil {
		return err
	}
	in, out := exactLengths(c.In[0].Shape[2:]), exactLengths(c.Out[0].Shape[2:])
	win.Pad(in, out)
	for i, n := range in {
		for o := range out[i] {
			// The first element of the kernel that does not lie before the image.
			start := o*win.Stride[i] - win.Before[i]
			first := int64(0)
			if start < 0 {
				first = (win.Dilation[i] - 1 - start) / win.Dilation[i]
			}
			if first >= int64(win.Kernel[i]) || start+first*win.Dilation[i] >= n {
				return c.BadInput(0, "an element in each window, whose place is asked for: that of place %d along spatial axis %d sees padding alone", o, i)
			}
		}
	}
	return nil
}

// checkPower: the power of a norm is positive; in opset 1 it is a float.
func checkPower(c *Call) error {
	switch a := c.Node.Attr("p"); {
	case a == nil:
	case a.Type == graph.AttrFloat && !(a.Float > 0):
		return c.Errf("p is %v, expected a power above 0", a.Float)
	case a.Type != graph.AttrFloat && a.Int < 1:
		return c.Errf("p is %d, expected 1 or more", a.Int)
	}
	return nil
}

// poolFLOPs counts one operation per output element and element of the kernel.
func poolFLOPs(c *Call) int64 {
	win, err := c.poolWindow()
	if err != nil {
		return 0
	}
	return opCount(elements(c.OutType(0)), countOf(win.Kernel))
}

// globalPool makes every spatial axis 1.
func globalPool(c *Call) error {
	if err := c.Tensors(1); err != nil {
		return err
	}
	if err := c.MinRank(0, 2); err != nil {
		return err
	}
	a := c.In[0]
	if !a.Ranked {
		c.SetUnranked(0, a.Elem)
		return nil
	}
	shape := []graph.Dim{a.Shape[0], a.Shape[1]}
	for range a.Shape[2:] {
		shape = append(shape, 1)
	}
	c.Set(0, a.Elem, shape)
	return nil
}

// maxUnpool covers MaxUnpool: the input output_shape states the lengths; without
// it, they are the lengths that MaxPool would reduce to those of the input.
func maxUnpool(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	a := c.In[0]
	win, err := c.poolWindow()
	if err != nil {
		return err
	}
	rank := len(win.Kernel) + 2
	if err := c.WantRank(0, rank); err != nil {
		return err
	}
	if a.Ranked {
		if err := c.WantShape(1, "one index per element of input 0", a.Shape...); err != nil {
			return err
		}
	}
	shape := []graph.Dim{c.DimOf(0, 0), c.DimOf(0, 1)}
	if c.Has(2) {
		if err := c.WantShape(2, "the lengths of the output", graph.Dim(rank)); err != nil {
			return err
		}
		for i := range win.Kernel {
			if v := c.In[2].Value; v != nil && v.Elems[2+i].State == Known && v.Elems[2+i].I < 0 {
				return c.Errf("input 2%s holds %d, expected lengths", c.inputName(2), v.Elems[2+i].I)
			}
			shape = append(shape, c.LengthOf(2, 2+i))
		}
		c.Set(0, a.Elem, shape)
		return nil
	}
	for i, k := range win.Kernel {
		out, err := c.transposed(win, i, MulDims(c.DimOf(0, 2+i), graph.Dim(win.Stride[i])), k)
		if err != nil {
			return err
		}
		shape = append(shape, out)
	}
	c.Set(0, a.Elem, shape)
	return nil
}

// cutPool returns the column Cut of a pool. The places of the maxima, output 1 of MaxPool,
// count from the beginning of the tensor, so a copy cannot make them.
func cutPool(l imageLayout) func(c *Call, axis int) *Cut {
	return func(c *Call, axis int) *Cut {
		cut := c.same(axis)
		for k := 1; k < len(cut.Out); k++ {
			cut.Out[k] = Whole
		}
		spatial, ofChannels := l.spatialAxis(axis, len(c.Out[0].Shape))
		if axis == 0 || ofChannels {
			if len(c.Out) > 1 { // indices of maxima
				area := int64(1)
				for k := 2; k < len(c.In[0].Shape); k++ {
					area *= c.length(0, k)
				}
				cut.Out[1], cut.Modulo = axis, []int64{0, area}
			}
			return cut
		}
		win, err := c.poolWindow()
		if err != nil || !c.cutRows(cut, win, 0, axis, spatial) {
			return nil
		}
		return cut
	}
}

// cutGlobalPool returns the column Cut of a pool of whole images: images and channels.
func cutGlobalPool(l imageLayout) func(c *Call, axis int) *Cut {
	return func(c *Call, axis int) *Cut {
		if _, ofChannels := l.spatialAxis(axis, len(c.Out[0].Shape)); axis != 0 && !ofChannels {
			return nil
		}
		return c.same(axis)
	}
}

// sumGlobalMax: the largest of the largest elements of the slices.
func sumGlobalMax(c *Call, axes []int) *Sum {
	axis := axes[0]
	if axis < 2 {
		return nil
	}
	n := c.length(0, axis)
	return &Sum{By: "Max", In: c.rowsOfOne(0, Same(axis, n)), Length: n}
}

// sumGlobalMean: a copy adds.
func sumGlobalMean(c *Call, axes []int) *Sum {
	sum := sumGlobalMax(c, axes)
	if sum == nil || !divides(c.In[0].Elem) {
		return nil
	}
	var spatial []int64
	sum.By, sum.Mean, sum.Count = "Add", true, 1
	for k := 2; k < len(c.In[0].Shape); k++ {
		spatial = append(spatial, int64(k))
		sum.Count *= c.length(0, k)
	}
	sum.Change = func(_, _ int64) Change { return c.toReduceSum(spatial) }
	return sum
}
