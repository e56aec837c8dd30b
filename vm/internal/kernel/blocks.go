package kernel

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// BlockLen is the number of channels of a block of NCHW16c (form.NCHW16c).
const BlockLen = gemm.BlockLen

// BlockForm tells which images of a node may be held in NCHW16c. Without In and Out, none.
type BlockForm struct {
	In, Out bool // the image, and output 0
	Alike   bool // both, or neither
	Image   int  // the input that is the image
	Added   int  // the input that is added and held as output 0; 0: none
	Needs   bool // output 0 only with the image
}

// fitsBlocks reports whether t can be an image in NCHW16c.
func fitsBlocks(t *Tensor) bool {
	return (t.Type == graph.Float32 || isHalf(t)) && t.Rank() == 4 && t.Shape[1]%BlockLen == 0 && t.Len() > 0
}

// fitsHalves reports whether t can be such an image, or one of float32 with half a block left. Few
// kernels take the latter.
func fitsHalves(t *Tensor) bool {
	return fitsBlocks(t) || t.Type == graph.Float32 && t.Rank() == 4 && t.Shape[1]%gemm.HalfLen == 0 && t.Len() > 0
}

// blockAt describes block i of images in NCHW16c of so many channels: its image, its first channel
// in that, and how many it has.
func blockAt(channels, i int) (image, first, lanes int) {
	n := cuts(channels, BlockLen)
	first = i % n * BlockLen
	return i / n, first, min(BlockLen, channels-first)
}

// canHoldBlocks reports whether a session may hold an image in NCHW16c. Of a single pixel,
// both layouts are the same.
func canHoldBlocks(t *Tensor) bool { return fitsBlocks(t) && canHoldHalves(t) }

// canHoldHalves is canHoldBlocks for a kernel that takes half a block.
func canHoldHalves(t *Tensor) bool {
	return fitsHalves(t) && t.Shape[2]*t.Shape[3] > 1 && gemm.Level() != "plain"
}

// canHoldVolumes reports whether a session may hold t as volumes in NCHW16c, with an axis before the
// rows. Convolutions, elementwise operators and means of volumes take them.
func canHoldVolumes(t *Tensor) bool {
	return t.Type == graph.Float32 && t.Rank() == 5 && t.Shape[1]%BlockLen == 0 && t.Len() > t.Shape[0]*t.Shape[1] && gemm.Level() != "plain"
}

// BlockForm tells which images of a node may be held in blocks.
func (k *Kernel) BlockForm(c *Invocation) BlockForm {
	if k.Blocks == nil || len(c.In) == 0 || c.In[0] == nil || len(c.Out) == 0 || c.Out[0] == nil {
		return BlockForm{}
	}
	if held := []*Tensor{c.In[0], c.Out[0]}; !slices.ContainsFunc(held, canHoldHalves) && !slices.ContainsFunc(held, canHoldVolumes) {
		return BlockForm{}
	}
	return k.Blocks(c)
}

// inAndOut makes the Blocks of a kernel that reads and writes blocks if can says so.
func inAndOut(can func(*Invocation) bool) func(*Invocation) BlockForm {
	return func(c *Invocation) BlockForm {
		both := canHoldBlocks(c.In[0]) && canHoldBlocks(c.Out[0]) && can(c)
		return BlockForm{In: both, Out: both, Alike: both}
	}
}

// convolvesBlocks tells which images of a convolution may be held in blocks: each for itself,
// or both of one of single channels.
func convolvesBlocks(c *Invocation) BlockForm {
	weight, out, group := c.In[1], c.Out[0], c.Int("group", 1)
	if weight.Type != out.Type || c.In[0].Type != out.Type {
		return BlockForm{}
	}
	if singleChannels(weight, group) && !addsInput(c) {
		both := canHoldHalves(c.In[0]) && canHoldHalves(out) && canBlocksDepthwise(c)
		return BlockForm{In: both, Out: both, Alike: both}
	}
	if singleChannels(weight, group) || c.In[0].Rank() != 4 && c.In[0].Rank() != 5 || !weight.Const && weight.Alike == nil || weight.Len() == 0 {
		return BlockForm{}
	}
	v, err := form.NewWindow(&c.Call, weight.Shape[2:], c.In[0].Shape[2:], out.Shape[2:])
	if err != nil {
		return BlockForm{}
	}
	if c.In[0].Rank() == 5 {
		whole := weight.Shape[0]/group%BlockLen == 0 && !addsInput(c)
		return BlockForm{In: whole && canHoldVolumes(c.In[0]) && denseBlocks(c, v, group, true).CanBlock(), Out: whole && canHoldVolumes(out)}
	}
	form := BlockForm{In: canHoldHalves(c.In[0]) && fillsBlocks(weight.Shape[0]/group) && denseBlocks(c, v, group, true).CanBlock()}
	switch {
	case weight.Shape[0]/group%BlockLen == 0:
		form.Out = canHoldBlocks(out)
	case group == 1 && !addsInput(c):
		form.Out = canHoldHalves(out)
	default:
		form.Out, form.Needs = form.In && weight.Shape[0]/group%gemm.HalfLen == 0 && canHoldHalves(out), true
	}
	if addsInput(c) {
		form.Added = 3
	}
	return form
}

