package reference

import (
	"math"
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// contribAttentionOperators are ONNX Runtime's attention operators.
var contribAttentionOperators = []operator{
	{"Attention", func(c *evaluation) []*Tensor {
		if c.int("do_rotary", 0) != 0 || c.int("past_present_share_buffer", 0) != 0 {
			fail("turned queries and keys, or a past with room for the present")
		}
		merged, terms := matmul(c.x(0), c.x(1))
		if c.x(2) != nil {
			merged = plus(merged, c.x(2))
		}
		n := c.int("num_heads", 0)
		sizes := c.ints("qkv_hidden_sizes", filled(merged.Shape[2]/3, 3))
		q := merged.part(2, 0, sizes[0]).heads(n)
		k := merged.part(2, sizes[0], sizes[1]).heads(n)
		v := merged.part(2, sizes[0]+sizes[1], sizes[2]).heads(n)
		past := 0
		if p := c.x(4); p != nil { // [2, batch, heads, positions, size]
			past = p.Shape[3]
			k, v = concat(2, p.part(0, 0, 1).shaped(p.Shape[1:]...), k), concat(2, p.part(0, 1, 1).shaped(p.Shape[1:]...), v)
		}
		y, k, v := c.contribAttention(q, k, v, c.x(3), c.x(5), past)
		// The terms of queries, keys and values may be larger than their sums.
		c.sums(0, c.bounds[0].mass, c.x(1).Shape[0])
		for i, part := 0, slices.Max(terms)/max(slices.Max(magnitudes(merged.F)), 1e-300); i < len(c.bounds[0].mass); i++ {
			c.bounds[0].mass[i] *= max(part, 1)
		}
		if k.Shape[3] != v.Shape[3] {
			return one(y)
		}
		present := concat(0, k.shaped(append([]int{1}, k.Shape...)...), v.shaped(append([]int{1}, v.Shape...)...))
		return []*Tensor{y, present}
	}},
	{"MultiHeadAttention", multiHeadAttention},
	{"GroupQueryAttention", groupQueryAttention},
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

// contribAttention adds mask_filter_value to the scores where the mask is 0. The mask has a
// value for each key: [batch, keys], [batch, queries, keys] or [batch, 1, most, most] for
// queries from the first past one on. Or it is the number of keys, [batch], before the first
// of them, [2·batch]. A mask of one key for several is none. The first keys may be past ones.
// The last query sees all keys.
func (c *evaluation) contribAttention(q, k, v, mask, bias *Tensor, past int) (y, keys, values *Tensor) {
	n := q.Shape[1]
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
				if batch := q.Shape[0]; len(mask.I) == 2*batch {
					there = there && j >= int(mask.I[batch+b])
				}
			case 2:
				there = mask.Shape[1] != k.Shape[2] || mask.I[index(mask.Shape, []int{b, j})] > 0
			case 3:
				there = mask.I[index(mask.Shape, []int{b, i, j})] > 0
			case 4:
				there = mask.I[index(mask.Shape, []int{b, 0, past + i, j})] > 0
			}
		}
		if !there {
			total += c.float("mask_filter_value", -10000)
		}
		if c.int("unidirectional", 0) != 0 && j > i+past && i < q.Shape[2]-1 {
			total = math.Inf(-1)
		}
		return total
	})
	c.terms(0, Reals(y.Shape, c.bounded(0).mass...).merged().F)
	return y.merged(), k, v
}

