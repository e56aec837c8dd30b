package ops

import "github.com/onnxmem/onnxmem/graph"

// convolution lists the operators that slide a kernel of weights over an image.
var convolution = family{"", []Op{
	{Name: "Conv", Class: Product, Precision: Half, Form: Channels, Applies: true, Infer: convAs(0, 1, 2, channelsFirst), Cut: cutConv(0, 1, channelsFirst, 2), Sum: sumConv, FLOPs: convFLOPs(1), Weights: []int{1, 2}, Kinds: []string{"convolution", "bias"}, Biases: []int{2}, Joins: true},
	{Name: "ConvTranspose", Class: Product, Precision: Half, Infer: convTranspose, Cut: cutConvTranspose, FLOPs: convTransposeFLOPs, Weights: []int{1, 2}, Kinds: []string{"convolution", "bias"}, Biases: []int{2}, Rounds: chooses},
	{Name: "DeformConv", Class: Product, Precision: Half, Infer: deformConv, Cut: cutDeformConv, FLOPs: convFLOPs(1)},
	{Name: "Col2Im", Class: Window, Infer: col2Im},
	{Name: "CausalConvWithState", Class: Product, Precision: Half, Infer: causalConv, FLOPs: causalConvFLOPs},
}}

// imageLayout is the position of the channels among the axes.
type imageLayout bool

const (
	channelsFirst imageLayout = false // N C D1 D2 …
	channelsLast  imageLayout = true  // N D1 D2 … C
)

// split returns the channels and the spatial lengths of an image.
func (l imageLayout) split(shape []graph.Dim) (channels graph.Dim, spatial []graph.Dim) {
	if l == channelsLast {
		return shape[len(shape)-1], shape[1 : len(shape)-1]
	}
	return shape[1], shape[2:]
}

// join returns the shape of a batch of images.
func (l imageLayout) join(batch, channels graph.Dim, spatial []graph.Dim) []graph.Dim {
	shape := make([]graph.Dim, 0, len(spatial)+2)
	shape = append(shape, batch)
	if l == channelsFirst {
		shape = append(shape, channels)
	}
	shape = append(shape, spatial...)
	if l == channelsLast {
		shape = append(shape, channels)
	}
	return shape
}

// convAs returns the Infer of a convolution; x, w and bias are the indices of its
// image, weights and bias among the inputs. The output has the image's element type.
func convAs(x, w, bias int, l imageLayout) func(c *Call) error {
	return func(c *Call) error {
		if err := c.Tensors(max(x, w) + 1); err != nil {
			return err
		}
		return convShape(c, c.In[x].Elem, x, w, bias, l)
	}
}

// convShape sets output 0: image x [N C D1…], weights w [M C/group K1…], bias
// [M]. Weights have their channels first in both layouts.
func convShape(c *Call, elem graph.DType, x, w, bias int, l imageLayout) error {
	if err := c.MinRank(x, 3); err != nil {
		return err
	}
	if err := c.MinRank(w, 3); err != nil {
		return err
	}
	group, err := c.Positive("group", 1)
	if err != nil {
		return err
	}
	rank, ok := imageRank(c, x, w)
	if !ok {
		c.SetUnranked(0, elem)
		return nil
	}
	if err := c.WantRank(w, rank); err != nil {
		return err
	}
	m := c.DimOf(w, 0)
	if m.Exact() && int64(m)%group != 0 {
		return c.BadInput(w, "a multiple of group %d as output channels", group)
	}
	if bias >= 0 {
		if err := c.WantShape(bias, "one bias per output channel", m); err != nil {
			return err
		}
	}
	weights := unknowns(rank)
	if c.In[w].Ranked {
		weights = c.In[w].Shape
	}
	win, err := c.window(weights[2:])
	if err != nil {
		return err
	}
	if !c.In[x].Ranked {
		c.Set(0, elem, l.join(graph.Unknown, m, unknowns(rank-2)))
		return nil
	}
	channels, spatial := l.split(c.In[x].Shape)
	if perGroup := weights[1]; differ(MulDims(perGroup, graph.Dim(group)), channels) {
		if group == 1 {
			return c.BadInput(w, "%s channels to match input %d %s", channels, x, graph.ShapeString(c.In[x].Shape))
		}
		return c.BadInput(w, "%s channels in %d groups to match input %d %s", channels, group, x, graph.ShapeString(c.In[x].Shape))
	}
	out := make([]graph.Dim, rank-2)
	for i, n := range spatial {
		if padded, kernel := win.padded(i, n), win.extent(i); n > 0 && padded.Exact() && kernel.Exact() && padded < kernel {
			return c.BadInput(x, "at least %s along spatial axis %d, where it has %s with its padding", kernel, i, padded)
		}
		out[i] = win.slide(i, n)
	}
	c.Set(0, elem, l.join(c.In[x].Shape[0], m, out))
	return nil
}

