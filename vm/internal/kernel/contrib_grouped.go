package kernel

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// GroupedForm is what the shapes and attributes of a GroupQueryAttention node of ONNX Runtime
// say. Its heads of queries share those of keys and values. The inputs are queries, keys and
// values, or all of them in one, and past keys and values. For each element of the batch
// follows the number of its keys less 1, then the largest of these numbers. Cosines and sines
// turn queries and new keys. The last are positions, what is added to the scores, and a score
// without a value for each head.
//
// A step is the first one if there are no more keys in all than new ones. Past keys are
// not attended to then. Outputs 1 and 2 are past and new keys and values. If they have room
// for no more positions than the past, they may be the same memory, and positions behind the
// new ones stay as they were; else there are zeros.
type GroupedForm struct {
	Batch, Queries       int
	Heads, KVHeads, Size int
	Past, Room           int        // positions of the past, and in the outputs for keys and values
	Q, K, V              HeadLayout // the new ones; if In[1] is omitted, they lie in input 0 in turn
	Scale, Cap           float32    // scores are scaled, and capped unless Cap is 0
	Causal               bool
	Window               int  // keys that a query sees, its own included; 0: all
	Turns                bool // queries and new keys are turned
	Interleaved          bool // the elements of a pair that is turned are neighbours
	Smooth               bool // there is a score of 0 without a value; input 11 has others
}

// GroupedAttention reads the form of a GroupQueryAttention node.
func (c *Invocation) GroupedAttention() (*GroupedForm, error) {
	x := c.In[0]
	switch {
	case c.Int("sliding_window_cache", 0) != 0:
		return nil, unsupportedf("sliding_window_cache")
	case c.Has(12) || c.Has(13) || c.Has(3) && c.In[3].Type != x.Type:
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
	f := &GroupedForm{
		Batch: x.Shape[0], Queries: x.Shape[1], Heads: c.Int("num_heads", 0), KVHeads: c.Int("kv_num_heads", 0),
		Scale: c.Float("scale", 0), Cap: max(0, c.Float("softcap", 0)), Causal: c.Int("causal", 1) != 0, Window: max(0, c.Int("local_window_size", -1)),
		Turns: c.Int("do_rotary", 0) != 0, Interleaved: c.Int("rotary_interleaved", 0) != 0, Smooth: c.Int("smooth_softmax", 0) == 1,
	}
	wide := x.Shape[2]
	if c.Has(1) {
		f.Size = wide / f.Heads
		shape := []int{f.Batch, f.Queries, f.KVHeads * f.Size}
		for i := 1; i < 3; i++ {
			if !slices.Equal(c.In[i].Shape, shape) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v: as many positions as queries", i, c.In[i].Shape, shape)
			}
		}
		f.Q = PositionsFirst(f.Heads, f.Queries, f.Size)
		f.K = PositionsFirst(f.KVHeads, f.Queries, f.Size)
	} else {
		f.Size = wide / (f.Heads + 2*f.KVHeads)
		f.Q = HeadLayout{f.Queries * wide, f.Size, wide}
		f.K = f.Q
	}
	f.V = f.K
	if f.Scale == 0 {
		f.Scale = float32(1 / math.Sqrt(float64(max(f.Size, 1))))
	}
	if c.Has(3) {
		f.Past = c.In[3].Shape[2]
		for i := 3; i < 5; i++ {
			if want := []int{f.Batch, f.KVHeads, f.Past, f.Size}; !slices.Equal(c.In[i].Shape, want) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v", i, c.In[i].Shape, want)
			}
		}
	}
	f.Room = f.Past + f.Queries
	for i := 1; i < 3; i++ {
		if c.HasOut(i) {
			f.Room = c.Out[i].Shape[2]
		}
	}
	if c.In[5].Len() != f.Batch || c.In[6].Len() != 1 || c.In[5].Type != graph.Int32 || c.In[6].Type != graph.Int32 {
		return nil, fmt.Errorf("inputs 5 and 6 have shapes %v and %v, expected a number of keys for each of %d elements of the batch, and one for all", c.In[5].Shape, c.In[6].Shape, f.Batch)
	}
	if !f.Causal && f.Window > 0 {
		return nil, fmt.Errorf("local_window_size is %d, expected -1 where causal is 0", f.Window)
	}
	if b := c.in(10); b != nil && !b.fitsScores(f.Batch, f.Heads, f.Queries) {
		return nil, fmt.Errorf("input 10 has shape %v, expected [%d or 1, %d or 1, %d, keys]", b.Shape, f.Batch, f.Heads, f.Queries)
	}
	if s := c.in(11); s != nil && s.Len() != f.Heads {
		return nil, fmt.Errorf("input 11 has shape %v, expected %d scores, one for each head", s.Shape, f.Heads)
	}
	if !f.Turns {
		return f, nil
	}
	cos, sin, ids := c.in(7), c.in(8), c.in(9)
	switch {
	case cos == nil || sin == nil:
		return nil, fmt.Errorf("do_rotary is 1, but inputs 7 and 8 are missing: expected cosines and sines")
	case cos.rank() != 2 || !slices.Equal(cos.Shape, sin.Shape) || 2*cos.Shape[1] > f.Size:
		return nil, fmt.Errorf("input 7 has shape %v and input 8 %v: expected positions and pairs, as many in both, and at most %d elements in the pairs", cos.Shape, sin.Shape, f.Size)
	case ids != nil && (ids.Type != graph.Int64 || ids.Len() != f.Batch*f.Queries):
		return nil, fmt.Errorf("input 9 has shape %v, expected [%d %d], a position for each query", ids.Shape, f.Batch, f.Queries)
	}
	return f, nil
}

