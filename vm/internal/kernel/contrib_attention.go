package kernel

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// contribAttentions lists ONNX Runtime's attention operators.
var contribAttentions = family{"com.microsoft", []Kernel{
	{Name: "Attention", Make: makeContribAttention},
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
		for from, to := range c.pieces(len(row)) {
			for j := from; j < to; j++ {
				if f.Causal && j > i || f.Mask != nil && !visible(f.Mask, b, j, length) {
					row[j] += f.Filter
				}
			}
		}
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

// visible reports whether position j of batch element b is unmasked.
func visible(mask *Tensor, b, j, length int) bool {
	m := data[int32](mask)
	if mask.rank() == 1 {
		return j < int(m[b])
	}
	return m[b*length+j] != 0
}
