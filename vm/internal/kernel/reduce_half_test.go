package kernel

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// TestNarrowSums: sums and means of 16 bits have the bits of those that convert whole tensors, for
// terms in rows and outputs in rows, and for any number of workers.
func TestNarrowSums(t *testing.T) {
	for _, c := range []struct {
		op       string
		in, axes []int
		out      []int
	}{
		{"ReduceSum", []int{2, 5, 9, 31}, []int{2, 3}, []int{2, 5, 1, 1}},
		{"ReduceMean", []int{2, 5, 9, 31}, []int{0, 3}, []int{1, 5, 9, 1}},
		{"ReduceSum", []int{33, 700}, []int{0}, []int{1, 700}},
		{"ReduceMean", []int{3, 33, 70}, []int{1}, []int{3, 1, 70}},
		{"ReduceMean", []int{3, 33, 5}, []int{1}, []int{3, 1, 5}}, // rows too short
		{"ReduceMean", []int{3, 70001}, []int{0, 1}, []int{1, 1}}, // rows that no worker holds
		{"ReduceSum", []int{2, 3, 40003}, []int{0, 2}, []int{1, 3, 1}},
		{"GlobalAveragePool", []int{2, 5, 9, 31}, nil, []int{2, 5, 1, 1}},
	} {
		for _, d := range []graph.DType{graph.Float16, graph.BFloat16} {
			k, x := Lookup("", c.op), blank(d, c.in)
			for i := range x.Len() {
				simd.Round(data[uint16](x)[i:i+1], []float32{float32(i*7919%2003)/500 - 2}, narrowType(d))
			}
			node := &graph.Node{Op: c.op}
			if c.axes != nil {
				node.Attrs = []*graph.Attr{{Name: "axes", Type: graph.AttrInts}}
				for _, a := range c.axes {
					node.Attrs[0].Ints = append(node.Attrs[0].Ints, int64(a))
				}
			}
			run := func(workers int, make func(*Invocation) (Run, error)) []byte {
				call := &Invocation{Call: form.Call{Node: node, Version: 11, Runtime: alone{}, In: []*Tensor{x}, Out: []*Tensor{blank(d, c.out)}}}
				run, err := make(call)
				if err != nil {
					t.Fatal(err)
				}
				pool := work.New(workers)
				defer pool.Close()
				each := (call.EachBytes + 63) &^ 63
				pool.SetScratch(blank(graph.Float32, []int{call.SharedBytes/4 + 16}).At, blank(graph.Float32, []int{workers*each/4 + 16}).At, each)
				if err := run(pool); err != nil {
					t.Fatal(err)
				}
				return slices.Clone(raw(call.Out[0]))
			}
			want := run(1, k.widened)
			for workers := 1; workers < 3; workers++ {
				if got := run(workers, k.Prepare); !slices.Equal(got, want) {
					t.Errorf("%s of %v %v by %d workers: other bits than of whole tensors", c.op, d, c.in, workers)
				}
			}
		}
	}
}
