package autodiff

import (
	"slices"

	"github.com/onnxmem/onnxmem/graph"
)

// moreContribExpansions are operators of com.microsoft that few runtimes know, written as
// operators of ai.onnx.
var moreContribExpansions = expansionsOf("com.microsoft", map[string]func(*Backward) []ID{
	"Trilu": func(c *Backward) []ID {
		return []ID{c.with("Trilu", attrs{"upper": c.Int("upper", 1)}, c.X(0), c.X(1))}
	},
	"ExpandDims":            func(c *Backward) []ID { return []ID{c.reshape(c.X(0), c.shape(c.Node.Outputs[0]))} },
	"GroupNorm":             expandGroupNorm,
	"SkipGroupNorm":         expandGroupNorm,
	"GatedRMSNorm":          expandGatedNorm,
	"BiasSplitGelu":         expandBiasSplitGelu,
	"NhwcConv":              expandChannelsLast,
	"NhwcFusedConv":         expandChannelsLast,
	"FusedMatMulActivation": expandFusedMatMulActivation,
	"CausalConvWithState":   causalConvExpansion,
	"LinearAttention":       expandLinearAttention,
	"GroupQueryAttention":   expandGroupQueryAttention,
	"MRotaryEmbedding":      expandSectionedRotary,
	"GemmaRotaryEmbedding":  expandGemmaRotary,
	"MoE":                   expandExperts,
})

// expandGroupNorm covers images with the channels first or last. Inputs: X gamma beta skip
// bias. Outputs: Y, and the sum of X, skip and bias.
func expandGroupNorm(c *Backward) []ID {
	x, groups := c.X(0), c.Int("groups", 0)
	last := c.Int("channels_last", 1) != 0
	shape := c.shape(x)
	if c.err != nil {
		return nil
	}
	rank := len(shape)
	if skip := c.X(3); c.present(skip) {
		if s := c.shape(skip); len(s) == 2 { // [batch, channels]
			skip = c.reshape(skip, perChannel(s[0], s[1], rank, last))
		}
		x = c.add(x, skip)
	}
	if bias := c.X(4); c.present(bias) {
		x = c.add(x, c.reshape(bias, perChannel(1, elements(c.shape(bias)), rank, last)))
	}
	sum, t := x, x
	if last {
		t = c.channelsFirst(t)
	}
	s := c.shape(t)
	if c.err != nil {
		return nil
	}
	if groups < 1 || s[1]%groups != 0 {
		c.Failf("groups is %d: expected a divisor of %d channels", groups, s[1])
		return nil
	}
	flat := c.reshape(t, []int64{s[0], groups, elements(s[1:]) / groups})
	ones, zeros := c.expand(c.scalar(t, 1), []int64{groups}), c.zeros(t, groups)
	t = c.reshape(c.with("InstanceNormalization", attrs{"epsilon": c.Float("epsilon", 1e-5)}, flat, ones, zeros), s)
	channels := perChannel(1, s[1], rank, false)
	t = c.add(c.mul(t, c.castLike(c.reshape(c.X(1), channels), t)), c.castLike(c.reshape(c.X(2), channels), t))
	if c.Int("activation", 0) == 1 {
		t = c.silu(t)
	}
	if last {
		t = c.channelsLast(t)
	}
	return []ID{t, sum}
}

// perChannel is the shape of numbers for each image and channel that broadcast to images.
func perChannel(batch, channels int64, rank int, last bool) []int64 {
	shape := filled(1, rank)
	shape[0], shape[1] = batch, channels
	if last {
		shape[1], shape[rank-1] = 1, channels
	}
	return shape
}

// channelsFirst moves the last axis behind the batch; channelsLast moves it back.
func (e *emitter) channelsFirst(t ID) ID {
	r := e.rank(t)
	return e.transpose(t, concat([]int64{0, int64(r - 1)}, axes(1, r-2))...)
}

func (e *emitter) channelsLast(t ID) ID {
	r := e.rank(t)
	return e.transpose(t, concat([]int64{0}, axes(2, r-2), []int64{1})...)
}

// silu is t · sigmoid(t).
func (e *emitter) silu(t ID) ID { return e.mul(t, e.op("Sigmoid", t)) }

