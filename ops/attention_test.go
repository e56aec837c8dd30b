package ops

import (
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

func TestAttention(t *testing.T) {
	f := func(shape ...graph.Dim) Arg { return arg(graph.Float32, shape...) }
	ints := func(pairs ...any) (attrs []*graph.Attr) {
		for i := 0; i < len(pairs); i += 2 {
			attrs = append(attrs, attrInt(pairs[i].(string), int64(pairs[i+1].(int))))
		}
		return attrs
	}
	grouped := ints("q_num_heads", 4, "kv_num_heads", 2)
	runCases(t, []opCase{
		{doc: "four axes and a past", op: "Attention", in: []Arg{f(2, 4, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 6), {}, f(2, 2, 7, 4), f(2, 2, 7, 6)}, outs: 4, want: "float32[2,4,3,6], float32[2,2,12,4], float32[2,2,12,6], float32[2,4,3,12]"},
		{doc: "three axes", op: "Attention", in: []Arg{f(2, 3, 16), f(2, 5, 8), f(2, 5, 12)}, attrs: grouped, want: "float32[2,3,24]"},
		{doc: "a bounded past", op: "Attention", in: []Arg{f(2, 4, 1, 4), f(2, 2, 1, 4), f(2, 2, 1, 4), {}, f(2, 2, graph.AtMost(7), 4), f(2, 2, graph.AtMost(7), 4)}, outs: 2, want: "float32[2,4,1,4], float32[2,2,<=8,4]"},
		{doc: "three axes need heads", op: "Attention", in: []Arg{f(2, 3, 16), f(2, 5, 8), f(2, 5, 12)}, want: "error: q_num_heads is 0"},
		{doc: "heads", op: "Attention", in: []Arg{f(2, 3, 4, 4), f(2, 2, 5, 4), f(2, 2, 5, 4)}, want: "error: a multiple of the 2 heads of input 1, not 3"},
		{doc: "head size", op: "Attention", in: []Arg{f(2, 4, 3, 4), f(2, 2, 5, 6), f(2, 2, 5, 6)}, want: "error: expected batch 2 and head size 4"},
		{doc: "half a past", op: "Attention", in: []Arg{f(2, 4, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 4), {}, f(2, 2, 7, 4)}, want: "error: expected both or none"},
		{doc: "in place", op: "RotaryEmbedding", in: []Arg{f(2, 3, 8), f(9, 2), f(9, 2), arg(graph.Int64, 2, 3)}, want: "float32[2,3,8] over 0<0"},
		{doc: "positions before the caches", op: "com.microsoft.RotaryEmbedding", in: []Arg{f(2, 3, 8), arg(graph.Int64, 1), f(9, 2), f(9, 2)}, want: "float32[2,3,8] over 0<0"},
		{doc: "state", op: "LinearAttention", in: []Arg{f(2, 3, 16), f(2, 3, 8), f(2, 3, 12), arg(graph.Float64, 2, 2, 4, 6)}, outs: 2, attrs: grouped, want: "float32[2,3,24], float64[2,2,4,6]"},
		{doc: "more keys than queries", op: "com.microsoft.LinearAttention", in: []Arg{f(2, 3, 8), f(2, 3, 16), f(2, 3, 24)}, outs: 2, attrs: ints("q_num_heads", 2, "kv_num_heads", 4), want: "float32[2,3,24], float32[2,4,4,6]"},
		{doc: "four axes only", op: "ai.onnx.preview.FlexAttention", in: []Arg{f(2, 3, 16), f(2, 5, 8), f(2, 5, 12)}, want: "error: expected rank 4"},
		{doc: "grouped heads", op: "ai.onnx.preview.FlexAttention", in: []Arg{f(2, 4, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 6)}, want: "float32[2,4,3,6]"},
	})
	heads2 := ints("num_heads", 2)
	group := ints("num_heads", 4, "kv_num_heads", 2)
	runCases(t, []opCase{
		{doc: "projected", op: "com.microsoft.Attention", in: []Arg{f(2, 3, 8), f(8, 24), f(24), {}, f(2, 2, 2, 5, 4)}, outs: 2, attrs: heads2, want: "float32[2,3,8], float32[2,2,2,8,4]"},
		{doc: "a buffer with room", op: "com.microsoft.Attention", in: []Arg{f(2, 3, 8), f(8, 24), f(24), {}, f(2, 2, 2, 5, 4)}, outs: 2, attrs: append(ints("past_present_share_buffer", 1), heads2...), want: "float32[2,3,8], float32[2,2,2,5,4]"},
		{doc: "sizes", op: "com.microsoft.Attention", in: []Arg{f(2, 3, 8), f(8, 28)}, attrs: append(heads2, attrInts("qkv_hidden_sizes", 8, 8, 12)), want: "float32[2,3,12]"},
		{doc: "columns", op: "com.microsoft.Attention", in: []Arg{f(2, 3, 8), f(8, 25)}, attrs: heads2, want: "error: a multiple of 3 columns"},
		{doc: "rows", op: "com.microsoft.Attention", in: []Arg{f(2, 3, 8), f(9, 24)}, attrs: heads2, want: "error: expected [8,?]"},
		{doc: "quantized", op: "com.microsoft.QAttention", in: []Arg{arg(graph.Uint8, 2, 3, 8), arg(graph.Int8, 8, 24), f(24), f(), f()}, attrs: heads2, want: "float32[2,3,8]"},
		{doc: "value size", op: "com.microsoft.MultiHeadAttention", in: []Arg{f(2, 3, 8), f(2, 5, 8), f(2, 5, 12)}, outs: 4, attrs: heads2, want: "float32[2,3,12], float32[2,2,5,4], float32[2,2,5,6], ?[2,2,3,5]"},
		{doc: "packed", op: "com.microsoft.MultiHeadAttention", in: []Arg{f(2, 3, 2, 3, 4)}, attrs: heads2, want: "float32[2,3,8]"},
		{doc: "the past itself", op: "com.microsoft.MultiHeadAttention", in: []Arg{f(2, 3, 8), f(2, 2, 5, 4), f(2, 2, 5, 4)}, attrs: heads2, want: "float32[2,3,8]"},
		{doc: "known total", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 5, 8), f(2, 2, 5, 8), arg(graph.Int32, 2), argInt(6)}, outs: 3, attrs: group, want: "float32[2,1,32], float32[2,2,6,8], float32[2,2,6,8]"},
		{doc: "a cache with room", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 9, 8), f(2, 2, 9, 8), arg(graph.Int32, 2), argInt(6)}, outs: 3, attrs: group, want: "float32[2,1,32], float32[2,2,9,8], float32[2,2,9,8] over 1<3 2<4"},
		{doc: "total from data is bounded", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 9, 8), f(2, 2, 9, 8), arg(graph.Int32, 2), arg(graph.Int32)}, outs: 2, attrs: group, want: "float32[2,1,32], float32[2,2,<=10,8]"},
		{doc: "no past", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 3, 64), {}, {}, {}, {}, arg(graph.Int32, 2), arg(graph.Int32)}, outs: 2, attrs: group, want: "float32[2,3,32], float32[2,2,3,8]"},
		{doc: "a negative total", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 5, 8), f(2, 2, 5, 8), arg(graph.Int32, 2), argInt(-6)}, outs: 3, attrs: group, want: "error: the total_sequence_length, is -6, expected at least 0"},
		{doc: "packed width", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 3, 63)}, attrs: group, want: "error: a multiple of 8 along axis 2"},
		{doc: "key size", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 8), f(2, 1, 8)}, attrs: group, want: "error: expected 16 along axis 2"},
	})
}

