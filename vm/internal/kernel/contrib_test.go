package kernel

import (
	"fmt"
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// TestAddendsAreOverwritten: the output may lie where the tensor lies that is added to it.
func TestAddendsAreOverwritten(t *testing.T) {
	addends := map[string]int{"com.microsoft.FusedConv": 3, "com.microsoft.FusedGemm": 2}
	tried := map[string]int{}
	for i := range nodeCases {
		k := &nodeCases[i]
		at, ok := addends[k.op]
		if !ok || at >= len(k.in) {
			continue
		}
		n, want, err := k.node(k.in)
		if err != nil {
			t.Fatal(err)
		}
		in := make([]*Tensor, len(k.in))
		for j, x := range k.in {
			if x != nil {
				in[j] = store(x, graph.Float32)
			}
		}
		apart, err := k.run(n, in, want, graph.Float32, 2, alone{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(in[at].Shape, apart[0].Shape) {
			continue
		}
		over := &Invocation{Call: form.Call{Node: n, Version: k.opset(), In: in, Out: []*Tensor{{Type: graph.Float32, Shape: in[at].Shape, At: in[at].At}}, Runtime: alone{}}}
		run, err := Lookup(n.Domain, n.Op).Prepare(over)
		if err != nil {
			t.Fatal(err)
		}
		pool := work.New(2)
		stride := (over.EachBytes + 63) &^ 63
		pool.SetScratch(blank(graph.Uint8, []int{over.SharedBytes + 1}).At, blank(graph.Uint8, []int{2*stride + 1}).At, stride)
		if err := run(pool); err != nil {
			t.Fatal(err)
		}
		pool.Close()
		if string(raw(over.Out[0])) != string(raw(apart[0])) {
			t.Errorf("case %03d, %s: other bits in place", i, k.op)
		}
		tried[k.op]++
	}
	if got, want := fmt.Sprint(tried), "map[com.microsoft.FusedConv:5 com.microsoft.FusedGemm:1]"; got != want {
		t.Errorf("tried %s, expected %s", got, want)
	}
}
