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

// makeContribAttention is self-attention with one weight matrix for queries, keys and
// values. The mask is omitted, [batch] lengths, or [batch, sequence] of 0 and 1.
func makeContribAttention(c *Invocation) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	for i := 4; i < len(c.In); i++ {
		if c.Has(i) {
			return nil, unsupportedf("input %d", i)
		}
	}
	if c.HasOut(1) || c.Node.Attr("qkv_hidden_sizes") != nil || c.Int("do_rotary", 0) != 0 {
		return nil, unsupportedf("these attributes or outputs")
	}
	batch, length, input := x.Shape[0], x.Shape[1], x.Shape[2]
	heads, wide := c.Int("num_heads", 0), weight.Shape[1]
	hidden := wide / 3
	size := hidden / heads
	scale := c.Float("scale", float32(1/math.Sqrt(float64(size))))
	causal := c.Int("unidirectional", 0) != 0
	filter := c.Float("mask_filter_value", -10000)
	mask := c.in(3)
	if mask != nil && !slices.Equal(mask.Shape, []int{batch}) && !slices.Equal(mask.Shape, []int{batch, length}) {
		return nil, unsupportedf("a mask of shape %v", mask.Shape)
	}
	qkv := &Tensor{Type: graph.Float32, Shape: []int{batch * length, wide}}
	off := c.Shared(qkv.Bytes())
	flat := &Tensor{Type: graph.Float32, Shape: []int{batch * length, input}}
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
		batch: batch, heads: heads, shared: 1, queries: length, keys: length, size: size, valueSize: size, scale: scale,
		y: positionsFirst(heads, length, size),
	}
	// Each position holds its queries, keys and values in turn, each with all heads.
	a.q = headLayout{nil, length * wide, size, wide}
	a.k, a.v = a.q, a.q
	a.edit = func(row []float32, b, _, i int) int {
		for from, to := range c.pieces(len(row)) {
			for j := from; j < to; j++ {
				if causal && j > i || mask != nil && !visible(mask, b, j, length) {
					row[j] += filter
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
