package autodiff

import (
	"math"

	"github.com/onnxmem/onnxmem/graph"
)

// invSqrt is the usual scale of attention scores.
func invSqrt(size int64) float64 { return 1 / math.Sqrt(float64(size)) }

// expandLinearAttention is a Scan over the places, whose state maps keys to values. Inputs:
// query key value past_state decay beta, each [batch, places, heads·size]. Outputs: the
// results and the last state.
func expandLinearAttention(c *Backward) []ID {
	rule := c.Str("update_rule", "gated_delta")
	gated, delta := rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"
	n, kv := c.Int("q_num_heads", 0), c.Int("kv_num_heads", 0)
	q, k, v := c.shape(c.X(0)), c.shape(c.X(1)), c.shape(c.X(2))
	if c.err != nil {
		return nil
	}
	switch {
	case rule != "linear" && !gated && !delta:
		c.Failf("update_rule %q: expected linear, gated, delta or gated_delta", rule)
		return nil
	case kv < 1 || n < 1 || n%kv != 0 || q[2]%n != 0 || k[2]%kv != 0 || v[2]%kv != 0:
		c.Failf("q_num_heads is %d and kv_num_heads %d: expected a multiple, and divisors of the last axes of %v, %v and %v on a path to the loss", n, kv, q, k, v)
		return nil
	case gated && c.rank(c.X(4)) != 3 || delta && c.rank(c.X(5)) != 3:
		c.Failf("decay has shape %v and beta %v: expected [batch, places, numbers], as update_rule %q takes them", c.shape(c.X(4)), c.shape(c.X(5)), rule)
		return nil
	case c.Int("state_window", 0) > 1:
		c.Failf("state_window is %d: expected one state on a path to the loss", c.Int("state_window", 0))
		return nil
	}
	batch, places, keys, values := q[0], q[1], k[2]/kv, v[2]/kv
	scale := c.Float("scale", 0)
	if scale == 0 {
		scale = invSqrt(q[2] / n)
	}
	stateShape := []int64{batch, kv, keys, values}
	state := ID(graph.None)
	if c.present(c.X(3)) {
		state = c.castLike(c.reshape(c.X(3), stateShape), c.X(0))
	} else {
		state = c.zeros(c.X(0), stateShape...)
	}
	// rows has the places in front: [places, batch, kv heads, rows, columns].
	rows := func(t ID, count, columns int64) ID {
		return c.transpose(c.reshape(t, []int64{batch, places, kv, count, columns}), 1, 0, 2, 3, 4)
	}
	in := []ID{rows(c.times(c.X(0), scale), n/kv, q[2]/n), rows(c.X(1), 1, keys), rows(c.X(2), 1, values)}
	if gated {
		size := c.shape(c.X(4))[2] / kv // one number for each key dimension, or for each head
		in = append(in, c.op("Exp", c.castLike(rows(c.X(4), size, 1), c.X(0))))
	}
	if delta {
		t := c.castLike(c.X(5), c.X(0))
		if b := c.shape(t); b[2] != kv { // one number for all heads
			t = c.expand(t, []int64{batch, places, kv})
		}
		in = append(in, rows(t, 1, 1))
	}
	if c.err != nil {
		return nil
	}
	row := func(t ID) graph.Type {
		typ := c.typeOf(t)
		typ.Shape = typ.Shape[1:]
		return typ
	}
	b := c.newBody("place")
	held := b.input("state", c.typeOf(state))
	var at []ID
	for _, t := range in {
		at = append(at, b.input("at", row(t)))
	}
	memory := held
	if gated {
		memory = b.mul(memory, at[3])
	}
	value := at[2]
	if delta { // what the state does not give for the key yet
		value = b.mul(b.sub(value, b.op("MatMul", at[1], memory)), at[len(at)-1])
	}
	memory = b.add(memory, b.mul(b.swapLast(at[1]), value))
	y := b.op("MatMul", at[0], memory)
	result := b.typeOf(y)
	b.finish([]ID{memory, y})
	list := attrs{"num_scan_inputs": int64(len(in))}
	made := c.emitBody("Scan", list.list(), map[string]*graph.Graph{"body": b.g}, []graph.Type{c.typeOf(state), stackOf(result, places)}, append([]ID{state}, in...)...)
	out := c.reshape(c.transpose(made[1], 1, 0, 2, 3, 4), []int64{batch, places, n * values})
	last := made[0]
	if len(c.Node.Outputs) > 1 && c.Node.Outputs[1] != graph.None {
		if typ := c.typeOf(c.Node.Outputs[1]); typ.Elem.Floating() {
			last = c.reshape(c.castTo(last, typ.Elem), c.shape(c.Node.Outputs[1]))
		}
	}
	return []ID{out, last}
}
