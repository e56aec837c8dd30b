package kernel

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// projected are the queries, keys or values of a MultiHeadAttention node: past ones, if
// any, and then those of an input, to each of which a bias is added.
type projected struct {
	c         *Invocation
	from      *Tensor
	first     int // element of from where they begin
	bias      *Tensor
	biasFirst int // element of the bias that belongs to the first one
	past      *Tensor
	out       *Tensor // where all of them are wanted; may be nil
	batch     int
	heads     int
	before    int // past positions
	fresh     int // positions of the input
	size      int
	in        heads
	all       heads
	copied    bool
	scratch   int // offset, if they are copied and not wanted
}

// prepare decides where all of them lie.
func (v *projected) prepare() {
	if v.past != nil {
		v.before = v.past.Shape[2]
	}
	total := v.before + v.fresh
	v.copied = v.past != nil || v.bias != nil || v.out != nil
	v.all = v.in
	if v.copied {
		v.all.HeadLayout = HeadsFirst(v.heads, total, v.size)
	}
	if v.copied && v.out == nil {
		v.scratch = v.c.Shared(mul(4, v.batch, v.heads, total, v.size))
	}
}

// gather sets the addresses, and copies what must be copied.
func (v *projected) gather(w *work.Pool) {
	v.in.at = element[float32](v.from, v.first)
	switch {
	case !v.copied:
		v.all.at = v.in.at
		return
	case v.out != nil:
		v.all.at = v.out.At
	default:
		v.all.at = w.Shared(v.scratch)
	}
	w.For(v.batch*v.heads, v.copy)
}

func (v *projected) copy(p, _ int) {
	b, h := p/v.heads, p%v.heads
	m := meter{c: v.c}
	if n := v.before * v.size; n > 0 {
		copyAll(v.c, span[float32](v.all.of(b, h, 0), n), span[float32](element[float32](v.past, p*n), n))
	}
	for i := range v.fresh {
		m.add(v.size)
		d, s := span[float32](v.all.of(b, h, v.before+i), v.size), span[float32](v.in.of(b, h, i), v.size)
		if v.bias == nil {
			copy(d, s)
		} else {
			simd.Add(d, s, span[float32](element[float32](v.bias, v.biasFirst+h*v.size), v.size))
		}
	}
}

// multiHead is a MultiHeadAttention node of ONNX Runtime. The inputs are queries, keys and
// values, which may be merged, a bias of all three, a mask of keys, what is added to the
// scores, past keys and past values.
type multiHead struct {
	c           *Invocation
	q, k, v     projected
	mask, added *Tensor
	filter      float32 // is added to the scores of masked keys
	causal      bool
}

// newMultiHead reads the form of a MultiHeadAttention node.
func newMultiHead(c *Invocation) (*multiHead, error) {
	switch {
	case c.Has(8) || c.Has(9):
		return nil, unsupportedf("past_sequence_length and cache_indirection (inputs 8 and 9)")
	case c.HasOut(3):
		return nil, unsupportedf("scores as an output (output 3)")
	case c.Has(6) != c.Has(7):
		return nil, fmt.Errorf("past keys without past values: expected both or none of inputs 6 and 7")
	}
	for i, t := range c.In {
		if t != nil && t.Type != graph.Float32 && i != 4 {
			return nil, unsupported(t.Type)
		}
	}
	x, n := c.In[0], c.Int("num_heads", 0)
	batch, queries := x.Shape[0], x.Shape[1]
	g := &multiHead{c: c, mask: c.in(4), added: c.in(5), filter: c.Float("mask_filter_value", -10000), causal: c.Int("unidirectional", 0) != 0}
	one := func(from *Tensor, in HeadLayout, positions, size int) projected {
		return projected{c: c, from: from, bias: c.in(3), batch: batch, heads: n, fresh: positions, size: size, in: heads{nil, in}}
	}
	// Merged ones have an axis more, of 3 or 2 parts.
	part := func(from *Tensor, parts, k int) projected {
		positions, size := from.Shape[1], from.Shape[4]
		p := one(from, HeadLayout{positions * n * parts * size, parts * size, n * parts * size}, positions, size)
		p.first = k * size
		return p
	}
	if x.rank() == 3 {
		g.q = one(x, PositionsFirst(n, queries, x.Shape[2]/n), queries, x.Shape[2]/n)
	}
	key, value := c.in(1), c.in(2)
	var shapes [3][]int // which are expected
	switch {
	case x.rank() == 5 && key == nil && value == nil:
		shapes[0] = []int{batch, queries, n, 3, x.Shape[4]}
		g.q, g.k, g.v = part(x, 3, 0), part(x, 3, 1), part(x, 3, 2)
	case x.rank() != 3 || key == nil:
		return nil, unsupportedf("queries of shape %v without keys", x.Shape)
	case key.rank() == 5 && value == nil && !c.Has(3):
		shapes[1] = []int{batch, key.Shape[1], n, 2, g.q.size}
		g.k, g.v = part(key, 2, 0), part(key, 2, 1)
	case value == nil || key.rank() != value.rank() || key.rank() == 4 && (c.Has(3) || c.Has(6)):
		return nil, unsupportedf("keys of shape %v with these values, bias or past", key.Shape)
	case key.rank() == 4:
		size := value.Shape[3]
		shapes[1], shapes[2] = []int{batch, n, key.Shape[2], g.q.size}, []int{batch, n, key.Shape[2], size}
		g.k, g.v = one(key, HeadsFirst(n, key.Shape[2], g.q.size), key.Shape[2], g.q.size), one(value, HeadsFirst(n, key.Shape[2], size), key.Shape[2], size)
	case key.rank() == 3:
		size := value.Shape[2] / n
		shapes[1], shapes[2] = []int{batch, key.Shape[1], n * g.q.size}, []int{batch, key.Shape[1], n * size}
		g.k, g.v = one(key, PositionsFirst(n, key.Shape[1], g.q.size), key.Shape[1], g.q.size), one(value, PositionsFirst(n, key.Shape[1], size), key.Shape[1], size)
	default:
		return nil, unsupportedf("keys of shape %v", key.Shape)
	}
	for i, want := range shapes {
		if want != nil && !slices.Equal(c.In[i].Shape, want) {
			return nil, fmt.Errorf("input %d has shape %v, expected %v", i, c.In[i].Shape, want)
		}
	}
	hidden := n * g.q.size
	g.k.biasFirst, g.v.biasFirst = hidden, 2*hidden
	g.k.past, g.v.past = c.in(6), c.in(7)
	for i, v := range []*projected{&g.k, &g.v} {
		if v.past != nil {
			if want := []int{batch, n, c.In[6].Shape[2], v.size}; !slices.Equal(v.past.Shape, want) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v", 6+i, v.past.Shape, want)
			}
		}
		if c.HasOut(1 + i) {
			v.out = c.Out[1+i]
		}
	}
	g.q.prepare()
	g.k.prepare()
	g.v.prepare()
	return g, g.checkAdded()
}

