package kernel

import (
	"fmt"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
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
func (c *Invocation) BitWeights() (*BitWeights, error) {
	b := &BitWeights{
		N: c.Int("N", 0), K: c.Int("K", 0), Bits: c.Int("bits", 4), Block: c.Int("block_size", 0),
		Numbers: c.In[1], Scale: c.In[2], Zero: c.in(3), Bias: c.in(5),
	}
	if c.Has(4) || c.Int("weight_prepacked", 0) != 0 {
		return nil, unsupportedf("a group index, or weights in an order of their own")
	}
	if b.Bits != 2 && b.Bits != 4 && b.Bits != 8 {
		return nil, unsupportedf("numbers of %d bits", b.Bits)
	}
	if b.Block < 16 || b.Block&(b.Block-1) != 0 || b.Block > 1<<20 {
		return nil, fmt.Errorf("block_size is %d, expected a power of 2 from 16 to %d", b.Block, 1<<20)
	}
	lists := []struct {
		of    string
		t     *Tensor
		count int
	}{
		{"weights", b.Numbers, mul(b.N, b.Blocks(), b.Block*b.Bits/8)},
		{"scales", b.Scale, mul(b.N, b.Blocks())},
		{"zero points", b.Zero, mul(b.N, b.Blocks())},
		{"bias", b.Bias, b.N},
	}
	if b.Zero != nil && b.Zero.Type == graph.Uint8 {
		lists[2].count = mul(b.N, (b.Blocks()*b.Bits+7)/8)
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

// row writes the numbers of row j as real ones: (number - zero point)·scale.
func (b *BitWeights) row(c *Invocation, d []float32, j int) {
	blocks, wide := b.Blocks(), b.Block*b.Bits/8
	list := raw(b.Numbers)[j*blocks*wide:][:blocks*wide]
	for i := range blocks {
		if i&63 == 0 {
			c.poll()
		}
		scale, zero := data[float32](b.Scale)[j*blocks+i], float32(int(1)<<(b.Bits-1))
		switch {
		case b.Zero == nil:
		case b.Zero.Type == graph.Float32:
			zero = data[float32](b.Zero)[j*blocks+i]
		default:
			zero = float32(packed(unsafe.Add(b.Zero.At, j*((blocks*b.Bits+7)/8)), i, b.Bits))
		}
		out, in := d[i*b.Block:min((i+1)*b.Block, b.K)], list[i*wide:][:wide]
		switch b.Bits {
		case 8:
			if b.Zero == nil || b.Zero.Type != graph.Float32 {
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
	b, err := c.BitWeights()
	if err != nil {
		return nil, err
	}
	for _, t := range []*Tensor{b.Numbers, b.Scale, b.Zero, b.Bias} {
		if t != nil && t.Type != graph.Float32 && t.Type != graph.Uint8 {
			return nil, unsupported(t.Type)
		}
	}
	if b.Bits == 4 && (b.Zero == nil || b.Zero.Type == graph.Uint8) {
		return b.nibbles(c)
	}
	return b.columns(c)
}

// nibbles multiplies by weights of 4 bits as they are, packed when the session is built, or
// else part by part. Rows are rounded to 8 bits where accuracy_level, which is 4, permits it.
func (b *BitWeights) nibbles(c *Invocation) (Run, error) {
	a, out, bias := c.In[0], c.Out[0], b.Bias
	p := gemm.Nibbles{M: a.Len() / b.K, N: b.N, K: b.K, Block: b.Block, Whole: c.Int("accuracy_level", 0) == 4}
	_ = mul(8, p.M+b.N, b.Blocks(), b.Block) // all sizes below are less
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
			p.Part(i, whole, pool.Shared(rows), out.At, b.N, add, pool.Each(worker, own), c.Runtime)
			return
		}
		one := p.Of(i)
		j, _ := p.Columns(i)
		if add != nil {
			add = add[j:]
		}
		some := gemm.PackedNibbles{Numbers: pool.Each(worker, numbers), Scales: pool.Each(worker, scales)}
		one.PackNumbers(some.Numbers, raw(b.Numbers)[j*b.Blocks()*b.Block/2:], c.Runtime)
		one.PackScales(some.Scales, data[float32](b.Scale)[j*b.Blocks():])
		if b.Zero != nil {
			some.Zeros = pool.Each(worker, zeros)
			one.PackZeros(some.Zeros, raw(b.Zero)[j*((b.Blocks()+1)/2):])
		}
		one.Part(0, some, pool.Shared(rows), element[float32](out, j), b.N, add, pool.Each(worker, own), c.Runtime)
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
func (b *BitWeights) pack(c *Invocation, p *gemm.Nibbles) (to gemm.PackedNibbles, ok bool) {
	for i, l := range []struct {
		from  *Tensor
		to    *unsafe.Pointer
		bytes int
		fill  func(dst unsafe.Pointer)
	}{
		{b.Numbers, &to.Numbers, p.NumbersBytes(), func(dst unsafe.Pointer) { p.PackNumbers(dst, raw(b.Numbers), c.Runtime) }},
		{b.Scale, &to.Scales, p.ScalesBytes(), func(dst unsafe.Pointer) { p.PackScales(dst, data[float32](b.Scale)) }},
		{b.Zero, &to.Zeros, p.ZerosBytes(), func(dst unsafe.Pointer) { p.PackZeros(dst, raw(b.Zero)) }},
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
	for _, t := range []*Tensor{b.Numbers, b.Scale, b.Zero} {
		if t != nil {
			c.Packed = append(c.Packed, t)
		}
	}
	return to, true
}

// columns multiplies by real weights: each part makes those of some columns of the result in
// its scratch, and multiplies all rows by them.
func (b *BitWeights) columns(c *Invocation) (Run, error) {
	const columns = 64
	a, out, bias := c.In[0], c.Out[0], b.Bias
	m, wide := a.Len()/b.K, min(columns, b.N)
	each, weights := c.Each(gemm.ScratchBytes), c.Each(mul(4, wide, b.K))
	type piece struct {
		a, b gemm.Dense
		p    gemm.Product
	}
	var list []piece // of each worker
	var pool *work.Pool
	part := func(p, worker int) {
		v, at, scratch := &list[worker], pool.Each(worker, weights), pool.Each(worker, each)
		from := p * columns
		n := min(columns, b.N-from)
		for j := range n {
			b.row(c, span[float32](unsafe.Add(at, 4*j*b.K), b.K), from+j)
		}
		v.a = gemm.Dense{At: a.At, Len: m, Step: b.K, Deep: 1}
		v.b = gemm.Dense{At: at, Len: n, Step: b.K, Deep: 1}
		v.p = gemm.Product{M: m, N: n, K: b.K, A: &v.a, B: &v.b, Alpha: 1, Stride: b.N, Stop: c.Runtime}
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
			row := span[float32](element[float32](out, r*b.N+from), n)
			simd.Add(row, row, data[float32](bias)[from:from+n])
		}
	}
	return func(w *work.Pool) error {
		pool = w
		if len(list) < w.Workers() {
			list = make([]piece, w.Workers())
		}
		w.For(cuts(b.N, columns), part)
		return nil
	}, nil
}