// imageRank is the rank of an image, known from the image or from the weights.
func imageRank(c *Call, x, w int) (int, bool) {
	if c.In[x].Ranked {
		return len(c.In[x].Shape), true
	}
	return len(c.In[w].Shape), c.In[w].Ranked
}

// convFLOPs counts a multiply-add per output element, input channel of the
// group and element of the kernel, which the weights w hold.
func convFLOPs(w int) func(c *Call) int64 {
	return func(c *Call) int64 {
		if len(c.In[w].Shape) == 0 {
			return 0
		}
		return opCount(2, elements(c.OutType(0)), countOf(c.In[w].Shape[1:]))
	}
}

// convTranspose covers ConvTranspose: image [N C D1…], weights [C M/group K1…].
// output_shape states the spatial lengths of the output; under auto_pad SAME they
// are D·stride; otherwise they are those that Conv would reduce to D. As in ONNX
// Runtime, output_padding does not add to the first two. (Under SAME and with a
// kernel shorter than the stride, that runtime makes less than D·stride, against
// the specification.)
func convTranspose(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	elem := c.In[0].Elem
	for i := range 2 {
		if err := c.MinRank(i, 3); err != nil {
			return err
		}
	}
	group, err := c.Positive("group", 1)
	if err != nil {
		return err
	}
	rank, ok := imageRank(c, 0, 1)
	if !ok {
		c.SetUnranked(0, elem)
		return nil
	}
	if err := c.WantRank(1, rank); err != nil {
		return err
	}
	if differ(c.DimOf(1, 0), c.DimOf(0, 1)) {
		return c.BadInput(1, "%s input channels to match input 0 %s", c.DimOf(0, 1), graph.ShapeString(c.In[0].Shape))
	}
	if n := c.DimOf(0, 1); n.Exact() && int64(n)%group != 0 {
		return c.BadInput(0, "a multiple of group %d as channels", group)
	}
	m := MulDims(c.DimOf(1, 1), graph.Dim(group))
	if err := c.WantShape(2, "one bias per output channel", m); err != nil {
		return err
	}
	kernel := unknowns(rank - 2)
	if c.In[1].Ranked {
		kernel = c.In[1].Shape[2:]
	}
	win, err := c.transposedWindow(kernel)
	if err != nil {
		return err
	}
	shape := []graph.Dim{c.DimOf(0, 0), m}
	for i := range rank - 2 {
		n := c.DimOf(0, 2+i)
		out, err := c.times(n, graph.Dim(win.Stride[i]))
		if err != nil {
			return err
		}
		switch {
		case win.OutputShape != nil:
			out = graph.Dim(win.OutputShape[i])
		case !win.Same():
			if out, err = c.transposed(win, i, out, win.extent(i)); err != nil {
				return err
			}
		}
		shape = append(shape, out)
	}
	c.Set(0, elem, shape)
	return nil
}

// convTransposeFLOPs counts a multiply-add per input element, output channel
// of the group and element of the kernel.
func convTransposeFLOPs(c *Call) int64 {
	if len(c.In[1].Shape) == 0 {
		return 0
	}
	return opCount(2, elements(c.In[0].Type), countOf(c.In[1].Shape[1:]))
}

// deformConv is Conv with an offset (and a mask) per output element and
// element of the kernel.
func deformConv(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	if err := convShape(c, c.In[0].Elem, 0, 1, 3, channelsFirst); err != nil {
		return err
	}
	groups, err := c.Positive("offset_group", 1)
	if err != nil {
		return err
	}
	out := c.OutType(0).Shape
	if len(out) < 3 || !c.In[1].Ranked {
		return nil
	}
	if n := c.DimOf(0, 1); n.Exact() && int64(n)%groups != 0 {
		return c.BadInput(0, "a multiple of offset_group %d as channels", groups)
	}
	points, err := c.times(countOf(c.In[1].Shape[2:]), graph.Dim(groups))
	if err != nil {
		return err
	}
	coordinates, err := c.times(points, graph.Dim(len(out)-2))
	if err != nil {
		return err
	}
	offset := with(out, 1, coordinates)
	if err := c.WantShape(2, "an offset per spatial axis and element of the kernel", offset...); err != nil {
		return err
	}
	return c.WantShape(4, "a factor per element of the kernel", with(out, 1, points)...)
}