// expandGatedNorm normalises groups of as many elements as there are scales, and multiplies
// by the activation of the gate.
func expandGatedNorm(c *Backward) []ID {
	shape, scale := c.shape(c.X(0)), c.shape(c.X(1))
	if c.err != nil {
		return nil
	}
	n := len(shape) - 1
	if n < 0 || len(scale) != 1 || scale[0] < 1 || shape[n]%scale[0] != 0 {
		c.Failf("scale of shape %v: expected one axis whose length divides the last one of %v", scale, shape)
		return nil
	}
	t := c.reshape(c.X(0), concat(shape[:n], []int64{shape[n] / scale[0], scale[0]}))
	square := c.reduce("ReduceMean", c.mul(t, t), []int64{-1}, true)
	t = c.mul(c.div(t, c.op("Sqrt", c.plus(square, c.Float("epsilon", 1e-5)))), c.X(1))
	gate := c.X(2)
	switch name := c.Str("activation", "silu"); name {
	case "silu", "swish":
		gate = c.silu(gate)
	case "sigmoid":
		gate = c.op("Sigmoid", gate)
	default:
		c.Failf("activation %q: expected silu, swish or sigmoid", name)
		return nil
	}
	return []ID{c.mul(c.reshape(t, shape), gate)}
}

// expandBiasSplitGelu: the first half of the last axis times Gelu of the second.
func expandBiasSplitGelu(c *Backward) []ID {
	t := c.add(c.X(0), c.X(1))
	shape := c.shape(t)
	if c.err != nil {
		return nil
	}
	axis := len(shape) - 1
	halves := c.split(t, axis, shape[axis]/2, shape[axis]-shape[axis]/2)
	if len(halves) < 2 {
		c.Failf("an input of shape %v: expected two halves", shape)
		return nil
	}
	return []ID{c.mul(halves[0], c.emitIn(c.Node.Domain, "Gelu", nil, 1, halves[1])[0])}
}

// expandChannelsLast: a convolution of images whose channels are the last axis, with an
// addend and an activation.
func expandChannelsLast(c *Backward) []ID {
	n := *c.Node
	n.Inputs = slices.Clone(n.Inputs)
	for _, i := range []int{0, 3} {
		if c.present(c.X(i)) {
			n.Inputs[i] = c.channelsFirst(c.X(i))
		}
	}
	made := expandFusedConv(&Backward{emitter: c.emitter, Node: &n})
	if c.err != nil {
		return nil
	}
	return []ID{c.channelsLast(made[0])}
}

// expandFusedMatMulActivation: FusedMatMul and an activation.
func expandFusedMatMulActivation(c *Backward) []ID {
	a := attrs{"alpha": c.Float("alpha", 1)}
	for _, name := range []string{"transA", "transB", "transBatchA", "transBatchB"} {
		a[name] = c.Int(name, 0)
	}
	t := c.emitIn(c.Node.Domain, "FusedMatMul", a, 1, c.X(0), c.X(1))[0]
	return []ID{c.fusedActivation(t, c.Str("activation", ""), func(i int, otherwise float64) float64 {
		return c.Float([]string{"activation_alpha", "activation_beta", "activation_gamma"}[i], otherwise)
	})}
}

// expandGemmaRotary: q · cos + turned q · sin, and the same for k; the angles are [batch,
// places, size].
func expandGemmaRotary(c *Backward) []ID {
	like := c.X(1)
	sin := c.op("Unsqueeze", c.castLike(c.op("Sin", c.X(0)), like), c.list(1))
	cos := c.op("Unsqueeze", c.castLike(c.op("Cos", c.X(0)), like), c.list(1))
	turned := func(i int) ID { return c.add(c.mul(c.X(i), cos), c.mul(c.X(i+1), sin)) }
	return []ID{turned(1), turned(3)}
}

