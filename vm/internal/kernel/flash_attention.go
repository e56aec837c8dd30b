package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// flashAttentions lists attention that keeps no scores, and its gradient.
var flashAttentions = family{graph.SwapDomain, []Kernel{
	{Name: graph.FlashAttention, Make: makeFlashAttention, Half: true},
	{Name: graph.FlashAttentionGrad, Make: makeFlashAttentionGrad, Half: true},
}}

// flash computes scores some rows at a time: with all keys, so that weights have the bits of a
// Softmax. Sums over queries are added up from block to block of rows, in their order.
type flash struct {
	*form.FlashAttention
	c                 *Invocation
	rows              int // of a block
	blocks            int
	q, k, v           *Tensor
	bias, keep        *Tensor
	scores            int // scratch of each worker: rows of scores
	row, fills, packs int // a row of numbers, one of Fill, and what products pack
	seen              int // shared scratch: for each row of the masks, how many keys it may see
	masks             [2]mask
	pool              *work.Pool
}

// blockScores is about how many scores a block has: they stay in the second-level cache.
const blockScores = 1 << 16

func newFlash(c *Invocation) (*flash, error) {
	for _, t := range c.In[:4] {
		if t.Type != graph.Float32 && !isHalf(t) {
			return nil, unsupported(t.Type)
		}
	}
	f := &flash{FlashAttention: c.FlashAttention(), c: c, q: c.In[0], k: c.In[1], v: c.In[2], bias: c.In[3], keep: c.In[4]}
	f.rows = min(max(64, min(blockScores/f.Keys, 256)), f.Queries)
	f.blocks = cuts(f.Queries, f.rows)
	f.scores = c.Each(mul(4, f.rows, f.Keys))
	f.row, f.fills, f.packs = c.Each(mul(4, f.Keys)), c.Each(mul(4, f.Keys)), c.Each(gemm.ScratchBytes)
	f.planMasks()
	return f, nil
}

// dense is a matrix of a tensor from an element on.
func dense(t *Tensor, from, rows, step, deep int) gemm.Dense {
	return gemm.Dense{At: elementAt(t, from, t.Width()), Len: rows, Step: step, Deep: deep, Format: formatOf(t.Type)}
}

// inRoom is a matrix of float32 in scratch.
func inRoom(at unsafe.Pointer, rows, step, deep int) gemm.Dense {
	return gemm.Dense{At: at, Len: rows, Step: step, Deep: deep}
}

// flashBlock is a block of rows of scores: of queries [i, i+n) of a head, with the first keys.
type flashBlock struct {
	b, h, i, n, keys int
	line             int // of the first query, among all heads
	group            int // of its keys, among all batches
}

// block returns a block. It has the keys that one of its queries sees.
func (f *flash) block(b, h, i int) flashBlock {
	p := flashBlock{b: b, h: h, i: i, n: min(f.rows, f.Queries-i), line: (b*f.Heads+h)*f.Queries + i, group: b*f.Groups + h/(f.Heads/f.Groups)}
	p.keys = f.keysOf(&p)
	return p
}

// flashSides are the operands of a product, which a worker describes without new memory.
type flashSides struct {
	a, b gemm.Dense
	p    gemm.Product
}

// multiply computes c = alpha·a·b + beta·c; the rows of c are stride apart.
func (s *flashSides) multiply(f *flash, worker int, to unsafe.Pointer, stride, depth int, alpha, beta float32) {
	s.p = gemm.Product{M: s.a.Len, N: s.b.Len, K: depth, A: &s.a, B: &s.b, Alpha: alpha, Beta: beta, Stride: stride, Stop: f.c.Runtime}
	s.p.Whole(to, nil, f.pool.Each(worker, f.packs))
}

// score computes the scores of a block, in rows of Keys numbers.
func (f *flash) score(s *flashSides, p *flashBlock, worker int) unsafe.Pointer {
	at := f.pool.Each(worker, f.scores)
	s.a = dense(f.q, p.line*f.Size, p.n, f.Size, 1)
	s.b = dense(f.k, p.group*f.Size*f.Keys, p.keys, 1, f.Keys)
	s.multiply(f, worker, at, f.Keys, f.Size, f.Scale, 0)
	return at
}

