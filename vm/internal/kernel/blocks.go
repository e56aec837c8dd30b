package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// BlockLen is the number of channels of a block (Tensor.Blocks).
const BlockLen = gemm.BlockLen

// BlockForm tells which images of a node may be held in blocks of channels. Without In and
// Out, none.
type BlockForm struct {
	In, Out bool // the image, and output 0
	Alike   bool // both, or neither
	Image   int  // the input that is the image
}

// canHoldBlocks reports whether an image can be held in blocks. Of a single pixel, both layouts
// are the same.
func canHoldBlocks(t *Tensor) bool {
	return t.rank() == 4 && t.Type == graph.Float32 && t.Shape[1] > 0 && t.Shape[1]%gemm.BlockLen == 0 && t.Shape[2]*t.Shape[3] > 1 && gemm.Level() != "plain"
}

// convolvesBlocks tells which images of a convolution may be held in blocks: each for itself,
// or both of one of single channels.
func convolvesBlocks(c *Invocation) BlockForm {
	weight, out, group := c.In[1], c.Out[0], c.Int("group", 1)
	if canHoldBlocks(c.In[0]) && canHoldBlocks(out) && canBlocksDepthwise(c) {
		return BlockForm{In: true, Out: true, Alike: true}
	}
	if c.In[0].rank() != 4 || out.Type != graph.Float32 || weight.Type != graph.Float32 || !weight.Const || weight.Shape[0] == 0 || weight.Shape[1] == 0 || weight.Shape[1] == 1 && weight.Shape[0] == group {
		return BlockForm{}
	}
	v, err := newWindow(c, weight.Shape[2:], c.In[0].Shape[2:], out.Shape[2:])
	if err != nil || manyWindows(c, v, group) {
		return BlockForm{}
	}
	if weight.Shape[0]/group%gemm.BlockLen != 0 {
		return BlockForm{}
	}
	b := denseBlocks(c, v, group)
	return BlockForm{In: canHoldBlocks(c.In[0]) && b.CanBlock() && !spreads(c, v, group), Out: canHoldBlocks(out)}
}

// BlockForm tells which images of a node may be held in blocks.
func (k *Kernel) BlockForm(c *Invocation) BlockForm {
	if k.Blocks == nil || len(c.In) == 0 || c.In[0] == nil || len(c.Out) == 0 || c.Out[0] == nil || !canHoldBlocks(c.In[0]) && !canHoldBlocks(c.Out[0]) || c.In[0].Shape == nil || c.Out[0].Shape == nil {
		return BlockForm{}
	}
	return k.Blocks(c)
}

// poolsBlocks tells whether a pool reads and writes blocks.
func poolsBlocks(c *Invocation) BlockForm {
	can := canHoldBlocks(c.In[0]) && canHoldBlocks(c.Out[0]) && canBlocksPool(c)
	return BlockForm{In: can, Out: can, Alike: true}
}

// poolsWholeBlocks tells whether a global pool reads blocks. Its result is the same in planes.
func poolsWholeBlocks(c *Invocation) BlockForm {
	return BlockForm{In: canHoldBlocks(c.In[0]) && canBlocksGlobalPool(c)}
}

// resizesBlocks tells whether a Resize reads and writes blocks.
func resizesBlocks(c *Invocation) BlockForm {
	can := canHoldBlocks(c.In[0]) && canHoldBlocks(c.Out[0]) && canBlocksResize(c)
	return BlockForm{In: can, Out: can, Alike: true}
}

// scalesBlocks tells whether a binary operator takes an image and a number for each channel.
func scalesBlocks(c *Invocation) BlockForm {
	if len(c.In) < 2 || c.In[1] == nil || !canHoldBlocks(c.Out[0]) || gemm.Level() == "plain" || !canBlocksScaled(c) {
		return BlockForm{}
	}
	return BlockForm{In: true, Out: true, Alike: true, Image: scaledImage(c)}
}