// grouped is a GroupQueryAttention node as it runs.
type grouped struct {
	*GroupedForm
	c                       *Invocation
	q, k, v                 heads // the new ones
	keys, values            heads // past and new ones
	turnedAt, keysAt, valAt int   // offsets of scratch
	before                  []int // by element of the batch: the number of past keys
	total                   []int // and of all keys
}

// lengths reads the numbers of keys.
func (g *grouped) lengths() error {
	c := g.c
	all := int(data[int32](c.In[6])[0])
	if all < g.Queries || all > g.Room {
		return fmt.Errorf("input 6: total_sequence_length is %d, expected a number in [%d, %d]: the new keys, and the past ones that there are", all, g.Queries, g.Room)
	}
	if b := c.in(10); b != nil && b.Shape[3] < all {
		return fmt.Errorf("input 10 has shape %v, expected %d keys", b.Shape, all)
	}
	for b, n := range data[int32](c.In[5]) {
		least := 1
		if all != g.Queries {
			least = g.Queries
		}
		if int(n) < least-1 || int(n) >= all {
			return fmt.Errorf("input 5: batch %d has %d as its number of keys less 1, expected a number in [%d, %d)", b, n, least-1, all)
		}
		g.total[b], g.before[b] = int(n)+1, 0
		if all != g.Queries {
			g.before[b] = int(n) + 1 - g.Queries
		}
		if g.before[b] > g.Past {
			return fmt.Errorf("input 5: batch %d has %d past keys, expected at most %d, as input 3 has", b, g.before[b], g.Past)
		}
	}
	return nil
}

