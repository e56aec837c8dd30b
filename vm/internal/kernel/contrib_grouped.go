package kernel

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// grouped is a GroupQueryAttention node of ONNX Runtime. Its heads of queries share those
// of keys and values. The inputs are queries, keys and values, or all of them in one;
// past keys and values; for each element of the batch the number of its keys less 1; the
// largest of these numbers; cosines and sines, by which queries and new keys are turned;
// positions; what is added to the scores; a score without a value for each head.
//
// A step is the first one if there are no more keys in all than new ones. Past keys are
// not attended to then. Outputs 1 and 2 are past and new keys and values. If they have room
// for no more positions than the past, they may be the same memory, and positions behind the
// new ones stay as they were; else there are zeros.
type grouped struct {
	c                       *Invocation
	batch, queries          int
	heads, kvHeads, size    int
	room                    int // positions in the outputs for keys and values
	causal                  bool
	window                  int // keys that a query sees, its own included; 0: all
	most                    float32
	q, k, v                 heads // the new ones
	keys, values            heads // past and new ones
	turnedAt, keysAt, valAt int   // offsets of scratch
	before                  []int // by element of the batch: the number of past keys
	total                   []int // and of all keys
}

// newGrouped reads the form of a GroupQueryAttention node.
func newGrouped(c *Invocation) (*grouped, error) {
	x := c.In[0]
	switch {
	case c.Int("sliding_window_cache", 0) != 0:
		return nil, unsupportedf("sliding_window_cache")
	case c.Has(12) || c.Has(13) || c.Has(3) && c.In[3].Type != graph.Float32:
		return nil, unsupportedf("quantized past keys and values (k_quant_type, v_quant_type)")
	case c.Has(14) || c.Has(15):
		return nil, unsupportedf("norms of queries and keys (inputs 14 and 15)")
	case c.HasOut(3):
		return nil, unsupportedf("scores as an output (qk_output)")
	case c.Has(3) != c.Has(4):
		return nil, fmt.Errorf("past keys without past values: expected both or none of inputs 3 and 4")
	case !c.Has(5) || !c.Has(6):
		return nil, fmt.Errorf("inputs 5 and 6 are the numbers of keys: expected both")
	}
	for i, t := range c.In {
		if t != nil && t.Type != graph.Float32 && (i < 5 || i > 6) && i != 9 {
			return nil, unsupported(t.Type)
		}
	}
	g := &grouped{
		c: c, batch: x.Shape[0], queries: x.Shape[1], heads: c.Int("num_heads", 0), kvHeads: c.Int("kv_num_heads", 0),
		causal: c.Int("causal", 1) != 0, window: max(0, c.Int("local_window_size", -1)), most: c.Float("softcap", 0),
	}
	wide := x.Shape[2]
	if c.Has(1) {
		g.size = wide / g.heads
		shape := []int{g.batch, g.queries, g.kvHeads * g.size}
		for i := 1; i < 3; i++ {
			if !slices.Equal(c.In[i].Shape, shape) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v: as many positions as queries", i, c.In[i].Shape, shape)
			}
		}
		g.q.HeadLayout = PositionsFirst(g.heads, g.queries, g.size)
		g.k.HeadLayout = PositionsFirst(g.kvHeads, g.queries, g.size)
	} else {
		g.size = wide / (g.heads + 2*g.kvHeads)
		g.q.HeadLayout = HeadLayout{g.queries * wide, g.size, wide}
		g.k.HeadLayout = g.q.HeadLayout
	}
	g.v.HeadLayout = g.k.HeadLayout
	past := 0
	if c.Has(3) {
		past = c.In[3].Shape[2]
		for i := 3; i < 5; i++ {
			if want := []int{g.batch, g.kvHeads, past, g.size}; !slices.Equal(c.In[i].Shape, want) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v", i, c.In[i].Shape, want)
			}
		}
	}
	g.room = past + g.queries
	for i := 1; i < 3; i++ {
		if c.HasOut(i) {
			g.room = c.Out[i].Shape[2]
		}
	}
	if c.In[5].Len() != g.batch || c.In[6].Len() != 1 || c.In[5].Type != graph.Int32 || c.In[6].Type != graph.Int32 {
		return nil, fmt.Errorf("inputs 5 and 6 have shapes %v and %v, expected a number of keys for each of %d elements of the batch, and one for all", c.In[5].Shape, c.In[6].Shape, g.batch)
	}
	if !g.causal && g.window > 0 {
		return nil, fmt.Errorf("local_window_size is %d, expected -1 where causal is 0", g.window)
	}
	if b := c.in(10); b != nil && !b.fitsScores(g.batch, g.heads, g.queries) {
		return nil, fmt.Errorf("input 10 has shape %v, expected [%d or 1, %d or 1, %d, keys]", b.Shape, g.batch, g.heads, g.queries)
	}
	if s := c.in(11); s != nil && s.Len() != g.heads {
		return nil, fmt.Errorf("input 11 has shape %v, expected %d scores, one for each head", s.Shape, g.heads)
	}
	return g, g.checkTurns()
}

