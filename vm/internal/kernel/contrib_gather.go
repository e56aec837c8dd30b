package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// blockTable reads the numbers of a table.
type blockTable struct {
	*form.BlockTable
	scale func(at unsafe.Pointer, i int) float64
}

// number returns number i of a packed tensor.
func (b *blockTable) number(t *Tensor, i int) int {
	v := int(form.Packed(t.At, i, b.Bits))
	if b.Signed && v > 7 {
		v -= 16
	}
	return v
}

// blockOf returns the scale and the zero point of a block.
func (b *blockTable) blockOf(i int) (scale float32, zero int) {
	scale, zero = float32(b.scale(b.Scale.At, i)), b.Middle
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
func (b *blockTable) read(d []float32, first int) {
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
	table, err := c.BlockTable()
	if err != nil {
		return nil, err
	}
	b := &blockTable{BlockTable: table}
	b.scale, _ = form.Reader(b.Scale.Type)
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
