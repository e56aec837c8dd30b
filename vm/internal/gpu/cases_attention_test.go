package gpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func init() { cases = append(cases, attentionCases...) }

var halfAndSingle = []graph.DType{graph.Float32, graph.Float16, graph.BFloat16}

var attentionCases = []nodeCase{
	{op: "Attention", version: 24, in: args(noise(2, 3, 70, 20), noise(2, 3, 130, 20), noise(2, 3, 130, 24)), types: halfAndSingle},
	{op: "Attention", version: 24, in: args(noise(1, 2, 5, 16), noise(1, 2, 9, 16), noise(1, 2, 9, 70)), outputs: 3},
	{op: "Attention", version: 24, in: args(noise(1, 1, 3, 7), noise(1, 1, 9, 7), noise(1, 1, 9, 131))},
	{op: "Attention", version: 24, outputs: 4, attrs: attrs(real("softcap", 3), real("scale", 0.5)), in: args(noise(1, 2, 5, 8), noise(1, 2, 70, 8), noise(1, 2, 70, 8), noise(2, 5, 70))},
	{op: "Attention", version: 24, outputs: 4, attrs: attrs(whole("qk_matmul_output_mode", 1), real("softcap", 3)), in: args(noise(1, 2, 5, 8), noise(1, 2, 70, 8), noise(1, 2, 70, 8), flags(5, 66))},
	{
		op: "Attention", version: 24, outputs: 4,
		attrs: attrs(whole("q_num_heads", 4), whole("kv_num_heads", 2), whole("is_causal", 1), real("softcap", 3), whole("qk_matmul_output_mode", 2)),
		in:    args(noise(2, 66, 64), noise(2, 66, 32), noise(2, 66, 16), noise(66, 71), noise(2, 2, 5, 16), noise(2, 2, 5, 8)),
	},
	{
		op: "Attention", version: 24, outputs: 4, attrs: attrs(whole("is_causal", 1), whole("qk_matmul_output_mode", 3)),
		in: args(noise(2, 2, 66, 8), noise(2, 2, 90, 8), noise(2, 2, 90, 8), nil, nil, nil, list(80, 60)),
	},
	{op: "Attention", version: 24, attrs: attrs(whole("is_causal", 1)), in: args(noise(1, 2, 130, 8), noise(1, 2, 140, 8), noise(1, 2, 140, 8), flags(2, 1, 140))},
	{op: "Attention", version: 24, attrs: attrs(whole("left_window_size", 3), whole("right_window_size", 1)), in: args(noise(1, 2, 140, 8), noise(1, 2, 140, 8), noise(1, 2, 140, 8))},
	{ // merged, with a bias and lengths
		op: "com.microsoft.MultiHeadAttention", version: 1, outputs: 3, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2), whole("unidirectional", 1)), types: halfAndSingle,
		in: args(noise(2, 70, 2, 3, 8), nil, nil, noise(48), numbers([]int{2}, 70, 33)),
	},
	{ // merged keys and values, and a mask of keys
		op: "com.microsoft.MultiHeadAttention", version: 1, tolerance: 4e-6, attrs: attrs(whole("num_heads", 2)),
		in: args(noise(2, 70, 16), noise(2, 5, 2, 2, 8), nil, nil, numbers([]int{2, 5}, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0)),
	},
	{ // past ones, values of another size, and what is added to the scores
		op: "com.microsoft.MultiHeadAttention", version: 1, outputs: 3, tolerance: 4e-6, attrs: attrs(whole("num_heads", 2), whole("unidirectional", 1), real("scale", 0.3)), types: halfAndSingle,
		in: args(noise(2, 3, 16), noise(2, 3, 16), noise(2, 3, 24), noise(56), nil, noise(1, 2, 3, 70), noise(2, 2, 67, 8), noise(2, 2, 67, 12)),
	},
	{ // without the outputs of all keys and values, of odd sizes, with both kinds of masks
		op: "com.microsoft.MultiHeadAttention", version: 1, tolerance: 4e-6, attrs: attrs(whole("num_heads", 2), real("mask_filter_value", -1)),
		in: args(noise(2, 1, 14), noise(2, 1, 14), noise(2, 1, 10), nil, wholes(graph.Int32, 0, 2, 2, 1, 7), noise(2, 1, 1, 7), noise(2, 2, 6, 7), noise(2, 2, 6, 5)),
	},
	{ // keys and values with their heads first, of another sequence
		op: "com.microsoft.MultiHeadAttention", version: 1, tolerance: 4e-6, attrs: attrs(whole("num_heads", 2), whole("unidirectional", 1)),
		in: args(noise(2, 30, 16), noise(2, 2, 70, 8), noise(2, 2, 70, 12)),
	},
	{ // all keys and values as outputs, but no past ones
		op: "com.microsoft.MultiHeadAttention", version: 1, outputs: 3, tolerance: 4e-6, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 9, 16), noise(2, 9, 16), noise(2, 9, 12)),
	},
	{ // a first step of two sequences, of which the second is shorter
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, attrs: attrs(whole("num_heads", 4), whole("kv_num_heads", 2)), types: halfAndSingle,
		in: args(noise(2, 70, 64), noise(2, 70, 32), noise(2, 70, 32), nil, nil, numbers([]int{2}, 69, 33), numbers(nil, 70)),
	},
	{ // a first step into a cache with room, whose past does not count, with a window
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, tolerance: 4e-6, attrs: attrs(whole("num_heads", 4), whole("kv_num_heads", 2), whole("local_window_size", 2)),
		in: args(noise(2, 5, 48), noise(2, 5, 24), noise(2, 5, 24), noise(2, 2, 9, 12), noise(2, 2, 9, 12), numbers([]int{2}, 4, 2), numbers(nil, 5)),
	},
	{ // more room than the past has
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, tolerance: 4e-6, attrs: attrs(whole("num_heads", 2), whole("kv_num_heads", 1)),
		in: args(noise(2, 2, 14), noise(2, 2, 7), noise(2, 2, 7), noise(2, 1, 5, 7), noise(2, 1, 5, 7), numbers([]int{2}, 6, 3), numbers(nil, 9)),
	},
	{ // one more token, merged and turned, with room in the past and a window
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, tolerance: 4e-6, types: halfAndSingle,
		attrs: attrs(whole("num_heads", 4), whole("kv_num_heads", 2), whole("do_rotary", 1), whole("local_window_size", 30), real("softcap", 2), whole("smooth_softmax", 1)),
		in:    args(noise(2, 1, 128), nil, nil, noise(2, 2, 90, 16), noise(2, 2, 90, 16), numbers([]int{2}, 77, 20), numbers([]int{1}, 78), noise(90, 6), noise(90, 6)),
	},
	{ // one more token behind many, whose keys are split
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, tolerance: 4e-6, types: halfAndSingle,
		attrs: attrs(whole("num_heads", 16), whole("kv_num_heads", 2), whole("do_rotary", 1)),
		in:    args(noise(2, 1, 256), noise(2, 1, 32), noise(2, 1, 32), noise(2, 2, 700, 16), noise(2, 2, 700, 16), numbers([]int{2}, 600, 40), numbers([]int{1}, 601), noise(700, 8), noise(700, 8)),
	},
	{ // several more, with positions, what is added to scores, and sinks
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, tolerance: 4e-6,
		attrs: attrs(whole("num_heads", 4), whole("kv_num_heads", 1), whole("do_rotary", 1), whole("rotary_interleaved", 1), real("scale", 0.3)),
		in:    args(noise(1, 3, 64), noise(1, 3, 16), noise(1, 3, 16), noise(1, 1, 66, 16), noise(1, 1, 66, 16), numbers([]int{1}, 68), numbers([]int{1}, 69), noise(90, 8), noise(90, 8), &reference.Tensor{Type: graph.Int64, Shape: []int{1, 3}, I: []int64{2, 80, 7}}, noise(1, 1, 3, 69), noise(4)),
	},
	{ // a prompt behind past keys, both directions, sinks, and positions from a first one
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, tolerance: 4e-6,
		attrs: attrs(whole("num_heads", 2), whole("kv_num_heads", 2), whole("do_rotary", 1), whole("causal", 0)),
		in:    args(noise(1, 70, 18), noise(1, 70, 18), noise(1, 70, 18), nil, nil, numbers([]int{1}, 69), numbers([]int{1}, 70), noise(90, 4), noise(90, 4), &reference.Tensor{Type: graph.Int64, Shape: []int{1, 70}, I: append([]int64{5}, make([]int64, 69)...)}, noise(1, 2, 70, 70), noise(2)),
	},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 70, 24), noise(24, 96), noise(96)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-2, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 70, 4), noise(4, 96), noise(96)), types: []graph.DType{graph.Float16}}, // queries, keys and values have 16 bits, too
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2), whole("unidirectional", 1)), in: args(noise(1, 9, 24), noise(24, 36)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 9, 24), noise(24, 36), noise(36), wholes(graph.Int32, 3, 9, 2)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 9, 24), noise(24, 36), noise(36), wholes(graph.Int32, 0, 2, 2, 9)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, outputs: 2, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2), whole("unidirectional", 1), real("mask_filter_value", -1)), in: args(noise(2, 9, 24), noise(24, 48), noise(48), numbers([]int{2, 14}, marks(28)...), noise(2, 2, 2, 5, 8)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, outputs: 2, tolerance: 2e-2, attrs: attrs(whole("num_heads", 2), whole("unidirectional", 1)), in: args(noise(2, 9, 4), noise(4, 48), noise(48), nil, noise(2, 2, 2, 5, 8)), types: []graph.DType{graph.Float16}},
	{op: "com.microsoft.Attention", version: 1, outputs: 2, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2), real("mask_filter_value", -1)), in: args(noise(2, 1, 24), noise(24, 36), noise(36), numbers([]int{4}, 5, 6, 2, 7), noise(2, 2, 2, 6, 6)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, outputs: 2, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2), real("mask_filter_value", -1)), in: args(noise(2, 3, 24), noise(24, 48), noise(48), numbers([]int{2, 1, 7, 7}, marks(98)...), noise(2, 2, 2, 2, 8)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2), &graph.Attr{Name: "qkv_hidden_sizes", Type: graph.AttrInts, Ints: []int64{8, 8, 12}}), in: args(noise(2, 7, 24), noise(24, 28), noise(28), numbers([]int{2, 7, 7}, marks(98)...), nil, noise(1, 2, 7, 7)), types: onlySingle},
	{op: "com.microsoft.EmbedLayerNormalization", version: 1, outputs: 3, attrs: attrs(real("epsilon", 0.1)), in: args(numbers([]int{2, 3}, 1, 0, 6, 2, 2, 5), numbers([]int{2, 3}, 0, 1, 1, 0, 0, 1), noise(7, 40), noise(5, 40), noise(2, 40), noise(40), noise(40), numbers([]int{2, 3}, 1, 2, 1, -1, 0, 1), numbers([]int{1, 3}, 4, 0, 2)), types: halfAndSingle},
	{op: "com.microsoft.EmbedLayerNormalization", version: 1, outputs: 2, in: args(numbers([]int{2, 3}, 1, 0, 6, 2, 2, 5), nil, noise(7, 40), noise(5, 40), nil, noise(40), noise(40)), types: onlySingle},

	// few queries: the keys are split, and numbers of keys leave some splits without any
	{op: "Attention", version: 24, in: args(noise(2, 3, 1, 20), noise(2, 3, 300, 20), noise(2, 3, 300, 24)), types: halfAndSingle},
	{op: "Attention", version: 24, attrs: attrs(whole("q_num_heads", 12), whole("kv_num_heads", 1), whole("is_causal", 1)), in: args(noise(2, 1, 84), noise(2, 1, 7), noise(2, 1, 131), nil, noise(2, 1, 290, 7), noise(2, 1, 290, 131)), outputs: 3},
	{op: "Attention", version: 24, attrs: attrs(whole("is_causal", 1), real("softcap", 3)), in: args(noise(3, 2, 4, 36), noise(3, 2, 400, 36), noise(3, 2, 400, 12), nil, nil, nil, list(400, 70, 4))},
	{op: "Attention", version: 24, attrs: attrs(whole("left_window_size", 90), whole("right_window_size", 30)), in: args(noise(1, 2, 3, 8), noise(1, 2, 300, 8), noise(1, 2, 300, 8), flags(2, 1, 280))},
	{op: "Attention", version: 24, in: args(noise(2, 2, 2, 8), noise(2, 2, 300, 8), noise(2, 2, 300, 8), noise(2, 2, 300))},
	{op: "Attention", version: 24, in: args(noise(1, 2, 1, 8), noise(1, 2, 300, 8), noise(1, 2, 300, 8), masking(300))}, // of which no key is seen

	{op: "RotaryEmbedding", version: 23, attrs: attrs(whole("num_heads", 3), whole("interleaved", 1)), in: args(noise(2, 5, 48), noise(2, 5, 8), noise(2, 5, 8)), types: halfAndSingle},
	{op: "RotaryEmbedding", version: 23, attrs: attrs(whole("rotary_embedding_dim", 6)), in: args(noise(2, 3, 5, 9), noise(7, 3), noise(7, 3), wholes(graph.Int64, 0, 7, 2, 5))},
	{op: "com.microsoft.RotaryEmbedding", version: 1, in: args(noise(2, 5, 48), wholes(graph.Int64, 0, 7, 2, 5), noise(7, 8), noise(7, 8)), types: halfAndSingle},
	{op: "com.microsoft.RotaryEmbedding", version: 1, in: args(noise(2, 3, 5, 16), list(2), noise(7, 8), noise(7, 8))},
	{
		op: "com.microsoft.RotaryEmbedding", version: 1, attrs: attrs(whole("num_heads", 3), whole("rotary_embedding_dim", 10), whole("interleaved", 1)),
		in: args(noise(2, 5, 48), list(1), noise(7, 5), noise(7, 5)),
	},
}