// edit adds the bias to a row of scores, and replaces what is not kept.
func (f *flash) edit(row []float32, p *flashBlock, r, worker int) {
	at := p.b*f.BiasSteps[0] + p.h*f.BiasSteps[1] + (p.i+r)*f.BiasSteps[2]
	switch {
	case f.BiasSteps[3] == 0:
		if x := realAt(f.bias, at); x != 0 {
			addToScores(f.c, row, x)
		}
	default:
		addScores(f.c, row, span[float32](realsAt(f.pool.Each(worker, f.row), f.bias, at, len(row)), len(row)))
	}
	at = p.b*f.KeepSteps[0] + p.h*f.KeepSteps[1] + (p.i+r)*f.KeepSteps[2]
	switch {
	case f.KeepSteps[3] == 0:
		if *(*uint8)(element[uint8](f.keep, at)) == 0 {
			fillAll(f.c, row, f.Fill)
		}
	default:
		fills := span[float32](f.pool.Each(worker, f.fills), len(row))
		simd.ChooseReals(row, span[uint8](element[uint8](f.keep, at), len(row)), row, fills)
	}
}

// ready fills the scratch that edit reads.
func (f *flash) ready(worker int) {
	if f.KeepSteps[3] != 0 {
		fillAll(f.c, span[float32](f.pool.Each(worker, f.fills), f.Keys), f.Fill)
	}
}

// zeroNaN makes NaN 0 in a row of weights, if any is there.
func (f *flash) zeroNaN(row []float32) {
	if !f.Safe || len(row) == 0 || row[0] == row[0] {
		return // of a row without a key, all are NaN
	}
	for i, x := range row {
		if x != x {
			row[i] = 0
		}
	}
}

// makeFlashAttention computes, for each block, the scores, their softmax and its product with
// the values.
func makeFlashAttention(c *Invocation) (Run, error) {
	f, err := newFlash(c)
	if err != nil {
		return nil, err
	}
	y, rows := c.Out[0], c.Out[1]
	aside := -1
	if isHalf(y) {
		aside = c.Each(mul(4, f.rows, f.ValueSize))
	}
	var list []flashSides
	part := func(part, worker int) {
		p := f.block(part/f.blocks/f.Heads, part/f.blocks%f.Heads, part%f.blocks*f.rows)
		s := &list[worker]
		f.ready(worker)
		at := f.score(s, &p, worker)
		for r := range p.n {
			c.Poll()
			row := span[float32](unsafe.Add(at, 4*r*f.Keys), p.keys)
			f.edit(row, &p, r, worker)
			f.soften(row, span[float32](element[float32](rows, 2*(p.line+r)), 2))
		}
		s.a, s.b = inRoom(at, p.n, f.Keys, 1), dense(f.v, p.group*f.Keys*f.ValueSize, f.ValueSize, 1, f.ValueSize)
		from, n := p.line*f.ValueSize, p.n*f.ValueSize
		if aside < 0 {
			s.multiply(f, worker, element[float32](y, from), f.ValueSize, p.keys, 1, 0)
			return
		}
		room := f.pool.Each(worker, aside)
		s.multiply(f, worker, room, f.ValueSize, p.keys, 1, 0)
		simd.Round(span[uint16](element[uint16](y, from), n), span[float32](room, n), narrowType(y.Type))
	}
	return func(w *work.Pool) error {
		f.pool = w
		if len(list) < w.Workers() {
			list = make([]flashSides, w.Workers())
		}
		f.look(w)
		w.For(f.Batch*f.Heads*f.blocks, part)
		return nil
	}, nil
}

// soften replaces a row of scores by its softmax. It also returns the largest score, and 1 over
// the sum of the exponentials.
func (f *flash) soften(row, numbers []float32) {
	most := mostOf(f.c, row)
	for from, to := range f.c.Pieces(len(row)) {
		simd.Exp(row[from:to], row[from:to], 1, -most)
	}
	part := float32(1 / sumOf(f.c, row))
	for from, to := range f.c.Pieces(len(row)) {
		simd.MulScalar(row[from:to], row[from:to], part)
	}
	f.zeroNaN(row)
	numbers[0], numbers[1] = most, part
}

