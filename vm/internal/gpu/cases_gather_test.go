package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onnxmem/onnxmem/graph"
	"github.com/onnxmem/onnxmem/internal/reference"
	"github.com/onnxmem/onnxmem/vm/cuda/driver"
	"github.com/onnxmem/onnxmem/vm/internal/form"
	"github.com/onnxmem/onnxmem/vm/internal/work"
)

func init() { cases = append(cases, gatherCases...) }

// below returns indices in [-n, n).
func below(n int64, shape ...int) *reference.Tensor { return wholes(graph.Int64, -n, n, shape...) }

// below32 is below of int32.
func below32(n int64, shape ...int) *reference.Tensor { return wholes(graph.Int32, -n, n, shape...) }

// tuplesOf returns index tuples for the leading axes of a shape, as many as the batch
// shape has elements.
func tuplesOf(lengths []int64, batch ...int) *reference.Tensor {
	t := below(1, append(batch, len(lengths))...)
	r := draws(t.Shape)
	for i := range t.I {
		n := lengths[i%len(lengths)]
		t.I[i] = r.Int64N(2*n) - n
	}
	return t
}

var gatherCases = []nodeCase{
	{op: "Gather", in: args(noise(50, 8), below(50, 3, 5)), types: allReals},
	{op: "Gather", in: args(noise(9, 7, 5), below32(7, 4)), attrs: attrs(whole("axis", 1))},
	{op: "Gather", in: args(wholes(graph.Uint8, 0, 200, 3, 9), below(9, 2, 2)), attrs: attrs(whole("axis", -1))},
	{op: "Gather", in: args(noise(5, 3), below(5))}, // a scalar index
	{op: "GatherElements", in: args(noise(7, 9), below(7, 5, 8)), types: allReals},
	{op: "GatherElements", in: args(noise(3, 5, 7, 2, 3), below32(7, 2, 4, 9, 2, 2)), attrs: attrs(whole("axis", 2))},
	{op: "GatherElements", in: args(noise(33), below(33, 70))},
	{op: "GatherND", in: args(noise(5, 6, 8), tuplesOf([]int64{5, 6}, 4, 3))},
	{op: "GatherND", in: args(noise(2, 6, 3, 5), tuplesOf([]int64{6, 3}, 2, 7)), attrs: attrs(whole("batch_dims", 1))},
	{op: "GatherND", in: args(flags(5, 6), tuplesOf([]int64{5, 6}, 9))},

	{op: "TensorScatter", version: 24, in: args(noise(3, 4, 9, 5), noise(3, 4, 2, 5), list(0, 7, 3)), types: allReals},
	{op: "TensorScatter", version: 24, in: args(noise(3, 9, 8), noise(3, 4, 8), list(-2, 7, 23)), attrs: attrs(text("mode", "circular"), whole("axis", 1))},
	{op: "TensorScatter", version: 24, in: args(wholes(graph.Int8, -9, 9, 2, 9, 16), wholes(graph.Int8, -9, 9, 2, 9, 16))},
	{op: "Scatter", version: 10, in: args(noise(6, 5), unique(0, 6, 4, 5), noise(4, 5))},
	{op: "ScatterElements", in: args(noise(6, 5), unique(1, 5, 3, 4), noise(3, 4)), attrs: attrs(whole("axis", 1)), types: allReals},
	{op: "ScatterElements", in: args(noise(3, 40), below(40, 3, 70), noise(3, 70)), attrs: attrs(whole("axis", 1))}, // the last of several wins
	{op: "ScatterElements", in: args(noise(5, 90), below32(90, 5, 75), noise(5, 75)), attrs: attrs(whole("axis", 1), text("reduction", "add")), types: allReals, tolerance: 1e-6},
	{op: "ScatterElements", in: args(noise(3, 7, 2, 40), below(7, 2, 20, 2, 40), noise(2, 20, 2, 40)), attrs: attrs(whole("axis", 1), text("reduction", "add"))},
	{op: "ScatterElements", in: args(noise(40, 7, 3), below(7, 40, 1, 3), noise(40, 1, 3)), attrs: attrs(whole("axis", 1), text("reduction", "mul")), types: []graph.DType{graph.Float32}},
	{op: "ScatterElements", in: args(noise(2000), below(2000, 900), noise(900)), attrs: attrs(text("reduction", "min")), types: []graph.DType{graph.Float32}},
	{op: "ScatterElements", in: args(wholes(graph.Int64, -9, 9, 200), below(200, 300), wholes(graph.Int64, -9, 9, 300)), attrs: attrs(text("reduction", "max"))},
	{op: "ScatterND", in: args(noise(20, 40), unique(0, 20, 9, 1), noise(9, 40))},
	{op: "ScatterND", in: args(noise(20, 300), tuplesOf([]int64{20}, 11, 50), noise(11, 50, 300)), attrs: attrs(text("reduction", "add")), tolerance: 1e-6, types: []graph.DType{graph.Float32}},
	{op: "ScatterND", in: args(noise(3, 5, 33), tuplesOf([]int64{3, 5}, 30), noise(30, 33)), attrs: attrs(text("reduction", "max")), types: []graph.DType{graph.Float32}},
	{op: "ScatterND", in: args(noise(9, 7, 3), tuplesOf([]int64{9, 7}, 50), noise(50, 3)), attrs: attrs(text("reduction", "add")), types: []graph.DType{graph.Float32}},
	{op: "ScatterND", in: args(wholes(graph.Int32, -9, 9, 9, 7), tuplesOf([]int64{9, 7}, 50), wholes(graph.Int32, -3, 3, 50)), attrs: attrs(text("reduction", "mul"))},
}

