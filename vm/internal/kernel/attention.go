package kernel

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// attentions lists the attention operators of ai.onnx.
var attentions = family{"", []Kernel{
	{Name: "Attention", Make: makeAttention},
	{Name: "RotaryEmbedding", Make: func(c *Invocation) (Run, error) {
		return rotaryEmbedding(c, c.Rotary())
	}},
}}

// heads are queries, keys or values in memory.
type heads struct {
	at unsafe.Pointer
	form.HeadLayout
}

// of is the address of a position.
func (h *heads) of(b, head, position int) unsafe.Pointer {
	return unsafe.Add(h.at, 4*(b*h.Batch+head*h.Head+position*h.Position))
}

// queriesAtOnce is the number of rows of scores that one part computes.
const queriesAtOnce = 64

// attention computes softmax(scale · queries · keysᵀ) · values.
type attention struct {
	batch, heads, shared int // shared: query heads for each head of keys and values
	queries, keys        int
	total                []int // of keys in each element of the batch, when it runs; nil: keys
	size, valueSize      int   // of queries and keys; of values
	scale                float32
	q, k, v, y           heads
	// edit caps and masks a row of scores. It returns the number of scores to use; the
	// rest of the row is masked.
	edit func(row []float32, b, h, i int) int
	done func(row []float32, b, h, i int) // called with the row's softmax; may be nil
	// sink is a score of a head that takes part in the softmax and has no value; may be nil.
	sink func(h int) float32
}

// make prepares the kernel. The addresses of q, k, v and y must be set before it runs, and
// keys may be lower then than it is now.
func (a *attention) make(c *Invocation) func(w *work.Pool) {
	pieces := cuts(a.queries, queriesAtOnce)
	rows := min(queriesAtOnce, a.queries)
	each, scores := c.Each(gemm.ScratchBytes), c.Each(mul(4, rows, a.keys))
	type piece struct {
		q, k, s, v   gemm.Dense
		score, value gemm.Product
	}
	parts := mul(a.batch, a.heads, pieces)
	var list []piece // of each worker
	var pool *work.Pool
	part := func(p, worker int) {
		b, h, i := p/pieces/a.heads, p/pieces%a.heads, p%pieces*rows
		v, s, scratch := &list[worker], pool.Each(worker, scores), pool.Each(worker, each)
		n, keys := min(rows, a.queries-i), a.keys
		if a.total != nil {
			keys = a.total[b]
		}
		v.q = gemm.Dense{At: a.q.of(b, h, i), Len: n, Step: a.q.Position, Deep: 1}
		v.k = gemm.Dense{At: a.k.of(b, h/a.shared, 0), Len: keys, Step: a.k.Position, Deep: 1}
		v.s = gemm.Dense{At: s, Len: n, Step: keys, Deep: 1}
		v.v = gemm.Dense{At: a.v.of(b, h/a.shared, 0), Len: a.valueSize, Step: 1, Deep: a.v.Position}
		v.score = gemm.Product{M: n, N: keys, K: a.size, A: &v.q, B: &v.k, Alpha: a.scale, Stride: keys, Stop: c.Runtime}
		v.value = gemm.Product{M: n, N: a.valueSize, K: keys, A: &v.s, B: &v.v, Alpha: 1, Stride: a.y.Position, Stop: c.Runtime}
		for t := range v.score.Tiles() {
			v.score.Tile(t, s, nil, scratch)
		}
		for r := range v.score.M {
			c.Poll()
			row := span[float32](unsafe.Add(s, 4*r*keys), keys)
			n := a.edit(row, b, h, i+r)
			if a.sink == nil {
				softmaxMasked(c, row[:n])
			} else {
				softmaxBeside(c, row[:n], a.sink(h))
			}
			clear(row[n:])
			if a.done != nil {
				a.done(row, b, h, i+r)
			}
		}
		for t := range v.value.Tiles() {
			v.value.Tile(t, a.y.of(b, h, i), nil, scratch)
		}
	}
	return func(w *work.Pool) {
		pool = w
		if len(list) < w.Workers() {
			list = make([]piece, w.Workers())
		}
		w.For(parts, part)
	}
}

// softmaxMasked replaces a row by its softmax, or by zeros if all of it is masked (-∞).
func softmaxMasked(c *Invocation, row []float32) {
	if math.IsInf(float64(mostOf(c, row)), -1) && !slices.ContainsFunc(row, func(x float32) bool { return x != x }) {
		clear(row)
		return
	}
	softmaxRow(c, row, row)
}