// makeFlashAttentionGrad computes, for each group of keys and each block of queries, the weights
// again, the gradients of the weights and of the scores, and adds up those of keys and values.
func makeFlashAttentionGrad(c *Invocation) (Run, error) {
	f, err := newFlash(c)
	if err != nil {
		return nil, err
	}
	rows, d := c.In[5], c.In[6]
	slopes := c.Each(mul(4, f.rows, f.Keys))
	queries := newSum(c, 0, f.rows*f.Size)
	keys, values := newSum(c, 1, f.Size*f.Keys), newSum(c, 2, f.Keys*f.ValueSize)
	shared := f.Heads / f.Groups
	var list []flashSides
	block := func(p *flashBlock, s *flashSides, dk, dv unsafe.Pointer, worker int) {
		at, slope := f.score(s, p, worker), f.pool.Each(worker, slopes)
		from := p.group * f.Keys * f.ValueSize
		s.a, s.b = dense(d, p.line*f.ValueSize, p.n, f.ValueSize, 1), dense(f.v, from, p.keys, f.ValueSize, 1)
		s.multiply(f, worker, slope, f.Keys, f.ValueSize, 1, 0)
		for r := range p.n {
			c.Poll()
			row, dRow := span[float32](unsafe.Add(at, 4*r*f.Keys), p.keys), span[float32](unsafe.Add(slope, 4*r*f.Keys), p.keys)
			f.edit(row, p, r, worker)
			f.weigh(row, span[float32](element[float32](rows, 2*(p.line+r)), 2))
			f.slope(row, dRow, p, r, worker)
		}
		s.a, s.b = inRoom(at, p.keys, 1, f.Keys), dense(d, p.line*f.ValueSize, f.ValueSize, 1, f.ValueSize)
		s.multiply(f, worker, dv, f.ValueSize, p.n, 1, 1)
		s.a, s.b = dense(f.q, p.line*f.Size, f.Size, 1, f.Size), inRoom(slope, p.keys, 1, f.Keys)
		s.multiply(f, worker, dk, f.Keys, p.n, f.Scale, 1)
		s.a, s.b = inRoom(slope, p.n, f.Keys, 1), dense(f.k, p.group*f.Size*f.Keys, f.Size, f.Keys, 1)
		s.multiply(f, worker, queries.at(f.pool, worker, p.line*f.Size), f.Size, p.keys, f.Scale, 0)
		queries.finish(f.pool, worker, p.line*f.Size, p.n*f.Size)
	}
	part := func(group, worker int) {
		f.ready(worker)
		ofKeys, ofValues := f.Size*f.Keys, f.Keys*f.ValueSize
		dk, dv := keys.at(f.pool, worker, group*ofKeys), values.at(f.pool, worker, group*ofValues)
		fillAll(c, span[float32](dk, ofKeys), 0)
		fillAll(c, span[float32](dv, ofValues), 0)
		for h := range shared {
			for i := 0; i < f.Queries; i += f.rows {
				p := f.block(group/f.Groups, group%f.Groups*shared+h, i)
				block(&p, &list[worker], dk, dv, worker)
			}
		}
		keys.finish(f.pool, worker, group*ofKeys, ofKeys)
		values.finish(f.pool, worker, group*ofValues, ofValues)
	}
	return func(w *work.Pool) error {
		f.pool = w
		if len(list) < w.Workers() {
			list = make([]flashSides, w.Workers())
		}
		f.look(w)
		w.For(f.Batch*f.Groups, part)
		return nil
	}, nil
}

// newSum is newPlane for an output.
func newSum(c *Invocation, out, n int) plane {
	p := plane{out: c.Out[out]}
	if isHalf(p.out) {
		p.each = c.Each(mul(4, n))
	}
	return p
}

// weigh replaces scores by weights, from the largest score and 1 over the sum.
func (f *flash) weigh(row, numbers []float32) {
	for from, to := range f.c.Pieces(len(row)) {
		simd.Exp(row[from:to], row[from:to], 1, -numbers[0])
		simd.MulScalar(row[from:to], row[from:to], numbers[1])
	}
	f.zeroNaN(row)
}

