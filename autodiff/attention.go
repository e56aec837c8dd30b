package autodiff

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// attentionExpansions write attention and rotary embeddings as simpler operators
// before differentiation.
var attentionExpansions = expansionsOf("", map[string]func(*Backward) []ID{
	"Attention":       expandAttention,
	"LinearAttention": expandLinearAttention,
	"RotaryEmbedding": func(c *Backward) []ID { return c.rotate(c.X(0), c.X(1), c.X(2), c.X(3), "num_heads") },
})

// scores describes how attention scores are computed from queries and keys.
type scores struct {
	scale   float64
	softcap float64
	bias    []ID // added to the scores, in this order; they broadcast
	keep    []ID // bool: where scores are valid; elsewhere they become the lowest number
	rows    bool // keep may leave a query without any key: its result is then 0
	elem    graph.DType
}

// attend returns softmax(scale·q·kᵀ + bias)·v for q, k and v of shape [batch,
// heads, places, size], and the scores after each stage: the product, with bias,
// with the cap, and after softmax.
func (c *Backward) attend(q, k, v ID, s scores) (y ID, stages [4]ID) {
	t := c.op("MatMul", c.times(q, s.scale), c.swapLast(k))
	stages[0] = t
	if s.softcap != 0 {
		t = c.times(c.op("Tanh", c.times(t, 1/s.softcap)), s.softcap)
	}
	stages[1] = t
	for _, b := range s.bias {
		t = c.add(t, c.castLike(b, t))
	}
	for _, keep := range s.keep {
		t = c.where(keep, t, c.scalar(t, lowest(c.typeOf(t).Elem)))
	}
	stages[2] = t
	p := c.castTo(c.with("Softmax", attrs{"axis": -1}, c.castTo(t, s.elem)), c.typeOf(v).Elem)
	for _, keep := range s.keep {
		if s.rows {
			p = c.where(keep, p, c.scalar(p, 0))
		}
	}
	stages[3] = p
	return c.op("MatMul", p, v), stages
}

// lowest is a number whose exponential is 0 next to any score.
func lowest(elem graph.DType) float64 {
	if elem == graph.Float16 {
		return -65504
	}
	return -3.3895313892515355e38 // of bfloat16; float32 represents it exactly
}

// heads reshapes [batch, places, heads·size] to [batch, heads, places, size].
func (c *Backward) heads(t ID, n int64) ID {
	s := c.shape(t)
	if c.err != nil || n < 1 {
		return graph.None
	}
	return c.transpose(c.reshape(t, []int64{s[0], s[1], n, s[2] / n}), 0, 2, 1, 3)
}

// merge reverses heads.
func (c *Backward) merge(t ID) ID {
	s := c.shape(t)
	if c.err != nil {
		return graph.None
	}
	return c.reshape(c.transpose(t, 0, 2, 1, 3), []int64{s[0], s[2], s[1] * s[3]})
}

// repeatHeads repeats keys or values that several query heads share.
func (c *Backward) repeatHeads(t ID, n int64) ID {
	s := c.shape(t)
	if c.err != nil || s[1] == n {
		return t
	}
	wide := c.expand(c.reshape(t, []int64{s[0], s[1], 1, s[2], s[3]}), []int64{s[0], s[1], n / s[1], s[2], s[3]})
	return c.reshape(wide, []int64{s[0], n, s[2], s[3]})
}

// causal is the mask under which queries see the keys up to their own position
// plus past: bool [queries, keys].
func (c *Backward) causal(queries, keys, past int64) ID {
	m := make([]byte, queries*keys)
	for i := range queries {
		for j := range min(i+past+1, keys) {
			m[i*keys+j] = 1
		}
	}
	return c.constant(graph.Bool, []int64{queries, keys}, m, nil)
}

// maxMask limits the elements of a constant mask.
const maxMask = 1 << 26

