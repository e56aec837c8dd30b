package gpu

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// convGradients lists the gradient of a convolution's weights.
var convGradients = []Row{
	{Name: graph.ConvWeightGrad, Make: makeConvWeightGrad},
}

// makeConvWeightGrad appends a convolution of the image with the result's gradient as the
// weights, which are read as they lie: the channels of a group are its images, and the
// images its channels.
func makeConvWeightGrad(n *Node) error {
	x, d, y := n.In[0], n.In[1], n.Out[0]
	if !isFloat(y) {
		return unsupportedf("dtype %v", y.Type)
	}
	over, err := n.WeightGradWindow()
	if err != nil {
		return err
	}
	g := over.Swapped()
	groups, ch := n.Int("group", 1), y.Shape[1]
	c := &convolution{Window: g, images: ch, groups: groups, m: y.Shape[0] / groups, channels: x.Shape[0], x: x, w: d}
	if c.r, err = newConvResult(y, nil, nil, &form.Activation{}); err != nil {
		return err
	}
	if err := c.fits(c.channels*volume(g.Kernel), volume(g.Out)); err != nil {
		return err
	}
	if ch > 1 || groups == 1 && !c.isCorrelation() {
		if done, err := c.r.byLibrary(n, backwardFilter, over, groups, x, y, d); done || err != nil {
			return err
		}
	}
	plane, positions, taps := int64(volume(g.In)), int64(volume(g.Kernel)), int64(volume(g.Out))
	part, all := int64(ch), int64(groups*ch)
	m, rows := int64(c.m), int64(groups*c.m)
	if ch == 1 && c.isCorrelation() {
		v := c.direct()
		v.XImage, v.XGroup, v.XChannel = plane, plane, all*plane
		v.WGroup, v.WRow, v.WChannel = m*positions, positions, rows*positions
		return c.correlate(n, v)
	}
	if fitsInner(volume(g.Kernel)) && fitsInner(ch) {
		return c.gradient(n, groups)
	}
	v := c.slide(n)
	v.XImage, v.XGroup, v.XChannel = plane, part*plane, all*plane
	v.WGroup, v.WRow, v.WChannel = m*positions, positions, rows*positions
	v.YImage, v.YGroup, v.YRow = taps, m*part*taps, part*taps
	if v.Wide = 0; part*taps%4 == 0 && n.aligned(y) {
		v.Wide = 1
	}
	s := c.split(n, &v)
	forms := []string{"SPREAD"}
	if deep(g) {
		forms = append(forms, "DEEP")
	}
	return c.launchParts(n, s, forms, []productPart{{s.tiles, slides{List: [8]slide{v}, Count: 1}}})
}

// gradient appends a gradient of weights whose columns are the channels of a tap, and whose
// depth is the positions of an image, in turn.
func (c *convolution) gradient(n *Node, groups int) error {
	plane, positions, taps := volume(c.In), volume(c.Kernel), volume(c.Out)
	ch, images := c.images, c.channels
	v := tapped{
		M: int32(c.m), N: int32(ch), Inner: int32(positions), Groups: int32(groups), TapCount: int32(taps),
		Positions: divisionBy(1), Out12: divisionBy(c.Kernel[1] * c.Kernel[2]), Out2: divisionBy(c.Kernel[2]),
		Taps12: divisionBy(c.Out[1] * c.Out[2]), Taps2: divisionBy(c.Out[2]), Columns: divisionBy(ch),
		In: int32s(c.In[:]...), Start: int32s(-c.Pad[0], -c.Pad[1], -c.Pad[2]), Stride: int32s(c.Dilation[:]...), Dilation: int32s(c.Stride[:]...),
		YStep:  int32s(0, 0, taps),
		XImage: int64(groups * ch * plane), XGroup: int64(ch * plane), XChannel: int64(plane),
		WGroup: int64(c.m * positions), WRow: int64(positions), WDeep: 1, WImage: int64(groups * c.m * positions),
		YGroup: int64(c.m * ch * taps), YRow: int64(ch * taps),
	}
	if taps == 1 && ch%4 == 0 && n.aligned(c.r.y) {
		v.Wide = 1
	}
	return c.launchTaps(n, []tapped{v}, nil, []int{images}, gradientForm)
}
