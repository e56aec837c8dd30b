package kernel

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// bitWeights are the weights of a MatMulNBits node: n rows of k numbers of 2, 4 or 8 bits,
// the first in the lowest bits of a byte. Each block of a row has a scale and a zero point.
type bitWeights struct {
	n, k, bits, block    int
	numbers, scale, zero *Tensor // zero may be nil: the middle of the numbers
}

// blocks is the number of blocks of a row, of which the last may be cut.
func (b *bitWeights) blocks() int { return (b.k + b.block - 1) / b.block }

// newBitWeights reads the form of a MatMulNBits node, whose inputs Infer has not compared.
func newBitWeights(c *Invocation) (*bitWeights, error) {
	b := &bitWeights{
		n: c.Int("N", 0), k: c.Int("K", 0), bits: c.Int("bits", 4), block: c.Int("block_size", 0),
		numbers: c.In[1], scale: c.In[2], zero: c.in(3),
	}
	if c.Has(4) || c.Int("weight_prepacked", 0) != 0 {
		return nil, unsupportedf("a group index, or weights in an order of their own")
	}
	if b.bits != 2 && b.bits != 4 && b.bits != 8 {
		return nil, unsupportedf("numbers of %d bits", b.bits)
	}
	if b.block < 16 || b.block&(b.block-1) != 0 || b.block > 1<<20 {
		return nil, fmt.Errorf("block_size is %d, expected a power of 2 from 16 to %d", b.block, 1<<20)
	}
	lists := []struct {
		of    string
		t     *Tensor
		count int
	}{
		{"weights", b.numbers, mul(b.n, b.blocks(), b.block*b.bits/8)},
		{"scales", b.scale, mul(b.n, b.blocks())},
		{"zero points", b.zero, mul(b.n, b.blocks())},
		{"bias", c.in(5), b.n},
	}
	if b.zero != nil && b.zero.Type == graph.Uint8 {
		lists[2].count = mul(b.n, (b.blocks()*b.bits+7)/8)
	}
	for _, l := range lists {
		if l.t == nil {
			continue
		}
		if l.t.Len() != l.count {
			return nil, fmt.Errorf("%s have shape %v, expected %d elements for N = %d, K = %d and blocks of %d numbers of %d bits", l.of, l.t.Shape, l.count, b.n, b.k, b.block, b.bits)
		}
		if l.t.Type != graph.Float32 && l.t.Type != graph.Uint8 {
			return nil, unsupported(l.t.Type)
		}
	}
	return b, nil
}

// row writes the numbers of row j as real ones: (number - zero point)·scale.
func (b *bitWeights) row(c *Invocation, d []float32, j int) {
	blocks, wide := b.blocks(), b.block*b.bits/8
	list := raw(b.numbers)[j*blocks*wide:][:blocks*wide]
	for i := range blocks {
		if i&63 == 0 {
			c.poll()
		}
		scale, zero := data[float32](b.scale)[j*blocks+i], float32(int(1)<<(b.bits-1))
		switch {
		case b.zero == nil:
		case b.zero.Type == graph.Float32:
			zero = data[float32](b.zero)[j*blocks+i]
		default:
			zero = float32(packed(unsafe.Add(b.zero.At, j*((blocks*b.bits+7)/8)), i, b.bits))
		}
		out, in := d[i*b.block:min((i+1)*b.block, b.k)], list[i*wide:][:wide]
		switch b.bits {
		case 8:
			if b.zero == nil || b.zero.Type != graph.Float32 {
				simd.Dequantize(out, in[:len(out)], scale, simd.Byte{Zero: int32(zero)})
				break
			}
			for e := range out {
				out[e] = (float32(in[e]) - zero) * scale
			}
		case 4:
			simd.Nibbles(out, in, zero, scale)
		default:
			for e := range out {
				out[e] = (float32(in[e/4]>>(2*(e%4))&3) - zero) * scale
			}
		}
	}
}

// makeMatMulNBits multiplies by weights of few bits.
func makeMatMulNBits(c *Invocation) (Run, error) {
	if t := c.In[0].Type; t != graph.Float32 {
		return nil, unsupported(t)
	}
	b, err := newBitWeights(c)
	if err != nil {
		return nil, err
	}
	if b.bits == 4 && (b.zero == nil || b.zero.Type == graph.Uint8) {
		return b.nibbles(c)
	}
	return b.columns(c)
}

