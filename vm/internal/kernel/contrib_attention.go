package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// contribAttentions lists ONNX Runtime's attention operators.
var contribAttentions = family{"com.microsoft", []Kernel{
	{Name: "Attention", Make: makeContribAttention},
	{Name: "RotaryEmbedding", Make: func(c *Invocation) (Run, error) {
		f, err := c.ContribRotary()
		if err != nil {
			return nil, err
		}
		return rotaryEmbedding(c, f)
	}},
	{Name: "MultiHeadAttention", Make: makeMultiHeadAttention},
	{Name: "GroupQueryAttention", Make: makeGroupQueryAttention},
}}

// PackedAttention is what the shapes and attributes of a self-attention node of ONNX
// Runtime say, which has one weight matrix for queries, keys and values: each position
// holds its queries, keys and values in turn, each with all heads. The mask is omitted,
// [batch] lengths, or [batch, sequence] of 0 and 1.
type PackedAttention struct {
	Batch, Length, Heads int
	Wide, Hidden, Size   int // of the weights; of all heads, of one
	Scale                float32
	Causal               bool
	Filter               float32 // is added to the scores of masked keys
	Mask                 *Tensor
}

// PackedAttention reads the form of an Attention node of ONNX Runtime.
func (c *Invocation) PackedAttention() (*PackedAttention, error) {
	x, weight := c.In[0], c.In[1]
	for i := 4; i < len(c.In); i++ {
		if c.Has(i) {
			return nil, unsupportedf("input %d", i)
		}
	}
	if c.HasOut(1) || c.Node.Attr("qkv_hidden_sizes") != nil || c.Int("do_rotary", 0) != 0 {
		return nil, unsupportedf("these attributes or outputs")
	}
	f := &PackedAttention{
		Batch: x.Shape[0], Length: x.Shape[1], Heads: c.Int("num_heads", 0), Wide: weight.Shape[1], Hidden: weight.Shape[1] / 3,
		Causal: c.Int("unidirectional", 0) != 0, Filter: c.Float("mask_filter_value", -10000), Mask: c.in(3),
	}
	f.Size = f.Hidden / f.Heads
	f.Scale = c.Float("scale", float32(1/math.Sqrt(float64(f.Size))))
	if m := f.Mask; m != nil && !slices.Equal(m.Shape, []int{f.Batch}) && !slices.Equal(m.Shape, []int{f.Batch, f.Length}) {
		return nil, unsupportedf("a mask of shape %v", m.Shape)
	}
	return f, nil
}

// Layout is that of the queries, the keys and the values, each of which begins Hidden
// elements after the one before.
func (f *PackedAttention) Layout() HeadLayout {
	return HeadLayout{f.Length * f.Wide, f.Size, f.Wide}
}

// makeContribAttention is self-attention with one weight matrix for queries, keys and
// values.
func makeContribAttention(c *Invocation) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	f, err := c.PackedAttention()
	if err != nil {
		return nil, err
	}
	batch, length, hidden, wide := f.Batch, f.Length, f.Hidden, f.Wide
	qkv := &Tensor{Type: graph.Float32, Shape: []int{batch * length, wide}}
	off := c.Shared(qkv.Bytes())
	flat := &Tensor{Type: graph.Float32, Shape: []int{batch * length, x.Shape[2]}}
	inner := *c
	inner.In, inner.Out = []*Tensor{flat, weight}, []*Tensor{qkv}
	p, err := matMul(&inner)
	if err != nil {
		return nil, err
	}
	p.bias = c.in(2)
	project, err := p.make()
	if err != nil {
		return nil, err
	}
	c.EachBytes = max(c.EachBytes, inner.EachBytes)
	a := &attention{
		batch: batch, heads: f.Heads, shared: 1, queries: length, keys: length, size: f.Size, valueSize: f.Size, scale: f.Scale,
		q: heads{nil, f.Layout()}, y: heads{nil, PositionsFirst(f.Heads, length, f.Size)},
	}
	a.k, a.v = a.q, a.q
	a.edit = func(row []float32, b, _, i int) int {
		open := row // what the other masks leave
		if f.Causal {
			open = row[:i+1]
		}
		switch {
		case f.Mask == nil:
		case f.Mask.rank() == 1:
			open = open[:min(max(int(data[int32](f.Mask)[b]), 0), len(open))]
		default:
			addToUnseen(c, open, data[int32](f.Mask)[b*length:], f.Filter)
		}
		addToScores(c, row[len(open):], f.Filter)
		return length
	}
	attend := a.make(c)
	return func(w *work.Pool) error {
		flat.At, qkv.At = x.At, w.Shared(off)
		if err := project(w); err != nil {
			return err
		}
		a.q.at, a.k.at, a.v.at = qkv.At, element[float32](qkv, hidden), element[float32](qkv, 2*hidden)
		a.y.at = out.At
		attend(w)
		return nil
	}, nil
}

// ContribRotary reads the form of a RotaryEmbedding node of ONNX Runtime: the position ids
// stand before the cosines and sines, which have one row for each position, and the number
// of heads may follow from them.
func (c *Invocation) ContribRotary() (*RotaryForm, error) {
	x, ids, cos, sin := c.In[0], c.In[1], c.In[2], c.In[3]
	if c.Int("is_packed_batching", 0) != 0 || c.Float("scale", 1) != 1 {
		return nil, unsupportedf("packed batches, or a scale")
	}
	shared := c.Int("num_heads", 0)
	places := x.Shape[1]
	switch {
	case cos.rank() != 2 || !slices.Equal(cos.Shape, sin.Shape) || cos.Shape[1] == 0:
		return nil, fmt.Errorf("input 2 has shape %v and input 3 %v: expected positions and pairs, as many in both", cos.Shape, sin.Shape)
	case x.rank() == 4:
		places = x.Shape[2]
	case shared == 0:
		shared = x.Shape[2] / (2 * cos.Shape[1])
		fallthrough
	default:
		if shared < 1 || x.Shape[2]%shared != 0 {
			return nil, fmt.Errorf("num_heads is %d, expected a divisor of %d, the length of the last axis of input 0", shared, x.Shape[2])
		}
	}
	_, _, _, size := x.heads(shared)
	if turned := c.Int("rotary_embedding_dim", 0); turned < 0 || turned > size || turned%2 != 0 || turned == 0 && size%2 != 0 {
		return nil, fmt.Errorf("rotary_embedding_dim is %d, expected an even number up to %d, the size of a head, or 0 for all of an even one", turned, size)
	} else if pairs := cos.Shape[1]; pairs != turned/2 && (turned != 0 || pairs != size/2) {
		return nil, fmt.Errorf("input 2 has %d angles for each position, expected one for each pair of %d elements", pairs, max(turned, size))
	}
	if !slices.Equal(ids.Shape, []int{1}) && !slices.Equal(ids.Shape, []int{x.Shape[0], places}) {
		return nil, fmt.Errorf("input 1 has shape %v, expected [1] or [%d %d], a position for each place", ids.Shape, x.Shape[0], places)
	}
	return c.rotary(&RotaryForm{Cosines: cos, Sines: sin, IDs: ids, shared: shared, position: 1}), nil
}
