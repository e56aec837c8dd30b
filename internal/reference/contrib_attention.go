package reference

import (
	"math"
	"slices"
)

// contribAttentionOperators are ONNX Runtime's attention operators.
var contribAttentionOperators = []operator{
	{"Attention", func(c *evaluation) []*Tensor {
		if c.x(4) != nil || c.int("do_rotary", 0) != 0 {
			fail("a past, or turned queries and keys")
		}
		merged, terms := matmul(c.x(0), c.x(1))
		if c.x(2) != nil {
			merged = plus(merged, c.x(2))
		}
		sizes := c.ints("qkv_hidden_sizes", filled(merged.Shape[2]/3, 3))
		q := merged.part(2, 0, sizes[0])
		k := merged.part(2, sizes[0], sizes[1])
		v := merged.part(2, sizes[0]+sizes[1], sizes[2])
		y, k, v := c.contribAttention(q, k, v, c.x(3), c.x(5))
		// The terms of queries, keys and values may be larger than their sums.
		c.sums(0, c.bounds[0].mass, c.x(1).Shape[0])
		for i, part := 0, slices.Max(terms)/max(slices.Max(magnitudes(merged.F)), 1e-300); i < len(c.bounds[0].mass); i++ {
			c.bounds[0].mass[i] *= max(part, 1)
		}
		present := concat(0, k.shaped(append([]int{1}, k.Shape...)...), v.shaped(append([]int{1}, v.Shape...)...))
		return []*Tensor{y, present}
	}},
	{"MultiHeadAttention", func(c *evaluation) []*Tensor {
		q, k, v := c.x(0), c.x(1), c.x(2)
		if k == nil || v == nil || len(k.Shape) != 3 || c.x(6) != nil {
			fail("packed inputs, or a past")
		}
		if b := c.x(3); b != nil {
			n, m := q.Shape[2], k.Shape[2]
			q, k, v = plus(q, b.part(0, 0, n)), plus(k, b.part(0, n, m)), plus(v, b.part(0, n+m, v.Shape[2]))
		}
		y, k, v := c.contribAttention(q, k, v, c.x(4), c.x(5))
		return []*Tensor{y, k, v}
	}},
	{"RotaryEmbedding", func(c *evaluation) []*Tensor {
		x, position := c.x(0), c.x(1)
		if len(position.Shape) == 1 { // only the first position
			batch, places := x.Shape[0], x.Shape[len(x.Shape)-2]
			all := Ints([]int{batch, places})
			for range batch {
				for p := range places {
					all.I = append(all.I, position.I[0]+int64(p))
				}
			}
			position = all
		}
		heads := c.int("num_heads", 0)
		if heads == 0 && len(x.Shape) == 3 {
			heads = x.Shape[2] / (2 * c.x(2).Shape[1])
		}
		return one(c.rotary(x, c.x(2), c.x(3), position, heads))
	}},
}

// contribAttention adds mask_filter_value to the scores where the mask is 0. The mask
// has a value for each key, [batch, keys] or [batch, queries, keys], or it is the
// number of keys, [batch].
func (c *evaluation) contribAttention(q, k, v, mask, bias *Tensor) (y, keys, values *Tensor) {
	n := c.int("num_heads", 0)
	q, k, v = q.heads(n), k.heads(n), v.heads(n)
	scale := c.float("scale", 0)
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Shape[3]))
	}
	if bias != nil {
		bias = bias.spread([]int{q.Shape[0], n, q.Shape[2], k.Shape[2]})
	}
	y, _ = c.attend(q, k, v, scale, 0, func(b, h, i, j int) float64 {
		total, there := 0.0, true
		if bias != nil {
			total += bias.F[index(bias.Shape, []int{b, h, i, j})]
		}
		if mask != nil {
			switch len(mask.Shape) {
			case 1:
				there = j < int(mask.I[b])
			case 2:
				there = mask.I[index(mask.Shape, []int{b, j})] != 0
			case 3:
				there = mask.I[index(mask.Shape, []int{b, i, j})] != 0
			}
		}
		if !there {
			total += c.float("mask_filter_value", -10000)
		}
		if c.int("unidirectional", 0) != 0 && j > i {
			total = math.Inf(-1)
		}
		return total
	})
	c.terms(0, Reals(y.Shape, c.bounded(0).mass...).merged().F)
	return y.merged(), k, v
}