// col2Im covers Col2Im: input 0 is [N C·Π(block) L], inputs 1 and 2 hold the
// lengths of the image [H W …] and of a block; the output is [N C H W …].
func col2Im(c *Call) error {
	if err := c.Tensors(3); err != nil {
		return err
	}
	if err := c.WantRank(0, 3); err != nil {
		return err
	}
	elem := c.In[0].Elem
	for i := 1; i < 3; i++ {
		if err := c.WantRank(i, 1); err != nil {
			return err
		}
	}
	n := TakeDim(c.DimOf(1, 0), c.DimOf(2, 0))
	if differ(c.DimOf(1, 0), c.DimOf(2, 0)) {
		return c.BadInput(2, "%s lengths to match input 1", c.DimOf(1, 0))
	}
	if !n.Exact() {
		c.SetUnranked(0, elem)
		return nil
	}
	if n < 1 || n > FoldLimit {
		return c.BadInput(1, "one length per spatial axis")
	}
	spatial := int(n)
	block := make([]graph.Dim, spatial)
	image := make([]graph.Dim, spatial)
	for i := range spatial {
		image[i], block[i] = c.LengthOf(1, i), c.LengthOf(2, i)
		for in := 1; in < 3; in++ {
			if v := c.In[in].Value; v != nil && i < len(v.Elems) && v.Elems[i].State == Known && v.Elems[i].I < 1 {
				return c.Errf("input %d%s holds %d, expected lengths of at least 1", in, c.inputName(in), v.Elems[i].I)
			}
		}
	}
	win, err := c.window(block)
	if err != nil {
		return err
	}
	if win.AutoPad != "NOTSET" {
		return c.Errf("auto_pad is %q, expected pads: the operator has no other", win.AutoPad)
	}
	size := countOf(block)
	channels := graph.Unknown
	if size.Exact() {
		var ok bool
		if channels, ok = DivDim(c.DimOf(0, 1), int64(size)); !ok {
			return c.BadInput(0, "a multiple of the block's %s elements along axis 1", size)
		}
	}
	blocks := graph.Dim(1)
	for i, d := range image {
		if blocks, err = c.times(blocks, win.slide(i, d)); err != nil {
			return err
		}
	}
	if differ(blocks, c.DimOf(0, 2)) {
		return c.BadInput(0, "%s blocks along axis 2", blocks)
	}
	c.Set(0, elem, append([]graph.Dim{c.DimOf(0, 0), channels}, image...))
	return nil
}

// causalConv covers CausalConvWithState: input [N C L], weights [C 1 k], state
// [N C k-1]. The variant of com.microsoft, which has other layouts, has a function
// of its own.
func causalConv(c *Call) error {
	if err := c.Tensors(2); err != nil {
		return err
	}
	for i := range 2 {
		if err := c.WantRank(i, 3); err != nil {
			return err
		}
	}
	batch, channels := c.DimOf(0, 0), c.DimOf(0, 1)
	if err := c.WantShape(1, "one kernel per channel of input 0", channels, 1, graph.Unknown); err != nil {
		return err
	}
	channels = TakeDim(channels, c.DimOf(1, 0))
	k := c.DimOf(1, 2)
	if k == 0 {
		return c.BadInput(1, "a kernel of at least 1 element")
	}
	if err := c.WantShape(2, "one bias per channel", channels); err != nil {
		return err
	}
	state := []graph.Dim{batch, channels, Mono(k, func(n int64) int64 { return n - 1 })}
	if err := c.WantShape(3, "the state of a kernel one element longer", state...); err != nil {
		return err
	}
	c.SetType(0, c.In[0].Type)
	c.Set(1, c.In[0].Elem, state)
	return nil
}

func causalConvFLOPs(c *Call) int64 {
	return opCount(2, elements(c.In[0].Type), c.DimOf(1, 2))
}

// cutConv returns the column Cut of a convolution of image x with weights w. The inputs
// in channels have one element per output channel, or a single one.
func cutConv(x, w int, l imageLayout, channels ...int) func(c *Call, axis int) *Cut {
	return func(c *Call, axis int) *Cut {
		cut := c.cut(axis)
		rank := len(c.Out[0].Shape)
		spatial, ofChannels := l.spatialAxis(axis, rank)
		switch {
		case axis == 0:
			cut.In[x] = Same(0, c.length(x, 0))
		case ofChannels && c.Int("group", 1) == 1 && c.length(w, 1) == 1 && c.In[x].Elem.Floating():
			// A slice of one channel would be a depthwise convolution, whose kernels add in
			// another order than those that make several channels of one.
			return nil
		case ofChannels:
			c.cutGroups(cut, x, w, axis)
			for _, i := range channels {
				if c.Has(i) && !isOne(c.In[i].Shape) {
					cut.In[i] = Same(0, c.length(i, 0))
				}
			}
		default:
			win, err := c.window(c.In[w].Shape[2:])
			if err != nil || c.likeGradient(x, w, axis) || !c.cutRows(cut, win, x, axis, spatial) {
				return nil
			}
		}
		return cut
	}
}