// nibbles multiplies by weights of 4 bits as they are, packed when the session is built, or
// else part by part. Rows are rounded to 8 bits where accuracy_level, which is 4, permits it.
func (b *bitWeights) nibbles(c *Invocation) (Run, error) {
	a, out, bias := c.In[0], c.Out[0], c.in(5)
	p := gemm.Nibbles{M: a.Len() / b.k, N: b.n, K: b.k, Block: b.block, Whole: c.Int("accuracy_level", 0) == 4}
	_ = mul(8, p.M+b.n, b.blocks(), b.block) // all sizes below are less
	rows, own := c.Shared(p.RowsBytes()), c.Each(p.ScratchBytes())
	whole, packed := b.pack(c, &p)
	var numbers, scales, zeros int // of the columns of a part, in scratch
	if !packed {
		one := p.Of(0)
		numbers, scales, zeros = c.Each(one.NumbersBytes()), c.Each(one.ScalesBytes()), c.Each(one.ZerosBytes())
	}
	var pool *work.Pool
	lay := func(g, _ int) { p.Lay(g, data[float32](a), pool.Shared(rows)) }
	part := func(i, worker int) {
		var add []float32
		if bias != nil {
			add = data[float32](bias)
		}
		if packed {
			p.Part(i, whole, pool.Shared(rows), out.At, b.n, add, pool.Each(worker, own), c.Runtime)
			return
		}
		one := p.Of(i)
		j, _ := p.Columns(i)
		if add != nil {
			add = add[j:]
		}
		some := gemm.PackedNibbles{Numbers: pool.Each(worker, numbers), Scales: pool.Each(worker, scales)}
		one.PackNumbers(some.Numbers, raw(b.numbers)[j*b.blocks()*b.block/2:], c.Runtime)
		one.PackScales(some.Scales, data[float32](b.scale)[j*b.blocks():])
		if b.zero != nil {
			some.Zeros = pool.Each(worker, zeros)
			one.PackZeros(some.Zeros, raw(b.zero)[j*((b.blocks()+1)/2):])
		}
		one.Part(0, some, pool.Shared(rows), element[float32](out, j), b.n, add, pool.Each(worker, own), c.Runtime)
	}
	return func(w *work.Pool) error {
		pool = w
		w.For(p.Groups(), lay)
		w.For(p.Parts(), part)
		return nil
	}, nil
}

// pack packs numbers, scales and zero points. It returns false if one of them is not
// constant, or if no memory may be used for it.
func (b *bitWeights) pack(c *Invocation, p *gemm.Nibbles) (to gemm.PackedNibbles, ok bool) {
	for i, l := range []struct {
		from  *Tensor
		to    *unsafe.Pointer
		bytes int
		fill  func(dst unsafe.Pointer)
	}{
		{b.numbers, &to.Numbers, p.NumbersBytes(), func(dst unsafe.Pointer) { p.PackNumbers(dst, raw(b.numbers), c.Runtime) }},
		{b.scale, &to.Scales, p.ScalesBytes(), func(dst unsafe.Pointer) { p.PackScales(dst, data[float32](b.scale)) }},
		{b.zero, &to.Zeros, p.ZerosBytes(), func(dst unsafe.Pointer) { p.PackZeros(dst, raw(b.zero)) }},
	} {
		switch {
		case l.from == nil:
			continue
		case !l.from.Const || l.bytes == 0:
			return to, false
		}
		key := PackKey{At: l.from.At, Type: l.from.Type, Right: true, Len: p.N, K: p.K, Step: p.Block, Nibbles: 1 + i}
		if l.from.Made != nil {
			key.At, key.Made = nil, l.from.Made
		}
		if *l.to, ok = c.Runtime.Pack(key, l.bytes, func(dst unsafe.Pointer) {
			l.fill(dst)
			c.poll() // a stop discards what is half packed
		}); !ok {
			return to, false
		}
	}
	for _, t := range []*Tensor{b.numbers, b.scale, b.zero} {
		if t != nil {
			c.Packed = append(c.Packed, t)
		}
	}
	return to, true
}

// columns multiplies by real weights: each part makes those of some columns of the result in
// its scratch, and multiplies all rows by them.
func (b *bitWeights) columns(c *Invocation) (Run, error) {
	const columns = 64
	a, out, bias := c.In[0], c.Out[0], c.in(5)
	m, wide := a.Len()/b.k, min(columns, b.n)
	each, weights := c.Each(gemm.ScratchBytes), c.Each(mul(4, wide, b.k))
	type piece struct {
		a, b gemm.Dense
		p    gemm.Product
	}
	var list []piece // of each worker
	var pool *work.Pool
	part := func(p, worker int) {
		v, at, scratch := &list[worker], pool.Each(worker, weights), pool.Each(worker, each)
		from := p * columns
		n := min(columns, b.n-from)
		for j := range n {
			b.row(c, span[float32](unsafe.Add(at, 4*j*b.k), b.k), from+j)
		}
		v.a = gemm.Dense{At: a.At, Len: m, Step: b.k, Deep: 1}
		v.b = gemm.Dense{At: at, Len: n, Step: b.k, Deep: 1}
		v.p = gemm.Product{M: m, N: n, K: b.k, A: &v.a, B: &v.b, Alpha: 1, Stride: b.n, Stop: c.Runtime}
		for t := range v.p.Tiles() {
			v.p.Tile(t, element[float32](out, from), nil, scratch)
		}
		if bias == nil {
			return
		}
		for r := range m {
			if r&often == 0 {
				c.poll()
			}
			row := span[float32](element[float32](out, r*b.n+from), n)
			simd.Add(row, row, data[float32](bias)[from:from+n])
		}
	}
	return func(w *work.Pool) error {
		pool = w
		if len(list) < w.Workers() {
			list = make([]piece, w.Workers())
		}
		w.For(cuts(b.n, columns), part)
		return nil
	}, nil
}
