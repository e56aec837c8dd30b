package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/gemm"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// attentions are the attention operators of ai.onnx.
var attentions = family{"", []Kernel{
	{Name: "Attention", Make: makeAttention},
	{Name: "RotaryEmbedding", Make: makeRotaryEmbedding},
}}

// lattice is where queries, keys or values lie: the elements from one batch, head
// and place to the next; those of one place lie side by side.
type lattice struct {
	at                 unsafe.Pointer
	batch, head, place int
}

// apart is [batch heads places size], beside [batch places heads·size].
func apart(count, places, size int) lattice {
	return lattice{nil, count * places * size, places * size, size}
}

func beside(count, places, size int) lattice {
	return lattice{nil, count * places * size, size, count * size}
}

func (h *lattice) of(b, head, place int) unsafe.Pointer {
	return unsafe.Add(h.at, 4*(b*h.batch+head*h.head+place*h.place))
}

// headsIn reads input i, of three axes with the heads beside each other, or of
// four with them apart.
func headsIn(c *Invocation, i int, attr string) (h lattice, count, places, size int) {
	s := c.In[i].Shape
	if len(s) == 4 {
		return apart(s[1], s[2], s[3]), s[1], s[2], s[3]
	}
	count = c.Int(attr, 0)
	return beside(count, s[1], s[2]/count), count, s[1], s[2] / count
}

// queriesAtOnce is how many rows of scores one part makes.
const queriesAtOnce = 64

// attention is the products of an attention: scores are queries times keys, and
// their softmax times values the result.
type attention struct {
	batch, heads, shared int // shared: heads of queries for each of keys and values
	queries, keys        int
	size, valueSize      int // of queries and keys; of values
	scale                float32
	q, k, v, y           lattice
	// edit caps and masks a row of scores and tells how many of them count: the
	// others are taken as masked.
	edit func(row []float32, b, h, i int) int
	done func(row []float32, b, h, i int) // sees their softmax; nil: nobody
}

