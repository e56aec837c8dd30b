package form

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
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

// MultiHead is what the shapes and attributes of a MultiHeadAttention node of ONNX Runtime
// say. The inputs are queries, keys and values, which may be merged, a bias of all three, a mask
// of keys, what is added to the scores, past keys and past values.
type MultiHead struct {
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

// MultiHeadAttention reads the form of a MultiHeadAttention node.
func (c *Call) MultiHeadAttention() (*MultiHead, error) {
	switch {
	case c.Has(8) || c.Has(9):
		return nil, Unsupportedf("past_sequence_length and cache_indirection (inputs 8 and 9)")
	case c.HasOut(3):
		return nil, Unsupportedf("scores as an output (output 3)")
	case c.Has(6) != c.Has(7):
		return nil, fmt.Errorf("past keys without past values: expected both or none of inputs 6 and 7")
	}
	x, n := c.In[0], c.Int("num_heads", 0)
	batch, queries := x.Shape[0], x.Shape[1]
	f := &MultiHead{
		Batch: batch, Heads: n, Scale: c.Float("scale", 0), Causal: c.Int("unidirectional", 0) != 0,
		Mask: c.Input(4), Filter: c.Float("mask_filter_value", -10000), Added: c.Input(5),
	}
	one := func(from *Tensor, in HeadLayout, positions, size int) Projected {
		return Projected{From: from, Bias: c.Input(3), Fresh: positions, Size: size, In: in}
	}
	// Merged ones have an axis more, of 3 or 2 parts.
	part := func(from *Tensor, parts, k int) Projected {
		positions, size := from.Shape[1], from.Shape[4]
		p := one(from, HeadLayout{positions * n * parts * size, parts * size, n * parts * size}, positions, size)
		p.First = k * size
		return p
	}
	if x.Rank() == 3 {
		f.Q = one(x, PositionsFirst(n, queries, x.Shape[2]/n), queries, x.Shape[2]/n)
	}
	key, value := c.Input(1), c.Input(2)
	var shapes [3][]int // which are expected
	switch {
	case x.Rank() == 5 && key == nil && value == nil:
		shapes[0] = []int{batch, queries, n, 3, x.Shape[4]}
		f.Q, f.K, f.V = part(x, 3, 0), part(x, 3, 1), part(x, 3, 2)
	case x.Rank() != 3 || key == nil:
		return nil, Unsupportedf("queries of shape %v without keys", x.Shape)
	case key.Rank() == 5 && value == nil && !c.Has(3):
		shapes[1] = []int{batch, key.Shape[1], n, 2, f.Q.Size}
		f.K, f.V = part(key, 2, 0), part(key, 2, 1)
	case value == nil || key.Rank() != value.Rank() || key.Rank() == 4 && (c.Has(3) || c.Has(6)):
		return nil, Unsupportedf("keys of shape %v with these values, bias or past", key.Shape)
	case key.Rank() == 4:
		size := value.Shape[3]
		shapes[1], shapes[2] = []int{batch, n, key.Shape[2], f.Q.Size}, []int{batch, n, key.Shape[2], size}
		f.K, f.V = one(key, HeadsFirst(n, key.Shape[2], f.Q.Size), key.Shape[2], f.Q.Size), one(value, HeadsFirst(n, key.Shape[2], size), key.Shape[2], size)
	case key.Rank() == 3:
		size := value.Shape[2] / n
		shapes[1], shapes[2] = []int{batch, key.Shape[1], n * f.Q.Size}, []int{batch, key.Shape[1], n * size}
		f.K, f.V = one(key, PositionsFirst(n, key.Shape[1], f.Q.Size), key.Shape[1], f.Q.Size), one(value, PositionsFirst(n, key.Shape[1], size), key.Shape[1], size)
	default:
		return nil, Unsupportedf("keys of shape %v", key.Shape)
	}
	for i, want := range shapes {
		if want != nil && !slices.Equal(c.In[i].Shape, want) {
			return nil, fmt.Errorf("input %d has shape %v, expected %v", i, c.In[i].Shape, want)
		}
	}
	hidden := n * f.Q.Size
	f.K.BiasFirst, f.V.BiasFirst = hidden, 2*hidden
	f.K.Past, f.V.Past = c.Input(6), c.Input(7)
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
	return f, f.check(c.Input(3))
}

// Keys is the number of keys of each element of the batch.
func (f *MultiHead) Keys() int { return f.K.Before + f.K.Fresh }

// check checks the bias, the mask, and what is added to the scores.
func (f *MultiHead) check(bias *Tensor) error {
	batch, queries, keys := f.Batch, f.Q.Fresh, f.Keys()
	if want := f.Heads * (2*f.Q.Size + f.V.Size); bias != nil && bias.Len() != want {
		return fmt.Errorf("input 3 has shape %v, expected [%d]: a bias for each element of queries, keys and values", bias.Shape, want)
	}
	if m := f.Mask; m != nil && m.Rank() == 1 && m.Len() != batch {
		return Unsupportedf("a mask (input 4) of shape %v", m.Shape)
	}
	if err := f.marks(4); err != nil {
		return err
	}
	if a := f.Added; a != nil && (!a.FitsScores(batch, f.Heads, queries) || a.Shape[3] != keys) {
		return fmt.Errorf("input 5 has shape %v, expected [%d or 1, %d or 1, %d, %d]", a.Shape, batch, f.Heads, queries, keys)
	}
	return nil
}

// marks finds out what the mask, input i, means.
func (f *MultiHead) marks(i int) error {
	m, batch, queries, keys := f.Mask, f.Batch, f.Q.Fresh, f.Keys()
	is := func(shape ...int) bool { return slices.Equal(m.Shape, shape) }
	switch {
	case m == nil:
	case m.Type != graph.Int32:
		return Unsupported(m.Type)
	case is(batch), is(2 * batch):
	case is(batch, keys):
		f.MaskSteps = [2]int{keys, 0}
	case is(batch, 1), is(1, 1): // the same for all keys, which changes nothing
		f.Mask = nil
	case is(batch, queries, keys):
		f.MaskSteps = [2]int{queries * keys, keys}
	default:
		return Unsupportedf("a mask (input %d) of shape %v beside %d keys", i, m.Shape, keys)
	}
	return nil
}
