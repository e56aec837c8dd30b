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

// Projected are the queries, keys or values of a MultiHeadAttention node: past ones, if
// any, and then those of an input, to each of which a bias is added.
type Projected struct {
	From      *Tensor
	First     int // element of From where they begin
	In        HeadLayout
	Bias      *Tensor
	BiasFirst int // element of the bias that belongs to the first one
	Past      *Tensor
	PastFirst int     // element of Past where they begin
	Out       *Tensor // where all of them are wanted; may be nil
	OutFirst  int     // element of Out where they begin
	Before    int     // past positions
	Fresh     int     // positions of the input
	Size      int
}

// Copied reports whether all of them lie apart from the input.
func (v *Projected) Copied() bool { return v.Past != nil || v.Bias != nil || v.Out != nil }

// projected are the queries, keys or values of a node as it runs.
type projected struct {
	*Projected
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
	v.all.HeadLayout = HeadsFirst(v.heads, total, v.Size)
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
	m := meter{c: v.c}
	if n := v.Before * v.Size; n > 0 {
		copyAll(v.c, span[float32](v.all.of(b, h, 0), n), span[float32](element[float32](v.Past, v.PastFirst+p*n), n))
	}
	for i := range v.Fresh {
		m.add(v.Size)
		d, s := span[float32](v.all.of(b, h, v.Before+i), v.Size), span[float32](v.in.of(b, h, i), v.Size)
		if v.Bias == nil {
			copy(d, s)
		} else {
			simd.Add(d, s, span[float32](element[float32](v.Bias, v.BiasFirst+h*v.Size), v.Size))
		}
	}
}

// MultiHeadForm is what the shapes and attributes of a MultiHeadAttention node of ONNX Runtime
// say. The inputs are queries, keys and values, which may be merged, a bias of all three, a mask
// of keys, what is added to the scores, past keys and past values.
type MultiHeadForm struct {
	Batch, Heads int
	Q, K, V      Projected
	Scale        float32
	Causal       bool // a query sees no later keys; the last one sees all, also those of another sequence
	// Mask is [batch] ends of the keys, or [2·batch] ends and then starts, or marks each key that
	// is seen by a number above 0; it may be nil. The marks for a query begin after MaskFirst, and
	// have the steps of MaskSteps by batch and query.
	Mask      *Tensor
	MaskFirst int
	MaskSteps [2]int
	Filter    float32 // is added to the scores of masked keys
	Added     *Tensor // to the scores; may be nil
}

// multiHead is a node as it runs.
type multiHead struct {
	*MultiHeadForm
	c       *Invocation
	q, k, v projected
}

// MultiHeadAttention reads the form of a MultiHeadAttention node.
func (c *Invocation) MultiHeadAttention() (*MultiHeadForm, error) {
	switch {
	case c.Has(8) || c.Has(9):
		return nil, unsupportedf("past_sequence_length and cache_indirection (inputs 8 and 9)")
	case c.HasOut(3):
		return nil, unsupportedf("scores as an output (output 3)")
	case c.Has(6) != c.Has(7):
		return nil, fmt.Errorf("past keys without past values: expected both or none of inputs 6 and 7")
	}
	x, n := c.In[0], c.Int("num_heads", 0)
	batch, queries := x.Shape[0], x.Shape[1]
	f := &MultiHeadForm{
		Batch: batch, Heads: n, Scale: c.Float("scale", 0), Causal: c.Int("unidirectional", 0) != 0,
		Mask: c.in(4), Filter: c.Float("mask_filter_value", -10000), Added: c.in(5),
	}
	one := func(from *Tensor, in HeadLayout, positions, size int) Projected {
		return Projected{From: from, Bias: c.in(3), Fresh: positions, Size: size, In: in}
	}
	// Merged ones have an axis more, of 3 or 2 parts.
	part := func(from *Tensor, parts, k int) Projected {
		positions, size := from.Shape[1], from.Shape[4]
		p := one(from, HeadLayout{positions * n * parts * size, parts * size, n * parts * size}, positions, size)
		p.First = k * size
		return p
	}
	if x.rank() == 3 {
		f.Q = one(x, PositionsFirst(n, queries, x.Shape[2]/n), queries, x.Shape[2]/n)
	}
	key, value := c.in(1), c.in(2)
	var shapes [3][]int // which are expected
	switch {
	case x.rank() == 5 && key == nil && value == nil:
		shapes[0] = []int{batch, queries, n, 3, x.Shape[4]}
		f.Q, f.K, f.V = part(x, 3, 0), part(x, 3, 1), part(x, 3, 2)
	case x.rank() != 3 || key == nil:
		return nil, unsupportedf("queries of shape %v without keys", x.Shape)
	case key.rank() == 5 && value == nil && !c.Has(3):
		shapes[1] = []int{batch, key.Shape[1], n, 2, f.Q.Size}
		f.K, f.V = part(key, 2, 0), part(key, 2, 1)
	case value == nil || key.rank() != value.rank() || key.rank() == 4 && (c.Has(3) || c.Has(6)):
		return nil, unsupportedf("keys of shape %v with these values, bias or past", key.Shape)
	case key.rank() == 4:
		size := value.Shape[3]
		shapes[1], shapes[2] = []int{batch, n, key.Shape[2], f.Q.Size}, []int{batch, n, key.Shape[2], size}
		f.K, f.V = one(key, HeadsFirst(n, key.Shape[2], f.Q.Size), key.Shape[2], f.Q.Size), one(value, HeadsFirst(n, key.Shape[2], size), key.Shape[2], size)
	case key.rank() == 3:
		size := value.Shape[2] / n
		shapes[1], shapes[2] = []int{batch, key.Shape[1], n * f.Q.Size}, []int{batch, key.Shape[1], n * size}
		f.K, f.V = one(key, PositionsFirst(n, key.Shape[1], f.Q.Size), key.Shape[1], f.Q.Size), one(value, PositionsFirst(n, key.Shape[1], size), key.Shape[1], size)
	default:
		return nil, unsupportedf("keys of shape %v", key.Shape)
	}
	for i, want := range shapes {
		if want != nil && !slices.Equal(c.In[i].Shape, want) {
			return nil, fmt.Errorf("input %d has shape %v, expected %v", i, c.In[i].Shape, want)
		}
	}
	hidden := n * f.Q.Size
	f.K.BiasFirst, f.V.BiasFirst = hidden, 2*hidden
	f.K.Past, f.V.Past = c.in(6), c.in(7)
	for i, v := range []*Projected{&f.K, &f.V} {
		if v.Past != nil {
			v.Before = c.In[6].Shape[2]
			if want := []int{batch, n, v.Before, v.Size}; !slices.Equal(v.Past.Shape, want) {
				return nil, fmt.Errorf("input %d has shape %v, expected %v", 6+i, v.Past.Shape, want)
			}
		}
		if c.HasOut(1 + i) {
			v.Out = c.Out[1+i]
		}
	}
	if f.Scale == 0 {
		f.Scale = float32(1 / math.Sqrt(float64(max(f.Q.Size, 1))))
	}
	return f, f.check(c.in(3))
}