// turns reports whether queries and keys are turned.
func (g *grouped) turns() bool { return g.c.Int("do_rotary", 0) != 0 }

func (g *grouped) checkTurns() error {
	if !g.turns() {
		return nil
	}
	cos, sin, ids := g.c.in(7), g.c.in(8), g.c.in(9)
	switch {
	case cos == nil || sin == nil:
		return fmt.Errorf("do_rotary is 1, but inputs 7 and 8 are missing: expected cosines and sines")
	case cos.rank() != 2 || !slices.Equal(cos.Shape, sin.Shape) || 2*cos.Shape[1] > g.size:
		return fmt.Errorf("input 7 has shape %v and input 8 %v: expected positions and pairs, as many in both, and at most %d elements in the pairs", cos.Shape, sin.Shape, g.size)
	case ids != nil && (ids.Type != graph.Int64 || ids.Len() != g.batch*g.queries):
		return fmt.Errorf("input 9 has shape %v, expected [%d %d], a position for each query", ids.Shape, g.batch, g.queries)
	}
	return nil
}

// lengths reads the numbers of keys.
func (g *grouped) lengths() error {
	c := g.c
	all := int(data[int32](c.In[6])[0])
	if all < g.queries || all > g.room {
		return fmt.Errorf("input 6: total_sequence_length is %d, expected a number in [%d, %d]: the new keys, and the past ones that there are", all, g.queries, g.room)
	}
	if b := c.in(10); b != nil && b.Shape[3] < all {
		return fmt.Errorf("input 10 has shape %v, expected %d keys", b.Shape, all)
	}
	past := 0
	if c.Has(3) {
		past = c.In[3].Shape[2]
	}
	for b, n := range data[int32](c.In[5]) {
		least := 1
		if all != g.queries {
			least = g.queries
		}
		if int(n) < least-1 || int(n) >= all {
			return fmt.Errorf("input 5: batch %d has %d as its number of keys less 1, expected a number in [%d, %d)", b, n, least-1, all)
		}
		g.total[b], g.before[b] = int(n)+1, 0
		if all != g.queries {
			g.before[b] = int(n) + 1 - g.queries
		}
		if g.before[b] > past {
			return fmt.Errorf("input 5: batch %d has %d past keys, expected at most %d, as input 3 has", b, g.before[b], past)
		}
	}
	return nil
}

// position returns the position by which query i and its key are turned. In the first step
// all positions follow from the first one.
func (g *grouped) position(b, i int) (int, error) {
	ids := g.c.in(9)
	first := int(data[int32](g.c.In[6])[0]) == g.queries
	at := int64(g.before[b] + i)
	switch {
	case ids == nil:
	case first:
		at = data[int64](ids)[0] + int64(i)
	default:
		at = data[int64](ids)[b*g.queries+i]
	}
	if lines := g.c.In[7].Shape[0]; at < 0 || at >= int64(lines) {
		return 0, fmt.Errorf("query %d of batch %d has position %d, expected one in [0, %d), as input 7 has", i, b, at, lines)
	}
	return int(at), nil
}

// gather writes the new elements of one head behind the past ones, and turns them if they
// are keys. It copies the past ones if they lie elsewhere.
func (g *grouped) gather(past *Tensor, to, fresh *heads, b, h int, turned bool) {
	m := meter{c: g.c}
	last := g.before[b] + g.queries
	if past != nil {
		from := element[float32](past, (b*g.kvHeads+h)*past.Shape[2]*g.size)
		n := g.before[b]
		if past.Shape[2] == g.room {
			n, last = g.room, g.room
		}
		if at := to.of(b, h, 0); at != from {
			copyAll(g.c, span[float32](at, n*g.size), span[float32](from, n*g.size))
		}
	}
	for i := range g.queries {
		m.add(g.size)
		d, s := span[float32](to.of(b, h, g.before[b]+i), g.size), span[float32](fresh.of(b, h, i), g.size)
		if turned {
			g.turn(d, s, b, i)
		} else {
			copy(d, s)
		}
	}
	g.c.clear(span[byte](to.of(b, h, last), 4*(g.room-last)*g.size))
}