// softmaxBeside replaces a row by its part of the softmax of the row and one more score.
func softmaxBeside(c *Invocation, row []float32, sink float32) {
	most := mostOf(c, row)
	if softmaxMasked(c, row); math.IsInf(float64(most), -1) {
		return
	}
	// The largest element is now 1/Σ exp(x - most).
	share := 1 / (1 + math.Exp(float64(sink)-float64(most))*float64(mostOf(c, row)))
	for from, to := range c.Pieces(len(row)) {
		simd.MulScalar(row[from:to], row[from:to], float32(share))
	}
}

// makeAttention: the inputs are queries, keys, values, a mask, past keys, past values,
// and the number of keys of each batch element. Output 3 is the scores at the stage
// that qk_matmul_output_mode selects.
func makeAttention(c *Invocation) (Run, error) {
	for _, t := range c.In[:3] { // values may differ from queries and keys
		if t.Type != graph.Float32 {
			return nil, unsupported(t.Type)
		}
	}
	f := c.Attention()
	a := &attention{
		batch: f.Batch, heads: f.Heads, shared: f.Heads / f.KVHeads, queries: f.Queries, keys: f.Keys(),
		size: f.Size, valueSize: f.ValueSize, scale: f.Scale, q: heads{nil, f.Q}, y: heads{nil, f.Y},
	}
	key := newKVCache(c, 4, 1, f.KVHeads, f.Fresh, f.Size, f.Key, c.In[1])
	value := newKVCache(c, 5, 2, f.KVHeads, f.Fresh, f.ValueSize, f.Value, c.In[2])
	a.k, a.v = key.all, value.all
	if err := a.mask(c, f); err != nil {
		return nil, err
	}
	run := a.make(c)
	if c.Has(6) && (c.In[6].Type != graph.Int64 || c.In[6].Len() != a.batch) {
		return nil, fmt.Errorf("lengths of shape %v for a batch of %d", c.In[6].Shape, a.batch)
	}
	return func(w *work.Pool) error {
		if c.Has(6) {
			for b, n := range data[int64](c.In[6]) {
				if n < 0 || n > int64(a.keys) {
					return fmt.Errorf("input 6: batch %d has %d keys, expected a number in [0, %d]", b, n, a.keys)
				}
			}
		}
		a.q.at, a.y.at = c.In[0].At, c.Out[0].At
		a.k.at, a.v.at = key.gather(w), value.gather(w)
		run(w)
		return nil
	}, nil
}

// kvCache concatenates past keys or values with the new ones.
type kvCache struct {
	c         *Invocation
	past      *Tensor // may be nil
	present   *Tensor // output for the concatenation; may be nil
	fresh     *Tensor // the new ones
	count     int     // of heads
	positions int     // of the new ones
	size      int
	from      heads // the new ones
	all       heads // past and new ones
	scratch   int   // offset of the scratch for the concatenation without present
}

func newKVCache(c *Invocation, past, out, count, positions, size int, from form.HeadLayout, fresh *Tensor) *kvCache {
	v := &kvCache{c: c, past: c.Input(past), fresh: fresh, count: count, positions: positions, size: size, from: heads{nil, from}}
	if c.HasOut(out) {
		v.present = c.Out[out]
	}
	if v.past == nil {
		v.all = v.from
		return v
	}
	total := positions + v.past.Shape[2]
	v.all = heads{nil, form.HeadsFirst(count, total, size)}
	if v.present == nil {
		v.scratch = c.Shared(mul(4, fresh.Shape[0], count, total, size))
	}
	return v
}

// gather concatenates the past and the new elements, and returns their address.
func (v *kvCache) gather(w *work.Pool) unsafe.Pointer {
	if v.past == nil && v.present == nil {
		return v.fresh.At
	}
	v.from.at = v.fresh.At
	to := heads{nil, form.HeadsFirst(v.count, v.positions, v.size)}
	before := 0
	if v.past != nil {
		before = v.past.Shape[2]
		to = v.all
	}
	if v.present != nil {
		to.at = v.present.At
	} else {
		to.at = w.Shared(v.scratch)
	}
	m := v.c.Meter()
	for b := range v.fresh.Shape[0] {
		for h := range v.count {
			m.Add(1)
			if before > 0 {
				n := before * v.size
				copyAll(v.c, span[byte](to.of(b, h, 0), 4*n), span[byte](element[float32](v.past, (b*v.count+h)*n), 4*n))
			}
			for p := range v.positions {
				m.Add(v.size)
				copy(span[float32](to.of(b, h, before+p), v.size), span[float32](v.from.of(b, h, p), v.size))
			}
		}
	}
	if v.past == nil {
		return v.fresh.At
	}
	return to.at
}

