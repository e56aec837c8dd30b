package kernel

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// BlockTable is the table of a GatherBlockQuantized node: numbers of 2, 4 or 8 bits, the
// first in the lowest bits of a byte. Along one axis they lie in blocks, each of which has
// a scale and a zero point. Of bytes, the zero points of a row of the last axis begin with
// a byte.
type BlockTable struct {
	Numbers, Scale, Zero *Tensor // Zero may be nil
	Shape                []int   // of the numbers
	Bits                 int
	Axis, Block          int // of the blocks
	Signed               bool
	Middle               int // the zero point where none is given
	Slices               int // the axis of the indices
	get                  func(at unsafe.Pointer, i int) float64
}

// BlockTable reads the form of a GatherBlockQuantized node.
func (c *Invocation) BlockTable() (*BlockTable, error) {
	b := &BlockTable{Numbers: c.In[0], Scale: c.In[2], Zero: c.in(3), Bits: 4, Block: c.Int("block_size", 128), Slices: c.Int("gather_axis", 0)}
	b.Shape = slices.Clone(b.Numbers.Shape)
	rank := len(b.Shape)
	switch b.Numbers.Type {
	case graph.Uint8:
		if b.Bits = c.Int("bits", 4); b.Bits != 2 && b.Bits != 4 && b.Bits != 8 {
			return nil, unsupportedf("numbers of %d bits", b.Bits)
		}
		b.Shape[rank-1] *= 8 / b.Bits
		b.Middle = 1 << (b.Bits - 1)
	case graph.Int4, graph.Uint4:
		b.Signed = b.Numbers.Type == graph.Int4
	default:
		return nil, unsupported(b.Numbers.Type)
	}
	if b.Axis = c.Int("quantize_axis", 1); b.Axis < 0 {
		b.Axis += rank
	}
	if b.Axis < 0 || b.Axis >= rank {
		return nil, fmt.Errorf("quantize_axis is %d, expected one in [%d, %d)", c.Int("quantize_axis", 1), -rank, rank)
	}
	if b.Block < 16 || b.Block&(b.Block-1) != 0 || b.Block > 1<<20 {
		return nil, fmt.Errorf("block_size is %d, expected a power of 2 from 16 to %d", b.Block, 1<<20)
	}
	shape := slices.Clone(b.Shape)
	shape[b.Axis] = (shape[b.Axis] + b.Block - 1) / b.Block
	if !slices.Equal(b.Scale.Shape, shape) {
		return nil, fmt.Errorf("scales have shape %v, expected %v for numbers of shape %v and blocks of %d along axis %d", b.Scale.Shape, shape, b.Shape, b.Block, b.Axis)
	}
	if b.Zero != nil {
		if b.Numbers.Type == graph.Uint8 {
			shape[rank-1] = (shape[rank-1]*b.Bits + 7) / 8
		}
		if b.Zero.Type != b.Numbers.Type || !slices.Equal(b.Zero.Shape, shape) {
			return nil, fmt.Errorf("zero points are %v of shape %v, expected %v of shape %v", b.Zero.Type, b.Zero.Shape, b.Numbers.Type, shape)
		}
	}
	if b.Slices < 0 {
		b.Slices += rank
	}
	get, ok := reader(b.Scale.Type)
	if !ok || b.Scale.Type != graph.Float32 && !isHalf(b.Scale) {
		return nil, unsupported(b.Scale.Type)
	}
	b.get = get
	return b, nil
}

// number returns number i of a packed tensor.
func (b *BlockTable) number(t *Tensor, i int) int {
	v := int(packed(t.At, i, b.Bits))
	if b.Signed && v > 7 {
		v -= 16
	}
	return v
}

// blockOf returns the scale and the zero point of a block.
func (b *BlockTable) blockOf(i int) (scale float32, zero int) {
	scale, zero = float32(b.get(b.Scale.At, i)), b.Middle
	if b.Zero != nil {
		if b.Numbers.Type == graph.Uint8 { // rows of the last axis begin with a byte
			last := b.Scale.Shape[len(b.Shape)-1]
			i = i/last*(b.Zero.Shape[len(b.Shape)-1]*8/b.Bits) + i%last
		}
		zero = b.number(b.Zero, i)
	}
	return scale, zero
}

// read writes the numbers from number first on as real ones: (number - zero point)·scale.
func (b *BlockTable) read(d []float32, first int) {
	after := count(b.Shape[b.Axis+1:])
	n, blocks := b.Shape[b.Axis], b.Scale.Shape[b.Axis]
	for i := 0; i < len(d); {
		e := first + i
		line, at := e/after/n, e/after%n
		scale, zero := b.blockOf((line*blocks+at/b.Block)*after + e%after)
		same := 1 // numbers of this block that follow one another
		if after == 1 {
			same = min(len(d)-i, n-at, b.Block-at%b.Block)
		}
		for k := range same {
			d[i+k] = float32(b.number(b.Numbers, e+k)-zero) * scale
		}
		i += same
	}
}

// makeGatherBlockQuantized reads slices of a table at indices along an axis. An index out
// of range gives zeros.
func makeGatherBlockQuantized(c *Invocation) (Run, error) {
	index, out := c.In[1], c.Out[0]
	b, err := c.BlockTable()
	if err != nil {
		return nil, err
	}
	get, err := indexReader(index)
	if err != nil {
		return nil, err
	}
	if out.Type != b.Scale.Type {
		return nil, unsupported(out.Type)
	}
	k := b.Slices
	const most = 1 << 11
	n, inner, many := b.Shape[k], count(b.Shape[k+1:]), index.Len()
	pieces := cuts(inner, most)
	each := c.Each(4 * most)
	var pool *work.Pool
	part := func(p, worker int) {
		r, from := p/pieces, p%pieces*most
		length := min(most, inner-from)
		d := span[float32](pool.Each(worker, each), length)
		if out.Type == graph.Float32 {
			d = span[float32](element[float32](out, r*inner+from), length)
		}
		if i, ok := get(r%many, n); ok {
			b.read(d, (r/many*n+i)*inner+from)
		} else {
			clear(d)
		}
		if isHalf(out) {
			simd.Round(span[uint16](element[uint16](out, r*inner+from), length), d, narrowType(out.Type))
		}
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(mul(count(b.Shape[:k]), many, pieces), part)
		return nil
	}, nil
}
