package kernel

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// blockTable is the table of a GatherBlockQuantized node: numbers of 2, 4 or 8 bits, the
// first in the lowest bits of a byte. Along one axis they lie in blocks, each of which has
// a scale and a zero point.
type blockTable struct {
	numbers, scale, zero *Tensor // zero may be nil
	shape                []int   // of the numbers
	bits                 int
	axis, block          int // of the blocks
	signed               bool
	middle               int // the zero point where none is given
	get                  func(at unsafe.Pointer, i int) float64
}

// newBlockTable reads the form of a GatherBlockQuantized node.
func newBlockTable(c *Invocation) (*blockTable, error) {
	b := &blockTable{numbers: c.In[0], scale: c.In[2], zero: c.in(3), bits: 4, block: c.Int("block_size", 128)}
	b.shape = slices.Clone(b.numbers.Shape)
	rank := len(b.shape)
	switch b.numbers.Type {
	case graph.Uint8:
		if b.bits = c.Int("bits", 4); b.bits != 2 && b.bits != 4 && b.bits != 8 {
			return nil, unsupportedf("numbers of %d bits", b.bits)
		}
		b.shape[rank-1] *= 8 / b.bits
		b.middle = 1 << (b.bits - 1)
	case graph.Int4, graph.Uint4:
		b.signed = b.numbers.Type == graph.Int4
	default:
		return nil, unsupported(b.numbers.Type)
	}
	if b.axis = c.Int("quantize_axis", 1); b.axis < 0 {
		b.axis += rank
	}
	if b.axis < 0 || b.axis >= rank {
		return nil, fmt.Errorf("quantize_axis is %d, expected one in [%d, %d)", c.Int("quantize_axis", 1), -rank, rank)
	}
	if b.block < 16 || b.block&(b.block-1) != 0 || b.block > 1<<20 {
		return nil, fmt.Errorf("block_size is %d, expected a power of 2 from 16 to %d", b.block, 1<<20)
	}
	shape := slices.Clone(b.shape)
	shape[b.axis] = (shape[b.axis] + b.block - 1) / b.block
	if !slices.Equal(b.scale.Shape, shape) {
		return nil, fmt.Errorf("scales have shape %v, expected %v for numbers of shape %v and blocks of %d along axis %d", b.scale.Shape, shape, b.shape, b.block, b.axis)
	}
	if b.zero != nil {
		if b.numbers.Type == graph.Uint8 {
			shape[rank-1] = (shape[rank-1]*b.bits + 7) / 8
		}
		if b.zero.Type != b.numbers.Type || !slices.Equal(b.zero.Shape, shape) {
			return nil, fmt.Errorf("zero points are %v of shape %v, expected %v of shape %v", b.zero.Type, b.zero.Shape, b.numbers.Type, shape)
		}
	}
	get, ok := reader(b.scale.Type)
	if !ok || b.scale.Type != graph.Float32 && !isHalf(b.scale) {
		return nil, unsupported(b.scale.Type)
	}
	b.get = get
	return b, nil
}

// number returns number i of a packed tensor.
func (b *blockTable) number(t *Tensor, i int) int {
	v := int(packed(t.At, i, b.bits))
	if b.signed && v > 7 {
		v -= 16
	}
	return v
}

// blockOf returns the scale and the zero point of a block.
func (b *blockTable) blockOf(i int) (scale float32, zero int) {
	scale, zero = float32(b.get(b.scale.At, i)), b.middle
	if b.zero != nil {
		if b.numbers.Type == graph.Uint8 { // rows of the last axis begin with a byte
			last := b.scale.Shape[len(b.shape)-1]
			i = i/last*(b.zero.Shape[len(b.shape)-1]*8/b.bits) + i%last
		}
		zero = b.number(b.zero, i)
	}
	return scale, zero
}

// read writes the numbers from number first on as real ones: (number - zero point)·scale.
func (b *blockTable) read(d []float32, first int) {
	after := count(b.shape[b.axis+1:])
	n, blocks := b.shape[b.axis], b.scale.Shape[b.axis]
	for i := 0; i < len(d); {
		e := first + i
		line, at := e/after/n, e/after%n
		scale, zero := b.blockOf((line*blocks+at/b.block)*after + e%after)
		same := 1 // numbers of this block that follow one another
		if after == 1 {
			same = min(len(d)-i, n-at, b.block-at%b.block)
		}
		for k := range same {
			d[i+k] = float32(b.number(b.numbers, e+k)-zero) * scale
		}
		i += same
	}
}

// makeGatherBlockQuantized reads slices of a table at indices along an axis. An index out
// of range gives zeros.
func makeGatherBlockQuantized(c *Invocation) (Run, error) {
	index, out := c.In[1], c.Out[0]
	b, err := newBlockTable(c)
	if err != nil {
		return nil, err
	}
	get, err := indexReader(index)
	if err != nil {
		return nil, err
	}
	if out.Type != b.scale.Type {
		return nil, unsupported(out.Type)
	}
	k := c.Int("gather_axis", 0)
	if k < 0 {
		k += len(b.shape)
	}
	const most = 1 << 11
	n, inner, many := b.shape[k], count(b.shape[k+1:]), index.Len()
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
		w.For(mul(count(b.shape[:k]), many, pieces), part)
		return nil
	}, nil
}