// mask sets edit and done from a node's attributes and inputs.
func (a *attention) mask(c *Invocation, f *form.Attention) error {
	m := c.Input(3)
	if m != nil && m.Type != graph.Bool && m.Type != graph.Float32 {
		return unsupported(m.Type)
	}
	width, step, most, left, right := f.MaskWidth, f.MaskSteps, f.Cap, f.Left, f.Right
	shown := func(at int, row []float32, b, h, i int) {
		if c.HasOut(3) && at == f.Stage {
			copy(span[float32](element[float32](c.Out[3], ((b*a.heads+h)*a.queries+i)*a.keys), a.keys), row)
		}
	}
	least := float32(math.Inf(-1))
	a.edit = func(row []float32, b, h, i int) int {
		shown(0, row, b, h, i)
		capScores(c, row, most)
		shown(1, row, b, h, i)
		// Keys [from, to) may be seen.
		from, to, offset := 0, a.keys, f.Past
		if c.Has(6) {
			to = min(to, int(data[int64](c.In[6])[b]))
			offset = to - a.queries
		}
		if f.Causal {
			to = min(to, i+offset+1)
		}
		if right >= 0 {
			to = min(to, i+offset+right+1)
		}
		if left >= 0 {
			from = max(from, i+offset-left)
		}
		if m != nil {
			to = min(to, width)
			first := b*step[0] + h*step[1] + i*step[2]
			if m.Type == graph.Float32 {
				addScores(c, row[:width], span[float32](element[float32](m, first), width))
			} else {
				mask := span[uint8](element[uint8](m, first), width)
				for from, to := range c.Pieces(width) {
					for j, seen := range mask[from:to] {
						if seen == 0 {
							row[from+j] = least
						}
					}
				}
			}
		}
		to = max(to, 0)
		fill(row[:min(from, to)], least)
		if c.HasOut(3) {
			fill(row[to:], least)
		}
		shown(2, row, b, h, i)
		return to
	}
	if c.HasOut(3) && f.Stage == 3 {
		a.done = func(row []float32, b, h, i int) { shown(3, row, b, h, i) }
	}
	return nil
}

// rotaryEmbedding rotates pairs of elements of each head.
func rotaryEmbedding(c *Invocation, f *form.Rotary) (Run, error) {
	x, ids, out := c.In[0], f.IDs, c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	from := heads{nil, f.Layout}
	to := from
	part := func(p, _ int) {
		b, position := p/f.Places, p%f.Places
		line := p
		switch {
		case f.First:
			line = int(data[int64](ids)[0]) + position
		case ids != nil:
			line = int(data[int64](ids)[p])
		}
		m := c.Meter()
		cs, sn := span[float32](element[float32](f.Cosines, line*f.Half), f.Half), span[float32](element[float32](f.Sines, line*f.Half), f.Half)
		for h := range f.Heads {
			m.Add(f.Size)
			s, d := span[float32](from.of(b, h, position), f.Size), span[float32](to.of(b, h, position), f.Size)
			rotate(d, s, cs, sn, f.Interleaved)
		}
	}
	return func(w *work.Pool) error {
		if ids != nil {
			for p, at := range data[int64](ids) {
				if p&form.Often == 0 {
					c.Poll()
				}
				if at < 0 || at >= int64(f.Ends()) {
					return fmt.Errorf("input %d: element %d is position %d, expected one in [0, %d)", f.Position, p, at, f.Ends())
				}
			}
		}
		from.at, to.at = x.At, out.At
		w.For(f.Batch*f.Places, part)
		return nil
	}, nil
}

// rotate rotates the pairs of a head by angles, of which it has the cosines and sines. The
// elements of a pair are neighbours, or as far apart as there are pairs. Elements after
// the pairs are copied.
func rotate(d, s, cosines, sines []float32, interleaved bool) {
	half := len(cosines)
	for k, cs := range cosines {
		i, j := k, k+half
		if interleaved {
			i, j = 2*k, 2*k+1
		}
		d[i], d[j] = cs*s[i]-sines[k]*s[j], sines[k]*s[i]+cs*s[j]
	}
	copy(d[2*half:], s[2*half:])
}
