package kernel

import (
	"slices"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/simd"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

// TestNarrowRows: an elementwise kernel that converts 16-bit tensors piece by piece gives
// the bits of one that converts them whole. Other broadcasting than of the last axes, and bounds that are
// not constants, are left to the latter.
func TestNarrowRows(t *testing.T) {
	shape := []int{3, 7000} // more than a part, and no multiple of a piece
	for _, c := range []struct {
		op     string
		in     [][]int
		bounds []float64
		pieces bool
	}{
		{"Add", [][]int{shape, shape}, nil, true},
		{"Sub", [][]int{shape, shape}, nil, true},
		{"Mul", [][]int{shape, shape}, nil, true},
		{"Div", [][]int{shape, shape}, nil, true},
		{"Mul", [][]int{shape, {3, 1}}, nil, false},
		{"Sub", [][]int{{3, 1}, shape}, nil, false},
		{"Div", [][]int{shape, {3, 1}}, nil, false},
		{"Sub", [][]int{shape, {3, 1}}, nil, false},
		{"Add", [][]int{shape, shape[1:]}, nil, true},
		{"Sub", [][]int{append([]int{1}, shape[1:]...), shape}, nil, true},
		{"Div", [][]int{shape, {}}, nil, true},
		{"Mul", [][]int{{1, 1}, shape}, nil, true},
		{"Relu", [][]int{shape}, nil, true},
		{"Sigmoid", [][]int{shape}, nil, true},
		{"HardSwish", [][]int{shape}, nil, true},
		{"Clip", [][]int{shape}, []float64{-0.25, 0.5}, true},
		{"Exp", [][]int{shape}, nil, false},
	} {
		for _, d := range []graph.DType{graph.Float16, graph.BFloat16} {
			k := Lookup("", c.op)
			call := &Invocation{Call: form.Call{Node: &graph.Node{Op: c.op}, Version: 24, Runtime: alone{}}}
			for i, s := range c.in {
				x := blank(d, s)
				wide := blank(graph.Float32, s)
				for j := range wide.Len() {
					data[float32](wide)[j] = float32((j*7919+i)%2003)/500 - 2
				}
				simd.Round(data[uint16](x), data[float32](wide), narrowType(d))
				call.In = append(call.In, x)
			}
			for _, b := range c.bounds {
				x := store(scalar(b), d)
				x.Const = true
				call.In = append(call.In, x)
			}
			var got [2][]byte
			for way := range got {
				call.Out = []*Tensor{blank(d, shape)}
				call.SharedBytes, call.EachBytes = 0, 0
				run, err := k.Prepare(call)
				if f, _ := k.row(call); (f != nil) != c.pieces {
					t.Fatalf("%s: in pieces: %v, want %v", c.op, f != nil, c.pieces)
				}
				if way == 1 {
					call.SharedBytes, call.EachBytes = 0, 0
					run, err = k.widened(call)
				}
				if err != nil {
					t.Fatal(err)
				}
				pool := work.New(2)
				each := (call.EachBytes + 63) &^ 63
				pool.SetScratch(blank(graph.Float32, []int{call.SharedBytes/4 + 16}).At, blank(graph.Float32, []int{each/2 + 16}).At, each)
				if err := run(pool); err != nil {
					t.Fatal(err)
				}
				pool.Close()
				got[way] = slices.Clone(raw(call.Out[0]))
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("%s of %v: other bits in pieces", c.op, d)
			}
		}
	}
}
