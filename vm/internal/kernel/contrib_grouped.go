package kernel

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// grouped is a GroupQueryAttention node as it runs.
type grouped struct {
	*form.Grouped
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
	if b := c.Input(10); b != nil && b.Shape[3] < all {
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
	ids := g.c.Input(9)
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
	m := g.c.Meter()
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
		m.Add(g.Size)
		d, s := span[float32](to.of(b, h, g.before[b]+i), g.Size), span[float32](fresh.of(b, h, i), g.Size)
		if turned {
			g.turn(d, s, b, i)
		} else {
			copy(d, s)
		}
	}
	g.c.Clear(span[byte](to.of(b, h, last), 4*(g.Room-last)*g.Size))
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
	if m := g.c.Input(10); m != nil {
		addScores(g.c, row, rowOfScores(m, b, h, i))
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
	g := &grouped{Grouped: f, c: c}
	g.q.HeadLayout, g.k.HeadLayout, g.v.HeadLayout = f.Q, f.K, f.V
	if err := c.Runtime.Heap(16 * int64(g.Batch)); err != nil {
		return nil, err
	}
	g.before, g.total = make([]int, g.Batch), make([]int, g.Batch)
	a := &attention{
		batch: g.Batch, heads: g.Heads, shared: g.Heads / g.KVHeads, queries: g.Queries, keys: g.Room, size: g.Size, valueSize: g.Size,
		scale: g.Scale, q: g.q, y: heads{nil, form.PositionsFirst(g.Heads, g.Queries, g.Size)}, edit: g.edit,
	}
	if sinks := c.Input(11); sinks != nil {
		a.sink = func(h int) float32 { return data[float32](sinks)[h] }
	} else if g.Smooth {
		a.sink = func(int) float32 { return 0 }
	}
	if g.Turns {
		a.q.HeadLayout = form.PositionsFirst(g.Heads, g.Queries, g.Size)
		g.turnedAt = c.Shared(mul(4, g.Batch, g.Queries, g.Heads, g.Size))
	}
	g.keys.HeadLayout = form.HeadsFirst(g.KVHeads, g.Room, g.Size)
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
		g.gather(c.Input(3), &g.keys, &g.k, b, h, g.Turns)
		g.gather(c.Input(4), &g.values, &g.v, b, h, false)
	}
	turnQueries := func(p, _ int) {
		b, i := p/g.Queries, p%g.Queries
		m := c.Meter()
		for h := range g.Heads {
			m.Add(g.Size)
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
				if p&form.Often == 0 {
					c.Poll()
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