// expandSectionedRotary: the angles of a token come from three positions, one for each
// section of a head.
func expandSectionedRotary(c *Backward) []ID {
	x, cache := c.shape(c.X(0)), c.shape(c.X(2))
	sections := c.List("mrope_section", nil)
	if c.err != nil {
		return nil
	}
	if c.Int("is_packed_batching", 0) != 0 || c.Float("scale", 1) != 1 {
		c.Failf("packed batches, or a scale: expected neither on a path to the loss")
		return nil
	}
	if at := c.shape(c.X(1)); len(x) < 3 || len(x) > 4 || len(cache) != 2 || len(at) != 3 || at[0] != 3 || cache[1] > maxMask {
		c.Failf("input %v, position_ids %v and cos_cache %v: expected three or four axes, three positions for each token, and [places, half of a head]", x, at, cache)
		return nil
	}
	half := cache[1]
	if len(sections) != 3 || min(sections[0], sections[1], sections[2]) < 0 || max(sections[0], sections[1], sections[2]) > half || sections[0]+sections[1]+sections[2] != half {
		c.Failf("mrope_section %v: expected three lengths with the sum %d", sections, half)
		return nil
	}
	masks := [3][]byte{make([]byte, half), make([]byte, half), make([]byte, half)}
	for i := range half {
		stream := 0
		switch {
		case c.Int("mrope_layout", 0) == 0:
			for stream < 2 && i >= sections[0]+int64(stream)*sections[1] {
				stream++
			}
		case i%3 != 0 && i < 3*sections[i%3]:
			stream = int(i % 3)
		}
		masks[stream][i] = 1
	}
	positions := c.split(c.X(1), 0, 1, 1, 1)
	chosen := func(table ID) ID {
		t := ID(graph.None)
		for k, p := range positions {
			rows := c.op("Gather", table, c.reshape(p, c.shape(p)[1:]))
			if k == 0 {
				t = rows
				continue
			}
			t = c.where(c.constant(graph.Bool, []int64{half}, masks[k], nil), rows, t)
		}
		return t
	}
	if c.err != nil {
		return nil
	}
	cos, sin := chosen(c.X(2)), chosen(c.X(3))
	if len(x) == 3 && c.Int("num_heads", 0) == 0 { // the caches determine the size of a head
		size := 2 * half
		if x[2]%size != 0 {
			c.Failf("heads of size %d: expected a divisor of %d", size, x[2])
			return nil
		}
		flat := c.reshape(c.X(0), []int64{x[0], x[1], x[2] / size, size})
		made := c.rotate(c.transpose(flat, 0, 2, 1, 3), cos, sin, graph.None, "num_heads")
		if c.err != nil {
			return nil
		}
		return []ID{c.reshape(c.transpose(made[0], 0, 2, 1, 3), x)}
	}
	return c.rotate(c.X(0), cos, sin, graph.None, "num_heads")
}

