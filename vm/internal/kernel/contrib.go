package kernel

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// contrib lists operators of ONNX Runtime's own domain that its optimizer introduces.
var contrib = family{"com.microsoft", []Kernel{
	{Name: "FusedConv", Make: makeFusedConv, Blocks: convolvesBlocks},
	{Name: "QLinearConv", Make: makeContribQLinearConv},
	{Name: "DynamicQuantizeMatMul", Make: makeDynamicQuantizeMatMul},
	{Name: "MatMulIntegerToFloat", Make: makeMatMulIntegerToFloat},
	{Name: "FusedGemm", Make: makeFusedGemm},
	{Name: "QGemm", Make: makeQGemm},
	{Name: "FusedMatMul", Make: makeFusedMatMul, Half: true, Fuses: true},
	{Name: "TransposeMatMul", Make: makeFusedMatMul, Half: true, Fuses: true},
	{Name: "DynamicQuantizeLSTM", Make: makeDynamicQuantizeLSTM},
	{Name: "Gelu", Real: geluOf},
	{Name: "QuickGelu", Real: quickGeluOf},
	{Name: "FastGelu", Make: makeFastGelu},
	{Name: "BiasGelu", Make: makeBiasGelu},
	{Name: "SkipLayerNormalization", Make: makeSkipLayerNorm},
	{Name: "SkipSimplifiedLayerNormalization", Make: makeSkipRMSNorm},
	{Name: "SimplifiedLayerNormalization", Make: forFloats(rmsNorm[float32], rmsNorm[float64])},
	{Name: "EmbedLayerNormalization", Make: makeEmbedLayerNorm},
	{Name: "MatMulNBits", Make: makeMatMulNBits},
	{Name: "GatherBlockQuantized", Make: makeGatherBlockQuantized, Half: true},
}}

// makeFusedConv is a convolution, the sum with input 3, and an activation.
func makeFusedConv(c *Invocation) (Run, error) {
	conv := *c
	if conv.In = c.In[:min(len(c.In), 3)]; c.Has(3) {
		conv.added = c.In[3]
	}
	return activated(c, &conv, makeConv, c.ListedActivation())
}

// makeFusedGemm is Gemm and an activation. The output may overwrite a C of its shape.
func makeFusedGemm(c *Invocation) (Run, error) {
	inner, gemm, beta := *c, makeGemm, c.Float("beta", 1)
	bias := beta == 1 && c.Has(2) && c.Out[0].Shape[0] > 1 && isRow(c.In[2], c.Out[0].Shape[1])
	if c.Has(2) && beta != 0 && !bias {
		gemm = makeGemmOver
	}
	return activated(c, &inner, gemm, c.TitledActivation())
}

// makeGemmOver computes Gemm on top of C, which it first copies to the output unless it
// lies there.
func makeGemmOver(c *Invocation) (Run, error) {
	spread := *c
	spread.In = c.In[2:3]
	copies, err := moving(form.ExpandMoves)(&spread)
	if err != nil {
		return nil, err
	}
	p := gemmProduct(c)
	p.beta, p.last = c.Float("beta", 1), true
	product, err := p.make()
	if err != nil {
		return nil, err
	}
	return func(w *work.Pool) error {
		if c.In[2].At != c.Out[0].At {
			if err := copies(w); err != nil {
				return err
			}
		}
		return product(w)
	}, nil
}

// activated makes the kernel of a product and the activation that follows. inner is the
// invocation of the product.
func activated(c, inner *Invocation, product func(*Invocation) (Run, error), then *form.Activation) (Run, error) {
	if c.Out[0].Type != graph.Float32 {
		return nil, unsupported(c.Out[0].Type)
	}
	finish, err := finishOf(then)
	if err != nil {
		return nil, err
	}
	inner.Then, inner.Taken = finish, false
	run, err := product(inner)
	if err != nil {
		return nil, err
	}
	c.SharedBytes, c.EachBytes, c.Packed = inner.SharedBytes, inner.EachBytes, inner.Packed
	if finish == nil || inner.Taken {
		return run, nil
	}
	out := c.Out[0]
	return func(w *work.Pool) error {
		if err := run(w); err != nil {
			return err
		}
		d := data[float32](out)
		w.Steps(len(d), func(from, to int) { finish.Row(d[from:to]) })
		return nil
	}, nil
}

