package models

import (
	"io"
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// transformer is figure 1 of the paper: post-norm, sinusoidal positions, and
// one table of embeddings for both languages and the output. Attention has no
// biases (section 3.2.2). Sentences are not padded; the mask of the decoder is
// causal. Its output is the logits of the next token at every position.
func transformer(b *builder) {
	hidden, vocab, positions := b.whole("hidden"), b.whole("vocab"), b.whole("positions")
	source := b.tokens("source", "source", positions)
	target := b.tokens("target", "target", positions)
	n := b.dim("target")

	t := &stack{heads: b.heads(), inner: b.whole("ff")}
	table := b.weight("embedding.weight", normal(1/math.Sqrt(float64(hidden))), fan{}, vocab, hidden)
	sines := b.stored("sinusoids", []int64{positions, hidden}, sinusoids(positions, hidden))

	x := b.in("encoder").embedded(table, sines, source)
	for i := range b.whole("layers") {
		l := b.in("encoder.layers.%d", i)
		x = t.attend(l, "self_attention", x, x, nil)
		x = t.feedForward(l, x)
	}
	memory := x

	// -1e9 above the diagonal: a position sees itself and earlier ones.
	mask := b.node("ConstantOfShape", "mask.full", []int64{n, n}, list(attrTensor("value", -1e9)), b.lengths(n, n))
	mask = b.node("Trilu", "mask", mask.shape, list(attrInt("upper", 1)), mask, b.index(1))
	x = b.in("decoder").embedded(table, sines, target)
	for i := range b.whole("layers") {
		l := b.in("decoder.layers.%d", i)
		x = t.attend(l, "self_attention", x, x, &mask)
		x = t.attend(l, "cross_attention", x, memory, nil)
		x = t.feedForward(l, x)
	}

	// The table is the output's matrix too. Gemm reads it transposed; MatMul
	// would need a transposed copy of it.
	x = b.reshape(x, "rows", product(b.dim("batch"), n), hidden)
	x = b.node("Gemm", "project", []int64{x.shape[0], vocab}, list(attrInt("transB", 1)), x, table)
	b.output("logits", b.reshape(x, "unrows", b.dim("batch"), n, vocab))
}

// stack holds the parameters that both stacks share.
type stack struct{ heads, inner int64 }

// attend adds attention, residual and normalization.
func (t *stack) attend(b *builder, name string, x, memory value, mask *value) value {
	y := b.in("%s", name).attention(x, memory, attention{t.heads, mask, xavierUniform, nil})
	return b.layerNorm(b.add(name+".add", x, y), name+".norm", 1e-6)
}

// feedForward adds the feed-forward part, residual and normalization.
func (t *stack) feedForward(b *builder, x value) value {
	f := b.in("feed_forward")
	y := f.relu(f.dense(x, "inner", t.inner, xavierUniform, zeros))
	y = f.dense(y, "outer", x.shape[2], xavierUniform, zeros)
	return b.layerNorm(b.add("feed_forward.add", x, y), "feed_forward.norm", 1e-6)
}

// embedded is the embeddings of ids, scaled, plus their positions.
func (b *builder) embedded(table, sines, ids value) value {
	x := b.embedding("embedding", table, ids)
	x = b.binary("Mul", "scaled", x, b.scalar(math.Sqrt(float64(table.shape[1]))))
	return b.add("embedded", x, b.first(sines, "positions", ids.shape[1]))
}

// sinusoids writes the table of section 3.5: sines of wavelengths from 2π to
// 10000·2π at even columns, cosines at odd ones.
func sinusoids(rows, columns int64) func(io.Writer) error {
	return func(w io.Writer) error {
		return float32s(w, rows*columns, func(i int64) float64 {
			pos, k := float64(i/columns), i%columns
			angle := pos / math.Pow(10000, float64(k-k%2)/float64(columns))
			if k%2 == 0 {
				return math.Sin(angle)
			}
			return math.Cos(angle)
		})
	}
}

// attrTensor is an attribute that holds a tensor of one float32.
func attrTensor(name string, v float64) *graph.Attr {
	d := &graph.Data{Type: graph.Float32, Dims: []int64{1}, Floats: []float64{v}, Bytes: 4}
	return &graph.Attr{Name: name, Type: graph.AttrTensor, Tensor: d}
}
