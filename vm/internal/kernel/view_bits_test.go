package kernel

import (
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
)

// TestViewsKeepBits: a result that may be a view of an operand has its bits, also where it is
// computed: else other readers of the operand would see it change.
func TestViewsKeepBits(t *testing.T) {
	x := reference.Reals([]int{1, 3, 1, 2}, math.Copysign(0, -1), 0, math.Inf(1), math.Inf(-1), math.NaN(), 1e-42)
	var list []nodeCase
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"} {
		list = append(list, nodeCase{op: op, in: args(x, integerList(0, 2))}, nodeCase{op: op, attrs: attrs(whole1("keepdims", 0)), in: args(x, integerList(2))})
	}
	for _, op := range []string{"Sum", "Mean", "Min", "Max", "Dropout", "Identity", "Concat"} {
		k := nodeCase{op: op, in: args(x)}
		if op == "Concat" {
			k.attrs = attrs(whole1("axis", 1))
		}
		list = append(list, k)
	}
	list = append(list, nodeCase{op: "Resize", version: 19, attrs: attrs(text("mode", "linear")), in: args(x, nil, nil, wholes([]int{4}, 1, 3, 1, 2))})
	for i := range list {
		k := &list[i]
		for _, d := range []graph.DType{graph.Float32, graph.Float16} {
			n, outs, err := k.node(k.in)
			if err != nil {
				t.Fatal(k.op, err)
			}
			in := make([]*Tensor, len(k.in))
			for j, v := range k.in {
				if v != nil {
					in[j] = store(v, d)
					in[j].Const = j > 0
				}
			}
			out, err := k.run(n, in, outs, d, 1, alone{})
			if err != nil {
				t.Fatal(k.op, err)
			}
			if string(raw(out[0])) != string(raw(in[0])) {
				t.Errorf("%s of %v: % x, expected % x", k.op, d, raw(out[0]), raw(in[0]))
			}
		}
	}
}