// position returns the position by which query i and its key are turned. In the first step
// all positions follow from the first one.
func (g *grouped) position(b, i int) (int, error) {
	ids := g.c.in(9)
	first := int(data[int32](g.c.In[6])[0]) == g.Queries
	at := int64(g.before[b] + i)
	switch {
	case ids == nil:
	case first:
		at = data[int64](ids)[0] + int64(i)
	default:
		at = data[int64](ids)[b*g.Queries+i]
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
	last := g.before[b] + g.Queries
	if past != nil {
		from := element[float32](past, (b*g.KVHeads+h)*past.Shape[2]*g.Size)
		n := g.before[b]
		if past.Shape[2] == g.Room {
			n, last = g.Room, g.Room
		}
		if at := to.of(b, h, 0); at != from {
			copyAll(g.c, span[float32](at, n*g.Size), span[float32](from, n*g.Size))
		}
	}
	for i := range g.Queries {
		m.add(g.Size)
		d, s := span[float32](to.of(b, h, g.before[b]+i), g.Size), span[float32](fresh.of(b, h, i), g.Size)
		if turned {
			g.turn(d, s, b, i)
		} else {
			copy(d, s)
		}
	}
	g.c.clear(span[byte](to.of(b, h, last), 4*(g.Room-last)*g.Size))
}

func (g *grouped) turn(d, s []float32, b, i int) {
	cos, sin := g.c.In[7], g.c.In[8]
	half := cos.Shape[1]
	at, _ := g.position(b, i) // has been checked
	rotate(d, s, span[float32](element[float32](cos, at*half), half), span[float32](element[float32](sin, at*half), half), g.Interleaved)
}

// edit caps and masks a row of scores.
func (g *grouped) edit(row []float32, b, h, i int) int {
	to := g.total[b]
	if g.Causal {
		to = min(to, g.before[b]+i+1)
	}
	row = row[:to]
	if g.Cap > 0 {
		capScores(g.c, row, g.Cap)
	}
	if m := g.c.in(10); m != nil {
		addScores(g.c, row, m.rowOfScores(b, h, i))
	}
	if g.Window > 0 && to > g.Window {
		fillAll(g.c, row[:to-g.Window], float32(math.Inf(-1)))
	}
	return to
}

// makeGroupQueryAttention gathers the keys and values in its outputs, and so reads all of
// them from there.
func makeGroupQueryAttention(c *Invocation) (Run, error) {
	for i, t := range c.In {
		if t != nil && t.Type != graph.Float32 && (i < 5 || i > 6) && i != 9 {
			return nil, unsupported(t.Type)
		}
	}
	f, err := c.GroupedAttention()
	if err != nil {
		return nil, err
	}
	g := &grouped{GroupedForm: f, c: c}
	g.q.HeadLayout, g.k.HeadLayout, g.v.HeadLayout = f.Q, f.K, f.V
	if err := c.Runtime.Heap(16 * int64(g.Batch)); err != nil {
		return nil, err
	}
	g.before, g.total = make([]int, g.Batch), make([]int, g.Batch)
	a := &attention{
		batch: g.Batch, heads: g.Heads, shared: g.Heads / g.KVHeads, queries: g.Queries, keys: g.Room, size: g.Size, valueSize: g.Size,
		scale: g.Scale, q: g.q, y: heads{nil, PositionsFirst(g.Heads, g.Queries, g.Size)}, edit: g.edit,
	}
	if sinks := c.in(11); sinks != nil {
		a.sink = func(h int) float32 { return data[float32](sinks)[h] }
	} else if g.Smooth {
		a.sink = func(int) float32 { return 0 }
	}
	if g.Turns {
		a.q.HeadLayout = PositionsFirst(g.Heads, g.Queries, g.Size)
		g.turnedAt = c.Shared(mul(4, g.Batch, g.Queries, g.Heads, g.Size))
	}
	g.keys.HeadLayout = HeadsFirst(g.KVHeads, g.Room, g.Size)
	g.values = g.keys
	cache := mul(4, g.Batch, g.KVHeads, g.Room, g.Size)
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
		b, h := p/g.KVHeads, p%g.KVHeads
		g.gather(c.in(3), &g.keys, &g.k, b, h, g.Turns)
		g.gather(c.in(4), &g.values, &g.v, b, h, false)
	}
	turnQueries := func(p, _ int) {
		b, i := p/g.Queries, p%g.Queries
		m := meter{c: c}
		for h := range g.Heads {
			m.add(g.Size)
			g.turn(span[float32](a.q.of(b, h, i), g.Size), span[float32](g.q.of(b, h, i), g.Size), b, i)
		}
	}
	return func(w *work.Pool) error {
		if err := g.lengths(); err != nil {
			return err
		}
		g.setAddresses(w)
		a.q.at, a.k.at, a.v.at, a.y.at = g.q.at, g.keys.at, g.values.at, c.Out[0].At
		if g.Turns {
			for p := range g.Batch * g.Queries {
				if p&often == 0 {
					c.poll()
				}
				if _, err := g.position(p/g.Queries, p%g.Queries); err != nil {
					return err
				}
			}
			a.q.at = w.Shared(g.turnedAt)
			w.For(g.Batch*g.Queries, turnQueries)
		}
		w.For(g.Batch*g.KVHeads, gather)
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
		g.k.at = unsafe.Add(g.q.at, 4*g.Heads*g.Size)
		g.v.at = unsafe.Add(g.k.at, 4*g.KVHeads*g.Size)
	}
	g.keys.at, g.values.at = w.Shared(g.keysAt), w.Shared(g.valAt)
	if c.HasOut(1) {
		g.keys.at = c.Out[1].At
	}
	if c.HasOut(2) {
		g.values.at = c.Out[2].At
	}
}
