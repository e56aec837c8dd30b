package gpu

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
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
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 70, 24), noise(24, 96), noise(96)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-2, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 70, 4), noise(4, 96), noise(96)), types: []graph.DType{graph.Float16}}, // queries, keys and values have 16 bits, too
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2), whole("unidirectional", 1)), in: args(noise(1, 9, 24), noise(24, 36)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 9, 24), noise(24, 36), noise(36), wholes(graph.Int32, 3, 9, 2)), types: onlySingle},
	{op: "com.microsoft.Attention", version: 1, tolerance: 2e-5, attrs: attrs(whole("num_heads", 2)), in: args(noise(2, 9, 24), noise(24, 36), noise(36), wholes(graph.Int32, 0, 2, 2, 9)), types: onlySingle},

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
