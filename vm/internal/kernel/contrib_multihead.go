package kernel

import (
	"unsafe"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// projected are the queries, keys or values of a node as it runs.
type projected struct {
	*form.Projected
	c            *Invocation
	batch, heads int
	in, all      heads
	scratch      int // offset, if they are copied and not wanted
}

// prepare decides where all of them lie.
func (v *projected) prepare() {
	v.in.HeadLayout = v.In
	v.all = v.in
	if !v.Copied() {
		return
	}
	total := v.Before + v.Fresh
	v.all.HeadLayout = form.HeadsFirst(v.heads, total, v.Size)
	if v.Out == nil {
		v.scratch = v.c.Shared(mul(4, v.batch, v.heads, total, v.Size))
	}
}

// gather sets the addresses, and copies what must be copied.
func (v *projected) gather(w *work.Pool) {
	v.in.at = element[float32](v.From, v.First)
	switch {
	case !v.Copied():
		v.all.at = v.in.at
		return
	case v.Out != nil:
		v.all.at = element[float32](v.Out, v.OutFirst)
	default:
		v.all.at = w.Shared(v.scratch)
	}
	w.For(v.batch*v.heads, v.copy)
}

func (v *projected) copy(p, _ int) {
	b, h := p/v.heads, p%v.heads
	m := v.c.Meter()
	if n := v.Before * v.Size; n > 0 {
		copyAll(v.c, span[float32](v.all.of(b, h, 0), n), span[float32](element[float32](v.Past, v.PastFirst+p*n), n))
	}
	for i := range v.Fresh {
		m.Add(v.Size)
		d, s := span[float32](v.all.of(b, h, v.Before+i), v.Size), span[float32](v.in.of(b, h, i), v.Size)
		if v.Bias == nil {
			copy(d, s)
		} else {
			simd.Add(d, s, span[float32](element[float32](v.Bias, v.BiasFirst+h*v.Size), v.Size))
		}
	}
}

// multiHead is a node as it runs.
type multiHead struct {
	*form.MultiHead
	c       *Invocation
	q, k, v projected
}

// edit masks a row of scores.
func (g *multiHead) edit(row []float32, b, h, i int) int {
	if g.Causal && i < g.Q.Fresh-1 {
		row = row[:min(len(row), g.K.Before+i+1)]
	}
	if a := g.Added; a != nil {
		addScores(g.c, row, rowOfScores(a, b, h, i))
	}
	switch m := g.Mask; {
	case m == nil:
	case m.Rank() == 1:
		ends := data[int32](m)
		inside := func(i int) int { return min(max(int(ends[i]), 0), len(row)) }
		end := inside(b)
		if len(ends) > g.Batch {
			start := min(inside(g.Batch+b), end)
			addToScores(g.c, row[:start], g.Filter)
		}
		addToScores(g.c, row[end:], g.Filter)
	default:
		addToUnseen(g.c, row, data[int32](m)[g.MaskFirst+b*g.MaskSteps[0]+i*g.MaskSteps[1]:], g.Filter)
	}
	return len(row)
}

func makeMultiHeadAttention(c *Invocation) (Run, error) {
	for i, t := range c.In {
		if t != nil && t.Type != graph.Float32 && i != 4 {
			return nil, unsupported(t.Type)
		}
	}
	f, err := c.MultiHeadAttention()
	if err != nil {
		return nil, err
	}
	return attends(c, f), nil
}

// attends makes the attention of a form.
func attends(c *Invocation, f *form.MultiHead) Run {
	g := &multiHead{MultiHead: f, c: c}
	of := func(v *form.Projected) (p projected) {
		p = projected{Projected: v, c: c, batch: f.Batch, heads: f.Heads}
		p.prepare()
		return p
	}
	g.q, g.k, g.v = of(&f.Q), of(&f.K), of(&f.V)
	a := &attention{
		batch: f.Batch, heads: f.Heads, shared: 1, queries: f.Q.Fresh, keys: f.Keys(), size: f.Q.Size, valueSize: f.V.Size,
		scale: f.Scale, q: g.q.all, k: g.k.all, v: g.v.all, y: heads{nil, form.PositionsFirst(f.Heads, f.Q.Fresh, f.V.Size)}, edit: g.edit,
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
	}
}