// fillsBlocks reports whether channels of a result, computed in halves of blocks, leave little of
// them empty.
func fillsBlocks(channels int) bool {
	return 10*cuts(channels, gemm.HalfLen)*gemm.HalfLen <= 14*channels
}

// addsInput reports whether a convolution adds its input 3 to the sums. Only a FusedConv has
// one.
func addsInput(c *Invocation) bool { return c.Has(3) }

// singleChannels reports whether a convolution has a kernel for each channel of its image.
func singleChannels(weight *Tensor, group int) bool {
	return weight.Shape[1] == 1 && weight.Shape[0] == group
}

// globalPoolsBlocks and globalPoolsHalves tell whether a global pool reads blocks. Its result is the
// same in NCHW.
func globalPoolsHalves(c *Invocation) BlockForm {
	return BlockForm{In: canHoldHalves(c.In[0]) || canHoldVolumes(c.In[0])}
}

func globalPoolsBlocks(c *Invocation) BlockForm { return BlockForm{In: canHoldBlocks(c.In[0])} }

// scalesBlocks tells whether a binary operator takes an image and a number for each channel.
func scalesBlocks(c *Invocation) BlockForm {
	if len(c.In) < 2 || c.In[1] == nil || !canHoldHalves(c.Out[0]) || !canBlocksScaled(c) {
		return BlockForm{}
	}
	return BlockForm{In: true, Out: true, Alike: true, Image: scaledImage(c)}
}

// AddsResidual reports whether a kernel can add a tensor to its result (Invocation.Residual),
// with the bits of a separate Add.
func AddsResidual(c *Invocation) bool {
	if c.Node.Op != "Conv" || c.Node.Domain != "" || c.In[0].Layout != form.NCHW16c || c.Out[0].Layout != form.NCHW16c {
		return false
	}
	weight, group := c.In[1], c.Int("group", 1)
	return !singleChannels(weight, group)
}

// spreads reports whether packedConv computes a convolution with Image.Spread.
func spreads(c *Invocation, v *form.Window, group int) bool {
	m, ch := c.In[1].Shape[0]/group, c.In[1].Shape[1]
	image := gemm.Image{Channels: ch, In: v.In, Out: v.Out, Kernel: v.Kernel, Stride: v.Stride, Dilation: v.Dilation, Pad: v.Pad}
	return !gemm.Across(v.Outputs(), m) && image.WorthSpreading()
}

// denseBlocks returns a convolution in the form that computes blocks, and reads an image in them
// or in NCHW.
func denseBlocks(c *Invocation, v *form.Window, group int, blocks bool) *gemm.Blocks {
	plane := func(list [3]int) [2]int { return [2]int{list[1], list[2]} }
	columns := c.In[1].Shape[0] / group
	b := &gemm.Blocks{
		Images: c.In[0].Shape[0], Groups: group, Channels: c.In[1].Shape[1], Columns: columns, Thin: !blocks, Spread: blocks && spreads(c, v, group), Planes: columns%gemm.HalfLen != 0,
		In: plane(v.In), Out: plane(v.Out), Kernel: plane(v.Kernel), Stride: plane(v.Stride), Dilation: plane(v.Dilation), Pad: plane(v.Pad), Bias: c.Has(2), Format: formatOf(c.In[0].Type), Stop: c.Runtime,
	}
	switch {
	case c.In[0].Rank() != 5:
	case v.Flat(): // its planes are rows
		b.In = [2]int{v.In[0] * v.In[1], v.In[2]}
		b.Out = b.In
	default:
		b.First = gemm.Axis{In: v.In[0], Out: v.Out[0], Kernel: v.Kernel[0], Stride: v.Stride[0], Dilation: v.Dilation[0], Pad: v.Pad[0]}
	}
	return b
}

