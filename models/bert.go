package models

import "github.com/onnxmem/onnxmem/graph"

// roberta holds the differences between BERT and its descendants.
type roberta struct {
	segments int64   // kinds of text; BERT's inputs say which token is of which
	padding  int64   // rows of the table of positions before the first position; 0: positions are not counted
	epsilon  float32 // of LayerNorm
}

func bert(b *builder) { bidirectional(b, roberta{segments: 2, epsilon: 1e-12}) }

// xlmr is RoBERTa's form: one kind of text, and positions that count unmasked
// tokens, starting from 2.
func xlmr(b *builder) { bidirectional(b, roberta{segments: 1, padding: 2, epsilon: 1e-5}) }

// bidirectional is the encoder of section 3 of BERT's paper: post-norm, GELU,
// weights of deviation 0.02 cut at two deviations. Its outputs are the vectors
// of all tokens, and the pooled one of the first. The heads of pre-training are
// left out.
func bidirectional(b *builder, r roberta) {
	weights := truncatedNormal(0.02)
	hidden, positions := b.whole("hidden"), b.whole("positions")
	if positions <= r.padding {
		b.fail("setting \"positions\" is %d, expected more than %d, which padding takes", positions, r.padding)
	}
	ids := b.tokens("input_ids", "sequence", positions-r.padding)
	attend := b.input("attention_mask", graph.Int64, ids.shape...)

	e := b.in("embeddings")
	x := e.embedding("words", e.weight("words.weight", weights, fan{}, b.whole("vocab"), hidden), ids)
	segments := e.weight("segments.weight", weights, fan{}, r.segments, hidden)
	if r.segments > 1 {
		segments = e.embedding("segments", segments, b.input("token_type_ids", graph.Int64, ids.shape...))
	}
	x = e.add("words_segments", x, segments)
	table := e.weight("positions.weight", weights, fan{}, positions, hidden)
	x = e.add("sum", x, e.positions(table, attend, r.padding))
	x = e.layerNorm(x, "norm", r.epsilon)

	// 0 for visible tokens and -10000 for masked ones, for all heads and rows.
	m := b.in("mask")
	mask := m.node("Unsqueeze", "unsqueeze", []int64{ids.shape[0], 1, 1, ids.shape[1]}, nil, attend, b.ints(1, 2))
	mask = m.cast(mask, "cast", graph.Float32)
	mask = m.binary("Sub", "hidden", b.scalar(1), mask)
	mask = m.binary("Mul", "penalty", mask, b.scalar(-10000))

	heads := b.heads()
	for i := range b.whole("layers") {
		l := b.in("encoder.%d", i)
		y := l.in("attention").attention(x, x, attention{heads, &mask, weights, zeros})
		x = l.layerNorm(l.add("attention.add", y, x), "attention.norm", r.epsilon)
		y = l.gelu(l.dense(x, "intermediate", b.whole("ff"), weights, zeros))
		y = l.dense(y, "output", hidden, weights, zeros)
		x = l.layerNorm(l.add("output.add", y, x), "output.norm", r.epsilon)
	}
	p := b.in("pooler")
	y := p.linear(p.at(x, "first", 1, 0), "dense", hidden, weights, zeros)
	y = p.node("Tanh", "tanh", y.shape, nil, y)
	b.output("last_hidden_state", x)
	b.output("pooler_output", y)
}

// positions returns the row of the table for each token: the first rows in order,
// or counted along the mask, with the row before the first for masked tokens.
func (b *builder) positions(table, attend value, padding int64) value {
	if padding == 0 {
		return b.first(table, "positions", attend.shape[1])
	}
	n := b.node("CumSum", "positions.count", attend.shape, nil, attend, b.index(1))
	n = b.binary("Mul", "positions.seen", n, attend)
	n = b.add("positions.index", n, b.index(padding-1))
	return b.embedding("positions", table, n)
}
