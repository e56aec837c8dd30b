package form

import (
	"fmt"

	"github.com/onnxmem/onnxmem/graph"
)

// BitWeights are the weights of a MatMulNBits node: N rows of K numbers of 2, 4 or 8 bits,
// the first in the lowest bits of a byte. Each block of a row has a scale and a zero point,
// a real number or one of as many bits, of which each row begins with a byte.
type BitWeights struct {
	N, K, Bits, Block          int
	Numbers, Scale, Zero, Bias *Tensor // Zero may be nil: the middle of the numbers; Bias, too: none
}

// Blocks is the number of blocks of a row, of which the last may be cut.
func (b *BitWeights) Blocks() int { return (b.K + b.Block - 1) / b.Block }

// BitWeights reads the form of a MatMulNBits node, whose inputs Infer has not compared. It
// does not look at dtypes beyond telling bytes from others.
func (c *Call) BitWeights() (*BitWeights, error) {
	b := &BitWeights{
		N: c.Int("N", 0), K: c.Int("K", 0), Bits: c.Int("bits", 4), Block: c.Int("block_size", 0),
		Numbers: c.In[1], Scale: c.In[2], Zero: c.Input(3), Bias: c.Input(5),
	}
	if c.Has(4) || c.Int("weight_prepacked", 0) != 0 {
		return nil, Unsupportedf("a group index, or weights in an order of their own")
	}
	if b.Bits != 2 && b.Bits != 4 && b.Bits != 8 {
		return nil, Unsupportedf("numbers of %d bits", b.Bits)
	}
	if b.Block < 16 || b.Block&(b.Block-1) != 0 || b.Block > 1<<20 {
		return nil, fmt.Errorf("block_size is %d, expected a power of 2 from 16 to %d", b.Block, 1<<20)
	}
	lists := []struct {
		of    string
		t     *Tensor
		count int
	}{
		{"weights", b.Numbers, Mul(b.N, b.Blocks(), b.Block*b.Bits/8)},
		{"scales", b.Scale, Mul(b.N, b.Blocks())},
		{"zero points", b.Zero, Mul(b.N, b.Blocks())},
		{"bias", b.Bias, b.N},
	}
	if b.Zero != nil && b.Zero.Type == graph.Uint8 {
		lists[2].count = Mul(b.N, (b.Blocks()*b.Bits+7)/8)
	}
	for _, l := range lists {
		if l.t == nil {
			continue
		}
		if l.t.Len() != l.count {
			return nil, fmt.Errorf("%s have shape %v, expected %d elements for N = %d, K = %d and blocks of %d numbers of %d bits", l.of, l.t.Shape, l.count, b.N, b.K, b.Block, b.Bits)
		}
	}
	return b, nil
}
