package gpu

import (
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// makeConvTranspose gathers: a position of the result meets every step-th tap along an
// axis, and which ones depends on the position's remainder by the stride. The positions of
// one remainder are a convolution with stride 1 of the input with these taps, which run
// backwards.
func makeConvTranspose(n *Node) error {
	x, w, y := n.In[0], n.In[1], n.Out[0]
	if !isFloat(y) {
		return unsupportedf("dtype %v", y.Type)
	}
	back, err := n.TransposedWindow()
	if err != nil {
		return err
	}
	// In and Out are those of this operator, the rest is that of the way back.
	g := *back
	g.In, g.Out = back.Out, back.In
	c := &convolution{Window: &g, images: x.Shape[0], groups: n.Int("group", 1), m: w.Shape[1], x: x, w: w}
	c.channels = x.Shape[1] / c.groups
	if c.r, err = newConvResult(y, n.Input(2), nil, &form.Activation{}); err != nil {
		return err
	}
	if err := c.fits(c.channels*volume(c.Kernel), volume(c.Out)); err != nil {
		return err
	}
	if !c.isDirect() {
		if done, err := c.r.byLibrary(n, backwardData, back, c.groups, y, w, x); done || err != nil {
			return err
		}
	}
	switch {
	case c.isDirect():
		v := c.direct()
		taps := volume(c.Kernel)
		v.WGroup, v.WRow, v.WChannel = int64(c.channels*c.m*taps), int64(taps), int64(c.m*taps)
		for a := range v.Step {
			v.Step[a] = int32(c.Stride[a] / gcd(c.Stride[a], c.Dilation[a]))
		}
		return c.launchDirect(n, v, "SPREAD")
	case c.byTaps():
		return c.spreadTaps(n)
	}
	return c.spread(n)
}

// slides is the struct Slides of kernels/conv.cu.
type slides struct {
	List     [8]slide
	Count, _ int32
}

// remainder is the positions of a transposed convolution along an axis whose remainder by
// the stride is the same: count of them, from first on. They meet taps from tap on.
type remainder struct {
	first, count               int
	tap, taps, start, dilation int
	step                       int // between the taps
}

// remainders lists the positions along an axis.
func (c *convolution) remainders(a int) []remainder {
	stride, dilation := c.Stride[a], c.Dilation[a]
	step := stride / gcd(stride, dilation)
	var list []remainder
	for first := range min(stride, c.Out[a]) {
		r := remainder{first: first, count: cuts(c.Out[a]-first, stride), step: step, dilation: -step * dilation / stride}
		for r.tap = 0; r.tap < step && (first+c.Pad[a]-r.tap*dilation)%stride != 0; {
			r.tap++
		}
		if r.tap < min(step, c.Kernel[a]) {
			r.taps = cuts(c.Kernel[a]-r.tap, step)
			r.start = (first + c.Pad[a] - r.tap*dilation) / stride
		}
		list = append(list, r)
	}
	return list
}

// mostSlides bounds the launches of a transposed convolution with large strides.
const mostSlides = 1 << 12

// slides lists the convolutions that a transposed one consists of, one for each remainder.
func (c *convolution) slides(n *Node) (list []slide, err error) {
	axes := [3][]remainder{c.remainders(0), c.remainders(1), c.remainders(2)}
	if len(axes[0])*len(axes[1])*len(axes[2]) > mostSlides {
		return nil, unsupportedf("a transposed convolution with strides %d", c.Stride)
	}
	for _, r0 := range axes[0] {
		for _, r1 := range axes[1] {
			for _, r2 := range axes[2] {
				list = append(list, c.slideOf(n, [3]remainder{r0, r1, r2}))
			}
		}
	}
	return list, nil
}

// spread appends a transposed convolution as one convolution for each remainder.
func (c *convolution) spread(n *Node) error {
	list, err := c.slides(n)
	if err != nil {
		return err
	}
	total, columns, depth := len(list), 0, 0
	for i := range list {
		columns, depth = max(columns, int(list[i].N)), max(depth, int(list[i].K))
	}
	s := splitProduct(n.tiles(c.r.y), c.m, columns, depth, c.groups*total)
	var params []productPart
	for len(list) > 0 {
		var v slides
		v.Count = int32(copy(v.List[:], list))
		list = list[v.Count:]
		for i := range v.List[:v.Count] {
			l := &v.List[i]
			l.Chunk = int32(cuts(cuts(int(l.K), s.parts), s.tile.k) * s.tile.k)
		}
		params = append(params, productPart{s.tiles / total * int(v.Count), v})
	}
	return c.launchParts(n, s, []string{"SPREAD"}, params)
}

// spreadTaps is spread tap by tap.
func (c *convolution) spreadTaps(n *Node) error {
	slides, err := c.slides(n)
	if err != nil {
		return err
	}
	taps := volume(c.Kernel)
	common := c.tapped(n, 1, taps*c.m)
	var w *cuda.Room
	if taps > 1 {
		room, err := n.laidOut(c.w, form.Move{Shape: []int{c.groups * c.channels, taps, c.m}, From: []int{c.m * taps, 1, taps}, To: []int{taps * c.m, c.m, 1}})
		if err != nil {
			return err
		}
		w = &room
	}
	var list []tapped
	var outer []int
	for i := range slides {
		v, s := common, &slides[i]
		v.N, v.Wide, v.Start, v.Stride, v.Dilation, v.YStep, v.YStart = s.N, s.Wide, s.Start, s.Stride, s.Dilation, s.YStep, s.YStart
		v.Positions, v.Out12, v.Out2, v.Taps12, v.Taps2 = s.Positions, s.Out12, s.Out2, s.Taps12, s.Taps2
		v.WStart = s.WStart * int64(c.m)
		for a := range v.WTap {
			v.WTap[a] = s.WTap[a] * int32(c.m)
		}
		list, outer = append(list, v), append(outer, int(s.K)/c.channels)
	}
	if len(list) == 1 {
		return c.launchTaps(n, list, w, outer, "")
	}
	return c.launchTaps(n, list, w, outer, spreadForm)
}

// slideOf is the convolution that gives the positions of one remainder along each axis.
func (c *convolution) slideOf(n *Node, r [3]remainder) slide {
	v := c.slide(n)
	count := [3]int{r[0].count, r[1].count, r[2].count}
	taps := [3]int{r[0].taps, r[1].taps, r[2].taps}
	across := [3]int{c.Out[1] * c.Out[2], c.Out[2], 1}
	rows := [3]int{c.Kernel[1] * c.Kernel[2], c.Kernel[2], 1}
	v.N, v.K = int32(c.images*volume(count)), int32(c.channels*volume(taps))
	v.Positions, v.Out12, v.Out2 = divisionBy(volume(count)), divisionBy(count[1]*count[2]), divisionBy(count[2])
	v.Taps, v.Taps12, v.Taps2 = divisionBy(volume(taps)), divisionBy(taps[1]*taps[2]), divisionBy(taps[2])
	for a := range 3 {
		v.Start[a], v.Stride[a], v.Dilation[a] = int32(r[a].start), 1, int32(r[a].dilation)
		v.WTap[a], v.YStep[a] = int32(r[a].step*rows[a]), int32(across[a]*c.Stride[a])
		v.WStart += int64(r[a].tap * rows[a])
		v.YStart += int64(r[a].first * across[a])
	}
	if c.Stride != [3]int{1, 1, 1} {
		v.Wide = 0
	}
	kernel := volume(c.Kernel)
	v.WGroup, v.WRow, v.WChannel = int64(c.channels*c.m*kernel), int64(kernel), int64(c.m*kernel)
	return v
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