// unique returns indices in [0, n) that differ along an axis.
func unique(axis int, n int64, shape ...int) *reference.Tensor {
	t := below(n, shape...)
	step := count(shape[axis+1:])
	for i := range t.I {
		t.I[i] = (int64(i/step%shape[axis]) + int64(i%step) + 2) % n
	}
	return t
}

// TestScatterOrder: an element's updates are added in the order of the indices, also
// where many threads share the work.
func TestScatterOrder(t *testing.T) {
	b := newBench(t)
	const elements, updates = 40, 500
	index, u := below(elements/4, 3, updates), noise(3, updates)
	for i := range u.F {
		u.F[i] = float64(float32(u.F[i]) * float32(int(1)<<(i%24))) // sums depend on their order
	}
	want := make([]float32, 3*elements)
	for i, k := range index.I {
		if k < 0 {
			k += elements
		}
		want[i/updates*elements+int(k)] += float32(u.F[i])
	}
	zeros := reference.Reals([]int{3, elements}, make([]float64, 3*elements)...)
	wide := noise(updates, 64) // the same updates in each column
	for i := range wide.F {
		wide.F[i] = u.F[i/64]
	}
	list := []*nodeCase{
		{op: "ScatterElements", in: args(zeros, index, u), attrs: attrs(whole("axis", 1), text("reduction", "add"))},
		{op: "ScatterElements", in: args(reference.Reals([]int{elements, 64}, make([]float64, 64*elements)...), spread(index.I[:updates]), wide), attrs: attrs(text("reduction", "add"))},
		{op: "ScatterND", in: args(reference.Reals([]int{elements, 64}, make([]float64, 64*elements)...), reference.Ints([]int{updates, 1}, index.I[:updates]...), wide), attrs: attrs(text("reduction", "add"))},
	}
	var ready []*prepared
	for _, c := range list {
		if p := b.prepare(c, graph.Float32); p != nil {
			ready = append(ready, p)
		}
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for i, p := range ready {
		y := p.n.Out[0]
		b.must(p.run((*work.Pool)(nil)))
		b.must(b.kernels.Queue.Stream.Synchronize())
		b.must(driver.DownloadNow(y.At, b.at[y], int64(y.Bytes())))
		got, _ := y.Reals()
		for k, v := range got {
			w := float64(want[k%len(want)])
			if i > 0 {
				w = float64(want[k/64])
			}
			if v != w {
				t.Fatalf("%s %d: element %d: got %v, want %v", p.c.op, i, k, v, w)
			}
		}
	}
}

// spread returns indices that are the same in all of 64 columns.
func spread(rows []int64) *reference.Tensor {
	var list []int64
	for _, k := range rows {
		for range 64 {
			list = append(list, k)
		}
	}
	return reference.Ints([]int{len(rows), 64}, list...)
}

// TestFaults: an index outside of its axis selects 0, or updates nothing, and is
// reported with its place.
func TestFaults(t *testing.T) {
	b := newBench(t)
	b.must(b.kernels.WatchFaults())
	t.Cleanup(func() { b.must(b.kernels.Close()) })
	x := reference.Reals([]int{3, 2}, 1, 2, 3, 4, 5, 6)
	index := reference.Ints([]int{3, 2}, 0, 1, 2, 3, -4, -3)
	tuple := reference.Ints([]int{2, 2}, 0, -2, 2, 2)
	update := reference.Reals([]int{3, 2}, 10, 20, 30, 40, 50, 60)
	tests := []struct {
		op   string
		in   []*reference.Tensor
		out  []int
		want []float64
		err  string
	}{
		{"Gather", args(x, reference.Ints([]int{3}, 2, -4, 3)), []int{3, 2}, []float64{5, 6, 0, 0, 0, 0}, "element 1 of the indices, of shape [3]: expected one in [-3, 3)"},
		{"GatherElements", args(x, index), []int{3, 2}, []float64{1, 4, 5, 0, 0, 2}, "element 3 of the indices, of shape [3 2]: expected one in [-3, 3)"},
		{"GatherND", args(x, tuple), []int{2}, []float64{1, 0}, "element 3 of the indices, of shape [2 2]: expected one in [-2, 2)"},
		{"ScatterElements", args(x, index, update), []int{3, 2}, []float64{10, 60, 3, 20, 30, 6}, "element 3 of the indices, of shape [3 2]: expected one in [-3, 3)"},
		{"ScatterND", args(x, tuple, reference.Reals([]int{2}, 10, 20)), []int{3, 2}, []float64{10, 2, 3, 4, 5, 6}, "element 3 of the indices, of shape [2 2]: expected one in [-2, 2)"},
	}
	var runs []form.Run
	var outs []*form.Tensor
	for _, test := range tests {
		n := &form.Call{Node: &graph.Node{Op: test.op}, Version: 18, Runtime: alone{}}
		for _, in := range test.in {
			n.In = append(n.In, b.tensor(in, graph.Float32, false, false))
		}
		y := b.tensor(reference.Reals(test.out, test.want...), graph.Float32, false, true)
		n.Out = append(n.Out, y)
		run, err := b.kernels.Prepare(n)
		b.must(err)
		runs, outs = append(runs, run), append(outs, y)
	}
	b.must(b.kernels.Ready(func(int64) error { return nil }))
	for i, test := range tests {
		b.must(b.kernels.ClearFaults())
		if node, err := b.kernels.Fault(); node != nil || err != nil {
			t.Errorf("before %s: got fault %v of %v", test.op, err, node)
		}
		b.must(runs[i]((*work.Pool)(nil)))
		b.must(b.kernels.Queue.Stream.Synchronize())
		b.must(driver.DownloadNow(outs[i].At, b.at[outs[i]], int64(outs[i].Bytes())))
		if got, _ := outs[i].Reals(); fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: got %v, want %v", test.op, got, test.want)
		}
		node, err := b.kernels.Fault()
		if node == nil || node.Op != test.op || !strings.HasSuffix(fmt.Sprint(err), test.err) {
			t.Errorf("%s: got fault %v of %v, want %s", test.op, err, node, test.err)
		}
	}
}
