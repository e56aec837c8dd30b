package kernel

import (
	"fmt"
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// contrib is operators of ONNX Runtime's own domain that its optimizer makes.
var contrib = family{"com.microsoft", []Kernel{
	{Name: "BiasGelu", Make: makeBiasGelu},
	{Name: "SkipLayerNormalization", Make: makeSkipLayerNorm},
	{Name: "Attention", Make: makeContribAttention},
}}

func makeBiasGelu(c *Call) (Run, error) {
	if c.In[0].Type != graph.Float32 {
		return nil, unsupported(c.In[0].Type)
	}
	return loopsOf(func(a, b float32) float32 {
		x := float64(a + b)
		return float32(0.5 * x * (1 + math.Erf(x/math.Sqrt2)))
	}).run(c)
}

// makeSkipLayerNorm normalises input + skip (+ bias) over the last axis; output
// 3 is that sum.
func makeSkipLayerNorm(c *Call) (Run, error) {
	x, skip, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	n := x.Shape[x.rank()-1]
	if skip.Len() == 0 || x.Len()%skip.Len() != 0 || skip.Shape[skip.rank()-1] != n {
		return nil, fmt.Errorf("skip of shape %v for %v", skip.Shape, x.Shape)
	}
	epsilon := float64(c.Float("epsilon", 1e-12))
	part := func(row, _ int) {
		s := span[float32](element[float32](x, row*n), n)
		d := span[float32](element[float32](out, row*n), n)
		for i, v := range span[float32](element[float32](skip, row*n%skip.Len()), n) {
			v += s[i]
			if c.Has(4) {
				v += data[float32](c.In[4])[i]
			}
			d[i] = v
		}
		if c.HasOut(3) {
			copy(span[float32](element[float32](c.Out[3], row*n), n), d)
		}
		mean, inverse := moments(d, epsilon)
		g := data[float32](c.In[2])
		for i, v := range d {
			d[i] = float32((float64(v)-mean)*inverse) * g[i]
			if c.Has(3) {
				d[i] += data[float32](c.In[3])[i]
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Len()/max(n, 1), part)
		return nil
	}, nil
}

// makeContribAttention is self-attention with one matrix for query, key and
// value. Mask: none, [batch] lengths, or [batch, sequence] of 0 and 1.
func makeContribAttention(c *Call) (Run, error) {
	x, weight, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 || x.rank() != 3 || weight.rank() != 2 {
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
	if heads < 1 || wide%3 != 0 || hidden%heads != 0 || weight.Shape[0] != input {
		return nil, fmt.Errorf("weights of shape %v in %d heads", weight.Shape, heads)
	}
	size := hidden / heads
	scale := c.Float("scale", float32(1/math.Sqrt(float64(size))))
	causal := c.Int("unidirectional", 0) != 0
	filter := c.Float("mask_filter_value", -10000)
	mask := c.in(3)
	if mask != nil && (mask.Type != graph.Int32 || mask.Len() != batch && mask.Len() != batch*length) {
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
	each := c.Each(4 * length)
	var pool *work.Pool
	part := func(k, worker int) {
		b, h := k/heads, k%heads
		row := span[float32](pool.Each(worker, each), length)
		all := data[float32](qkv)
		for q := range length {
			query := all[(b*length+q)*wide+h*size:][:size]
			for j := range row {
				key := all[(b*length+j)*wide+hidden+h*size:][:size]
				sum := float32(0)
				for i, v := range query {
					sum += v * key[i]
				}
				row[j] = sum * scale
				if causal && j > q || mask != nil && !visible(mask, b, j, length) {
					row[j] += filter
				}
			}
			softmaxLine(row, row, 1, false)
			d := data[float32](out)[(b*length+q)*hidden+h*size:][:size]
			clear(d)
			for j, f := range row {
				for i, v := range all[(b*length+j)*wide+2*hidden+h*size:][:size] {
					d[i] += f * v
				}
			}
		}
	}
	return func(w *work.Pool) error {
		pool = w
		flat.At, qkv.At = x.At, w.Shared(off)
		if err := project(w); err != nil {
			return err
		}
		w.For(batch*heads, part)
		return nil
	}, nil
}

// visible reports whether a mask lets place j of an element of the batch be
// seen.
func visible(mask *Tensor, b, j, length int) bool {
	m := data[int32](mask)
	if len(m) == mask.Shape[0] && mask.rank() == 1 {
		return j < int(m[b])
	}
	return m[b*length+j] != 0
}
