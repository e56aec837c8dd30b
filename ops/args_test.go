package ops

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
)

// TestHostileInputs calls every operator with inputs of any number, kind, rank and
// value, and with outputs left out. The operator may refuse them, but must return.
func TestHostileInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(v ...int64) int64 { return v[r.IntN(len(v))] }
	dim := func() graph.Dim {
		if r.IntN(3) == 0 {
			return []graph.Dim{graph.Unknown, graph.AtMost(4), graph.AtMost(0), graph.AtMost(math.MaxInt64 - 2)}[r.IntN(4)]
		}
		return graph.Dim(pick(0, 1, 2, 3, 4, 6, 8, 12, math.MaxInt64))
	}
	input := func() Arg {
		switch r.IntN(12) {
		case 0:
			return Arg{}
		case 1:
			return argUnranked(graph.Float32)
		case 2:
			return Arg{Present: true}
		case 3:
			return Arg{Present: true, Type: graph.Type{Kind: graph.Kind(2 + r.IntN(5))}}
		case 4, 5, 6:
			v := make([]int64, r.IntN(6))
			for i := range v {
				v[i] = pick(math.MinInt64, -2, -1, 0, 1, 2, 3, 4, math.MaxInt64)
			}
			a := argInts(v...)
			for i := range a.Value.Elems {
				a.Value.Elems[i].State = State(r.IntN(3))
				a.Value.Elems[i].I = max(a.Value.Elems[i].I, 0)
			}
			return a
		}
		shape := make([]graph.Dim, r.IntN(6))
		for i := range shape {
			shape[i] = dim()
		}
		elems := []graph.DType{graph.Float32, graph.Float16, graph.Int64, graph.Uint8, graph.String, graph.Int4, graph.Undefined}
		return arg(elems[r.IntN(len(elems))], shape...)
	}
	names := []string{
		"num_heads", "kv_num_heads", "q_num_heads", "group", "offset_group", "hidden_size", "channels_last", "ndim",
		"dilation", "state_window", "past_present_share_buffer", "transA", "transB", "transBatchA", "transBatchB", "N", "K", "Nq", "Nkv",
		"bits", "gather_axis", "quantize_axis", "groups", "num_groups", "size", "axis", "stash_type", "layout", "spatial", "n_targets",
		"targets", "max_map", "onesided", "inverse", "softmax_precision", "output_width", "output_height", "ceil_mode",
	}
	lists := []string{
		"kernel_shape", "strides", "pads", "dilations", "output_shape", "output_padding", "qkv_hidden_sizes", "pooled_shape",
		"cats_int64s", "inputdimensions", "classlabels_ints", "classlabels_int64s", "axes",
	}
	for k := range table {
		op := k.name
		if k.domain != "" {
			op = k.domain + "." + op
		}
		for range 120 {
			in := make([]Arg, r.IntN(12))
			for i := range in {
				in[i] = input()
			}
			var attrs []*graph.Attr
			for _, name := range names {
				if r.IntN(3) == 0 {
					attrs = append(attrs, attrInt(name, pick(math.MinInt64, -1, 0, 1, 1, 2, 2, 3, 4, math.MaxInt64)))
				}
			}
			for _, name := range lists {
				if r.IntN(3) == 0 {
					v := make([]int64, r.IntN(5))
					for i := range v {
						v[i] = pick(-1, 0, 1, 1, 2, 2, 3, math.MaxInt64)
					}
					attrs = append(attrs, attrInts(name, v...))
				}
			}
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s: %v\n in %v\n attrs %s", op, p, in, showAttrs(attrs))
					}
				}()
				_, _ = callOp(op, pick(1, 7, 13, 18, newest), in, 1+r.IntN(4), attrs...)
			}()
		}
	}
}

func showAttrs(attrs []*graph.Attr) string {
	s := ""
	for _, a := range attrs {
		s += fmt.Sprint(a.Name, "=", a.Int, a.Ints, " ")
	}
	return s
}
