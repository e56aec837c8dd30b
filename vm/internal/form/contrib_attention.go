package form

import (
	"fmt"
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// PackedAttention reads the form of an Attention node of ONNX Runtime, which has one weight
// matrix for queries, keys and values. qkv are these: each position holds its queries, keys and
// values in turn, each with all heads. Past keys and values are one tensor, [2, batch, heads,
// positions, size], and so are all of them, in output 1.
func (c *Call) PackedAttention() (f *MultiHead, qkv *Tensor, err error) {
	x, weight, past, n := c.In[0], c.In[1], c.Input(4), c.Int("num_heads", 0)
	batch, length, wide := x.Shape[0], x.Shape[1], weight.Shape[1]
	if c.Int("do_rotary", 0) != 0 || c.Int("past_present_share_buffer", 0) != 0 || c.Has(6) {
		return nil, nil, Unsupportedf("do_rotary, past_present_share_buffer and past_sequence_length")
	}
	sizes := []int{wide / 3, wide / 3, wide / 3}
	if list := c.Ints("qkv_hidden_sizes"); len(list) == 3 {
		sizes = list
	}
	if sizes[0] != sizes[1] || sizes[0]%n != 0 {
		return nil, nil, fmt.Errorf("qkv_hidden_sizes are %v, expected as many for queries as for keys, a multiple of num_heads %d", sizes, n)
	}
	f = &MultiHead{
		Batch: batch, Heads: n, Scale: c.Float("scale", 0), Causal: c.Int("unidirectional", 0) != 0,
		Mask: c.Input(3), Filter: c.Float("mask_filter_value", -10000), Added: c.Input(5),
	}
	if size, value := sizes[0]/n, sizes[2]/n; size != value && (past != nil || c.HasOut(1)) {
		return nil, nil, Unsupportedf("a past or a present of keys of %d elements and values of %d", size, value)
	}
	qkv = &Tensor{Type: x.Type, Shape: []int{batch, length, wide}}
	first := 0
	for i, v := range []*Projected{&f.Q, &f.K, &f.V} {
		size := sizes[i] / n
		*v = Projected{From: qkv, First: first, In: HeadLayout{length * wide, size, wide}, Fresh: length, Size: size}
		first += sizes[i]
		if i == 0 {
			continue
		}
		if past != nil {
			v.Past, v.Before = past, past.Shape[3]
			if want := []int{2, batch, n, v.Before, size}; !slices.Equal(past.Shape, want) {
				return nil, nil, fmt.Errorf("input 4 has shape %v, expected %v", past.Shape, want)
			}
			v.PastFirst = (i - 1) * past.Len() / 2
		}
		if c.HasOut(1) {
			v.Out, v.OutFirst = c.Out[1], (i-1)*batch*n*(v.Before+length)*size
		}
	}
	if f.Scale == 0 {
		f.Scale = float32(1 / math.Sqrt(float64(max(f.Q.Size, 1))))
	}
	if m, keys := f.Mask, f.Keys(); m != nil && m.Rank() == 4 && m.Type == graph.Int32 && m.Shape[0] == batch && m.Shape[1] == 1 && m.Shape[2] == m.Shape[3] && m.Shape[3] >= keys {
		f.MaskFirst, f.MaskSteps = f.K.Before*m.Shape[3], [2]int{m.Shape[2] * m.Shape[3], m.Shape[3]}
	} else if err := f.marks(3); err != nil {
		return nil, nil, err
	}
	if a := f.Added; a != nil && (!a.FitsScores(batch, n, length) || a.Shape[3] != f.Keys()) {
		return nil, nil, fmt.Errorf("input 5 has shape %v, expected [%d or 1, %d or 1, %d, %d]", a.Shape, batch, n, length, f.Keys())
	}
	return f, qkv, nil
}

// ContribRotary reads the form of a RotaryEmbedding node of ONNX Runtime: the position ids
// stand before the cosines and sines, which have one row for each position, and the number
// of heads may follow from them.
func (c *Call) ContribRotary() (*Rotary, error) {
	x, ids, cos, sin := c.In[0], c.In[1], c.In[2], c.In[3]
	if c.Int("is_packed_batching", 0) != 0 || c.Float("scale", 1) != 1 {
		return nil, Unsupportedf("packed batches, or a scale")
	}
	shared := c.Int("num_heads", 0)
	places := x.Shape[1]
	switch {
	case cos.Rank() != 2 || !slices.Equal(cos.Shape, sin.Shape) || cos.Shape[1] == 0:
		return nil, fmt.Errorf("input 2 has shape %v and input 3 %v: expected positions and pairs, as many in both", cos.Shape, sin.Shape)
	case x.Rank() == 4:
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
	return c.rotary(&Rotary{Cosines: cos, Sines: sin, IDs: ids, shared: shared, Position: 1}), nil
}
