package models

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// dense adds x·W + bias on the last axis of x; no bias: nil.
func (b *builder) dense(x value, name string, out int64, weights, bias initializer) value {
	last := len(x.shape) - 1
	in := x.shape[last]
	f := fan{in, out}
	product := name
	if bias != nil {
		product += ".matmul"
	}
	y := b.matMul(product, x, b.weight(name+".weight", weights, f, in, out))
	if bias == nil {
		return y
	}
	return b.add(name, y, b.weight(name+".bias", bias, f, out))
}

// matMul multiplies matrices; y has no more axes than x.
func (b *builder) matMul(name string, x, y value) value {
	shape := append([]int64(nil), x.shape...)
	shape[len(shape)-1] = y.shape[len(y.shape)-1]
	return b.node("MatMul", name, shape, nil, x, y)
}

// layerNorm normalizes the last axis.
func (b *builder) layerNorm(x value, name string, epsilon float32) value {
	n := x.shape[len(x.shape)-1]
	return b.node("LayerNormalization", name, x.shape, list(attrInt("axis", -1), attrFloat("epsilon", epsilon)), x,
		b.weight(name+".weight", ones, fan{}, n),
		b.weight(name+".bias", zeros, fan{}, n))
}

// gelu is x·Φ(x) (Hendrycks & Gimpel 2016), in the five nodes that exporters
// write for it.
func (b *builder) gelu(x value) value {
	e := b.binary("Div", "gelu.div", x, b.scalar(math.Sqrt2))
	e = b.node("Erf", "gelu.erf", x.shape, nil, e)
	e = b.add("gelu.add", e, b.scalar(1))
	e = b.binary("Mul", "gelu.mul", x, e)
	return b.binary("Mul", "gelu", e, b.scalar(0.5))
}

func (b *builder) softmax(x value) value {
	return b.node("Softmax", "softmax", x.shape, list(attrInt("axis", -1)), x)
}

// embedding selects the rows of a table by ids.
func (b *builder) embedding(name string, table, ids value) value {
	return b.node("Gather", name, append(append([]int64(nil), ids.shape...), table.shape[1]), list(attrInt("axis", 0)), table, ids)
}

// attention holds the parameters of a multi-head attention.
type attention struct {
	heads         int64
	mask          *value // added to the scores; nil: every position sees every other
	weights, bias initializer
}

// attention lets the positions of x attend to those of memory, which is x for
// self-attention (Vaswani et al. 2017, section 3.2).
func (b *builder) attention(x, memory value, a attention) value {
	hidden := x.shape[2]
	each := hidden / a.heads
	split := func(from value, name string, perm ...int64) value {
		y := b.dense(from, name, hidden, a.weights, a.bias)
		y = b.reshape(y, name+".heads", from.shape[0], from.shape[1], a.heads, each)
		return b.transpose(y, name+".transpose", perm...)
	}
	query := split(x, "query", 0, 2, 1, 3)
	key := split(memory, "key", 0, 2, 3, 1)
	v := split(memory, "value", 0, 2, 1, 3)
	scores := b.matMul("scores", query, key)
	scores = b.binary("Div", "scaled", scores, b.scalar(math.Sqrt(float64(each))))
	if a.mask != nil {
		scores = b.add("masked", scores, *a.mask)
	}
	y := b.matMul("context", b.softmax(scores), v)
	y = b.transpose(y, "context.transpose", 0, 2, 1, 3)
	y = b.reshape(y, "context.joined", x.shape[0], x.shape[1], hidden)
	return b.dense(y, "output", hidden, a.weights, a.bias)
}

// heads returns the number of heads, which must divide the hidden length.
func (b *builder) heads() int64 {
	h, hidden := b.whole("heads"), b.whole("hidden")
	if hidden%h != 0 {
		b.fail("setting \"hidden\" is %d, expected a multiple of heads, which is %d", hidden, h)
		return 1
	}
	return h
}

// tokens adds an input of token ids. It is an error if the sequence is longer
// than the table of positions.
func (b *builder) tokens(name, sequence string, positions int64) value {
	n := b.dim(sequence)
	if n > positions {
		b.fail("dimension %q is %d, expected at most %d, the positions there are (see setting \"positions\")", sequence, n, positions)
	}
	return b.input(name, graph.Int64, b.dim("batch"), n)
}
