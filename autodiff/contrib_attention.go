package autodiff

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// expandProjectedAttention covers Attention of com.microsoft: the input times the
// merged weights, split into query, key and value. Inputs: input weights bias
// mask_index past attention_bias.
func expandProjectedAttention(c *Backward) []ID {
	if c.present(c.X(4)) || c.present(c.X(6)) {
		c.Failf("input 4 (past) is given: expected attention without a past on a path to the loss")
		return nil
	}
	if c.Int("do_rotary", 0) != 0 {
		c.Failf("do_rotary is 1: expected 0 on a path to the loss")
		return nil
	}
	merged, heads := c.shape(c.X(1)), c.Int("num_heads", 0)
	if c.err != nil {
		return nil
	}
	sizes := c.List("qkv_hidden_sizes", nil)
	if len(sizes) != 3 {
		sizes = filled(merged[1]/3, 3)
	}
	t := c.op("MatMul", c.X(0), c.X(1))
	if c.present(c.X(2)) {
		t = c.add(t, c.X(2))
	}
	var parts []ID
	for _, part := range c.split(t, 2, sizes...) {
		parts = append(parts, c.heads(part, heads))
	}
	y := c.scoredAttention(parts[0], parts[1], parts[2], c.X(3), c.X(5))
	present := ID(graph.None)
	if len(c.Node.Outputs) > 1 && c.Node.Outputs[1] != graph.None {
		present = c.joined([]ID{c.op("Unsqueeze", parts[1], c.list(0)), c.op("Unsqueeze", parts[2], c.list(0))}, 0)
	}
	return []ID{y, present}
}

// expandMultiHeadAttention covers query, key and value of shape [batch, places,
// hidden], whose biases are merged. Inputs: query key value bias key_padding_mask
// attention_bias past_key past_value.
func expandMultiHeadAttention(c *Backward) []ID {
	heads := c.Int("num_heads", 0)
	if !c.present(c.X(1)) || !c.present(c.X(2)) || c.rank(c.X(0)) != 3 || c.rank(c.X(1)) != 3 || c.rank(c.X(2)) != 3 {
		c.Failf("query, key and value are packed: expected three tensors of three axes on a path to the loss")
		return nil
	}
	if c.present(c.X(6)) || c.present(c.X(7)) {
		c.Failf("input 6 (past_key) is given: expected attention without a past on a path to the loss")
		return nil
	}
	biases := []ID{graph.None, graph.None, graph.None}
	if c.present(c.X(3)) {
		var sizes []int64
		for i := range 3 {
			sizes = append(sizes, c.shape(c.X(i))[2])
		}
		biases = c.split(c.X(3), 0, sizes...)
	}
	var parts []ID
	for i, b := range biases {
		t := c.X(i)
		if c.present(b) {
			t = c.add(t, b)
		}
		parts = append(parts, c.heads(t, heads))
	}
	y := c.scoredAttention(parts[0], parts[1], parts[2], c.X(4), c.X(5))
	return []ID{y, c.outputCopy(parts[1], 1), c.outputCopy(parts[2], 2)}
}

// scoredAttention applies the masks of com.microsoft: 0 or less for keys that are hidden,
// of shape [batch, keys] or [batch, queries, keys], or the number of keys,
// [batch].
func (c *Backward) scoredAttention(q, k, v, mask, bias ID) ID {
	qs, ks := c.shape(q), c.shape(k)
	if c.err != nil {
		return graph.None
	}
	s := scores{scale: c.Float("scale", 0), elem: c.typeOf(q).Elem}
	if s.scale == 0 {
		s.scale = 1 / math.Sqrt(float64(qs[3]))
	}
	if c.present(bias) {
		s.bias = append(s.bias, bias)
	}
	if c.present(mask) {
		m := c.shape(mask)
		switch {
		case len(m) == 1 && m[0] == qs[0]:
			places := make([]float64, ks[2])
			for i := range places {
				places[i] = float64(i)
			}
			at := c.reals(c.typeOf(mask).Elem, []int64{1, ks[2]}, places)
			there := c.op("Less", at, c.op("Unsqueeze", mask, c.list(1)))
			mask, m = c.with("Cast", attrs{"to": graph.Int32}, there), []int64{m[0], ks[2]}
		case len(m) < 2 || len(m) > 3:
			c.Failf("mask of shape %v: expected one for each key, [batch, keys], or the number of keys, [batch]", m)
			return graph.None
		}
		shape := []int64{m[0], 1, 1, m[1]}
		if len(m) == 3 {
			shape = []int64{m[0], 1, m[1], m[2]}
		}
		absent := c.castLike(c.op("LessOrEqual", mask, c.reals(c.typeOf(mask).Elem, nil, []float64{0})), q)
		s.bias = append(s.bias, c.reshape(c.times(absent, c.Float("mask_filter_value", -10000)), shape))
	}
	if c.Int("unidirectional", 0) != 0 {
		if qs[2]*ks[2] > maxMask {
			c.Failf("a mask of %d elements: expected at most %d", qs[2]*ks[2], maxMask)
			return graph.None
		}
		s.keep = append(s.keep, c.causal(qs[2], ks[2], 0))
	}
	y, _ := c.attend(q, k, v, s)
	return c.merge(y)
}

// expandContribRotary: the positions come before the caches; a single position is
// that of the first element.
func expandContribRotary(c *Backward) []ID {
	x := c.shape(c.X(0))
	if c.err != nil {
		return nil
	}
	if c.Int("is_packed_batching", 0) != 0 || c.Float("scale", 1) != 1 {
		c.Failf("packed batches, or a scale: expected neither on a path to the loss")
		return nil
	}
	places, batch := x[len(x)-2], x[0]
	position := c.X(1)
	if len(c.shape(position)) == 1 {
		steps := make([]float64, places)
		for i := range steps {
			steps[i] = float64(i)
		}
		position = c.expand(c.add(position, c.reals(c.typeOf(position).Elem, []int64{1, places}, steps)), []int64{batch, places})
	}
	if len(x) == 3 && c.Int("num_heads", 0) == 0 {
		// The caches determine the size of a head.
		size := 2 * c.shape(c.X(2))[1]
		flat := c.reshape(c.X(0), []int64{x[0], x[1], x[2] / size, size})
		turned := c.rotate(c.transpose(flat, 0, 2, 1, 3), c.X(2), c.X(3), position, "num_heads")
		if c.err != nil {
			return nil
		}
		return []ID{c.reshape(c.transpose(turned[0], 0, 2, 1, 3), x)}
	}
	return c.rotate(c.X(0), c.X(2), c.X(3), position, "num_heads")
}