// make prepares the kernel; the places of q, k, v and y are to be set before it
// runs.
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
		n := min(rows, a.queries-i)
		v.q = gemm.Dense{At: a.q.of(b, h, i), Len: n, Step: a.q.place, Deep: 1}
		v.k = gemm.Dense{At: a.k.of(b, h/a.shared, 0), Len: a.keys, Step: a.k.place, Deep: 1}
		v.s = gemm.Dense{At: s, Len: n, Step: a.keys, Deep: 1}
		v.v = gemm.Dense{At: a.v.of(b, h/a.shared, 0), Len: a.valueSize, Step: 1, Deep: a.v.place}
		v.score = gemm.Product{M: n, N: a.keys, K: a.size, A: &v.q, B: &v.k, Alpha: a.scale, Stride: a.keys, Stop: c.Runtime}
		v.value = gemm.Product{M: n, N: a.valueSize, K: a.keys, A: &v.s, B: &v.v, Alpha: 1, Stride: a.y.place, Stop: c.Runtime}
		for t := range v.score.Tiles() {
			v.score.Tile(t, s, nil, scratch)
		}
		for r := range v.score.M {
			c.poll()
			row := span[float32](unsafe.Add(s, 4*r*a.keys), a.keys)
			n := a.edit(row, b, h, i+r)
			softmaxMasked(c, row[:n])
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

// softmaxMasked is the softmax of a row; one of which nothing is finite becomes
// zeros.
func softmaxMasked(c *Invocation, row []float32) {
	high := float32(math.Inf(-1))
	for i, j := range c.pieces(len(row)) {
		for _, x := range row[i:j] {
			high = max(high, x)
		}
	}
	if math.IsInf(float64(high), -1) {
		clear(row)
		return
	}
	softmaxRow(c, row, row)
}

// makeAttention: queries, keys and values, a mask, what was seen before, and how
// many keys there are. Output 3 shows the scores at a stage.
func makeAttention(c *Invocation) (Run, error) {
	for _, t := range c.In[:3] { // values may differ from queries and keys
		if t.Type != graph.Float32 {
			return nil, unsupported(t.Type)
		}
	}
	a := &attention{batch: c.In[0].Shape[0]}
	a.q, a.heads, a.queries, a.size = headsIn(c, 0, "q_num_heads")
	keyIn, kvHeads, fresh, size := headsIn(c, 1, "kv_num_heads")
	valueIn, _, _, valueSize := headsIn(c, 2, "kv_num_heads")
	a.shared, a.valueSize, a.keys = a.heads/kvHeads, valueSize, fresh
	a.y = apart(a.heads, a.queries, valueSize)
	if c.In[0].rank() == 3 {
		a.y = beside(a.heads, a.queries, valueSize)
	}
	a.scale = c.Float("scale", float32(1/math.Sqrt(float64(max(a.size, 1)))))
	if c.Has(4) {
		a.keys += c.In[4].Shape[2]
	}
	key := newCarried(c, 4, 1, kvHeads, fresh, size, keyIn, c.In[1])
	value := newCarried(c, 5, 2, kvHeads, fresh, valueSize, valueIn, c.In[2])
	a.k, a.v = key.all, value.all
	if err := a.mask(c); err != nil {
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
		a.k.at, a.v.at = key.bring(w), value.bring(w)
		run(w)
		return nil
	}, nil
}

// carried is keys or values that are carried on: the past ones with the new ones
// behind them.
type carried struct {
	c       *Invocation
	past    *Tensor // nil: none
	present *Tensor // nil: not wanted
	fresh   *Tensor
	count   int // of heads
	places  int // of the new ones
	size    int
	from    lattice // of the new ones
	all     lattice // of all
	aside   int     // scratch, if they are brought together there
}

func newCarried(c *Invocation, past, out, count, places, size int, from lattice, fresh *Tensor) *carried {
	v := &carried{c: c, past: c.in(past), fresh: fresh, count: count, places: places, size: size, from: from}
	if c.HasOut(out) {
		v.present = c.Out[out]
	}
	if v.past == nil {
		v.all = from
		return v
	}
	total := places + v.past.Shape[2]
	v.all = apart(count, total, size)
	if v.present == nil {
		v.aside = c.Shared(mul(4, fresh.Shape[0], count, total, size))
	}
	return v
}

// bring brings them together and tells where they lie.
func (v *carried) bring(w *work.Pool) unsafe.Pointer {
	if v.past == nil && v.present == nil {
		return v.fresh.At
	}
	v.from.at = v.fresh.At
	to := apart(v.count, v.places, v.size)
	before := 0
	if v.past != nil {
		before = v.past.Shape[2]
		to = v.all
	}
	if v.present != nil {
		to.at = v.present.At
	} else {
		to.at = w.Shared(v.aside)
	}
	m := meter{c: v.c}
	for b := range v.fresh.Shape[0] {
		for h := range v.count {
			m.add(1)
			if before > 0 {
				n := before * v.size
				v.c.copy(span[byte](to.of(b, h, 0), 4*n), span[byte](element[float32](v.past, (b*v.count+h)*n), 4*n))
			}
			for p := range v.places {
				m.add(v.size)
				copy(span[float32](to.of(b, h, before+p), v.size), span[float32](v.from.of(b, h, p), v.size))
			}
		}
	}
	if v.past == nil {
		return v.fresh.At
	}
	return to.at
}

// mask makes edit and done of a node's attributes and inputs.
func (a *attention) mask(c *Invocation) error {
	m := c.in(3)
	var step [3]int // of the mask: for each batch, head and query
	width := 0
	if m != nil {
		if m.Type != graph.Bool && m.Type != graph.Float32 {
			return unsupported(m.Type)
		}
		width = m.Shape[m.rank()-1]
		n := width
		for i := range m.rank() - 1 {
			k := m.Shape[m.rank()-2-i]
			if k != 1 {
				step[2-i] = n
			}
			n *= k
		}
	}
	most := c.Float("softcap", 0)
	causal := c.Int("is_causal", 0) != 0
	widest := a.queries + a.keys // of a window that tells
	left, right := min(c.Int("left_window_size", -1), widest), min(c.Int("right_window_size", -1), widest)
	past := 0
	if c.Has(4) {
		past = c.In[4].Shape[2]
	}
	stage := c.Int("qk_matmul_output_mode", 0)
	shown := func(at int, row []float32, b, h, i int) {
		if c.HasOut(3) && at == stage {
			copy(span[float32](element[float32](c.Out[3], ((b*a.heads+h)*a.queries+i)*a.keys), a.keys), row)
		}
	}
	least := float32(math.Inf(-1))
	a.edit = func(row []float32, b, h, i int) int {
		shown(0, row, b, h, i)
		if most != 0 {
			for from, to := range c.pieces(len(row)) {
				for j, x := range row[from:to] {
					row[from+j] = most * float32(math.Tanh(float64(x/most)))
				}
			}
		}
		shown(1, row, b, h, i)
		// Keys [from, to) may be seen.
		from, to, offset := 0, a.keys, past
		if c.Has(6) {
			to = min(to, int(data[int64](c.In[6])[b]))
			offset = to - a.queries
		}
		if causal {
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
				added := span[float32](element[float32](m, first), width)
				for from, to := range c.pieces(width) {
					for j, x := range added[from:to] {
						row[from+j] += x
					}
				}
			} else {
				mask := span[uint8](element[uint8](m, first), width)
				for from, to := range c.pieces(width) {
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
	if c.HasOut(3) && stage == 3 {
		a.done = func(row []float32, b, h, i int) { shown(3, row, b, h, i) }
	}
	return nil
}

// makeRotaryEmbedding turns pairs of elements of each head by angles whose
// cosines and sines are given for each place, or for each position that a place
// names.
func makeRotaryEmbedding(c *Invocation) (Run, error) {
	x, cos, sin, out := c.In[0], c.In[1], c.In[2], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	from, count, places, size := headsIn(c, 0, "num_heads")
	turned := c.Int("rotary_embedding_dim", 0)
	if turned == 0 {
		turned = size
	}
	half := turned / 2
	lines := cos.Len() / half
	position := c.in(3)
	interleaved := c.Int("interleaved", 0) != 0
	to := from
	part := func(p, _ int) {
		b, place := p/places, p%places
		line := p
		if position != nil {
			line = int(data[int64](position)[p])
		}
		m := meter{c: c}
		cs, sn := span[float32](element[float32](cos, line*half), half), span[float32](element[float32](sin, line*half), half)
		for h := range count {
			m.add(size)
			s, d := span[float32](from.of(b, h, place), size), span[float32](to.of(b, h, place), size)
			for k := range half {
				i, j := k, k+half
				if interleaved {
					i, j = 2*k, 2*k+1
				}
				d[i], d[j] = cs[k]*s[i]-sn[k]*s[j], sn[k]*s[i]+cs[k]*s[j]
			}
			copy(d[2*half:], s[2*half:])
		}
	}
	return func(w *work.Pool) error {
		if position != nil {
			for p, at := range data[int64](position) {
				if p&often == 0 {
					c.poll()
				}
				if at < 0 || int(at) >= lines {
					return fmt.Errorf("input 3: element %d is position %d, expected one in [0, %d)", p, at, lines)
				}
			}
		}
		from.at, to.at = x.At, out.At
		w.For(x.Shape[0]*places, part)
		return nil
	}, nil
}
