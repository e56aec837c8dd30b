package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// bitRow writes the numbers of row j as real ones: (number - zero point)·scale.
func bitRow(b *form.BitWeights, c *Invocation, d []float32, j int) {
	blocks, wide := b.Blocks(), b.Block*b.Bits/8
	list := raw(b.Numbers)[j*blocks*wide:][:blocks*wide]
	for i := range blocks {
		if i&63 == 0 {
			c.Poll()
		}
		scale, zero := data[float32](b.Scale)[j*blocks+i], float32(int(1)<<(b.Bits-1))
		switch {
		case b.Zero == nil:
		case b.Zero.Type == graph.Float32:
			zero = data[float32](b.Zero)[j*blocks+i]
		default:
			zero = float32(form.Packed(unsafe.Add(b.Zero.At, j*((blocks*b.Bits+7)/8)), i, b.Bits))
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
		return bitNibbles(b, c)
	}
	return bitColumns(b, c)
}

// bitNibbles multiplies by weights of 4 bits as they are, packed when the session is built, or
// else part by part. Rows are rounded to 8 bits where accuracy_level, which is 4, permits it.
func bitNibbles(b *form.BitWeights, c *Invocation) (Run, error) {
	a, out, bias := c.In[0], c.Out[0], b.Bias
	p := gemm.Nibbles{M: a.Len() / b.K, N: b.N, K: b.K, Block: b.Block, Whole: c.Int("accuracy_level", 0) == 4}
	_ = mul(8, p.M+b.N, b.Blocks(), b.Block) // all sizes below are less
	rows, own := c.Shared(p.RowsBytes()), c.Each(p.ScratchBytes())
	whole, packed := packNibbles(b, c, &p)
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

// packNibbles packs numbers, scales and zero points. It returns false if one of them is not
// constant, or if no memory may be used for it.
func packNibbles(b *form.BitWeights, c *Invocation, p *gemm.Nibbles) (to gemm.PackedNibbles, ok bool) {
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
		case !l.from.Packs() || l.bytes == 0:
			return to, false
		}
		key := form.PackKey{At: l.from.At, Type: l.from.Type, Right: true, Len: p.N, K: p.K, Step: p.Block, Nibbles: 1 + i}
		if l.from.Made != nil {
			key.At, key.Made = nil, l.from.Made
		}
		if *l.to, ok = c.Runtime.Pack(key, l.bytes, func(dst unsafe.Pointer) {
			l.fill(dst)
			c.Poll() // a stop discards what is half packed
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

// bitColumns multiplies by real weights: each part makes those of some columns of the result in
// its scratch, and multiplies all rows by them.
func bitColumns(b *form.BitWeights, c *Invocation) (Run, error) {
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
			bitRow(b, c, span[float32](unsafe.Add(at, 4*j*b.K), b.K), from+j)
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
			if r&form.Often == 0 {
				c.Poll()
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