func (g *grouped) turn(d, s []float32, b, i int) {
	cos, sin := g.c.In[7], g.c.In[8]
	half := cos.Shape[1]
	at, _ := g.position(b, i) // has been checked
	rotate(d, s, span[float32](element[float32](cos, at*half), half), span[float32](element[float32](sin, at*half), half), g.c.Int("rotary_interleaved", 0) != 0)
}

// edit caps and masks a row of scores.
func (g *grouped) edit(row []float32, b, h, i int) int {
	to := g.total[b]
	if g.causal {
		to = min(to, g.before[b]+i+1)
	}
	row = row[:to]
	if g.most > 0 {
		capScores(g.c, row, g.most)
	}
	if m := g.c.in(10); m != nil {
		addScores(g.c, row, m.rowOfScores(b, h, i))
	}
	if g.window > 0 && to > g.window {
		fillAll(g.c, row[:to-g.window], float32(math.Inf(-1)))
	}
	return to
}

// makeGroupQueryAttention gathers the keys and values in its outputs, and so reads all of
// them from there.
func makeGroupQueryAttention(c *Invocation) (Run, error) {
	g, err := newGrouped(c)
	if err != nil {
		return nil, err
	}
	if err := c.Runtime.Heap(16 * int64(g.batch)); err != nil {
		return nil, err
	}
	g.before, g.total = make([]int, g.batch), make([]int, g.batch)
	a := &attention{
		batch: g.batch, heads: g.heads, shared: g.heads / g.kvHeads, queries: g.queries, keys: g.room, size: g.size, valueSize: g.size,
		scale: c.Float("scale", 0), q: g.q, y: heads{nil, PositionsFirst(g.heads, g.queries, g.size)}, edit: g.edit,
	}
	if a.scale == 0 {
		a.scale = float32(1 / math.Sqrt(float64(max(g.size, 1))))
	}
	if sinks := c.in(11); sinks != nil {
		a.sink = func(h int) float32 { return data[float32](sinks)[h] }
	} else if c.Int("smooth_softmax", 0) == 1 {
		a.sink = func(int) float32 { return 0 }
	}
	if g.turns() {
		a.q.HeadLayout = PositionsFirst(g.heads, g.queries, g.size)
		g.turnedAt = c.Shared(mul(4, g.batch, g.queries, g.heads, g.size))
	}
	g.keys.HeadLayout = HeadsFirst(g.kvHeads, g.room, g.size)
	g.values = g.keys
	cache := mul(4, g.batch, g.kvHeads, g.room, g.size)
	if !c.HasOut(1) {
		g.keysAt = c.Shared(cache)
	}
	if !c.HasOut(2) {
		g.valAt = c.Shared(cache)
	}
	a.k, a.v = g.keys, g.values
	a.total = g.total
	attend := a.make(c)
	gather := func(p, _ int) {
		b, h := p/g.kvHeads, p%g.kvHeads
		g.gather(c.in(3), &g.keys, &g.k, b, h, g.turns())
		g.gather(c.in(4), &g.values, &g.v, b, h, false)
	}
	turnQueries := func(p, _ int) {
		b, i := p/g.queries, p%g.queries
		m := meter{c: c}
		for h := range g.heads {
			m.add(g.size)
			g.turn(span[float32](a.q.of(b, h, i), g.size), span[float32](g.q.of(b, h, i), g.size), b, i)
		}
	}
	return func(w *work.Pool) error {
		if err := g.lengths(); err != nil {
			return err
		}
		g.setAddresses(w)
		a.q.at, a.k.at, a.v.at, a.y.at = g.q.at, g.keys.at, g.values.at, c.Out[0].At
		if g.turns() {
			for p := range g.batch * g.queries {
				if p&often == 0 {
					c.poll()
				}
				if _, err := g.position(p/g.queries, p%g.queries); err != nil {
					return err
				}
			}
			a.q.at = w.Shared(g.turnedAt)
			w.For(g.batch*g.queries, turnQueries)
		}
		w.For(g.batch*g.kvHeads, gather)
		attend(w)
		return nil
	}, nil
}

// setAddresses sets the addresses of the new and of all keys and values.
func (g *grouped) setAddresses(w *work.Pool) {
	c := g.c
	g.q.at = c.In[0].At
	if c.Has(1) {
		g.k.at, g.v.at = c.In[1].At, c.In[2].At
	} else {
		g.k.at = unsafe.Add(g.q.at, 4*g.heads*g.size)
		g.v.at = unsafe.Add(g.k.at, 4*g.kvHeads*g.size)
	}
	g.keys.at, g.values.at = w.Shared(g.keysAt), w.Shared(g.valAt)
	if c.HasOut(1) {
		g.keys.at = c.Out[1].At
	}
	if c.HasOut(2) {
		g.values.at = c.Out[2].At
	}
}
