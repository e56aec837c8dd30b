package kernel

import (
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
)

// transposedBlocks returns a ConvTranspose whose kernel tiles its output as a convolution of
// blocks; nil for any other, and where packedTranspose would add up in another order.
func transposedBlocks(c *Invocation) *gemm.Blocks {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	if x.Rank() != 4 || weight.Type != x.Type || c.Int("group", 1) != 1 {
		return nil
	}
	v, err := c.TransposedWindow()
	if err != nil || !tiles(v) || v.Kernel[0] != 1 || x.Shape[1]%gemm.BlockLen != 0 || out.Shape[1]%gemm.BlockLen != 0 {
		return nil
	}
	one := [2]int{1, 1}
	size := [2]int{x.Shape[2], x.Shape[3]}
	b := &gemm.Blocks{
		Images: x.Shape[0], Groups: 1, Channels: x.Shape[1], Columns: out.Shape[1], In: size, Out: size, Kernel: one, Stride: one, Dilation: one,
		Bias: c.Has(2), Tiles: [2]int{v.Kernel[1], v.Kernel[2]}, Stop: c.Runtime,
	}
	if !b.CanBlock() {
		return nil
	}
	return b
}

// canBlocksTranspose reports whether makeBlocksTranspose can compute a ConvTranspose.
func canBlocksTranspose(c *Invocation) bool { return c.In[1].Const && transposedBlocks(c) != nil }

// makeBlocksTranspose is packedTranspose for images in blocks. The bits are the same.
func makeBlocksTranspose(c *Invocation) (Run, error) {
	b := transposedBlocks(c)
	if b == nil {
		return nil, unsupportedf("this ConvTranspose of an image in blocks")
	}
	taps := b.Tiles[0] * b.Tiles[1]
	columns := tableOf[blockColumns](c, taps)
	for tap := range columns {
		columns[tap] = blockColumns{Dense: gemm.Dense{Len: b.Columns, Step: taps, Deep: b.Columns * taps}, off: tap}
	}
	return c.runBlocks(b, columns)
}
