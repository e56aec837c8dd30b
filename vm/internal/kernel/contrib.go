package kernel

import (
	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// contrib lists operators of ONNX Runtime's own domain that its optimizer introduces.
var contrib = family{"com.microsoft", []Kernel{
	{Name: "BiasGelu", Make: makeBiasGelu},
	{Name: "SkipLayerNormalization", Make: makeSkipLayerNorm},
}}

func makeBiasGelu(c *Invocation) (Run, error) {
	if c.In[0].Type != graph.Float32 {
		return nil, unsupported(c.In[0].Type)
	}
	return loops[float32, float32]{
		vv: func(d, a, b []float32) {
			simd.Add(d, a, b)
			simd.Gelu(d, d)
		},
		vs: func(d, a []float32, b float32) {
			simd.AddScalar(d, a, b)
			simd.Gelu(d, d)
		},
		sv: func(d []float32, a float32, b []float32) {
			simd.AddScalar(d, b, a)
			simd.Gelu(d, d)
		},
	}.run(c)
}

// makeSkipLayerNorm normalizes input + skip (+ bias) over the last axis. Outputs 1 and 2
// are the mean and the inverse standard deviation; output 3 is the sum.
func makeSkipLayerNorm(c *Invocation) (Run, error) {
	x, skip, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	n := x.Shape[x.rank()-1]
	epsilon := float64(c.Float("epsilon", 1e-12))
	part := func(row, _ int) {
		s := span[float32](element[float32](x, row*n), n)
		d := span[float32](element[float32](out, row*n), n)
		added := span[float32](element[float32](skip, row*n%skip.Len()), n)
		for from, to := range c.pieces(n) {
			for i := from; i < to; i++ {
				v := added[i] + s[i]
				if c.Has(4) {
					v += data[float32](c.In[4])[i]
				}
				d[i] = v
			}
			if c.HasOut(3) {
				copy(span[float32](element[float32](c.Out[3], row*n+from), to-from), d[from:to])
			}
		}
		mean, inverse := moments(c, d, epsilon)
		if c.HasOut(1) {
			put(c.Out[1], row, mean)
		}
		if c.HasOut(2) {
			put(c.Out[2], row, inverse)
		}
		g := data[float32](c.In[2])
		for from, to := range c.pieces(n) {
			for i := from; i < to; i++ {
				d[i] = float32((float64(d[i])-mean)*inverse) * g[i]
				if c.Has(3) {
					d[i] += data[float32](c.In[3])[i]
				}
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(x.Len()/max(n, 1), part)
		return nil
	}, nil
}
