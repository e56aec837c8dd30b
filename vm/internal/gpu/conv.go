package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// convolutions lists the operators that slide a kernel of weights over an image.
var convolutions = []Row{
	{Name: "Conv", Make: makeConv},
	{Name: "ConvTranspose", Make: makeConvTranspose},
	{Name: "DeformConv", Make: makeDeformConv},
	{Name: "Col2Im", Make: makeCol2Im},
}

// division is the struct Divider of kernels/index.cuh.
type division struct{ By, Factor, Shift uint32 }

func divisionBy(n int) division {
	d := divider(max(n, 1))
	return division{uint32(d[0]), uint32(d[1]), uint32(d[2])}
}

// slide is the struct Slide of kernels/conv.cu.
type slide struct {
	M, N, K, Chunk                              int32
	Groups, Wide                                int32
	Positions, Out12, Out2, Taps, Taps12, Taps2 division
	In, Start, Stride, Dilation                 [3]int32
	WTap, YStep                                 [3]int32
	Total                                       int64
	XImage, XGroup, XChannel                    int64
	WStart, WGroup, WRow, WChannel              int64
	YStart, YImage, YGroup, YRow                int64
}

// convolution is a convolution of x with w, whose result is that of a product.
type convolution struct {
	*form.Window
	images, groups int
	m, channels    int // output and input channels of a group
	x, w           *form.Tensor
	r              *result
}

func makeConv(n *Node) error {
	return convolve(n, n.Input(2), nil, &form.Activation{})
}

// makeFusedConv is a convolution, the sum with input 3, and an activation.
func makeFusedConv(n *Node) error {
	return convolve(n, n.Input(2), n.Input(3), n.ListedActivation())
}

// convolve appends a convolution of input 0 with input 1, to which bias, added and an
// activation are applied.
func convolve(n *Node, bias, added *form.Tensor, then *form.Activation) error {
	x, w, y := n.In[0], n.In[1], n.Out[0]
	if !isFloat(y) {
		return unsupportedf("dtype %v", y.Type)
	}
	g, err := n.ConvWindow(x, w, y)
	if err != nil {
		return err
	}
	c := &convolution{Window: g, images: x.Shape[0], groups: n.Int("group", 1), channels: w.Shape[1], x: x, w: w}
	c.m = w.Shape[0] / c.groups
	if c.r, err = newConvResult(y, bias, added, then); err != nil {
		return err
	}
	if err := c.fits(c.channels*volume(g.Kernel), volume(g.Out)); err != nil {
		return err
	}
	switch {
	case c.isCorrelation():
		return c.correlate(n, c.direct())
	case c.isDirect():
		return c.launchDirect(n, c.direct())
	}
	if done, err := c.r.byLibrary(n, forward, g, c.groups, x, w, y); done || err != nil {
		return err
	}
	return c.product(n)
}

// newConvResult is the result of a convolution with a bias for each channel.
func newConvResult(y, bias, added *form.Tensor, then *form.Activation) (*result, error) {
	r := &result{y: y, bias: bias, added: added, rows: y.Shape[1], columns: count(y.Shape[2:]), finish: noFinish()}
	r.finish.BiasRow = 1
	return r, r.take(then)
}

func volume(a [3]int) int { return a[0] * a[1] * a[2] }

// deep reports whether fetching along the taps reads longer runs of the image than
// fetching along the positions: so it is in gradients of weights, whose taps are the
// positions of a convolution and the other way round.
func deep(g *form.Window) bool {
	run := func(length, step int) int {
		if step == 1 {
			return length
		}
		return 1 + length/step/4
	}
	return run(g.Kernel[2], g.Dilation[2]) > run(g.Out[2], g.Stride[2])
}

// product appends a convolution as one product for each group.
func (c *convolution) product(n *Node) error {
	if c.byTaps() {
		return c.taps(n)
	}
	v := c.slide(n)
	s := c.split(n, &v)
	if deep(c.Window) {
		return c.launch(n, s, "DEEP", v)
	}
	return c.launch(n, s, "", v)
}

// slide returns the parameters of a convolution whose weights are dense along the depth.
func (c *convolution) slide(n *Node) slide {
	taps, plane, positions := volume(c.Kernel), volume(c.In), volume(c.Out)
	k := c.channels * taps
	v := slide{
		M: int32(c.m), N: int32(c.images * positions), K: int32(k), Groups: int32(c.groups),
		Positions: divisionBy(positions), Out12: divisionBy(c.Out[1] * c.Out[2]), Out2: divisionBy(c.Out[2]),
		Taps: divisionBy(taps), Taps12: divisionBy(c.Kernel[1] * c.Kernel[2]), Taps2: divisionBy(c.Kernel[2]),
		Total: int64(c.r.y.Len()), XImage: int64(c.groups * c.channels * plane), XGroup: int64(c.channels * plane), XChannel: int64(plane),
		WGroup: int64(c.m * k), WRow: int64(k), WChannel: int64(taps),
		YImage: int64(c.groups * c.m * positions), YGroup: int64(c.m * positions), YRow: int64(positions),
		WTap: int32s(c.Kernel[1]*c.Kernel[2], c.Kernel[2], 1), YStep: int32s(c.Out[1]*c.Out[2], c.Out[2], 1),
		In: int32s(c.In[:]...), Start: int32s(-c.Pad[0], -c.Pad[1], -c.Pad[2]), Stride: int32s(c.Stride[:]...), Dilation: int32s(c.Dilation[:]...),
	}
	if positions%4 == 0 && n.aligned(c.r.y) {
		v.Wide = 1
	}
	return v
}

// split divides a convolution among blocks.
func (c *convolution) split(n *Node, v *slide) split {
	s := splitProduct(n.tiles(c.r.y), c.m, int(v.N), int(v.K), c.groups)
	v.Chunk = int32(s.chunk)
	return s
}

// launch appends the launch of kernels/conv.cu in a form.
func (c *convolution) launch(n *Node, s split, form string, v slide) error {
	var forms []string
	if form != "" {
		forms = []string{form}
	}
	return c.launchParts(n, s, forms, []productPart{{s.tiles, v}})
}

func (c *convolution) launchParts(n *Node, s split, forms []string, list []productPart) error {
	definitions, err := n.definitions(c.r.y, c.x, c.w)
	if err != nil {
		return err
	}
	n.computes("onnxmem", c.r.y.Type, n.k.tf32(c.r.y.Type))
	return n.launchProduct(n.kernel("conv.cu", "conv", append(definitions, forms...)...), s, c.r, c.x, c.w, list...)
}

// longest is the largest length of an axis, with its padding, that kernels/conv.cu can
// tell from its mark for what lies outside.
const longest = 1 << 29

// fits refuses sizes that the kernels cannot count.
func (c *convolution) fits(k, positions int) error {
	if max(k, c.images*positions, c.groups*c.m) > math.MaxInt32-128 {
		return unsupportedf("a convolution with %d positions and a depth of %d", c.images*positions, k)
	}
	for a := range 3 {
		if max(c.In[a], c.Out[a]*c.Stride[a], c.Kernel[a]*c.Dilation[a], c.Pad[a]) > longest {
			return unsupportedf("a convolution along an axis of length %d to one of length %d", c.In[a], c.Out[a])
		}
	}
	return nil
}

func int32s(list ...int) (out [3]int32) {
	for i, v := range list {
		out[i] = int32(v)
	}
	return out
}