// Keys is the number of keys of each element of the batch.
func (f *MultiHeadForm) Keys() int { return f.K.Before + f.K.Fresh }

// check checks the bias, the mask, and what is added to the scores.
func (f *MultiHeadForm) check(bias *Tensor) error {
	batch, queries, keys := f.Batch, f.Q.Fresh, f.Keys()
	if want := f.Heads * (2*f.Q.Size + f.V.Size); bias != nil && bias.Len() != want {
		return fmt.Errorf("input 3 has shape %v, expected [%d]: a bias for each element of queries, keys and values", bias.Shape, want)
	}
	if m := f.Mask; m != nil && m.rank() == 1 && m.Len() != batch {
		return unsupportedf("a mask (input 4) of shape %v", m.Shape)
	}
	if err := f.marks(4); err != nil {
		return err
	}
	if a := f.Added; a != nil && (!a.fitsScores(batch, f.Heads, queries) || a.Shape[3] != keys) {
		return fmt.Errorf("input 5 has shape %v, expected [%d or 1, %d or 1, %d, %d]", a.Shape, batch, f.Heads, queries, keys)
	}
	return nil
}

// marks finds out what the mask, input i, means.
func (f *MultiHeadForm) marks(i int) error {
	m, batch, queries, keys := f.Mask, f.Batch, f.Q.Fresh, f.Keys()
	is := func(shape ...int) bool { return slices.Equal(m.Shape, shape) }
	switch {
	case m == nil:
	case m.Type != graph.Int32:
		return unsupported(m.Type)
	case is(batch), is(2 * batch):
	case is(batch, keys):
		f.MaskSteps = [2]int{keys, 0}
	case is(batch, 1), is(1, 1): // the same for all keys, which changes nothing
		f.Mask = nil
	case is(batch, queries, keys):
		f.MaskSteps = [2]int{queries * keys, keys}
	default:
		return unsupportedf("a mask (input %d) of shape %v beside %d keys", i, m.Shape, keys)
	}
	return nil
}

// edit masks a row of scores.
func (g *multiHead) edit(row []float32, b, h, i int) int {
	if g.Causal && i < g.Q.Fresh-1 {
		row = row[:min(len(row), g.K.Before+i+1)]
	}
	if a := g.Added; a != nil {
		addScores(g.c, row, a.rowOfScores(b, h, i))
	}
	switch m := g.Mask; {
	case m == nil:
	case m.rank() == 1:
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
func attends(c *Invocation, f *MultiHeadForm) Run {
	g := &multiHead{MultiHeadForm: f, c: c}
	of := func(v *Projected) (p projected) {
		p = projected{Projected: v, c: c, batch: f.Batch, heads: f.Heads}
		p.prepare()
		return p
	}
	g.q, g.k, g.v = of(&f.Q), of(&f.K), of(&f.V)
	a := &attention{
		batch: f.Batch, heads: f.Heads, shared: 1, queries: f.Q.Fresh, keys: f.Keys(), size: f.Q.Size, valueSize: f.V.Size,
		scale: f.Scale, q: g.q.all, k: g.k.all, v: g.v.all, y: heads{nil, PositionsFirst(f.Heads, f.Q.Fresh, f.V.Size)}, edit: g.edit,
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