// expandGroupQueryAttention covers attention without a past. Inputs: query key value
// past_key past_value seqlens_k total_sequence_length cos_cache sin_cache position_ids
// attention_bias. Under the causal mask, a query sees no padding behind its own place.
func expandGroupQueryAttention(c *Backward) []ID {
	for i, name := range map[int]string{11: "head_sink", 12: "k_scale", 13: "v_scale", 14: "q_norm_weight", 15: "k_norm_weight"} {
		if c.present(c.X(i)) {
			c.Failf("input %d (%s) is given: expected attention without it on a path to the loss", i, name)
			return nil
		}
	}
	for i, name := range map[int]string{3: "past_key", 4: "past_value"} {
		if c.present(c.X(i)) && elements(c.shape(c.X(i))) > 0 {
			c.Failf("input %d (%s) is given: expected attention without a past on a path to the loss", i, name)
			return nil
		}
	}
	if c.Int("smooth_softmax", 0) > 0 || c.Int("sliding_window_cache", 0) != 0 || c.Int("qk_output", 0) != 0 {
		c.Failf("smooth_softmax, sliding_window_cache or qk_output is set: expected none of them on a path to the loss")
		return nil
	}
	n, kv := c.Int("num_heads", 0), c.Int("kv_num_heads", 0)
	q, k, v := c.X(0), c.X(1), c.X(2)
	shape := c.shape(q)
	if c.err != nil {
		return nil
	}
	if n < 1 || kv < 1 || n%kv != 0 || len(shape) != 3 {
		c.Failf("num_heads is %d and kv_num_heads %d: expected a multiple", n, kv)
		return nil
	}
	if !c.present(k) {
		size := shape[2] / (n + 2*kv)
		parts := c.split(q, 2, n*size, kv*size, kv*size)
		q, k, v = parts[0], parts[1], parts[2]
	}
	q, k, v = c.heads(q, n), c.heads(k, kv), c.heads(v, kv)
	qs, ks := c.shape(q), c.shape(k)
	if c.err != nil {
		return nil
	}
	if c.Int("do_rotary", 0) != 0 {
		q, k = c.turnedBy(q), c.turnedBy(k)
	}
	k, v = c.outputCopy(k, 1), c.outputCopy(v, 2)
	s := scores{scale: c.Float("scale", 0), softcap: c.Float("softcap", 0), elem: c.typeOf(q).Elem}
	if s.scale == 0 {
		s.scale = invSqrt(qs[3])
	}
	if c.present(c.X(10)) {
		s.bias = append(s.bias, c.X(10))
	}
	if exceeds(maxMask, qs[2], ks[2]) {
		c.Failf("a mask of %d queries and %d keys: expected at most %d elements", qs[2], ks[2], maxMask)
		return nil
	}
	if c.Int("causal", 1) != 0 {
		s.keep = append(s.keep, c.causalWindow(qs[2], ks[2], c.Int("local_window_size", -1)))
	} else {
		places := make([]float64, ks[2])
		for i := range places {
			places[i] = float64(i)
		}
		lengths := c.reshape(c.X(5), []int64{qs[0], 1, 1, 1})
		s.keep = append(s.keep, c.op("LessOrEqual", c.reals(c.typeOf(lengths).Elem, []int64{1, 1, 1, ks[2]}, places), lengths))
	}
	y, _ := c.attend(q, c.repeatHeads(k, n), c.repeatHeads(v, n), s)
	return []ID{c.merge(y), k, v}
}

// causalWindow is the mask under which a query sees as many keys as window says, up to its
// own place; -1: all of them.
func (c *Backward) causalWindow(queries, keys, window int64) ID {
	if window < 0 {
		return c.causal(queries, keys, 0)
	}
	m := make([]byte, queries*keys)
	for i := range queries {
		for j := max(i-window+1, 0); j < min(i+1, keys); j++ {
			m[i*keys+j] = 1
		}
	}
	return c.constant(graph.Bool, []int64{queries, keys}, m, nil)
}

// turnedBy turns the heads of GroupQueryAttention by the angles of their positions.
func (c *Backward) turnedBy(t ID) ID {
	s, cache := c.shape(t), c.shape(c.X(7))
	if c.err != nil {
		return graph.None
	}
	if len(cache) != 2 || !c.present(c.X(8)) {
		c.Failf("cos_cache has shape %v: expected [places, half of a head], and sin_cache, as do_rotary is set", cache)
		return graph.None
	}
	cos, sin, position := c.X(7), c.X(8), c.X(9)
	if !c.present(position) {
		if cache[0] < s[2] {
			c.Failf("cos_cache has %d places: expected %d", cache[0], s[2])
			return graph.None
		}
		first := func(table ID) ID {
			return c.reshape(c.slice(table, []int64{0}, []int64{0}, []int64{s[2]}), []int64{1, s[2], cache[1]})
		}
		cos, sin = first(cos), first(sin)
	} else { // without a past, the positions of all elements of the batch follow from the first one
		places := make([]float64, s[2])
		for i := range places {
			places[i] = float64(i)
		}
		start := c.slice(c.reshape(position, []int64{-1}), []int64{0}, []int64{0}, []int64{1})
		position = c.add(c.reshape(start, []int64{1, 1}), c.reals(c.typeOf(position).Elem, []int64{1, s[2]}, places))
	}
	a := attrs{"interleaved": c.Int("rotary_interleaved", 0)}
	if 2*cache[1] < s[3] {
		a["rotary_embedding_dim"] = 2 * cache[1]
	}
	r := &Backward{emitter: c.emitter, Node: &graph.Node{Name: c.Node.Name, Op: c.Node.Op, Domain: c.Node.Domain, Attrs: a.list()}}
	made := r.rotate(t, cos, sin, position, "num_heads")
	if c.err != nil {
		return graph.None
	}
	return made[0]
}