// slope replaces the gradients of a row of weights by those of its scores.
func (f *flash) slope(row, d []float32, p *flashBlock, r, worker int) {
	room := span[float32](f.pool.Each(worker, f.row), len(row))
	for from, to := range f.c.Pieces(len(row)) {
		simd.Mul(d[from:to], d[from:to], row[from:to])
	}
	mean := float32(sumOf(f.c, d))
	for from, to := range f.c.Pieces(len(row)) {
		simd.MulScalar(room[from:to], row[from:to], mean)
		simd.Sub(d[from:to], d[from:to], room[from:to])
	}
	f.unkept(d, p, r)
}

// unkept makes the gradients of scores that fill replaced 0. Where it is so small that their
// weights are 0, they are.
func (f *flash) unkept(d []float32, p *flashBlock, r int) {
	if f.AllKept {
		return
	}
	at, step := p.b*f.KeepSteps[0]+p.h*f.KeepSteps[1]+(p.i+r)*f.KeepSteps[2], f.KeepSteps[3]
	for from, to := range f.c.Pieces(len(d)) {
		for j := from; j < to; j++ {
			if *(*uint8)(element[uint8](f.keep, at+j*step)) == 0 {
				d[j] = 0
			}
		}
	}
}

// mask is a tensor that hides keys: queries see none from one of its numbers on.
type mask struct {
	t     *Tensor
	steps [4]int
	lines int // rows of numbers
	hides func(at int) bool
}

// hidden is the bias that makes a weight 0 beside any score that one of more than seen leaves.
const (
	hidden = -1e30
	seen   = -1e29
)

// planMasks lists the tensors by which a block may leave keys out.
func (f *flash) planMasks() {
	if f.KeepSteps[3] != 0 && (f.Fill <= hidden) {
		f.masks[0] = mask{t: f.keep, steps: f.KeepSteps, hides: func(at int) bool { return *(*uint8)(element[uint8](f.keep, at)) == 0 }}
	}
	if f.BiasSteps[3] != 0 {
		f.masks[1] = mask{t: f.bias, steps: f.BiasSteps, hides: func(at int) bool { return realAt(f.bias, at) <= hidden }}
	}
	if f.masks[0].t != nil && f.masks[1].t != nil { // one may hide all that the other leaves
		f.masks = [2]mask{}
	}
	total := 0
	for i := range f.masks {
		if m := &f.masks[i]; m.t != nil {
			m.lines = m.t.Len() / f.Keys
			total += m.lines
		}
	}
	f.seen = f.c.Shared(4 * total)
}

// look finds, for each row of a mask, how many keys it leaves: up to the last one that is not
// hidden, or all if none is left.
func (f *flash) look(w *work.Pool) {
	at := w.Shared(f.seen)
	for i := range f.masks {
		m := &f.masks[i]
		if m.t == nil {
			continue
		}
		ends := span[int32](at, m.lines)
		for l := range ends {
			f.c.Poll()
			end := f.Keys
			for end > 0 && m.hides(l*f.Keys+end-1) {
				end--
			}
			if end == 0 || m.t == f.bias && !f.leaves(l) {
				end = f.Keys
			}
			ends[l] = int32(end)
		}
		at = unsafe.Add(at, 4*m.lines)
	}
}

// leaves reports whether a row of the bias has a number beside which others are hidden.
func (f *flash) leaves(line int) bool {
	for j := range f.Keys {
		if realAt(f.bias, line*f.Keys+j) > seen {
			return true
		}
	}
	return false
}

// keysOf is how many keys one of the queries of a block sees.
func (f *flash) keysOf(p *flashBlock) int {
	keys, at := f.Keys, f.pool.Shared(f.seen)
	for i := range f.masks {
		m := &f.masks[i]
		if m.t == nil {
			continue
		}
		ends, most := span[int32](at, m.lines), 0
		for r := range p.n {
			line := (p.b*m.steps[0] + p.h*m.steps[1] + (p.i+r)*m.steps[2]) / f.Keys
			most = max(most, int(ends[line]))
		}
		keys = min(keys, most)
		at = unsafe.Add(at, 4*m.lines)
	}
	return keys
}
