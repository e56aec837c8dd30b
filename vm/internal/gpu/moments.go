package gpu

import (
	"slices"

	"github.com/onnxmem/onnxmem/ops/attr"
	"github.com/onnxmem/onnxmem/vm/cuda"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
)

// planes is Planes of moments.cu: how the planes of an image find their statistics, scale
// and bias.
type planes struct {
	count, n, part                             int32
	groupDiv, groupMod, channelDiv, channelMod int32
	outside, packed, _                         int32
	epsilon                                    float64
}

// momentsKernel returns a kernel of moments.cu for a node whose scale and bias are its inputs 1
// and 2, and a BatchNormalization's running statistics inputs 3 and 4: those may be of float32
// beside an image of 16 bits.
func (n *Node) momentsKernel(name string, x *form.Tensor) cuda.Kernel {
	list := []string{"ELEMENT=" + cType[x.Type]}
	if len(n.In) == 5 { // a BatchNormalization: LayerNormalization and its kin have no statistics
		for i, define := range map[int]string{1: "SCALE", 3: "STATISTIC"} {
			if t := n.In[i].Type; t != x.Type {
				list = append(list, define+"="+cType[t])
			}
		}
		slices.Sort(list)
	}
	return n.kernel("moments.cu", name, list...)
}

// mixedReals refuses an image with scale, bias and statistics of dtypes in which kernels do not
// compute as in the image's.
func mixedReals(x, scale, bias, mean, variance *form.Tensor) error {
	if err := sameReals(x); err != nil {
		return err
	}
	for _, pair := range [][2]*form.Tensor{{scale, bias}, {mean, variance}} {
		for _, t := range pair {
			if !isFloat(t) || t.Type != pair[0].Type || computeBytes(t) != computeBytes(x) {
				return unsupportedf("dtypes %v and %v beside %v", pair[0].Type, t.Type, x.Type)
			}
		}
	}
	return nil
}

// moments appends the computation of the means of x, as if it had a shape, over the axes in
// drop, and after them the variances, to scratch.
func (n *Node) moments(x *form.Tensor, shape []int, drop []bool) (statistics cuda.Room, many int32, err error) {
	g, err := groupsOf(shape, drop)
	if err != nil {
		return statistics, 0, err
	}
	at, err := n.addresses(x)
	if err != nil {
		return statistics, 0, err
	}
	name := "moments_axes"
	if g.lines {
		name = "moments_lines"
	}
	many = g.param.groups
	const width = 8
	statistics = n.scratch(2 * width * int64(many))
	parts := n.partsRoom(g.parts, int(many), momentBytes)
	if err := n.launch3(n.momentsKernel(name, x), g.grid, g.block, 0, statistics, parts, at[0], g.param); err != nil || g.parts == 1 {
		return statistics, many, err
	}
	grid, block := finishOf(int(many))
	return statistics, many, n.launch3(n.momentsKernel("moments_finish", x), grid, block, 0, statistics, parts, int32(g.parts), many)
}

// share cuts planes of n elements, which begin at the addresses, into pieces for the
// blocks of a grid.
func (p *planes) share(at ...driver.Ptr) (grid, block driver.Dim3) {
	const piece = 4096
	p.part = min(p.n, piece)
	lanes := int(p.n)
	if p.n%4 == 0 && at[0]%16 == 0 && at[1]%16 == 0 {
		p.packed, lanes = 1, lanes/4
	}
	x := atLeast(lanes, threadsPerBlock)
	y := threadsPerBlock / x
	return driver.Dim3{X: uint32((int(p.count) + y - 1) / y), Y: uint32(max(1, (p.n+piece-1)/piece)), Z: 1}, driver.Dim3{X: uint32(x), Y: uint32(y), Z: 1}
}

// normalize appends the normalization of planes by statistics in scratch.
func (n *Node) normalize(p planes, statistics cuda.Room, many int32, scale, bias *form.Tensor) error {
	at, err := n.addresses(n.Out[0], n.In[0], scale, bias)
	if err != nil {
		return err
	}
	grid, block := p.share(at[0], at[1])
	return n.launch3(n.momentsKernel("apply_own", n.In[0]), grid, block, 0, at[0], at[1], statistics, many, at[2], at[3], p)
}