// scalesHeld reports whether a node is such an operator, and its image held in blocks.
func scalesHeld(c *Invocation) bool {
	return len(c.Out) == 1 && c.Out[0] != nil && c.Out[0].Blocks && len(c.In) == 2 && scaledRow(c.Node.Op) != nil && canBlocksScaled(c)
}

// AddsResidual reports whether a kernel can add a tensor to its result (Invocation.Residual),
// with the bits of a separate Add. over says that the sums overwrite that tensor.
func AddsResidual(c *Invocation, over bool) bool {
	if c.Node.Op != "Conv" || c.Node.Domain != "" || !c.In[0].Blocks || !c.Out[0].Blocks {
		return false
	}
	weight, group := c.In[1], c.Int("group", 1)
	v, err := newWindow(c, weight.Shape[2:], c.In[0].Shape[2:], c.Out[0].Shape[2:])
	if err != nil || weight.Shape[1] == 1 && weight.Shape[0] == group {
		return false
	}
	return !over || denseBlocks(c, v, group).Once()
}

// spreads reports whether packedConv computes a convolution with Image.Spread.
func spreads(c *Invocation, v *window, group int) bool {
	m, ch := c.In[1].Shape[0]/group, c.In[1].Shape[1]
	image := gemm.Image{Channels: ch, In: v.in, Out: v.out, Kernel: v.kernel, Stride: v.stride, Dilation: v.dil, Pad: v.pads}
	return !gemm.Across(v.outputs(), m) && image.WorthSpreading()
}

func denseBlocks(c *Invocation, v *window, group int) *gemm.Blocks {
	plane := func(list [3]int) [2]int { return [2]int{list[1], list[2]} }
	return &gemm.Blocks{
		Images: c.In[0].Shape[0], Groups: group, Channels: c.In[1].Shape[1], Columns: c.In[1].Shape[0] / group,
		In: plane(v.in), Out: plane(v.out), Kernel: plane(v.kernel), Stride: plane(v.stride), Dilation: plane(v.dil), Pad: plane(v.pads), Bias: c.Has(2), Stop: c.Runtime,
	}
}

// blocksConv is packedConv for an image in blocks. The bits are the same.
func blocksConv(c *Invocation, v *window, group int) (Run, error) {
	b := denseBlocks(c, v, group)
	b.Planes = !c.Out[0].Blocks
	finish := c.take()
	var more bool
	b.Act, b.Low, b.High, more = finish.epilogue()
	if more {
		b.Finish = func(d []float32) {
			for from, to := range c.pieces(len(d)) {
				finish.Row(d[from:to])
			}
		}
	}
	if err := c.Runtime.Heap(int64(b.PlanBytes())); err != nil {
		return nil, err
	}
	b.Plan()
	k := b.Channels * v.taps()
	columns := tableOf[blockColumns](c, group)
	for g := range columns {
		columns[g] = blockColumns{Dense: gemm.Dense{Len: b.Columns, Step: k, Deep: 1}, off: g * b.Columns * k}
		if v.taps() > 1 {
			columns[g].Deep, columns[g].Taps = gemm.BlockLen, v.taps()
		}
	}
	return c.runBlocks(b, k, columns), nil
}

// blockColumns is the right side of a product of a convolution of blocks.
type blockColumns struct {
	gemm.Dense
	packed gemm.Packed
	off    int // of its first element in the weights
}

// runBlocks makes the Run of a convolution that is planned. Products have k terms.
func (c *Invocation) runBlocks(b *gemm.Blocks, k int, columns []blockColumns) Run {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	packed := true
	for i := range columns {
		s := &columns[i]
		packed = c.packWeights(&s.packed, &s.Dense, weight, s.off, k, true) && packed
	}
	if packed {
		c.Packed = append(c.Packed, weight)
	}
	each := c.Each(b.ScratchBytes(packed))
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
		if c.Residual != nil {
			at.Added = c.Residual.At
		}
		if b.Bias {
			at.Bias = c.In[2].At
		}
		for i := range columns {
			columns[i].At = element[float32](weight, columns[i].off)
		}
		w.For(b.Parts(w.Workers()), part)
		return nil
	}
}
