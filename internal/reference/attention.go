package reference

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// attentionOperators are the attention operators of ai.onnx.
var attentionOperators = []operator{
	{"Attention", attention},
	{"RotaryEmbedding", func(c *evaluation) []*Tensor {
		return one(c.rotary(c.x(0), c.x(1), c.x(2), c.x(3), c.int("num_heads", 0)))
	}},
}

// heads reshapes [batch, positions, heads·size] to [batch, heads, positions, size].
func (x *Tensor) heads(n int) *Tensor {
	return x.shaped(x.Shape[0], x.Shape[1], n, x.Shape[2]/n).permuted(0, 2, 1, 3)
}

// merged is the inverse of heads.
func (x *Tensor) merged() *Tensor {
	s := x.Shape
	return x.permuted(0, 2, 1, 3).shaped(s[0], s[2], s[1]*s[3])
}

// attention computes Attention: queries, keys and values of three or four axes, a mask,
// past keys and values, and the number of valid keys.
func attention(c *evaluation) []*Tensor {
	q, k, v := c.x(0), c.x(1), c.x(2)
	flat := len(q.Shape) == 3
	if flat {
		kv := c.int("kv_num_heads", 0)
		q, k, v = q.heads(c.int("q_num_heads", 0)), k.heads(kv), v.heads(kv)
	}
	past := 0
	if c.x(4) != nil {
		past = c.x(4).Shape[2]
		k, v = concat(2, c.x(4), k), concat(2, c.x(5), v)
	}
	batch, heads, queries := q.Shape[0], q.Shape[1], q.Shape[2]
	mask := c.x(3)
	if mask != nil {
		have := mask.Shape[len(mask.Shape)-1]
		mask = mask.spread(broadcast(mask.Shape, []int{batch, heads, queries, have}))
	}
	scale := c.float("scale", 1/math.Sqrt(float64(q.Shape[3])))
	y, stages := c.attend(q, k, v, scale, c.float("softcap", 0), func(b, h, i, j int) float64 {
		return c.masked(mask, b, h, i, j, past, queries)
	})
	if flat {
		y = y.merged()
		c.terms(0, Reals([]int{batch, heads, queries, v.Shape[3]}, c.bounded(0).mass...).merged().F)
	}
	c.bounded(1).exact, c.bounded(2).exact = true, true
	return []*Tensor{y, k.clone(), v.clone(), stages[c.int("qk_matmul_output_mode", 0)]}
}

// attend returns the values weighted by the softmax of their scores. A score is the
// scaled product of query and key, capped, plus the mask for the batch, head, query and
// key. attend also returns these intermediate results and the probabilities. Several
// heads of queries may share a head of keys and values. It sets the terms of outputs 0
// and 3.
func (c *evaluation) attend(q, k, v *Tensor, scale, softcap float64, mask func(b, h, i, j int) float64) (y *Tensor, stages []*Tensor) {
	batch, heads, queries, keys := q.Shape[0], q.Shape[1], q.Shape[2], k.Shape[2]
	for range 4 {
		stages = append(stages, zeros(q.Type, []int{batch, heads, queries, keys}))
	}
	wide, tall := q.Shape[3], v.Shape[3]
	y = zeros(q.Type, []int{batch, heads, queries, tall})
	mass, scores := make([]float64, len(y.F)), make([]float64, len(stages[0].F))
	parallel(batch*heads*queries, func(part int) {
		b, h, i := part/queries/heads, part/queries%heads, part%queries
		shared := b*k.Shape[1] + h/(heads/k.Shape[1])
		row := make([]float64, keys)
		first := part * keys
		uncertain := 0.0 // the largest sum of terms of a score
		for j := range keys {
			sum := 0.0
			for d := range wide {
				p := scale * q.F[part*wide+d] * k.F[(shared*keys+j)*wide+d]
				row[j] += p
				sum += math.Abs(p)
			}
			stages[0].F[first+j] = row[j]
			if softcap != 0 {
				row[j] = softcap * math.Tanh(row[j]/softcap)
				sum += math.Abs(softcap)
			}
			stages[1].F[first+j] = row[j]
			if m := mask(b, h, i, j); m != 0 {
				if row[j] += m; !math.IsInf(m, 0) {
					sum += math.Abs(m)
				}
			}
			stages[2].F[first+j] = row[j]
			scores[first+j] = sum
			if !math.IsInf(row[j], -1) {
				uncertain = max(uncertain, sum)
			}
		}
		most := math.Inf(-1)
		for _, x := range row {
			most = math.Max(most, x)
		}
		total := 0.0 // of exponentials of differences: beside a mask of -1e38 a logarithm is nothing
		for _, x := range row {
			total += math.Exp(x - most)
		}
		for j := range keys {
			p := math.Exp(row[j]-most) / total
			if math.IsInf(most, -1) {
				p = 0 // all keys are masked
			}
			stages[3].F[first+j] = p
			for d := range tall {
				w := v.F[(shared*keys+j)*tall+d]
				y.F[part*tall+d] += p * w
				// An absolute error of a score is a relative error of its exponential.
				mass[part*tall+d] += p * math.Abs(w) * (1 + 2*uncertain)
			}
			if c.int("qk_matmul_output_mode", 0) == 3 {
				scores[first+j] = p * (1 + 2*uncertain)
			}
		}
	})
	c.sums(0, mass, max(keys, wide))
	c.sums(3, scores, wide)
	return y, stages
}

