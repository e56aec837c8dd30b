package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// TestDequantize: whichever way the scales lie, and whether or not vectors serve, each element is
// its number less its zero point, times its scale, rounded once.
func TestDequantize(t *testing.T) {
	for _, c := range []struct {
		shape, scales []int
		axis, block   int64
	}{
		{[]int{3, 70}, nil, 1, 0},
		{[]int{3, 5, 7}, []int{3}, 0, 0},
		{[]int{3, 2, 2}, []int{3}, 0, 0}, // short lines
		{[]int{7, 40}, []int{40}, 1, 0},
		{[]int{7, 3}, []int{3}, 1, 0},
		{[]int{2, 12290}, []int{12290}, 1, 0}, // a line of several parts
		{[]int{12, 70}, []int{3, 70}, 0, 4},
		{[]int{2, 7, 10}, []int{2, 3, 10}, 1, 3},
		{[]int{5, 64}, []int{5, 2}, 1, 32},
		{[]int{5, 70}, []int{5, 3}, 1, 32}, // a shorter last block
	} {
		for _, d := range []graph.DType{graph.Int8, graph.Uint8, graph.Int4, graph.Uint4} {
			for _, zeros := range []bool{false, true} {
				call := &Invocation{Call: form.Call{Node: &graph.Node{Op: "DequantizeLinear", Attrs: attrs(whole1("axis", c.axis), whole1("block_size", c.block))}, Version: 21, Runtime: alone{}}}
				x, scale := blank(d, c.shape), blank(graph.Float32, c.scales)
				for i := range data[float32](scale) {
					data[float32](scale)[i] = 0.01 + float32(i%97)/300
				}
				for i := range raw(x) {
					raw(x)[i] = byte(i * 37)
				}
				call.In = []*Tensor{x, scale}
				if zeros {
					z := blank(d, c.scales)
					for i := range raw(z) {
						raw(z)[i] = byte(i*11 + 3)
					}
					call.In = append(call.In, z)
				}
				call.Out = []*Tensor{blank(graph.Float32, c.shape)}
				checkDequantized(t, call, fmt.Sprintf("%v of %v with scales %v along %d, blocks of %d, zeros %v", d, c.shape, c.scales, c.axis, c.block, zeros))
			}
		}
	}
}

func checkDequantized(t *testing.T, c *Invocation, what string) {
	t.Helper()
	run, err := makeDequantize(c)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	w := work.New(2)
	defer w.Close()
	each := (c.EachBytes + 63) &^ 63
	w.SetScratch(blank(graph.Float32, []int{c.SharedBytes/4 + 16}).At, blank(graph.Float32, []int{each/2 + 16}).At, each)
	if err := run(w); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	s, err := form.ScalesOf(&c.Call, c.In[0], c.In[1])
	if err != nil {
		t.Fatal(err)
	}
	number, _ := form.Reader(c.In[0].Type)
	zero := zeroPoint(c, 2)
	for i, got := range data[float32](c.Out[0]) {
		k := scaleOf(s, i)
		want := float32((number(c.In[0].At, i) - zero(k)) * float64(data[float32](c.In[1])[k]))
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%s: element %d is %g, expected %g", what, i, got, want)
		}
	}
}