// keys is the number of keys of each element of the batch.
func (g *multiHead) keys() int { return g.k.before + g.k.fresh }

// checkAdded checks the bias, the mask, and what is added to the scores.
func (g *multiHead) checkAdded() error {
	batch, queries, keys := g.q.batch, g.q.fresh, g.keys()
	if b, want := g.c.in(3), g.q.heads*(2*g.q.size+g.v.size); b != nil && b.Len() != want {
		return fmt.Errorf("input 3 has shape %v, expected [%d]: a bias for each element of queries, keys and values", b.Shape, want)
	}
	if m := g.mask; m != nil {
		if m.Type != graph.Int32 {
			return unsupported(m.Type)
		}
		if !slices.Equal(m.Shape, []int{batch}) && !slices.Equal(m.Shape, []int{batch, keys}) && !slices.Equal(m.Shape, []int{batch, queries, keys}) {
			return unsupportedf("a mask (input 4) of shape %v beside %d keys", m.Shape, keys)
		}
	}
	if a := g.added; a != nil && (!a.fitsScores(batch, g.q.heads, queries) || a.Shape[3] != keys) {
		return fmt.Errorf("input 5 has shape %v, expected [%d or 1, %d or 1, %d, %d]", a.Shape, batch, g.q.heads, queries, keys)
	}
	return nil
}

// edit masks a row of scores.
func (g *multiHead) edit(row []float32, b, h, i int) int {
	if g.causal && i < g.q.fresh-1 { // the last query sees all keys, also those of another sequence
		row = row[:min(len(row), g.k.before+i+1)]
	}
	if a := g.added; a != nil {
		addScores(g.c, row, a.rowOfScores(b, h, i))
	}
	if m := g.mask; m != nil && m.rank() == 1 {
		addToScores(g.c, row[min(max(int(data[int32](m)[b]), 0), len(row)):], g.filter)
	} else if m != nil {
		line := b
		if m.rank() == 3 {
			line = b*g.q.fresh + i
		}
		addToUnseen(g.c, row, data[int32](m)[line*g.keys():], g.filter)
	}
	return len(row)
}

func makeMultiHeadAttention(c *Invocation) (Run, error) {
	g, err := newMultiHead(c)
	if err != nil {
		return nil, err
	}
	a := &attention{
		batch: g.q.batch, heads: g.q.heads, shared: 1, queries: g.q.fresh, keys: g.keys(), size: g.q.size, valueSize: g.v.size,
		scale: c.Float("scale", 0), q: g.q.all, k: g.k.all, v: g.v.all, y: heads{nil, PositionsFirst(g.q.heads, g.q.fresh, g.v.size)}, edit: g.edit,
	}
	if a.scale == 0 {
		a.scale = float32(1 / math.Sqrt(float64(max(g.q.size, 1))))
	}
	attend := a.make(c)
	return func(w *work.Pool) error {
		for _, v := range []struct {
			from *projected
			at   *unsafe.Pointer
		}{{&g.q, &a.q.at}, {&g.k, &a.k.at}, {&g.v, &a.v.at}} {
			v.from.gather(w)
			*v.at = v.from.all.at
		}
		a.y.at = c.Out[0].At
		attend(w)
		return nil
	}, nil
}
