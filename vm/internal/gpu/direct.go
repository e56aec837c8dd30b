package gpu

import (
	"math"

	"github.com/onnxmem/onnxmem/vm/cuda/driver"
)

// direct is the struct Direct of kernels/direct.cu.
type direct struct {
	M, Channels, Groups, K                                        int32
	Count                                                         uint32
	Chunk                                                         int32
	Positions, Out12, Out2, Blocks, ByGroups, Taps, Taps12, Taps2 division
	In, Kernel, Stride, Dilation, Pad, Step                       [3]int32
	Total, XImage, XGroup, XChannel, WGroup, WRow, WChannel, YRow int64
}

// Figures of kernels/direct.cu.
const (
	directRows      = 4    // channels that a thread of direct4 computes
	correlateAt     = 9    // positions of a block of correlate
	correlateChunk  = 1024 // least depth of a block of correlate
	mostDirectRows  = 16   // channels of a group, beyond which tiles are full enough
	mostCorrelateAt = 64   // positions, likewise
)

// isDirect reports whether a thread for each position is faster than tiles: each group has
// few channels, and there are many groups or many positions.
func (c *convolution) isDirect() bool {
	many := c.images*volume(c.Out) >= 2*multiprocessors*threadsPerBlock
	return c.m == 1 && c.channels <= directRows || c.groups > 1 && c.m <= mostDirectRows || c.m <= directRows && many
}

// isCorrelation reports whether there are few channels in a group, few positions, and a
// large depth.
func (c *convolution) isCorrelation() bool {
	return c.m <= mostDirectRows && c.images*volume(c.Out) <= mostCorrelateAt && c.channels*volume(c.Kernel) >= correlateChunk
}

// direct returns the parameters of a convolution whose weights are dense along the depth.
func (c *convolution) direct() direct {
	taps := volume(c.Kernel)
	return direct{
		M: int32(c.m), Channels: int32(c.channels), Groups: int32(c.groups), K: int32(c.channels * taps), ByGroups: divisionBy(c.groups),
		Taps: divisionBy(taps), Taps12: divisionBy(c.Kernel[1] * c.Kernel[2]), Taps2: divisionBy(c.Kernel[2]),
		Positions: divisionBy(volume(c.Out)), Out12: divisionBy(c.Out[1] * c.Out[2]), Out2: divisionBy(c.Out[2]),
		In: int32s(c.In[:]...), Kernel: int32s(c.Kernel[:]...), Stride: int32s(c.Stride[:]...), Dilation: int32s(c.Dilation[:]...), Pad: int32s(c.Pad[:]...),
		Total: int64(c.r.y.Len()), YRow: int64(volume(c.Out)),
		XImage: int64(c.groups * c.channels * volume(c.In)), XGroup: int64(c.channels * volume(c.In)), XChannel: int64(volume(c.In)),
		WGroup: int64(c.m * c.channels * taps), WRow: int64(c.channels * taps), WChannel: int64(taps),
	}
}

// launchDirect appends the launch of a thread for each position.
func (c *convolution) launchDirect(n *Node, v direct, definitions ...string) error {
	rows, name := 1, "direct1"
	if c.m > 1 {
		rows, name = directRows, "direct4"
	}
	blocks := cuts(c.m, rows)
	total := c.images * c.groups * blocks * volume(c.Out)
	if max(total, volume(c.In), c.w.Len()) > math.MaxInt32 {
		return unsupportedf("a convolution with %d positions", total)
	}
	v.Blocks, v.Count = divisionBy(blocks), uint32(total)
	at, err := n.addresses(c.r.y, c.x, c.w, c.r.bias, c.r.added)
	if err != nil {
		return err
	}
	n.computes("onnxmem", c.r.y.Type, false)
	k := n.kernel("direct.cu", name, append([]string{"ELEMENT=" + cType[c.r.y.Type]}, definitions...)...)
	if err := n.launch(k, cuts(total, threadsPerBlock), threadsPerBlock, at[0], at[1], at[2], at[3], at[4], v, c.r.finish); err != nil {
		return err
	}
	return n.activate(c.r)
}

// correlate appends a convolution with blocks that sum up a channel at some positions.
func (c *convolution) correlate(n *Node, v direct) error {
	v.Count = uint32(c.images * volume(c.Out))
	blocks, parts := c.groups*c.m*cuts(int(v.Count), correlateAt), 1
	for blocks*parts < 4*multiprocessors && cuts(int(v.K), 2*parts) >= correlateChunk {
		parts *= 2
	}
	v.Chunk = int32(cuts(int(v.K), parts))
	parts = cuts(int(v.K), int(v.Chunk))
	if blocks > math.MaxInt32 || volume(c.In) > math.MaxInt32 {
		return unsupportedf("a convolution of %d elements", c.x.Len())
	}
	at, err := n.addresses(c.r.y, c.x, c.w, c.r.bias, c.r.added)
	if err != nil {
		return err
	}
	room := n.partsOf(c.r, parts)
	n.computes("onnxmem", c.r.y.Type, false)
	k := n.kernel("direct.cu", "correlate", "ELEMENT="+cType[c.r.y.Type])
	grid := driver.Dim3{X: uint32(blocks), Y: uint32(parts), Z: 1}
	if err := n.launch3(k, grid, driver.Dim3{X: threadsPerBlock, Y: 1, Z: 1}, 0, at[0], room, at[1], at[2], at[3], at[4], v, c.r.finish); err != nil {
		return err
	}
	return n.completeProduct(c.r, room, parts)
}