// isThin reports whether blocksConv reads an image in NCHW, in the order of terms of packedConv: a
// picture, or one of many channels that a 1 x 1 kernel reads where they lie.
func isThin(c *Invocation, v *form.Window, group int) bool {
	const deep = 128 // channels: with fewer, a result in NCHW takes longer to transpose
	weight := c.In[1]
	if c.In[0].Rank() != 4 && c.Out[0].Layout != form.NCHW16c || !weight.Const || weight.Len() == 0 || !fillsBlocks(weight.Shape[0]/group) {
		return false
	}
	ch, held := weight.Shape[1], c.Out[0].Layout == form.NCHW16c
	b := denseBlocks(c, v, group, false)
	b.Planes = !held
	return (ch < BlockLen && held || ch >= deep && v.Flat() && b.Format == gemm.Float32) && b.CanBlock()
}

// blocksConv is packedConv for an image in blocks. The bits are the same.
func blocksConv(c *Invocation, v *form.Window, group int) (Run, error) {
	b := denseBlocks(c, v, group, c.In[0].Layout == form.NCHW16c)
	b.Planes = c.Out[0].Layout != form.NCHW16c
	finish := c.take()
	b.Added = c.Residual != nil || c.added != nil
	b.Whole = c.added != nil || b.Added && c.Residual.At == c.Out[0].At
	more := b.Later() && finish != nil
	if !more {
		b.Act, b.Low, b.High, more = finish.epilogue()
	}
	if more {
		b.Finish = func(d []float32) {
			for from, to := range c.Pieces(len(d)) {
				finish.Row(d[from:to])
			}
		}
	}
	k := b.Depth()
	columns := tableOf[blockColumns](c, group)
	for g := range columns {
		columns[g] = blockColumns{Dense: gemm.Dense{Len: b.Columns, Step: k, Deep: 1, Format: b.Format}, off: g * b.Columns * k}
		switch {
		case b.Spread:
			columns[g].Deep, columns[g].Taps = b.Channels, v.Taps()
		case v.Taps() > 1 && !b.Thin:
			columns[g].Deep, columns[g].Taps = BlockLen, v.Taps()
		}
	}
	return c.runBlocks(b, columns)
}

// blockColumns is the right side of a product of a convolution of blocks.
type blockColumns struct {
	gemm.Dense
	packed gemm.Packed
	off    int // of its first element in the weights
}

// runBlocks plans a convolution and makes its Run.
func (c *Invocation) runBlocks(b *gemm.Blocks, columns []blockColumns) (Run, error) {
	if err := c.Runtime.Heap(int64(b.PlanBytes())); err != nil {
		return nil, err
	}
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	packed := true
	for i := range columns {
		s := &columns[i]
		packed = c.pack(&s.packed, &s.Dense, weight, s.off, b.Depth(), true) && packed
	}
	if packed {
		c.Packed = append(c.Packed, weight)
		b.Alike = columns[0].packed.Alike
	}
	b.Plan()
	each, wide := c.Each(b.ScratchBytes(packed)), 0
	if b.Bias && isHalf(x) {
		wide = c.Shared(4 * c.In[2].Len())
	}
	side := func(i int) gemm.Operand {
		if packed {
			return &columns[i].packed
		}
		return &columns[i].Dense
	}
	var pool *work.Pool
	var at gemm.BlockPlaces
	part := func(p, worker int) { b.Part(p, pool.Workers(), &at, side, pool.Each(worker, each)) }
	return func(w *work.Pool) error {
		pool = w
		at = gemm.BlockPlaces{X: x.At, Out: out.At}
		switch {
		case c.Residual != nil:
			at.Added = c.Residual.At
		case c.added != nil:
			at.Added = c.added.At
		}
		switch {
		case b.Bias && isHalf(x):
			bias := &Tensor{Type: graph.Float32, Shape: c.In[2].Shape, At: w.Shared(wide)}
			widenAll(w, bias, c.In[2])
			at.Bias = bias.At
		case b.Bias:
			at.Bias = c.In[2].At
		}
		for i := range columns {
			columns[i].At = elementAt(weight, columns[i].off, weight.Width())
		}
		w.For(b.Parts(w.Workers()), part)
		return nil
	}, nil
}