// Checks that precede the kernels of attention.
func TestCheckAttention(t *testing.T) {
	x := func(dims ...graph.Dim) Arg { return arg(f32, dims...) }
	i64 := func(dims ...graph.Dim) Arg { return arg(graph.Int64, dims...) }
	q, k := x(2, 4, 5, 8), x(2, 2, 6, 8)
	masked := func(m Arg) []Arg { return []Arg{q, k, k, m} }
	places := func(n Arg) []Arg { return []Arg{q, k, k, {}, {}, {}, n} }
	line, table := x(2, 3, 4), x(10, 4)
	heads4 := attrInt("num_heads", 2)
	pairs := func(n int64) []*graph.Attr { return attrs(heads4, attrInt("rotary_embedding_dim", n)) }
	skipped := func(s Arg) []Arg { return []Arg{x(2, 3, 4), s, x(4)} }
	runGate(t, []opCase{
		{doc: "right", op: "Attention", in: masked(x(4, 5, 6))},
		{doc: "a mask of fewer keys", op: "Attention", in: masked(x(5, 3))},
		{doc: "a mask for all batches and heads", op: "Attention", in: masked(x(1, 1, 1, 6))},
		{doc: "a mask of more keys", op: "Attention", in: masked(x(5, 7)), want: "error: input 3 has shape [5,7], expected one that broadcasts to [2,4,5,6]"},
		{doc: "a mask of other heads", op: "Attention", in: masked(x(3, 5, 6)), want: "error: input 3"},
		{doc: "a mask of no axis", op: "Attention", in: masked(x()), want: "error: input 3"},
		{doc: "a mask of five axes", op: "Attention", in: masked(x(1, 2, 4, 5, 6)), want: "error: input 3"},
		{doc: "a mask of queries that are not there", op: "Attention", in: masked(x(0, 6)), want: "error: input 3"},
		{doc: "a mask of past and new keys", op: "Attention", in: []Arg{q, k, k, x(5, 9), x(2, 2, 3, 8), x(2, 2, 3, 8)}},
		{doc: "no heads to share", op: "Attention", in: []Arg{q, x(2, 0, 6, 8), x(2, 0, 6, 8)}, want: "error: input 1 has shape [2,0,6,8], expected at least 1 head"},
		{doc: "heads that do not share", op: "Attention", in: []Arg{q, x(2, 3, 6, 8), x(2, 3, 6, 8)}, want: "error: a multiple of the 3 heads"},
		{doc: "a stage that nobody sees", op: "Attention", in: []Arg{q, k, k}, attrs: attrs(attrInt("qk_matmul_output_mode", 4))},
		{doc: "a stage that there is not", op: "Attention", in: []Arg{q, k, k}, outs: 4, attrs: attrs(attrInt("qk_matmul_output_mode", 4)), want: "error: qk_matmul_output_mode is 4, expected 0 to 3"},
		{doc: "numbers of keys", op: "Attention", in: places(i64(2))},
		{doc: "numbers of keys for another batch", op: "Attention", in: places(i64(1)), want: "error: input 6 has shape [1], expected [2]"},

		{doc: "angles", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), line, line}, attrs: attrs(heads4)},
		{doc: "positions", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), table, table, i64(2, 3)}, attrs: attrs(heads4)},
		{doc: "a part of each head", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), x(2, 3, 2), x(2, 3, 2)}, attrs: pairs(4)},
		{doc: "an odd part", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), x(2, 3, 2), x(2, 3, 2)}, attrs: pairs(5), want: "error: 5 elements of a head are turned, expected an even number from 2 to 8"},
		{doc: "more than a head", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), x(2, 3, 8), x(2, 3, 8)}, attrs: pairs(16), want: "error: 16 elements of a head are turned"},
		{doc: "fewer than none", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), line, line}, attrs: pairs(-8), want: "error: -8 elements of a head are turned"},
		{doc: "no heads", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), line, line}, want: "error: num_heads is 0, expected 1"},
		{doc: "heads that do not divide", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), line, line}, attrs: attrs(attrInt("num_heads", 3)), want: "error: a multiple of num_heads 3"},
		{doc: "angles of other places", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), x(1, 3, 4), x(1, 3, 4)}, attrs: attrs(heads4), want: "error: input 1 has shape [1,3,4], expected [2,3,4]"},
		{doc: "angles of other pairs", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), x(10, 3), x(10, 3), i64(2, 3)}, attrs: attrs(heads4), want: "error: input 1 has shape [10,3], expected [?,4]"},
		{doc: "positions of other places", op: "RotaryEmbedding", in: []Arg{x(2, 3, 16), table, table, i64(2, 2)}, attrs: attrs(heads4), want: "error: input 3 has shape [2,2], expected [2,3]"},

		{doc: "the same shape", op: "com.microsoft.SkipLayerNormalization", version: 1, in: skipped(x(2, 3, 4))},
		{doc: "the same for all batches", op: "com.microsoft.SkipLayerNormalization", version: 1, in: skipped(x(1, 3, 4))},
		{doc: "of the last axes", op: "com.microsoft.SkipLayerNormalization", version: 1, in: skipped(x(3, 4))},
		{doc: "the same for all places of a batch", op: "com.microsoft.SkipLayerNormalization", version: 1, in: skipped(x(2, 1, 4)), want: "error: input 1 has shape [2,1,4], expected the shape of the last axes of input 0 [2,3,4]"},
		{doc: "one element", op: "com.microsoft.SkipLayerNormalization", version: 1, in: skipped(x(1)), want: "error: input 1 has shape [1]"},
		{doc: "no axis", op: "com.microsoft.SkipLayerNormalization", version: 1, in: skipped(x()), want: "error: input 1 has shape []"},
	})
}