// expandExperts computes all experts for all tokens, and sums their results by weights, 0
// for the experts that a token does not take. Inputs: input, router_probs, and weights and
// bias of the layers 1 to 3.
func expandExperts(c *Backward) []ID {
	x, route := c.shape(c.X(0)), c.shape(c.X(1))
	if c.err != nil {
		return nil
	}
	if w := c.shape(c.X(2)); len(x) < 2 || len(x) > 3 || len(w) != 3 || !c.present(c.X(4)) {
		c.Failf("input %v and fc1_experts_weights %v: expected two or three axes, and three", x, w)
		return nil
	}
	k, width := c.Int("k", 1), x[len(x)-1]
	if c.Int("use_sparse_mixer", 0) != 0 {
		c.Failf("use_sparse_mixer is set: expected experts chosen by softmax on a path to the loss")
		return nil
	}
	if len(route) != 2 || k < 1 || k > route[1] {
		c.Failf("k is %d for router_probs of shape %v: expected that many experts", k, route)
		return nil
	}
	tokens, experts := route[0], route[1]
	p := c.with("Softmax", attrs{"axis": -1}, c.X(1))
	best := c.emit("TopK", attrs{"axis": -1}, 2, p, c.list(k))
	chosen, at := best[0], best[1]
	if c.Int("normalize_routing_weights", 0) != 0 {
		chosen = c.div(chosen, c.sum(chosen, []int64{1}, true))
	}
	weights := c.with("ScatterElements", attrs{"axis": 1}, c.zeros(p, tokens, experts), at, chosen)
	layer := func(t ID, i int) ID {
		t = c.op("MatMul", t, c.swapLast(c.X(i)))
		if c.present(c.X(i + 1)) {
			t = c.add(t, c.op("Unsqueeze", c.X(i+1), c.list(1)))
		}
		return t
	}
	t := c.reshape(c.X(0), []int64{tokens, width})
	h := layer(t, 2) // [experts, tokens, inner]
	switch name := c.Str("activation_type", "relu"); name {
	case "relu":
		h = c.op("Relu", h)
	case "gelu": // ONNX Runtime computes it by Tanh
		h = c.emitIn(c.Node.Domain, "FastGelu", nil, 1, h)[0]
	case "silu":
		h = c.silu(h)
	case "identity":
	case "swiglu":
		h = c.gatedExperts(t, h, layer)
	default:
		c.Failf("activation_type %q: expected relu, gelu, silu, swiglu or identity", name)
		return nil
	}
	if c.present(c.X(6)) && c.Str("activation_type", "") != "swiglu" {
		h = c.mul(h, layer(t, 6))
	}
	y := c.mul(layer(h, 4), c.castTo(c.reshape(c.transpose(weights, 1, 0), []int64{experts, tokens, 1}), c.typeOf(h).Elem))
	return []ID{c.reshape(c.sum(y, []int64{0}, false), x)}
}

// gatedExperts is the activation swiglu: gate and value are two layers, or lie in one.
func (c *Backward) gatedExperts(t, h ID, layer func(t ID, i int) ID) ID {
	s := c.shape(h)
	if c.err != nil {
		return graph.None
	}
	gate, value := h, ID(graph.None)
	switch half := s[2] / 2; c.Int("swiglu_fusion", 0) {
	case 0:
		value = layer(t, 6)
	case 1:
		parts := c.split(c.reshape(h, []int64{s[0], s[1], half, 2}), 3, 1, 1)
		gate, value = c.reshape(parts[0], []int64{s[0], s[1], half}), c.reshape(parts[1], []int64{s[0], s[1], half})
	default:
		parts := c.split(h, 2, half, s[2]-half)
		gate, value = parts[0], parts[len(parts)-1]
	}
	if c.Node.Attr("swiglu_limit") != nil {
		limit := c.Float("swiglu_limit", 0)
		gate = c.op("Min", gate, c.scalar(gate, limit))
		value = c.op("Clip", value, c.scalar(value, -limit), c.scalar(value, limit))
	}
	gate = c.mul(gate, c.op("Sigmoid", c.times(gate, c.Float("activation_alpha", 1))))
	return c.mul(gate, c.plus(value, c.Float("activation_beta", 0)))
}