// groupQueryAttention computes GroupQueryAttention: past keys come before the new ones, and
// each element of the batch has a number of both. Without past keys in use, all positions
// follow from the first one. A score without a value for each head is a key more.
func groupQueryAttention(c *evaluation) []*Tensor {
	if c.x(12) != nil || c.x(14) != nil || c.int("sliding_window_cache", 0) != 0 || c.int("qk_output", 0) != 0 {
		fail("quantized keys, norms, windows of keys, or scores as an output")
	}
	n, kv := c.int("num_heads", 0), c.int("kv_num_heads", 0)
	q, k, v := c.x(0), c.x(1), c.x(2)
	if k == nil {
		size := q.Shape[2] / (n + 2*kv)
		q, k, v = q.part(2, 0, n*size), q.part(2, n*size, kv*size), q.part(2, (n+kv)*size, kv*size)
	}
	q, k, v = q.heads(n), k.heads(kv), v.heads(kv)
	batch, queries, size := q.Shape[0], q.Shape[2], q.Shape[3]
	all := int(c.x(6).I[0])
	before, room := make([]int, batch), all
	for b := range before {
		if all != queries {
			before[b] = int(c.x(5).I[b]) + 1 - queries
		}
	}
	if c.x(3) != nil {
		room = max(room, c.x(3).Shape[2])
	}
	terms, larger := Reals(k.Shape, magnitudes(k.F)...), 1.0 // turning adds terms that may be larger than their sums
	if c.int("do_rotary", 0) != 0 {
		position := Ints([]int{batch, queries})
		for b := range batch {
			for i := range queries {
				at := int64(before[b] + i)
				if ids := c.x(9); ids != nil && all == queries {
					at = ids.I[0] + int64(i)
				} else if ids != nil {
					at = ids.I[b*queries+i]
				}
				position.I = append(position.I, at)
			}
		}
		node := *c.Node
		node.Attrs = []*graph.Attr{
			{Name: "rotary_embedding_dim", Int: int64(2 * c.x(7).Shape[1])},
			{Name: "interleaved", Int: int64(c.int("rotary_interleaved", 0))},
		}
		turn := func(x *Tensor) (y, mass *Tensor) {
			inner := &evaluation{Node: &node, scope: c.scope}
			y = inner.rotary(x, c.x(7), c.x(8), position, 0)
			mass = Reals(y.Shape, inner.bounded(0).mass...)
			larger *= max(1, slices.Max(mass.F)/max(slices.Max(magnitudes(y.F)), 1e-300))
			return y, mass
		}
		q, _ = turn(q)
		k, terms = turn(k)
	}
	cache := func(past, fresh *Tensor) *Tensor {
		y := zeros(fresh.Type, []int{batch, kv, room, size})
		each(y.Shape, func(at []int) {
			b, h, j, d := at[0], at[1], at[2], at[3]
			switch to := index(y.Shape, at); {
			case j < before[b]:
				y.F[to] = past.F[index(past.Shape, []int{b, h, j, d})]
			case j < before[b]+queries:
				y.F[to] = fresh.F[index(fresh.Shape, []int{b, h, j - before[b], d})]
			case past != nil && past.Shape[2] == room: // as in a cache that is written in place
				y.F[to] = past.F[index(past.Shape, []int{b, h, j, d})]
			}
		})
		return y
	}
	k, v, terms = cache(c.x(3), k), cache(c.x(4), v), cache(c.x(3), terms)
	scale := c.float("scale", 0)
	if scale == 0 {
		scale = float64(float32(1 / math.Sqrt(float64(size)))) // as an attribute would have
	}
	bias, sinks := c.x(10), c.x(11)
	if bias != nil {
		bias = bias.spread([]int{batch, n, queries, bias.Shape[3]})
	}
	more := zeros(k.Type, []int{batch, kv, 1, size})
	y, _ := c.attend(q, concat(2, k, more), concat(2, v, more), scale, c.float("softcap", 0), func(b, h, i, j int) float64 {
		last := int(c.x(5).I[b])
		switch own, window := min(before[b]+i, last), c.int("local_window_size", -1); {
		case j == room && sinks != nil:
			return sinks.F[h]
		case j == room && c.int("smooth_softmax", 0) != 0:
			return 0
		case j == room, j > last, c.int("causal", 1) != 0 && j > own, window > 0 && j <= own-window:
			return math.Inf(-1)
		}
		if bias != nil {
			return bias.F[index(bias.Shape, []int{b, h, i, j})]
		}
		return 0
	})
	mass := c.bounded(0).mass
	for i := range mass {
		mass[i] *= larger
	}
	c.terms(0, Reals(y.Shape, mass...).merged().F)
	c.terms(1, magnitudes(terms.F))
	c.bounded(2).exact = true
	return []*Tensor{y.merged(), k, v}
}

// multiHeadAttention computes MultiHeadAttention. Queries, keys and values may be parts of
// one input, or keys and values may.
func multiHeadAttention(c *evaluation) []*Tensor {
	if c.x(8) != nil || c.x(9) != nil {
		fail("past_sequence_length and cache_indirection")
	}
	n := c.int("num_heads", 0)
	q, k, v := c.x(0), c.x(1), c.x(2)
	part := func(x *Tensor, i int) *Tensor {
		s := x.Shape
		return x.part(3, i, 1).shaped(s[0], s[1], s[2]*s[4])
	}
	if len(q.Shape) == 5 {
		q, k, v = part(q, 0), part(q, 1), part(q, 2)
	} else if len(k.Shape) == 5 {
		k, v = part(k, 0), part(k, 1)
	}
	if b := c.x(3); b != nil {
		n, m := q.Shape[2], k.Shape[2]
		q, k, v = plus(q, b.part(0, 0, n)), plus(k, b.part(0, n, m)), plus(v, b.part(0, n+m, v.Shape[2]))
	}
	q = q.heads(n)
	if len(k.Shape) == 3 {
		k, v = k.heads(n), v.heads(n)
	}
	past := 0
	if c.x(6) != nil {
		past = c.x(6).Shape[2]
		k, v = concat(2, c.x(6), k), concat(2, c.x(7), v)
	}
	y, k, v := c.contribAttention(q, k, v, c.x(4), c.x(5), past)
	return []*Tensor{y, k, v}
}
