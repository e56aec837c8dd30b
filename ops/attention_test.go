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
		{doc: "a cache with room", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 9, 8), f(2, 2, 9, 8), arg(graph.Int32, 2), argInt(6)}, outs: 3, attrs: group, want: "float32[2,1,32], float32[2,2,9,8], float32[2,2,9,8]"},
		{doc: "total from data is bounded", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 2, 9, 8), f(2, 2, 9, 8), arg(graph.Int32, 2), arg(graph.Int32)}, outs: 2, attrs: group, want: "float32[2,1,32], float32[2,2,<=10,8]"},
		{doc: "no past", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 3, 64), {}, {}, {}, {}, arg(graph.Int32, 2), arg(graph.Int32)}, outs: 2, attrs: group, want: "float32[2,3,32], float32[2,2,3,8]"},
		{doc: "packed width", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 3, 63)}, attrs: group, want: "error: a multiple of 8 along axis 2"},
		{doc: "key size", op: "com.microsoft.GroupQueryAttention", in: []Arg{f(2, 1, 32), f(2, 1, 8), f(2, 1, 8)}, attrs: group, want: "error: expected 16 along axis 2"},
	})
}