// likeGradient reports whether rows of a spatial axis, if not all of them, may have few
// elements under a large kernel of single channels that changes from run to run. Such
// convolutions are gradients of weights as a rule, and their kernel adds in an order that
// depends on the length of the axes.
func (c *Call) likeGradient(x, w, axis int) bool {
	m, taps, outputs := c.length(w, 0), int64(1), int64(1)
	if c.length(w, 1) != 1 || m < 1 || c.Int("group", 1) != m || !c.In[x].Elem.Floating() {
		return false
	}
	for a := 2; a < len(c.In[w].Shape); a++ {
		taps *= c.length(w, a)
	}
	for a, d := range c.Out[0].Shape {
		if a > 0 && a != axis {
			outputs *= int64(d) // and the channels
		}
	}
	return taps >= 4*(outputs/m) && !(c.In[x].Elem == graph.Float32 && c.fixed(w))
}

// fixed reports whether an input is an initializer that no caller replaces.
func (c *Call) fixed(i int) bool {
	if c.Graph == nil {
		return false
	}
	t := c.Graph.Tensors[c.Node.Inputs[i]]
	return t.Data != nil && !t.Overridable
}

// spatialAxis returns which of the spatial axes an axis of an image is, unless it is that
// of the batch or of the channels.
func (l imageLayout) spatialAxis(axis, rank int) (spatial int, ofChannels bool) {
	if l == channelsLast {
		return axis - 1, axis == rank-1
	}
	return axis - 2, axis == 1
}

// cutGroups sets the rows of the image and of the weights [M C/group K1…] for output
// channels: with several groups, whole groups.
func (c *Call) cutGroups(cut *Cut, x, w, axis int) {
	group, m := c.Int("group", 1), c.length(w, 0)
	cut.In[w] = Same(0, m)
	if group == 1 {
		return
	}
	each := m / group
	cut.In[x] = Rows{Axis: axis, Length: c.length(x, axis), Scale: c.length(w, 1), Divide: each}
	cut.Change = func(lo, hi int64) Change {
		return Change{Attrs: []*graph.Attr{intAttr("group", (hi-lo)/each)}}
	}
}

// sumConv: the sum over input channels. A bias would be added by each copy.
func sumConv(c *Call, _ []int) *Sum {
	if c.Has(2) || c.Int("group", 1) != 1 {
		return nil
	}
	n := c.length(0, 1)
	in := c.rowsOfOne(0, Same(1, n))
	in[1] = Same(1, n)
	return &Sum{By: "Add", In: in, Length: n}
}

// cutConvTranspose: images; output channels, whole groups of them if there are several;
// rows and columns if windows neither overlap nor leave gaps.
func cutConvTranspose(c *Call, axis int) *Cut {
	cut := c.cut(axis)
	switch group := c.Int("group", 1); {
	case axis == 0:
		cut.In[0] = Same(0, c.length(0, 0))
	case axis == 1 && group == 1 && c.length(1, 0) == 1 && c.In[0].Elem.Floating():
		return nil // as in cutConv
	case axis == 1 && group == 1:
		cut.In[1] = Same(1, c.length(1, 1))
	case axis == 1:
		// Weights are [C M/group K1…].
		each, channels := c.length(1, 1), c.length(1, 0)
		cut.In[0] = Rows{Axis: 1, Length: channels, Scale: channels / group, Divide: each}
		cut.In[1] = Rows{Axis: 0, Length: channels, Scale: channels / group, Divide: each}
		cut.Change = func(lo, hi int64) Change {
			return Change{Attrs: []*graph.Attr{intAttr("group", (hi-lo)/each)}}
		}
	default:
		w, err := c.transposedWindow(c.In[1].Shape[2:])
		i := axis - 2
		if err != nil || w.Same() || w.OutputShape != nil || w.Reach(i) != w.Stride[i] || w.Before[i] != 0 || w.After[i] != 0 || w.OutputPadding[i] != 0 {
			return nil
		}
		cut.In[0] = Rows{Axis: axis, Length: c.length(0, axis), Scale: 1, Divide: w.Stride[i]}
	}
	if axis == 1 && c.Has(2) {
		cut.In[2] = Same(0, c.length(2, 0))
	}
	return cut
}
