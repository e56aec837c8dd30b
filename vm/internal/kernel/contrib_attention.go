package kernel

import (
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

// makeContribAttention is self-attention with one weight matrix for queries, keys and
// values.
func makeContribAttention(c *Invocation) (Run, error) {
	for i, t := range c.In {
		if t != nil && t.Type != graph.Float32 && i != 3 {
			return nil, unsupported(t.Type)
		}
	}
	f, qkv, err := c.PackedAttention()
	if err != nil {
		return nil, err
	}
	off := c.Shared(qkv.Bytes())
	x := c.In[0]
	rows := f.Batch * f.Q.Fresh
	flat := &Tensor{Type: graph.Float32, Shape: []int{rows, x.Shape[2]}}
	merged := &Tensor{Type: graph.Float32, Shape: []int{rows, qkv.Shape[2]}}
	inner := *c
	inner.In, inner.Out = []*Tensor{flat, c.In[1]}, []*Tensor{merged}
	p, err := matMul(&inner)
	if err != nil {
		return nil, err
	}
	p.bias = c.Input(2)
	project, err := p.make()
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes = max(c.SharedBytes, inner.SharedBytes), max(c.EachBytes, inner.EachBytes)
	attend := attends(c, f)
	return func(w *work.Pool) error {
		flat.At, merged.At = x.At, w.Shared(off)
		qkv.At = merged.At
		if err := project(w); err != nil {
			return err
		}
		return attend(w)
	}, nil
}