// masked returns the sum of the masks for the score of query i and key j.
func (c *evaluation) masked(mask *Tensor, b, h, i, j, past, queries int) float64 {
	if n := c.x(6); n != nil {
		if j >= int(n.I[b]) {
			return math.Inf(-1)
		}
		past = int(n.I[b]) - queries
	}
	if c.int("is_causal", 0) != 0 && j > i+past {
		return math.Inf(-1)
	}
	left, right := c.int("left_window_size", -1), c.int("right_window_size", -1)
	if left >= 0 && i+past-j > left || right >= 0 && j-i-past > right {
		return math.Inf(-1)
	}
	if mask == nil {
		return 0
	}
	if j >= mask.Shape[3] {
		return math.Inf(-1)
	}
	at := index(mask.Shape, []int{b, h, i, j})
	switch {
	case mask.Type == graph.Bool && mask.I[at] == 0:
		return math.Inf(-1)
	case mask.Type == graph.Bool:
		return 0
	}
	return mask.real(at)
}

// rotary rotates pairs of elements of each head by angles whose cosines and sines are
// given for each position.
func (c *evaluation) rotary(x, cos, sin, position *Tensor, heads int) *Tensor {
	t, flat := x, len(x.Shape) == 3
	if flat {
		t = x.heads(heads)
	}
	y := t.clone()
	mass := Reals(t.Shape, magnitudes(t.F)...)
	size := t.Shape[3]
	turned := c.int("rotary_embedding_dim", 0)
	if turned == 0 {
		turned = size
	}
	half := turned / 2
	angle := func(cache *Tensor, b, place, k int) float64 {
		if position == nil {
			return cache.F[index(cache.Shape, []int{b, place, k})]
		}
		return cache.F[index(cache.Shape, []int{int(position.I[b*t.Shape[2]+place]), k})]
	}
	each([]int{t.Shape[0], t.Shape[1], t.Shape[2], half}, func(at []int) {
		k := at[3]
		first, second := k, k+half
		if c.int("interleaved", 0) != 0 {
			first, second = 2*k, 2*k+1
		}
		i := index(t.Shape, []int{at[0], at[1], at[2], first})
		j := index(t.Shape, []int{at[0], at[1], at[2], second})
		cs, sn := angle(cos, at[0], at[2], k), angle(sin, at[0], at[2], k)
		y.F[i] = cs*t.F[i] - sn*t.F[j]
		y.F[j] = sn*t.F[i] + cs*t.F[j]
		mass.F[i] = math.Abs(cs*t.F[i]) + math.Abs(sn*t.F[j])
		mass.F[j] = math.Abs(sn*t.F[i]) + math.Abs(cs*t.F[j])
	})
	if flat {
		c.terms(0, mass.merged().F)
		return y.merged()
	}
	c.terms(0, mass.F)
	return y
}