// makeFusedMatMul is MatMul times alpha, of operands that may be transposed.
func makeFusedMatMul(c *Invocation) (Run, error) {
	a, b := c.In[0].Shape, c.In[1].Shape
	row, column := len(a) == 1, len(b) == 1
	if row {
		a = []int{1, a[0]}
	}
	if column {
		b = []int{b[0], 1}
	}
	p, err := productOf(c,
		newFactor(a, c.Int("transA", 0) != 0 && !row, c.Int("transBatchA", 0) != 0 && !row),
		newFactor(b, c.Int("transB", 0) != 0 && !column, c.Int("transBatchB", 0) != 0 && !column))
	if err != nil {
		return nil, err
	}
	p.alpha, p.last = c.Float("alpha", 1), true
	return p.make()
}

func quickGeluOf(c *Invocation) function { return swish(c.Float("alpha", 1.702)) }

// makeFastGelu is Gelu by tanh, of the sum with a bias if there is one.
func makeFastGelu(c *Invocation) (Run, error) {
	if c.Has(1) {
		return biasedGelu(c, simd.GeluTanh)
	}
	if c.In[0].Type != graph.Float32 {
		return nil, unsupported(c.In[0].Type)
	}
	return rowwise(c, simd.GeluTanh)
}

func makeBiasGelu(c *Invocation) (Run, error) { return biasedGelu(c, simd.Gelu) }

// biasedGelu applies gelu to the sum of the inputs.
func biasedGelu(c *Invocation, gelu func(d, a []float32)) (Run, error) {
	if c.In[0].Type != graph.Float32 {
		return nil, unsupported(c.In[0].Type)
	}
	return loops[float32, float32]{
		vv: func(d, a, b []float32) {
			simd.Add(d, a, b)
			gelu(d, d)
		},
		vs: func(d, a []float32, b float32) {
			simd.AddScalar(d, a, b)
			gelu(d, d)
		},
		sv: func(d []float32, a float32, b []float32) {
			simd.AddScalar(d, b, a)
			gelu(d, d)
		},
	}.run(c)
}

// makeSkipLayerNorm normalizes input + skip (+ bias) over the last axis. Outputs 1 and 2
// are the mean and the inverse standard deviation; output 3 is the sum.
func makeSkipLayerNorm(c *Invocation) (Run, error) {
	return skipNorm(c, c.Input(3), c.Input(4), moments)
}

// makeSkipRMSNorm is RMSNormalization of the sum of inputs 0 and 1 and a bias, input 3.
func makeSkipRMSNorm(c *Invocation) (Run, error) {
	return skipNorm(c, nil, c.Input(3), func(c *Invocation, d []float32, epsilon float64) (float64, float64) {
		return 0, 1 / math.Sqrt(squares(c, d, 0)/float64(len(d))+epsilon)
	})
}

// skipNorm standardizes each row of the sum of inputs 0 and 1 and a bias by its mean and the
// inverse of its deviation, as moments finds them. Then it multiplies by input 2 and adds
// shift. shift and bias may be nil. Output 3 is the sum.
func skipNorm(c *Invocation, shift, bias *Tensor, moments func(c *Invocation, d []float32, epsilon float64) (mean, inverse float64)) (Run, error) {
	x, skip, out := c.In[0], c.In[1], c.Out[0]
	if x.Type != graph.Float32 {
		return nil, unsupported(x.Type)
	}
	n := x.Shape[x.Rank()-1]
	epsilon := float64(c.Float("epsilon", 1e-12))
	part := func(row, _ int) {
		s := span[float32](element[float32](x, row*n), n)
		d := span[float32](element[float32](out, row*n), n)
		added := span[float32](element[float32](skip, row*n%max(skip.Len(), 1)), n)
		for from, to := range c.Pieces(n) {
			simd.Add(d[from:to], added[from:to], s[from:to])
			if bias != nil {
				simd.Add(d[from:to], d[from:to], data[float32](bias)[from:to])
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
		for from, to := range c.Pieces(n) {
			row := d[from:to]
			simd.Standardize(row, row, mean, inverse)
			simd.Mul(row, row, data[float32](c.In[2])[from:to])
			if shift != nil {
				simd.Add(row, row, data[float32](shift)[from:to])
			}
		}
	}
	return func(w *work.Pool) error {
		w.For(count(x.Shape[:x.Rank()-1]), part) // rows of no elements have statistics, too
		return nil
	}, nil
}