var onlySingle = []graph.DType{graph.Float32}

// numbers returns int32 numbers.
func numbers(shape []int, v ...int64) *reference.Tensor {
	return &reference.Tensor{Type: graph.Int32, Shape: shape, I: v}
}

// marks are numbers from -1 to 2, as masks of keys have them.
func marks(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i*i*7%11%4) - 1
	}
	return list
}

// masking returns booleans that are all false.
func masking(shape ...int) *reference.Tensor {
	return &reference.Tensor{Type: graph.Bool, Shape: shape, I: make([]int64, count(shape))}
}

// TestWrongPlaces: a number of keys, a position and a length beyond what there is are
// reported.
func TestWrongPlaces(t *testing.T) {
	b := newBench(t)
	b.must(b.kernels.WatchFaults())
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	list := []struct {
		c    nodeCase
		at   int
		want string
	}{
		{nodeCase{op: "Attention", version: 24, in: args(noise(2, 1, 3, 8), noise(2, 1, 5, 8), noise(2, 1, 5, 8), nil, nil, nil, list(5, 5))}, 6, "[0, 6)"},
		{nodeCase{op: "RotaryEmbedding", version: 23, in: args(noise(1, 1, 2, 8), noise(6, 4), noise(6, 4), wholes(graph.Int64, 0, 6, 1, 2))}, 3, "[0, 6)"},
		{nodeCase{op: "com.microsoft.RotaryEmbedding", version: 1, in: args(noise(1, 1, 2, 8), wholes(graph.Int64, 0, 6, 1, 2), noise(6, 4), noise(6, 4))}, 1, "[0, 6)"},
		{nodeCase{op: "TensorScatter", version: 24, in: args(noise(2, 1, 7, 3), noise(2, 1, 2, 3), list(5, 0))}, 2, "[0, 6)"},
		{nodeCase{op: "com.microsoft.EmbedLayerNormalization", version: 1, in: args(numbers([]int{1, 2}, 0, 1), nil, noise(6, 8), noise(4, 8), nil, noise(8), noise(8))}, 0, "[0, 6)"},
		{nodeCase{op: "GRU", in: args(noise(5, 2, 3), noise(1, 12, 3), noise(1, 12, 4), nil, wholes(graph.Int32, 0, 6, 2))}, 4, "[0, 6)"},
	}
	for _, l := range list {
		for _, wrong := range []int64{6, -1} {
			n := *b.prepare(&l.c, graph.Float32).n
			n.In = slices.Clone(n.In)
			index := *l.c.in[l.at]
			index.I = []int64{0, wrong}
			n.In[l.at] = b.tensor(&index, graph.Int64, false, false)
			run, err := b.kernels.Prepare(&n)
			b.must(err)
			b.must(b.kernels.Ready(func(int64) error { return nil }))
			b.must(b.kernels.ClearFaults())
			b.must(run((*work.Pool)(nil)))
			if node, err := b.kernels.Fault(); node == nil || !strings.HasSuffix(fmt.Sprint(err), "expected one in "+l.want) || !strings.Contains(fmt.Sprint(err), "element 1 ") {
				t.Errorf("%s: got fault %v of %v", l.c.op, err, node)
			}
		}
	}
}