// expandAttention covers ai.onnx's Attention.
func expandAttention(c *Backward) []ID {
	for _, a := range []string{"left_window_size", "right_window_size"} {
		if c.Int(a, -1) >= 0 {
			c.Failf("attribute %s is set: expected attention without windows on a path to the loss", a)
			return nil
		}
	}
	if c.present(c.X(6)) {
		c.Failf("input 6 (nonpad_kv_seqlen) is given: expected keys without padding on a path to the loss")
		return nil
	}
	q, k, v := c.X(0), c.X(1), c.X(2)
	flat := c.rank(q) == 3
	if flat {
		kv := c.Int("kv_num_heads", 0)
		q, k, v = c.heads(q, c.Int("q_num_heads", 0)), c.heads(k, kv), c.heads(v, kv)
	}
	past := int64(0)
	if c.present(c.X(4)) {
		past = c.shape(c.X(4))[2]
		k, v = c.joined([]ID{c.X(4), k}, 2), c.joined([]ID{c.X(5), v}, 2)
	} else { // they are outputs as well
		k, v = c.outputCopy(k, 1), c.outputCopy(v, 2)
	}
	qs, ks := c.shape(q), c.shape(k)
	if c.err != nil {
		return nil
	}
	s := scores{scale: c.Float("scale", 1/math.Sqrt(float64(qs[3]))), softcap: c.Float("softcap", 0), elem: c.typeOf(q).Elem}
	if p := c.Int("softmax_precision", 0); p != 0 {
		s.elem = graph.DType(p)
	}
	if m := c.X(3); c.present(m) {
		if have := c.shape(m); have[len(have)-1] < ks[2] {
			c.Failf("input 3 (attn_mask) covers %d of %d keys: expected all of them", have[len(have)-1], ks[2])
			return nil
		}
		if c.typeOf(m).Elem == graph.Bool {
			s.keep, s.rows = append(s.keep, m), true
		} else {
			s.bias = append(s.bias, m)
		}
	}
	if c.Int("is_causal", 0) != 0 {
		if qs[2]*ks[2] > maxMask {
			c.Failf("a mask of %d elements: expected at most %d", qs[2]*ks[2], maxMask)
			return nil
		}
		s.keep = append(s.keep, c.causal(qs[2], ks[2], past))
	}
	y, stages := c.attend(q, c.repeatHeads(k, qs[1]), c.repeatHeads(v, qs[1]), s)
	if flat {
		y = c.merge(y)
	}
	out := []ID{y, k, v, graph.None}
	// Modes of opset 23: the product, with mask, with mask and cap, probabilities.
	if len(c.Node.Outputs) > 3 && c.Node.Outputs[3] != graph.None {
		if mode := c.Int("qk_matmul_output_mode", 0); mode == 0 || mode == 3 {
			out[3] = c.op("Identity", stages[mode])
		} else {
			c.Failf("qk_matmul_output_mode is %d: expected 0 or 3 on a path to the loss", mode)
		}
	}
	return out
}

// outputCopy returns a tensor that becomes output k, if there is one, separate from its
// source.
func (c *Backward) outputCopy(t ID, k int) ID {
	if k < len(c.Node.Outputs) && c.Node.Outputs[k] != graph.None {
		return c.op("Identity", t)
	}
	return t
}

// rotate turns pairs along the last axis by angles whose cosines and sines are in
// caches: [places, size/2], selected by position, or [batch, sequence, size/2]. x
// is [batch, sequence, heads·size] or [batch, heads, sequence, size].
func (c *Backward) rotate(x, cos, sin, position ID, numHeads string) []ID {
	shape := c.shape(x)
	if c.err != nil {
		return nil
	}
	t, flat := x, len(shape) == 3
	if flat {
		n := c.Int(numHeads, 0)
		if n < 1 || shape[2]%n != 0 {
			c.Failf("%s is %d: expected a divisor of %d", numHeads, n, shape[2])
			return nil
		}
		t = c.reshape(x, []int64{shape[0], shape[1], n, shape[2] / n})
	} else {
		t = c.transpose(x, 0, 2, 1, 3)
	}
	s := c.shape(t) // [batch, sequence, heads, size]
	if c.present(position) {
		cos, sin = c.op("Gather", cos, position), c.op("Gather", sin, position)
	}
	if cs := c.shape(cos); c.err == nil {
		angles := []int64{cs[0], cs[1], 1, cs[len(cs)-1]}
		cos, sin = c.reshape(cos, angles), c.reshape(sin, angles)
	}
	size := c.Int("rotary_embedding_dim", 0)
	if size == 0 {
		size = s[3]
	}
	var rest ID = graph.None
	if size < s[3] {
		parts := c.split(t, 3, size, s[3]-size)
		t, rest = parts[0], parts[1]
	}
	paired := concat(s[:3], []int64{2, size / 2})
	axis := 3
	if c.Int("interleaved", 0) != 0 {
		paired, axis = concat(s[:3], []int64{size / 2, 2}), 4
	}
	parts := c.split(c.reshape(t, paired), axis, 1, 1)
	half := concat(s[:3], []int64{size / 2})
	a, b := c.reshape(parts[0], half), c.reshape(parts[1], half)
	real := c.sub(c.mul(cos, a), c.mul(sin, b))
	imag := c.add(c.mul(sin, a), c.mul(cos, b))
	one := concat(s[:3], []int64{1, size / 2})
	if axis == 4 {
		one = concat(s[:3], []int64{size / 2, 1})
	}
	t = c.reshape(c.joined([]ID{c.reshape(real, one), c.reshape(imag, one)}, axis), concat(s[:3], []int64{size}))
	if c.present(rest) {
		t = c.joined([]ID{t, rest}, 3)
	}
	if flat {
		return []ID{c.reshape(t, shape)}
	}
	return []ID{c.transpose(t, 0, 2, 1, 3)}
}