// makeBatchNorm normalizes each channel by the running statistics, or, in training, by the
// statistics of the batch, with which it updates the running ones.
func makeBatchNorm(n *Node) error {
	x, scale, bias := n.In[0], n.In[1], n.In[2]
	if err := mixedReals(x, scale, bias, n.In[3], n.In[4]); err != nil {
		return err
	}
	channels, inner := 1, 1 // if x has only one axis
	if len(x.Shape) > 1 {
		channels, inner = x.Shape[1], count(x.Shape[2:])
	}
	c := int32(channels)
	p := planes{
		count: int32(x.Len() / inner), n: int32(inner), groupDiv: 1, groupMod: c, channelDiv: 1, channelMod: c,
		epsilon: float64(n.Float("epsilon", 1e-5)),
	}
	if n.Int("training_mode", 0) == 0 {
		at, err := n.addresses(n.Out[0], x, n.In[3], n.In[4], scale, bias)
		if err != nil {
			return err
		}
		grid, block := p.share(at[0], at[1])
		return n.launch3(n.momentsKernel("apply_given", x), grid, block, 0, at[0], at[1], at[2], at[3], at[4], at[5], p)
	}
	if s, ok := channelsOf(x.Shape[0], channels, inner); ok {
		return n.trainChannels(s)
	}
	drop := make([]bool, len(x.Shape))
	for a := range drop {
		drop[a] = a != 1
	}
	statistics, many, err := n.moments(x, x.Shape, drop)
	if err != nil {
		return err
	}
	if n.HasOut(1) || n.HasOut(2) {
		at, err := n.addresses(n.output(1), n.output(2), n.In[3], n.In[4])
		if err != nil {
			return err
		}
		momentum := float64(n.Float("momentum", 0.9))
		if err := n.launch(n.momentsKernel("running", x), blocksFor(channels), threadsPerBlock,
			at[0], at[1], at[2], at[3], statistics, c, momentum, 1-momentum); err != nil {
			return err
		}
	}
	return n.normalize(p, statistics, many, scale, bias)
}

// momentBytes is the size of Moments of moments.cu.
const momentBytes = 24

// runningParam is Running of moments.cu.
type runningParam struct {
	mean, variance, oldMean, oldVariance driver.Ptr
	keep, take                           float64
}

// trainChannels appends a BatchNormalization in training as two launches: the moments of
// the parts of channels, and the normalization, which joins them.
func (n *Node) trainChannels(c *channels) error {
	at, err := n.addresses(n.Out[0], n.In[0], n.In[1], n.In[2], n.output(1), n.output(2), n.In[3], n.In[4])
	if err != nil {
		return err
	}
	momentum := float64(n.Float("momentum", 0.9))
	running := runningParam{at[4], at[5], at[6], at[7], momentum, 1 - momentum}
	parts := n.scratch(momentBytes * int64(c.parts) * int64(c.param.count))
	p := c.at(at[0], at[1]).param
	if err := n.launch3(n.momentsKernel("moments_channels", n.In[0]), c.grid, c.block, 0, parts, at[1], p); err != nil {
		return err
	}
	return n.launch3(n.momentsKernel("normalize_channels", n.In[0]), c.grid, c.block, 0,
		at[0], at[1], parts, int32(c.parts), at[2], at[3], p, float64(n.Float("epsilon", 1e-5)), running)
}

// makeGroupNorm normalizes groups of channels, with scale and bias by channel or, before
// opset 21, by group. Groups that fit the shared memory are rows.
func makeGroupNorm(n *Node, many int) error {
	x, scale, bias := n.In[0], n.In[1], n.In[2]
	if err := sameReals(x, scale, bias); err != nil {
		return err
	}
	channels, inner := x.Shape[1], count(x.Shape[2:])
	per := channels / many
	byGroup := scale.Len() == many && many != channels
	l := lineSet{count: x.Shape[0] * many, n: per * inner, step: 1}.inFours()
	if _, _, _, shared, err := l.team(computeBytes(x)); err == nil && shared > 0 {
		k, err := n.normKernel("row_norm", x)
		if err != nil {
			return err
		}
		r, err := n.normResult(scale, bias, n.Float("epsilon", 1e-5))
		if err != nil {
			return err
		}
		r.scales = repeats{int32(inner), int32(channels)}
		if byGroup {
			r.scales = repeats{int32(per * inner), int32(many)}
		}
		r.biases = r.scales
		return n.launchTeams(k, l, computeBytes(x), []*form.Tensor{n.Out[0], x}, r)
	}
	statistics, groups, err := n.moments(x, []int{l.count, l.n}, []bool{false, true})
	if err != nil {
		return err
	}
	p := planes{
		count: int32(x.Len() / inner), n: int32(inner), groupDiv: int32(per), groupMod: int32(l.count), channelDiv: 1, channelMod: int32(channels),
		epsilon: float64(n.Float("epsilon", 1e-5)),
	}
	if byGroup {
		p.channelDiv, p.channelMod = int32(per), int32(many)
	}
	return n.normalize(p, statistics, groups, scale, bias)
}

// makeMeanVarianceNorm subtracts the mean over some axes and divides by the standard
// deviation.
func makeMeanVarianceNorm(n *Node) error {
	x := n.In[0]
	if err := sameReals(x); err != nil {
		return err
	}
	axes, err := attr.AxesOr(n.Node, "axes", len(x.Shape), 0, 2, 3)
	if err != nil {
		return err
	}
	drop := make([]bool, len(x.Shape))
	for _, k := range axes {
		drop[k] = true
	}
	f := form.FoldAxes(x.Shape, drop)
	if len(f.Kept) > 1 {
		return unsupportedf("axes %v, around which several runs of axes are kept", axes)
	}
	kept, inner := 1, x.Len()
	if len(f.Kept) == 1 {
		kept, inner = f.Kept[0], f.KeptStride[0]
	}
	statistics, many, err := n.moments(x, x.Shape, drop)
	if err != nil {
		return err
	}
	p := planes{count: int32(x.Len() / inner), n: int32(inner), groupDiv: 1, groupMod: int32(kept), channelDiv: 1, channelMod: 1, outside: 1, epsilon: 1e-9}
	return n.normalize(p, statistics, many, nil, nil)
}