// TestWrongLengths: wrong numbers of keys and positions of GroupQueryAttention, which its
// launches read when they run, are reported, and nothing outside of a tensor is touched.
func TestWrongLengths(t *testing.T) {
	b := newBench(t)
	b.must(b.kernels.WatchFaults())
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	at := func(v ...int64) *reference.Tensor {
		return &reference.Tensor{Type: graph.Int64, Shape: []int{2, 2}, I: v}
	}
	c := nodeCase{
		op: "com.microsoft.GroupQueryAttention", version: 1, outputs: 3, attrs: attrs(whole("num_heads", 2), whole("kv_num_heads", 1), whole("do_rotary", 1)),
		in: args(noise(2, 2, 16), noise(2, 2, 8), noise(2, 2, 8), noise(2, 1, 9, 8), noise(2, 1, 9, 8), numbers([]int{2}, 6, 3), numbers(nil, 7), noise(9, 4), noise(9, 4), at(0, 1, 2, 3), noise(1, 2, 2, 8)),
	}
	const big = math.MaxInt32
	for _, l := range []struct {
		last, total, places *reference.Tensor
		want                string
	}{
		{numbers([]int{2}, 6, 3), numbers(nil, 7), at(0, 1, 2, 3), ""},
		{numbers([]int{2}, 6, 7), numbers(nil, 7), at(0, 1, 2, 3), "input 5: batch 1 has a wrong number"},
		{numbers([]int{2}, big, 3), numbers(nil, 7), at(0, 1, 2, 3), "input 5: batch 0 "},
		{numbers([]int{2}, 6, math.MinInt32), numbers(nil, 7), at(0, 1, 2, 3), "input 5: batch 1 "},
		{numbers([]int{2}, 6, 0), numbers(nil, 7), at(0, 1, 2, 3), "input 5: batch 1 "}, // fewer than the new ones
		{numbers([]int{2}, 1, -1), numbers(nil, 2), at(0, 1, 2, 3), "input 5: batch 1 "},
		{numbers([]int{2}, 8, 3), numbers(nil, 9), at(0, 1, 2, 3), "input 6: a wrong total_sequence_length: expected a number in [2, 8]"}, // more than are added to
		{numbers([]int{2}, 6, 3), numbers(nil, 1), at(0, 1, 2, 3), "input 6: "},
		{numbers([]int{2}, 6, 3), numbers(nil, math.MinInt32), at(0, 1, 2, 3), "input 6: "},
		{numbers([]int{2}, 6, 3), numbers(nil, 7), at(0, 1, 9, 3), "query 0 of batch 1 has a wrong position: expected one in [0, 9)"},
		{numbers([]int{2}, 6, 3), numbers(nil, 7), at(0, -1, 2, 3), "query 1 of batch 0 "},
		{numbers([]int{2}, 1, 1), numbers(nil, 2), at(8, 1, 2, 3), "query 1 of batch 0 "}, // of a first step, which count from the first one
		{numbers([]int{2}, 1, 0), numbers(nil, 2), at(7, -1, -1, -1), ""},
	} {
		n := *b.prepare(&c, graph.Float32).n
		n.In = slices.Clone(n.In)
		for i, x := range map[int]*reference.Tensor{5: l.last, 6: l.total, 9: l.places} {
			n.In[i] = b.tensor(x, x.Type, false, false)
		}
		run, err := b.kernels.Prepare(&n)
		b.must(err)
		b.must(b.kernels.Ready(func(int64) error { return nil }))
		b.must(b.kernels.ClearFaults())
		b.must(run((*work.Pool)(nil)))
		node, err := b.kernels.Fault()
		if l.want == "" {
			if node != nil || err != nil {
				t.Errorf("lengths %v of %v: got fault %v, want none", l.last.I, l.total.I, err)
			}
		} else if node == nil || !strings.HasPrefix(fmt.Sprint(err), l.want) {
			t.Errorf("lengths %v of %v, positions %v: got fault %v, want %s", l.last.I, l.total.I, l.places.I, err, l.want)
		}
	}
}

// TestAttentionInWorkspace: attention whose scratch lies in a workspace of its own, as a plan
// gives it, computes the same.
func TestAttentionInWorkspace(t *testing.T) {
	b := newBench(t)
	room, err := b.device.Take(8<<20, "a workspace")
	b.must(err)
	b.blocks = append(b.blocks, room)
	var list []*prepared
	for i := range attentionCases {
		p := b.prepare(&attentionCases[i], attentionCases[i].firstType())
		if p == nil {
			continue
		}
		run, scratch, err := b.kernels.PrepareIn(p.n, Workspace{room.At + 4, room.Bytes - 4})
		if b.must(err); scratch > room.Bytes-4 {
			t.Errorf("%s: %d bytes of scratch, expected at most %d", p.c.op, scratch, room.Bytes-4)
		}
		if p.run = run; scratch > 0 {
			list = append(list, p)
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for i, p := range list {
		t.Run(fmt.Sprintf("%03d-%s", i, p.c.op), func(t *testing.T) { b.check(t, p) })
	}
	b.t = t
}

// firstType is a dtype of the reals of a case.
func (c *nodeCase) firstType() graph.DType {
	if c.types == nil {
		return graph.Float32
	}
	return c.types[0]
}
